"""What a store knows of its streams: where each one stands, what stops it, who consumes it, what was done by hand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from consumer.core.rule import Cursor


class StreamState(StrEnum):
    """Whether a stream is consumed."""

    RUNNING = "running"
    PAUSED = "paused"
    HALTED = "halted"


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as its store has it.

    Attributes:
        name: its name.
        cursor: where it stands.
        begins: where it was to begin, as `core.starts.parse_start` reads it.
        records: how many of its records were consumed.
        checksum: the sum of their digests, as `core.records.checksum` has it.
        state: whether it is consumed. One that is halted is tried again now and then, and by whoever starts anew.
        starts: how often it was placed since something of it was committed.
        halted_at: the number of the record that it could not pass, None where it is not halted or not at a record.
        halted_error: why it is halted, None where it is not.
        halted_since_ms: since when, in milliseconds since 1970.
        handler: the name of the handler that it is consumed by, None where that has none.
        committed_ms: when something of it was committed last, in milliseconds since 1970; None for never.
    """

    name: str
    cursor: Cursor
    begins: str = "earliest"
    records: int = 0
    checksum: int = 0
    state: StreamState = StreamState.RUNNING
    starts: int = 0
    halted_at: int | None = None
    halted_error: str | None = None
    halted_since_ms: int | None = None
    handler: str | None = None
    committed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """Something that was done to a stream by hand, as it stands on record.

    Attributes:
        stream: its name.
        number: 1 for the first of this stream.
        made_ms: when, in milliseconds since 1970.
        made_by: who.
        what: `pause`, `resume`, `skip`, `trust` or what a program has called it.
        from_last: the cursor before.
        from_through: the number up to which everything was settled before.
        to_last: the cursor afterwards.
        to_through: the number up to which everything is settled afterwards.
        from_identity: the identity that the stream was bound to before.
        to_identity: the identity that it is bound to afterwards; None for the next one that is known.
        reason: why.
    """

    stream: str
    number: int
    made_ms: int
    made_by: str
    what: str
    from_last: int
    from_through: int
    to_last: int
    to_through: int
    from_identity: str | None
    to_identity: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Which process consumes from a source.

    Attributes:
        source: the source's name.
        holder: the process: its host, its number there, and something that no other process has.
        handler: the name of its handler, None where it has none.
        since_ms: since when, in milliseconds since 1970 by the database's clock.
        until_ms: until when, unless it is renewed.
        is_held: whether that time is not over.
    """

    source: str
    holder: str
    handler: str | None
    since_ms: int
    until_ms: int
    is_held: bool
