"""What must hold in the end: journal, ledger, total, cursor and the user's tables say the same, and the log nothing odd."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from sqlalchemy import Connection, create_engine, pool

from consumer import Event

SHOWN = 5
"""How many differences of one kind are shown."""

PASSING = (
    "Connection reset by peer",
    "closed the connection",
    "closed in the middle of a frame",
    "cannot be reached",
    "is gone",
    "took no acknowledgements",
    "Broken pipe",
    # PostgreSQL, which is killed and recovers:
    "server closed the connection",
    "the connection is closed",
    "the connection is lost",
    "connection to server",
    "connection failed",
    "terminating connection",
    "the database system is",
    "consuming input failed",
    "sending query failed",
)
"""Why a consumer may say that it is trying again."""

LINE = re.compile(
    r"[-0-9]+ [:,0-9]+ (?:"
    r"INFO connected to tcp://\S+, resuming after -?\d+"
    r"|INFO tcp://\S+ was silent for [0-9.]+ s"
    r"|INFO at event \d+, \d+ events/s"
    r"|INFO ended at event -?\d+"
    r"|WARNING (?P<reason>.*); trying again in [0-9.]+ s)"
)
"""What a consumer may write."""


def read_journal(path: Path) -> list[Event]:
    """Read it as plainly as can be: a word, a number, a delta."""
    events = []
    for line in path.read_text().splitlines():
        _, seq, delta = line.split()
        events.append((int(seq), int(delta)))
    return events


def differences(db: str, journal: list[Event]) -> Iterator[str]:
    """Compare a store with the journal that it was filled from."""
    seqs = [seq for seq, _ in journal]
    if seqs != list(range(len(seqs))):
        yield "the journal is not consecutive"
    total = sum(delta for _, delta in journal)
    engine = create_engine(db, poolclass=pool.NullPool)
    with engine.connect() as connection:
        for table in ("ledger", "handled"):
            yield from _differing_rows(connection, table, journal)
        for what, query, wanted in (
            ("the checkpoint", "SELECT last, total FROM checkpoint", (len(journal) - 1, total)),
            ("the user's tally", "SELECT events, total FROM tally", (len(journal), total)),
        ):
            found = [tuple(row) for row in connection.exec_driver_sql(query)]
            if found != [wanted]:
                yield f"{what} says {found}, the journal {wanted}"


def _differing_rows(connection: Connection, table: str, journal: list[Event]) -> Iterator[str]:
    rows = connection.exec_driver_sql(f"SELECT seq, delta FROM {table} ORDER BY seq")
    shown = 0
    for row, event in zip_longest(rows, journal):
        if row is None or event is None or tuple(row) != event:
            yield f"{table} has {row}, the journal {event}"
            shown += 1
            if shown == SHOWN:
                return


def odd_lines(log: Path) -> Iterator[str]:
    """Find what a consumer should not have written."""
    if not log.exists():
        yield "no consumer has written anything"
        return
    for number, line in enumerate(log.read_text(errors="replace").splitlines(), 1):
        match = LINE.fullmatch(line)
        if match is None or (match["reason"] is not None and not any(p in match["reason"] for p in PASSING)):
            yield f"{log.name}, line {number}: {line}"
