"""The verdict on one event and on a batch: pure, and by definition the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import Conflict, Gap
from consumer.core.events import DELTA_MAX, SEQ_MAX, Events
from consumer.core.verdict import Plan, Verdict, judge, plan


def no_ledger(seqs: set[int]) -> dict[int, int]:
    raise AssertionError(f"nobody should ask for {seqs}")


def planned(last: int, events: list[tuple[object, object]], ledger: dict[int, int] | None = None) -> tuple[object, ...]:
    found = plan(
        last, events, no_ledger if ledger is None else lambda seqs: {s: ledger[s] for s in seqs if s in ledger}
    )  # type: ignore[arg-type]
    return list(found.new), found.acked, type(found.error), getattr(found.error, "args", None)


def test_the_next_number_is_new_whatever_the_ledger_says() -> None:
    assert judge(4, 5, 1, None) is Verdict.NEW
    assert judge(-1, 0, 1, 7) is Verdict.NEW


def test_a_known_number_is_a_duplicate_or_a_conflict() -> None:
    assert judge(4, 4, 1, 1) is Verdict.DUPLICATE
    assert judge(4, 0, 0, 0) is Verdict.DUPLICATE
    for recorded in (2, None):
        with pytest.raises(Conflict) as raised:
            judge(4, 3, 1, recorded)
        assert (raised.value.seq, raised.value.recorded, raised.value.received) == (3, recorded, 1)


@pytest.mark.parametrize("seq", [6, 7, SEQ_MAX])
def test_a_number_beyond_the_next_is_a_gap(seq) -> None:
    with pytest.raises(Gap) as raised:
        judge(4, seq, 1, 1)
    assert (raised.value.expected, raised.value.received) == (5, seq)


def test_a_batch_that_simply_continues_needs_no_look_at_the_ledger() -> None:
    events = [(5, 1), (6, -DELTA_MAX), (7, DELTA_MAX)]
    assert planned(4, events) == (events, 3, type(None), None)
    assert planned(-1, [(0, 0)]) == ([(0, 0)], 1, type(None), None)
    assert planned(SEQ_MAX - 1, [(SEQ_MAX, 1)]) == ([(SEQ_MAX, 1)], 1, type(None), None)


def test_an_empty_batch_is_nothing() -> None:
    assert planned(4, [], {}) == ([], 0, type(None), None)
    assert planned(-1, Events([]), {}) == ([], 0, type(None), None)  # type: ignore[arg-type]


def test_only_numbers_up_to_the_cursor_are_looked_up_at_once() -> None:
    asked: list[set[int]] = []

    def read(seqs: set[int]) -> dict[int, int]:
        asked.append(seqs)
        return {3: 3, 4: 4}

    found = plan(4, [(3, 3), (5, 5), (4, 4), (5, 5), (6, 6)], read)
    assert (list(found.new), found.acked, found.error) == ([(5, 5), (6, 6)], 5, None)
    assert asked == [{3, 4}]


@pytest.mark.parametrize(
    ("events", "new", "acked", "error"),
    [
        ([(5, 1), (7, 1)], [(5, 1)], 1, (Gap, (6, 7))),
        ([(5, 1), (5, 2)], [(5, 1)], 1, (Conflict, (5, 1, 2))),
        ([(3, 3), (4, 9), (5, 1)], [], 1, (Conflict, (4, 4, 9))),
        ([(2, 1)], [], 0, (Conflict, (2, None, 1))),
        ([(5, 1), (5, 1), (6, 1)], [(5, 1), (6, 1)], 3, (type(None), None)),
        ([(0, 7), (4, 4), (5, 1)], [(5, 1)], 3, (type(None), None)),
        ([(SEQ_MAX + 1, 1)], [], 0, (ValueError, (f"seq must be an int from 0 to {SEQ_MAX}, not {SEQ_MAX + 1}",))),
        ([(5, 1001)], [], 0, (ValueError, ("delta must be an int from -1000 to 1000, not 1001",))),
        ([(5.0, 1)], [], 0, (ValueError, (f"seq must be an int from 0 to {SEQ_MAX}, not 5.0",))),
        ([(5, True)], [], 0, (ValueError, ("delta must be an int from -1000 to 1000, not True",))),
        ([(True, 1)], [], 0, (ValueError, (f"seq must be an int from 0 to {SEQ_MAX}, not True",))),
        ([(9, 1001)], [], 0, (ValueError, ("delta must be an int from -1000 to 1000, not 1001",))),
    ],
)
def test_a_batch_ends_before_the_first_event_that_is_wrong(events, new, acked, error) -> None:
    assert planned(4, events, {0: 7, 3: 3, 4: 4}) == (new, acked, *error)


VALUES = st.integers(0, 8) | st.sampled_from([True, 1.0, "2", None, -1, SEQ_MAX + 1])


@given(st.integers(-1, 6), st.lists(st.tuples(VALUES, st.sampled_from([0, 1, 1001, False])), max_size=8))
def test_a_batch_is_judged_as_its_events_one_after_the_other(last, events) -> None:
    ledger = {seq: seq % 2 for seq in range(last + 1) if seq != 2}
    parts: list[tuple[object, ...]] = []
    cursor, known = last, dict(ledger)
    for event in events:
        parts.append(planned(cursor, [event], known))
        for seq, delta in parts[-1][0]:  # type: ignore[attr-defined]
            cursor, known[seq] = seq, delta
        if parts[-1][1] == 0:
            break
    new = [event for part in parts for event in part[0]]  # type: ignore[attr-defined]
    error = parts[-1][2:] if parts else (type(None), None)
    assert planned(last, events, ledger) == (new, sum(part[1] for part in parts), *error)  # type: ignore[misc]


def test_a_plan_is_plain_data() -> None:
    events = Events.of([(0, 1)])
    assert plan(-1, events, no_ledger) == Plan(events, 1, None)
