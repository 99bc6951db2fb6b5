"""Leases: which process consumes from a source, so that another one can stand by.

A lease is economy, not correctness: two processes that consume the same streams are safe, and only do the work twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consumer.core.streams import Lease
from consumer.store.databases.base import Database
from consumer.store.schema import Tables
from consumer.store.sheet import Sheet
from consumer.store.statements import UNLESS_THERE, LeaseStatements

LEASE_S = 10.0
"""How long a lease holds unless it is renewed, in seconds by the database's clock."""


class Leases:
    """The leases of one store."""

    def __init__(self, database: Database, tables: Tables, schema: str) -> None:
        statements = LeaseStatements(tables, database.CLOCK_MS)

        def compiled(statement: Any) -> str:
            return database.compile(statement, schema)

        self.database = database
        self.lock = compiled(statements.lock)
        self.insert = compiled(statements.insert) + UNLESS_THERE
        self.take = compiled(statements.take)
        self.give_back = compiled(statements.give_back)


class TakeSheet(Sheet[Lease]):
    """One transaction's work on a lease that is asked for or renewed.

    Args:
        leases: the statements.
        source: the source's name.
        holder: the process that asks.
        handler: the name of its handler.
    """

    def __init__(self, leases: Leases, source: str, holder: str, handler: str | None) -> None:
        self._leases = leases
        self._values = {"source_": source, "holder_": holder, "handler_": handler, "ms": int(LEASE_S * 1000)}
        self._held: Lease | None = None

    def judge(self, cursor: Any) -> None:
        self._leases.database.set_up(cursor)
        cursor.execute(self._leases.insert, self._values)  # where there is none; whoever else does that is waited for

    def changes(self) -> bool:
        return True

    def write(self, cursor: Any) -> Mapping[str, object]:
        cursor.execute(self._leases.take, self._values)
        self._held = read_lease(cursor.execute(self._leases.lock, self._values).fetchone())
        return {}

    def outcome(self) -> Lease:
        assert self._held is not None
        return self._held


class GiveBackSheet(Sheet[None]):
    """One transaction's work on a lease that is given back, where it is still held."""

    def __init__(self, leases: Leases, source: str, holder: str) -> None:
        self._leases = leases
        self._values = {"source_": source, "holder_": holder}

    def judge(self, cursor: Any) -> None:
        self._leases.database.set_up(cursor)

    def changes(self) -> bool:
        return True

    def write(self, cursor: Any) -> Mapping[str, object]:
        cursor.execute(self._leases.give_back, self._values)
        return {}

    def outcome(self) -> None:
        return None


def read_lease(row: Any) -> Lease:
    """Read what `LeaseStatements.read` and `lock` give."""
    source, holder, handler, since_ms, until_ms, is_held = row
    return Lease(source, holder, handler, since_ms, until_ms, bool(is_held))
