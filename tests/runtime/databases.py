"""A look at a store from outside, over connections of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import create_engine, pool

from consumer.core.events import Event


def execute(url: str, *statements: str) -> list[tuple]:
    """Run statements, each on its own, and give the rows of the last one."""
    engine = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    rows: list[tuple] = []
    with engine.connect() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
            rows = [tuple(row) for row in result] if result.returns_rows else []
    return rows


def read_last(url: str) -> int:
    return execute(url, "SELECT last FROM checkpoint")[0][0]


def check_store(url: str, events: Sequence[Event]) -> None:
    """The store holds these events, each once, and nothing else."""
    assert execute(url, "SELECT seq, delta FROM ledger ORDER BY seq") == list(events)
    last = events[-1][0] if events else -1
    assert execute(url, "SELECT last, total FROM checkpoint") == [(last, sum(delta for _, delta in events))]


def check_unused(url: str, patience_s: float) -> None:
    """Nobody is in a transaction, or connected where one can ask: a writer gets in at once."""
    if url.startswith("sqlite"):
        execute(url, "PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE", "ROLLBACK")
        return
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    found = f"SELECT state, query {others} AND backend_type = 'client backend'"
    deadline = time.monotonic() + patience_s
    while rows := execute(url, found):  # a server process takes a moment to see that its client has gone
        assert time.monotonic() < deadline, rows
