"""Events in columns are a sequence of tuples to everybody who looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.events import DELTA_MAX, SEQ_MAX, Events, check_event, is_integer

PAIRS = st.lists(st.tuples(st.integers(0, SEQ_MAX), st.integers(-DELTA_MAX, DELTA_MAX)), max_size=12)


@given(PAIRS, st.integers(-14, 14) | st.none(), st.integers(-14, 14) | st.none(), st.sampled_from([None, 1, 2, -1]))
def test_they_are_cut_as_a_list_is(pairs, start, stop, step) -> None:
    cut = Events.of(pairs)[start:stop:step]
    assert isinstance(cut, Events)
    assert list(cut) == pairs[start:stop:step]


@given(PAIRS)
def test_they_read_as_a_list_does(pairs) -> None:
    events = Events.of(pairs)
    assert list(events) == pairs
    assert len(events) == len(pairs)
    assert [events[index] for index in range(-len(pairs), len(pairs))] == [*pairs, *pairs]
    assert events.seqs == [seq for seq, _ in pairs]
    assert events.deltas == [delta for _, delta in pairs]
    assert list(reversed(events)) == pairs[::-1]
    assert repr(events) == f"Events({pairs})"
    for outside in (len(pairs), -len(pairs) - 1):
        with pytest.raises(IndexError):
            events[outside]


def test_what_continues_a_cursor_is_consecutive_from_there() -> None:
    assert Events.of([(5, 1), (6, 1)]).continue_after(4)
    for last, pairs in ((3, [(5, 1)]), (4, [(5, 1), (7, 1)]), (4, [(6, 1), (5, 1)]), (4, [(4, 1), (5, 1)])):
        assert not Events.of(pairs).continue_after(last)


@pytest.mark.parametrize("bad", [True, 1.0, "1", None, -1, SEQ_MAX + 1, float("nan"), [], b"1"])
def test_a_value_out_of_type_or_range_is_found(bad) -> None:
    good = [(0, 0), (SEQ_MAX, DELTA_MAX), (1, -DELTA_MAX)]
    assert list(Events.if_valid(good) or []) == good
    assert Events.if_valid([*good, (bad, 1)]) is None
    assert not is_integer(bad, 0, SEQ_MAX)
    with pytest.raises(ValueError, match="seq must be an int"):
        check_event(bad, 1)
    if bad != -1:
        assert Events.if_valid([*good, (1, bad)]) is None
        with pytest.raises(ValueError, match="delta must be an int"):
            check_event(1, bad)


@pytest.mark.parametrize("delta", [DELTA_MAX + 1, -DELTA_MAX - 1])
def test_a_delta_out_of_range_is_found(delta) -> None:
    assert Events.if_valid([(1, delta)]) is None
    with pytest.raises(ValueError, match="delta must be an int"):
        check_event(1, delta)
