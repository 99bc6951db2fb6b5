"""What a store says: where it stands, and what became of a batch. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
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

    def ended_by(self, error: Exception) -> Outcome:
        """Say that the event after these has failed."""
        return replace(self, error=error)


@dataclass(frozen=True, slots=True)
class Halt:
    """A stream that cannot go on, while others can.

    Attributes:
        stream: its name.
        at: the number of the record that it cannot pass, None where it is not about one.
        error: why.
    """

    stream: str
    at: int | None
    error: Exception


@dataclass(frozen=True, slots=True)
class RunsOutcome:
    """What became of runs of records.

    Attributes:
        through: for each stream of which something may be acknowledged the number up to which everything is settled.
        new: how many records were new.
        duplicates: how many were consumed before.
        halted: streams that cannot go on. What precedes the record that they are halted at is committed.
        stale: streams whose runs come of a placement that holds no more, or that are paused: nothing of them counted,
            and they are to be placed anew.
        error: what kept the rest from being applied, None where nothing did.
    """

    through: Mapping[str, int] = field(default_factory=dict)
    new: int = 0
    duplicates: int = 0
    halted: tuple[Halt, ...] = ()
    stale: frozenset[str] = frozenset()
    error: Exception | None = None

    def followed_by(self, other: RunsOutcome) -> RunsOutcome:
        """Put what became of the next records behind this."""
        return RunsOutcome(
            {**self.through, **other.through},
            self.new + other.new,
            self.duplicates + other.duplicates,
            self.halted + other.halted,
            other.stale | (self.stale - other.through.keys()),
            other.error,
        )

    def ended_by(self, error: Exception) -> RunsOutcome:
        """Say that what comes behind these has failed."""
        return replace(self, error=error)
