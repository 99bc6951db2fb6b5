"""What `consumer serve` shows on a terminal: a table of the consumers."""

from __future__ import annotations

from rich.table import Table

from consumer.core.words import counted
from consumer.publisher.server.publisher import Publisher

ROWS_MAX = 12
"""How many consumers are shown, those with the greatest lag: a table that is higher than the terminal flickers."""


def draw(publisher: Publisher) -> Table:
    """Draw who is being served, and how far each one is."""
    consumers = publisher.consumers()
    table = Table(title=f"{publisher.extent}, {counted(len(consumers), 'consumer')}", title_justify="left")
    table.add_column("consumer")
    table.add_column("cursor", justify="right")
    table.add_column("lag", justify="right")
    for one in consumers[:ROWS_MAX]:
        table.add_row(one.peer, f"{one.cursor}", f"{one.lag}")
    if len(consumers) > ROWS_MAX:
        table.add_row(f"and {len(consumers) - ROWS_MAX} more", "", f"{consumers[ROWS_MAX].lag} or less")
    return table
