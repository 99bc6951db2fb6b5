"""A run can be cut anywhere, and the two parts vouch for the same as the whole."""

import pytest

from consumer.core.records import Record
from consumer.core.runs import Position, Run

RUN = Run("s/0", 3, 9, tuple(Record("s/0", seq, b"") for seq in (10, 12, 15)), 20, b"token")


@pytest.mark.parametrize("seq", range(10, 21))
def test_both_parts_of_a_run_hold_together(seq: int) -> None:
    below, above = RUN.split(seq)
    assert (below.after, below.through, above.after, above.through) == (9, seq - 1, seq - 1, 20)
    assert [*below.records, *above.records] == [*RUN.records]
    assert all(record.seq < seq for record in below.records)
    assert all(record.seq >= seq for record in above.records)
    assert {(part.stream, part.generation) for part in (below, above)} == {("s/0", 3)}


def test_only_the_end_of_a_run_has_its_token() -> None:
    below, above = RUN.split(12)
    assert (below.token, above.token) == (None, b"token")


@pytest.mark.parametrize(("overlap", "start"), [(True, 10), (False, 16)])
def test_a_position_says_the_lowest_number_that_is_wanted(overlap: bool, start: int) -> None:
    assert Position(10, 15, None, overlap, 0).start == start
