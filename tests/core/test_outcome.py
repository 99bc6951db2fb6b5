"""A checkpoint's row is read with distrust: somebody else's table may allow what no store writes."""

import pytest

from consumer.core.errors import SchemaMismatch
from consumer.core.outcome import RunsOutcome, State, checked_state


@pytest.mark.parametrize("last", [-1, 0, 2**31 - 1])
def test_a_row_that_a_store_wrote_is_its_state(last: int) -> None:
    assert checked_state(last, -5) == State(last, -5)


@pytest.mark.parametrize(
    ("last", "total"), [(None, 0), (0, None), ("1", 0), (0, b"1"), (0, 1.5), (-2, 0), (2**31, 0), (True, 0)]
)
def test_any_other_row_is_an_error_that_shows_it(last: object, total: object) -> None:
    with pytest.raises(SchemaMismatch, match="restore it"):
        checked_state(last, total)


@pytest.mark.parametrize(
    ("first", "second", "stale"),
    [
        (RunsOutcome(stale=frozenset("a")), RunsOutcome(), "a"),
        (RunsOutcome(stale=frozenset("a")), RunsOutcome({"b": 1}, stale=frozenset("c")), "ac"),
        (RunsOutcome(stale=frozenset("a")), RunsOutcome({"a": 1}), ""),  # what came later was of its placement
        (RunsOutcome({"a": 1}), RunsOutcome(stale=frozenset("a")), "a"),  # it was moved in between
    ],
)
def test_a_stream_is_stale_where_the_last_of_it_was(first: RunsOutcome, second: RunsOutcome, stale: str) -> None:
    assert first.followed_by(second).stale == frozenset(stale)
