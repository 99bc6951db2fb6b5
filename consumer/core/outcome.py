"""What a store says: where it stands, and what became of a batch. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from consumer.core.errors import SchemaMismatch
from consumer.core.events import SEQ_MAX, is_integer


@dataclass(frozen=True, slots=True)
class State:
    """Where a store stands: the number of the last event, -1 for none, and the sum of all deltas."""

    last: int
    total: int


def checked_state(last: object, total: object) -> State:
    """Read a checkpoint's row.

    Raises:
        SchemaMismatch: it holds what no store ever wrote; somebody else's table may allow that.
    """
    if not is_integer(last, -1, SEQ_MAX) or not isinstance(total, int):
        raise SchemaMismatch(
            f"the checkpoint holds last {last!r} and total {total!r}, which no store writes: restore it"
        )
    return State(last, total)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch.

    Attributes:
        acked: how many of its events, from the start, are committed and may be acknowledged.
        new: how many of those were new.
        last: the cursor afterwards.
        error: what is wrong with the event after those, None where nothing is.
        total: the total afterwards, for display.
    """

    acked: int
    new: int
    last: int
    error: Exception | None
    total: int = field(default=0, compare=False)

    def followed_by(self, other: Outcome) -> Outcome:
        """Put what became of the next events behind this."""
        return replace(other, acked=self.acked + other.acked, new=self.new + other.new)
