"""Named places where a process may die, for tests to die there.

The store, the feed and the migrations pass by `reach` at each of them; it does nothing. A test, or `consumer.testing`,
replaces it by an exception or a SIGKILL.
"""

from __future__ import annotations

from enum import StrEnum


class Point(StrEnum):
    """The places, in the order in which one event passes them."""

    AFTER_LEDGER = "after_ledger"
    AFTER_TOTAL = "after_total"
    AFTER_CURSOR = "after_cursor"
    BEFORE_HANDLER = "before_handler"
    AFTER_HANDLER = "after_handler"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"
    BEFORE_ACK = "before_ack"
    AFTER_ACK = "after_ack"


def reach(point: Point) -> None:
    """Pass by a place. Called as `points.reach(…)`, so that replacing this attribute reaches every caller."""
