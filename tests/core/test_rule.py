"""The rule for records: where a stream may be started, and what a run of its records comes to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from consumer.core.errors import Conflict, CursorAhead, Gap, InvalidOption, ResyncRequired, SourceChanged
from consumer.core.records import NUMBER_MAX, Record, checksum, digest, digests
from consumer.core.rule import Cursor, begin, judge_run, place
from consumer.core.runs import Offer, Position, Run
from consumer.core.starts import Earliest, FromNumber, FromTime, Latest, Start


def record(seq: int, data: bytes = b"", timestamp_ms: int | None = None) -> Record:
    return Record("s/0", seq, data or b"%d" % seq, timestamp_ms=timestamp_ms)


def run(after: int, seqs: Sequence[int], through: int | None = None, **others: Any) -> Run:
    made = Run("s/0", 3, after, [record(seq) for seq in seqs], seqs[-1] if through is None else through)
    return replace(made, **others)


AT_10 = Cursor(10, 15, digest(record(10)), None, b"before", 3, "id")
"""A stream whose last record has number 10, with nothing in the numbers up to 15."""

NEW = Cursor(generation=3)


# Offers.


def offer(first: int = 0, head: int = 100, identity: str | None = "id", *, firm: bool = True) -> Offer:
    return Offer("s/0", identity, first, head, firm)


@pytest.mark.parametrize(
    ("cursor", "offered", "overlap"),
    [
        (AT_10, offer(), True),
        (AT_10, offer(head=15), True),
        (AT_10, offer(first=10), True),
        (AT_10, offer(first=11), False),  # retention took the record at the cursor, and the next one is there
        (AT_10, offer(first=16), False),
        (AT_10, offer(first=16, head=15), False),  # everything is gone, and everything was consumed
        (replace(AT_10, digest=None), offer(), False),  # moved by hand
        (NEW, offer(), False),
        (NEW, offer(head=-1), False),
        (Cursor(0, 0, b"", generation=3), offer(head=0), True),
    ],
)
def test_a_stream_is_started_at_its_last_record_where_that_can_be_compared(
    cursor: Cursor, offered: Offer, overlap: bool
) -> None:
    placement = place(cursor, offered)
    assert placement.position == Position(cursor.last, cursor.through, cursor.token, overlap, 3)


@pytest.mark.parametrize(
    ("cursor", "offered", "error", "facts"),
    [
        (AT_10, offer(first=17), ResyncRequired, {"last": 15, "first": 17, "stream": "s/0"}),
        (AT_10, offer(first=17, head=16), ResyncRequired, {"last": 15, "first": 17}),
        (NEW, offer(first=1), ResyncRequired, {"last": -1, "first": 1}),
        (AT_10, offer(head=14), CursorAhead, {"last": 15, "head": 14, "stream": "s/0", "is_firm": True}),
        (AT_10, offer(head=-1, firm=False), CursorAhead, {"last": 15, "head": -1, "is_firm": False}),
        (AT_10, offer(identity="x"), SourceChanged, {"stream": "s/0", "known": "id", "found": "x"}),
        # The settled order: identity, then extent.
        (AT_10, offer(first=17, identity="x"), SourceChanged, {}),
        (AT_10, offer(head=1, identity="x"), SourceChanged, {}),
        (AT_10, offer(first=17, head=14), ResyncRequired, {}),
        # An emptied file has no identity, so it is judged by its extent.
        (AT_10, offer(head=-1, identity=None), CursorAhead, {}),
    ],
)
def test_a_stream_that_cannot_be_started_is_refused_for_the_first_reason(
    cursor: Cursor, offered: Offer, error: type[Exception], facts: dict[str, object]
) -> None:
    with pytest.raises(error) as caught:
        place(cursor, offered)
    assert facts.items() <= vars(caught.value).items()
    assert "s/0" in str(caught.value)


@pytest.mark.parametrize(
    ("known", "found", "pinned"),
    [(None, None, None), (None, "id", "id"), ("id", None, "id"), ("id", "id", "id")],
)
def test_an_identity_that_is_not_known_equals_any_and_is_bound_to_when_first_known(
    known: str | None, found: str | None, pinned: str | None
) -> None:
    placement = place(replace(AT_10, identity=known), offer(identity=found))
    assert placement.cursor == replace(AT_10, identity=pinned)


@pytest.mark.parametrize(
    ("start", "offered", "through"),
    [
        (Earliest(), offer(), -1),
        (Earliest(), offer(first=50), 49),
        (Earliest(), offer(head=-1), -1),
        (Latest(), offer(), 100),
        (Latest(), offer(head=-1), -1),
        (FromNumber(0), offer(), -1),
        (FromNumber(7), offer(first=50), 6),
        (FromTime(1000), replace(offer(), since=60), 59),
        (FromTime(1000), replace(offer(), since=101), 100),
    ],
)
def test_a_new_stream_begins_where_the_user_says(start: Start, offered: Offer, through: int) -> None:
    assert begin(offered, start) == Cursor(through=through)


def test_the_first_use_of_a_stream_whose_beginning_is_gone_is_no_error() -> None:
    offered = offer(first=50)
    assert place(begin(offered, Earliest()), offered).position == Position(-1, 49, None, False, 0)


def test_a_new_stream_that_shall_begin_at_what_is_gone_is_one() -> None:
    offered = offer(first=50)
    with pytest.raises(ResyncRequired):
        place(begin(offered, FromNumber(7)), offered)


def test_a_time_means_nothing_to_a_source_that_has_none() -> None:
    with pytest.raises(InvalidOption, match="s/0"):
        begin(offer(), FromTime(1000))


# Runs.


@pytest.mark.parametrize(
    ("cursor", "came", "new", "duplicates", "last", "through"),
    [
        (NEW, run(-1, [0, 1, 2]), [0, 1, 2], 0, 2, 2),
        (NEW, run(-1, [5], 9), [5], 0, 5, 9),  # numbers without a record before and behind it
        (AT_10, run(15, [16, 17]), [16, 17], 0, 17, 17),
        (AT_10, run(9, [10, 16]), [16], 1, 16, 16),  # the overlap, the same as was committed
        (AT_10, run(9, [10], 15), [], 1, 10, 15),
        (AT_10, run(9, [10], 30), [], 1, 10, 30),
        (AT_10, run(9, [16]), [16], 0, 16, 16),  # the record at the cursor is gone, and nothing that is needed with it
        (AT_10, run(2, [3, 4, 10, 16]), [16], 3, 16, 16),  # sent again from further back
        (AT_10, run(2, [3, 4]), [], 2, 10, 15),
        (AT_10, run(15, [], 40), [], 0, 10, 40),  # a run without records carries `through` over a hole
        (AT_10, run(0, [], 12), [], 0, 10, 15),
        (AT_10, run(15, [NUMBER_MAX]), [NUMBER_MAX], 0, NUMBER_MAX, NUMBER_MAX),
        (replace(AT_10, digest=None), run(9, [10, 12, 16]), [16], 2, 16, 16),  # moved by hand: nothing is compared
    ],
)
def test_what_is_new_in_a_run(
    cursor: Cursor, came: Run, new: list[int], duplicates: int, last: int, through: int
) -> None:
    plan = judge_run(cursor, came)
    assert [one.seq for one in plan.new] == new
    assert (plan.duplicates, plan.is_stale) == (duplicates, False)
    assert (plan.cursor.last, plan.cursor.through) == (last, through)
    assert plan.checksum == checksum(digests(record(seq) for seq in new))
    assert plan.cursor.digest == (digest(record(last)) if new else cursor.digest)
    assert (plan.cursor.generation, plan.cursor.identity) == (3, cursor.identity)


@pytest.mark.parametrize(
    ("cursor", "came", "expected", "received"),
    [
        (NEW, run(0, [1]), 0, 1),
        (AT_10, run(16, [17]), 16, 17),
        (AT_10, run(16, [], 20), 16, 17),  # a run without records may leave some out as well
        (AT_10, run(30, [40]), 16, 31),
    ],
)
def test_a_run_that_follows_what_is_not_settled_is_a_gap(
    cursor: Cursor, came: Run, expected: int, received: int
) -> None:
    with pytest.raises(Gap, match="stream s/0") as caught:
        judge_run(cursor, came)
    assert (caught.value.expected, caught.value.received, caught.value.stream) == (expected, received, "s/0")


@pytest.mark.parametrize(
    ("came", "seq", "recorded"),
    [
        ([record(10, b"other"), record(16)], 10, digest(record(10))),
        ([record(9), record(10, b"other")], 10, digest(record(10))),
        ([record(12), record(16)], 12, None),  # where the source had vouched that there is nothing
        ([record(10), record(15)], 15, None),
    ],
)
def test_another_history_is_a_conflict(came: list[Record], seq: int, recorded: bytes | None) -> None:
    with pytest.raises(Conflict, match="stream s/0") as caught:
        judge_run(AT_10, Run("s/0", 3, 5, came, 16))
    assert (caught.value.seq, caught.value.recorded, caught.value.stream) == (seq, recorded, "s/0")


def test_another_record_below_the_last_one_is_a_duplicate_that_is_not_compared() -> None:
    assert judge_run(AT_10, Run("s/0", 3, 5, [record(9, b"other")], 9)).duplicates == 1


@pytest.mark.parametrize(
    ("committed_ms", "came_ms", "agrees"),
    [(5, 5, True), (5, 6, False), (None, None, True), (None, 5, True), (5, None, True), (0, 5, False)],
)
def test_the_timestamp_is_compared_where_both_have_one(
    committed_ms: int | None, came_ms: int | None, agrees: bool
) -> None:
    cursor = replace(AT_10, timestamp_ms=committed_ms)
    came = Run("s/0", 3, 9, [record(10, timestamp_ms=came_ms)], 15)
    if agrees:
        assert judge_run(cursor, came).duplicates == 1
    else:
        with pytest.raises(Conflict):
            judge_run(cursor, came)


@pytest.mark.parametrize(
    ("cursor", "came"),
    [
        (AT_10, run(15, [16], generation=2)),
        (AT_10, run(15, [16], generation=4)),
        (replace(AT_10, is_fed=False), run(15, [16])),
        (AT_10, run(90, [91], generation=2)),  # no Gap either: it answers a question that nobody asks any more
        (AT_10, Run("s/0", 2, 9, [record(10, b"other")], 15)),  # nor a Conflict
    ],
)
def test_a_run_of_a_placement_that_holds_no_more_is_dropped(cursor: Cursor, came: Run) -> None:
    plan = judge_run(cursor, came)
    assert plan.is_stale
    assert (plan.cursor, [*plan.new], plan.duplicates, plan.checksum) == (cursor, [], 0, 0)


@pytest.mark.parametrize(("came_token", "kept"), [(b"now", b"now"), (b"", b""), (None, b"before")])
def test_the_sources_token_is_kept_with_the_cursor(came_token: bytes | None, kept: bytes) -> None:
    assert judge_run(AT_10, run(15, [16], token=came_token)).cursor.token == kept
    assert judge_run(AT_10, run(15, [], 20, token=came_token)).cursor.token == kept
    assert judge_run(AT_10, run(2, [3], token=b"of long ago")).cursor.token == b"before"


def test_the_timestamp_is_that_of_the_last_record() -> None:
    came = Run("s/0", 3, 15, [record(16, timestamp_ms=1), record(17, timestamp_ms=2)], 17)
    assert judge_run(AT_10, came).cursor.timestamp_ms == 2


@pytest.mark.parametrize(
    "came",
    [
        run(15, [16, 16]),
        run(15, [17, 16, 18]),
        run(15, [16, 18, 17], 18),
        run(16, [16]),
        run(15, [16, 17], 16),
        run(15, [], 14),
        run(-2, [], 14),
        run(15, [16], NUMBER_MAX + 1),
    ],
)
def test_a_run_that_contradicts_itself_is_never_built_on(came: Run) -> None:
    with pytest.raises(ValueError, match="s/0 gave a run that contradicts itself"):
        judge_run(AT_10, came)


@pytest.mark.parametrize("seq", range(16, 21))
def test_a_run_applied_in_two_parts_comes_to_the_same(seq: int) -> None:
    whole = run(9, [10, 16, 17, 19], 20, token=b"t")
    plan = judge_run(AT_10, whole)
    below, above = whole.split(seq)
    first = judge_run(AT_10, below)
    second = judge_run(first.cursor, above)
    assert second.cursor == plan.cursor
    assert [*first.new, *second.new] == [*plan.new]
    assert (first.checksum + second.checksum) % 2**128 == plan.checksum
    assert first.duplicates + second.duplicates == plan.duplicates
