"""The rule for records: where a stream may be started, and what is to be done with a run of records.

Pure, and the only place that says so. Whoever asks holds the lock of the stream's row and does what is said here.

Above `through` a record is new. At `last` it is compared with what was committed, by digest and timestamp: equal is a
duplicate, other content a Conflict. Below `last` it is a duplicate, and not compared, since only one digest of a stream
is kept. Between `last` and `through` the source had vouched that there is nothing, so whatever comes there is a
Conflict: two histories differ, and one of them would be lost if it passed for a duplicate. After a move by hand there
is no digest, and nothing is compared: that all up to `through` is settled is what somebody has decided.

The comparison at `last` is why a source starts there and not behind it. A topic that was deleted and made anew, a
stream restored from a backup and filled up again, a log that lost its end in an unclean election all have another
record at that number, and would otherwise be consumed on without a word. Where there is nothing to compare with (never
consumed, a cursor moved by hand, a record gone by retention), it starts behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter, lt

from consumer.core.errors import Conflict, CursorAhead, Gap, InvalidOption, ResyncRequired, SourceChanged
from consumer.core.records import NO_NUMBER, NUMBER_MAX, Record, checksum, digest, digests
from consumer.core.runs import Offer, Position, Run
from consumer.core.starts import Earliest, FromNumber, FromTime, Latest, Start

ASK_AGAIN_S = 60.0
"""For how long a cursor beyond a head that is not firm is worth asking again: an election, or a replica that is behind,
is over by then. nats-io/nats-server#4174 and apache/doris#35901 are about such heads."""

_seq = itemgetter(1)  # of a record; an attribute takes three times as long


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a stream stands in the store.

    Attributes:
        last: the number of the last committed record, -1 for none.
        through: the number up to which everything is settled; never below `last`.
        digest: the digest of the record at `last`, None where that is not known: it is new, or was moved by hand.
        timestamp_ms: that record's timestamp, None where it has none.
        token: what the source gave with the run that ended at `through`.
        generation: counts the moves by hand. Runs from before a move are out of date.
        identity: the identity that was consumed from, None where it is not known yet.
        is_fed: whether the stream runs. One that is paused or halted takes nothing.
    """

    last: int = NO_NUMBER
    through: int = NO_NUMBER
    digest: bytes | None = None
    timestamp_ms: int | None = None
    token: bytes | None = None
    generation: int = 0
    identity: str | None = None
    is_fed: bool = True

    @property
    def place(self) -> tuple[int, int]:
        """What no other place equals that it has ever stood at: after a move it may reach the same number again."""
        return self.generation, self.through


# A stream that is offered.


def begin(offer: Offer, start: Start) -> Cursor:
    """Make the cursor of a stream that has none yet, by what the user said about where to begin.

    Only `place` judges whether the source still has what that comes to.

    Raises:
        InvalidOption: it is a time, and the source does not say which number that is.
    """
    match start:
        case Earliest():
            through = offer.first - 1
        case Latest():
            through = offer.head
        case FromNumber(seq):
            through = seq - 1
        case FromTime():
            if offer.since is None:
                raise InvalidOption(f"stream {offer.stream} cannot begin at a time: its source knows none")
            through = offer.since - 1
    return Cursor(through=max(through, NO_NUMBER))


@dataclass(frozen=True, slots=True)
class Placement:
    """That a stream may be started.

    Attributes:
        position: where.
        cursor: the cursor, with the identity that it is bound to from now on.
    """

    position: Position
    cursor: Cursor


def place(cursor: Cursor, offer: Offer) -> Placement:
    """Judge what a source says of a stream before anything of it is consumed.

    First comes whether it is the same stream, then whether it still has what is needed. Whether its history is the same
    is seen last, by the record at the cursor, when that comes.

    Raises:
        SourceChanged: it is another stream than the cursor is bound to.
        ResyncRequired: what follows the cursor is gone at the source.
        CursorAhead: the source ends before the cursor. Where the head is not firm, ask again for `ASK_AGAIN_S`.
    """
    known, found = cursor.identity, offer.identity
    if known is not None and found is not None and known != found:
        raise SourceChanged(offer.stream, known, found)
    if offer.first > cursor.through + 1:
        raise ResyncRequired(cursor.through, offer.first, stream=offer.stream)
    if offer.head < cursor.through:
        raise CursorAhead(cursor.through, offer.head, stream=offer.stream, is_firm=offer.head_is_firm)
    overlap = cursor.digest is not None and offer.first <= cursor.last
    position = Position(cursor.last, cursor.through, cursor.token, overlap, cursor.generation)
    return Placement(position, replace(cursor, identity=found if known is None else known))


# A run of records that came.


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is to be done with a run.

    Attributes:
        cursor: where the stream stands once that is committed.
        new: the records to handle, in order.
        checksum: the sum of their digests.
        duplicates: how many of the run were consumed before.
        is_stale: the run comes of a placement that holds no more, or the stream is not fed: nothing of it counts.
    """

    cursor: Cursor
    new: Sequence[Record]
    checksum: int = 0
    duplicates: int = 0
    is_stale: bool = False


