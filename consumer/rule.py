"""The verdict on an event: new, a duplicate, a conflict or a gap.

Pure, and the only place that says so. The shim asks for one event, the store for a batch; both read the cursor and the
ledger under their write lock first and do afterwards what is said here.
"""

from __future__ import annotations

from enum import Enum

from consumer.errors import Conflict, Gap


class Verdict(Enum):
    """What is to be done with an event that is no error."""

    NEW = "apply it"
    DUPLICATE = "acknowledge it again"


def judge(last: int, seq: int, delta: int, recorded: int | None) -> Verdict:
    """Say what an event is to a store.

    Args:
        last: the cursor.
        seq: the event's number, in range.
        delta: its content.
        recorded: the delta in the ledger under `seq`, None where there is no row. It only counts where `seq <= last`.

    Returns:
        The verdict.

    Raises:
        Gap: an event before this one is missing.
        Conflict: the number is known with other content, or lies below the cursor and is not in the ledger.
    """
    if seq > last + 1:
        raise Gap(last + 1, seq)
    if seq == last + 1:
        return Verdict.NEW
    if recorded != delta:
        raise Conflict(seq, recorded, delta)
    return Verdict.DUPLICATE
