"""What `consumer serve` shows: a table of the consumers on a terminal, log lines in any case."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.table import Table
from rich.text import Text

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


class ConsoleHandler(logging.Handler):
    """Prints log lines above the table, or just prints them where there is none."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        try:
            self._console.print(Text(self.format(record)), soft_wrap=True)
        except Exception:  # noqa: BLE001 - as every handler of logging: what cannot be said must stop nothing
            self.handleError(record)