def judge_run(cursor: Cursor, run: Run) -> RunPlan:
    """Say what a run comes to.

    Args:
        cursor: where its stream stands, read under the lock.
        run: the run. To apply a part of it only, `Run.split` it before.

    Raises:
        Gap: the run begins above what is settled.
        Conflict: a record that was consumed before is another one now. Nothing of the run may be applied.
        ValueError: the run contradicts itself, which is a mistake in the source.
    """
    if run.generation != cursor.generation or not cursor.is_fed:
        return RunPlan(cursor, (), is_stale=True)
    seqs = [*map(_seq, run.records)]
    _check_order(run, seqs)
    if run.after > cursor.through:
        raise Gap(cursor.through + 1, run.after + 1, stream=run.stream)
    known = 0
    if seqs and seqs[0] <= cursor.through:
        known = bisect_left(seqs, cursor.through + 1)
        if cursor.digest is not None:
            _compare(cursor, cursor.digest, run.records[bisect_left(seqs, cursor.last) : known])
    if run.through <= cursor.through:
        return RunPlan(cursor, (), duplicates=known)
    new = run.records[known:] if known else run.records
    token = cursor.token if run.token is None else run.token
    if not new:
        return RunPlan(replace(cursor, through=run.through, token=token), (), duplicates=known)
    found = digests(new)
    moved = replace(
        cursor,
        last=seqs[-1],
        through=run.through,
        digest=found[-1],
        timestamp_ms=new[-1].timestamp_ms,
        token=token,
    )
    return RunPlan(moved, new, checksum(found), known)


def _check_order(run: Run, seqs: list[int]) -> None:
    """Find a run that contradicts itself; what is built on it would lose records without a word."""
    first, last = (seqs[0], seqs[-1]) if seqs else (run.through, run.through)
    in_bounds = NO_NUMBER <= run.after <= run.through <= NUMBER_MAX and (not seqs or run.after < first)
    if not in_bounds or last > run.through or not all(map(lt, seqs, islice(seqs, 1, None))):
        raise ValueError(
            f"the source of stream {run.stream} gave a run that contradicts itself: it follows {run.after}, reaches "
            f"{run.through} and holds {len(seqs)} records from {first} to {last}, which must rise; please report it"
        )


def _compare(cursor: Cursor, committed: bytes, records: Sequence[Record]) -> None:
    """Compare what came from `last` up to `through`: at most one record, and the one that was committed."""
    for record in records:
        if record.seq != cursor.last:
            raise Conflict(record.seq, None, digest(record), stream=record.stream)
        received, came_ms, was_ms = digest(record), record.timestamp_ms, cursor.timestamp_ms
        if received != committed or (came_ms is not None and was_ms is not None and came_ms != was_ms):
            raise Conflict(record.seq, committed, received, stream=record.stream)
