"""What is done to streams by hand: pause, resume, and a cursor that is moved.

Moving a cursor is one primitive; skip, trust and the like are names for it. Everything takes the same row lock as those
who consume, compares what its caller expects, and goes on record with who did it, when and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from consumer.core.errors import NotAsExpected, NotNext, UnknownStream
from consumer.core.records import NO_NUMBER, NUMBER_MAX
from consumer.core.streams import Override, Stream, StreamState
from consumer.store.sheet import Sheet
from consumer.store.streams import Streams, storable


class Unchanged:
    """Stands for what a move leaves as it is, where None has another meaning."""


UNCHANGED: Final = Unchanged()


@dataclass(frozen=True, slots=True)
class Move:
    """What is to be done to a stream.

    Attributes:
        stream: its name.
        what: what this is called on record, such as `skip`.
        reason: why; not empty.
        made_by: who does it.
        expect_last: the cursor that it must have, None for any.
        to: the number up to which everything counts as settled afterwards, None to leave the cursor alone.
        passes_one: whether `to` must be the very next record: the one that halted the stream, or the next number.
        identity: the identity that it is bound to afterwards; None for the next one that is known.
        state: whether it is to be consumed afterwards; None to leave that as it is, except that what was halted runs.
    """

    stream: str
    what: str
    reason: str
    made_by: str
    expect_last: int | None = None
    to: int | None = None
    passes_one: bool = False
    identity: str | Unchanged | None = UNCHANGED
    state: StreamState | None = None

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("a reason is needed, since it goes on record")
        if self.to is not None and not NO_NUMBER <= self.to <= NUMBER_MAX:
            raise ValueError(f"no record can have the number {self.to}")

    def applied_to(self, stream: Stream) -> Stream:
        """Give how a stream stands afterwards.

        Raises:
            NotAsExpected: its cursor is not where it was expected.
            NotNext: it would pass over more than one record.
        """
        was = stream.cursor
        if self.expect_last is not None and self.expect_last != was.last:
            raise NotAsExpected(stream.name, self.expect_last, was.last)
        if self.passes_one and self.to not in (stream.halted_at, was.through + 1):
            raise NotNext(stream.name, f"{self.to}", was.through + 1, stream.halted_at)
        state = self.state or (StreamState.RUNNING if stream.state is StreamState.HALTED else stream.state)
        identity = was.identity if isinstance(self.identity, Unchanged) else self.identity
        if self.moves_cursor:
            through = was.through if self.to is None else self.to
            last = was.last if self.to is None else through
            cursor = replace(was, last=last, through=through, digest=None, timestamp_ms=None, token=None)
        else:
            cursor = was
        return replace(stream, state=state, cursor=replace(cursor, identity=identity, generation=was.generation + 1))

    @property
    def moves_cursor(self) -> bool:
        """Whether it changes more than the state."""
        return self.to is not None or not isinstance(self.identity, Unchanged)


def pause(stream: str, reason: str, made_by: str) -> Move:
    """Have a stream not consumed until it is resumed."""
    return Move(stream, "pause", reason, made_by, state=StreamState.PAUSED)


def resume(stream: str, reason: str, made_by: str) -> Move:
    """Have a stream consumed that was paused, or try one at once that is halted."""
    return Move(stream, "resume", reason, made_by, state=StreamState.RUNNING)


def skip(stream: str, record: int, expect_last: int, reason: str, made_by: str) -> Move:
    """Pass over the next record of a stream."""
    return Move(stream, "skip", reason, made_by, expect_last, to=record, passes_one=True)


def trust(stream: str, at: int | None, expect_last: int, reason: str, made_by: str) -> Move:
    """Go on with whatever a stream's name leads to now, behind the cursor or at a record's number."""
    return Move(stream, "trust", reason, made_by, expect_last, to=None if at is None else at - 1, identity=None)


class MoveSheet(Sheet[list[Override]]):
    """One transaction's work on streams that are moved by hand.

    Args:
        streams: the rows.
        moves: what is to be done, at most once for each stream.
    """

    def __init__(self, streams: Streams, moves: Sequence[Move]) -> None:
        self._streams = streams
        self._moves: dict[str, Move] = {}
        for move in moves:
            if self._moves.setdefault(move.stream, move) is not move:
                raise ValueError(f"stream {move.stream} twice: what is done to a stream at once is one move")
        self._both: list[tuple[Move, Stream, Stream]] = []
        self._made: list[Override] = []

    def judge(self, cursor: Any) -> None:
        found = self._streams.lock(cursor, self._moves)
        for name, move in self._moves.items():
            if name not in found:
                raise UnknownStream(name)
            self._both.append((move, found[name], move.applied_to(found[name])))

    def claimed(self) -> Mapping[str, object]:
        return {was.name: was.cursor.place for _, was, _ in self._both}

    def changes(self) -> bool:
        return bool(self._both)

    def new(self) -> Sequence[str]:
        """Give the names of the streams, which a function of the user's is called with."""
        return [was.name for _, was, _ in self._both]

    def write(self, cursor: Any) -> Mapping[str, object]:
        made_ms = self._streams.now_ms(cursor)
        for move, was, now in self._both:
            if move.moves_cursor:
                self._streams.move_by_hand(cursor, now)
            else:
                self._streams.set_state(cursor, now.name, now.state)
            override = Override(
                stream=was.name,
                number=self._streams.next_override(cursor, was.name),
                made_ms=made_ms,
                made_by=storable(move.made_by),
                what=move.what,
                from_last=was.cursor.last,
                from_through=was.cursor.through,
                to_last=now.cursor.last,
                to_through=now.cursor.through,
                from_identity=was.cursor.identity,
                to_identity=now.cursor.identity,
                reason=storable(move.reason),
            )
            self._streams.record(cursor, override)
            self._made.append(override)
        return {now.name: now.cursor.place for _, _, now in self._both}

    def outcome(self) -> list[Override]:
        return self._made
