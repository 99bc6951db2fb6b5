"""Named places where a process may die, for tests to die there.

The store, the feed and the migrations pass by `reach` at each of them; it does nothing. A test, or `consumer.testing`,
replaces it by an exception or a SIGKILL.
"""

from __future__ import annotations

from enum import StrEnum


class Point(StrEnum):
    """The places that an event passes, in their order."""

    AFTER_LEDGER = "after_ledger"
    AFTER_CURSOR = "after_cursor"
    BEFORE_HANDLER = "before_handler"
    AFTER_HANDLER = "after_handler"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"
    BEFORE_ACK = "before_ack"
    AFTER_ACK = "after_ack"


class MigrationPoint(StrEnum):
    """The places that a migration passes. Between two of its statements nothing else happens, so these are all."""

    BEFORE_STATEMENT = "before_migration_statement"
    BEFORE_COMMIT = "before_migration_commit"


def reach(point: Point | MigrationPoint) -> None:
    """Pass by a place. Called as `points.reach(…)`, so that replacing this attribute reaches every caller."""
