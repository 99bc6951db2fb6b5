"""Step 4: replay, the part of a retained log that a cursor still needs."""

import contextlib
import random

import pytest

from consumer import ResyncRequired, replay

from .helpers import NOT_AN_INT, SEQ_MAX

LOG = [(10, 1), (11, -2), (12, 3), (13, 0), (14, 1000), (15, -1000)]


def log(first: int, size: int) -> list[tuple[int, int]]:
    return [(seq, seq % 7 - 3) for seq in range(first, first + size)]


def refused(events: object, last: object = 9, limit: object = 16) -> bool:
    """ValueError and nothing else."""
    with pytest.raises(ValueError):
        replay(events, last, limit)  # type: ignore[arg-type]
    return True


# --- what comes back -----------------------------------------------------------------------------


def test_a_cursor_right_before_the_first_connects() -> None:
    assert replay(LOG, 9, 16) == LOG


def test_a_cursor_one_earlier_lacks_an_event() -> None:
    with pytest.raises(ResyncRequired):
        replay(LOG, 8, 16)


@pytest.mark.parametrize("last", [-1, 0, 7, 8])
def test_every_earlier_cursor_needs_a_resync(last) -> None:
    with pytest.raises(ResyncRequired):
        replay(LOG, last, 16)


@pytest.mark.parametrize("last", range(9, 16))
def test_only_what_lies_beyond_the_cursor_is_given(last) -> None:
    assert replay(LOG, last, 16) == LOG[last - 9 :]


def test_a_cursor_at_the_last_event_needs_nothing() -> None:
    result = replay(LOG, 15, 16)
    assert result == []
    assert type(result) is list


def test_a_log_from_the_start_serves_the_empty_cursor() -> None:
    assert replay(log(0, 3), -1, 16) == log(0, 3)


@pytest.mark.parametrize("limit", range(1, 17))
def test_at_most_limit_entries_are_given_the_earliest_first(limit) -> None:
    assert replay(log(10, 40), 12, limit) == log(13, limit)


def test_a_log_of_one_event_is_enough() -> None:
    assert replay([(5, 5)], 4, 1) == [(5, 5)]


def test_a_log_of_128_events_is_taken() -> None:
    events = log(0, 128)
    assert replay(events, 120, 16) == events[121:]


def test_the_end_of_the_number_range_is_reached() -> None:
    events = log(SEQ_MAX - 2, 3)
    assert replay(events, SEQ_MAX - 1, 16) == events[2:]
    assert replay(events, SEQ_MAX, 16) == []


def test_the_result_is_a_new_list_of_plain_tuples() -> None:
    events = list(LOG)
    result = replay(events, 9, 16)
    assert type(result) is list
    assert result is not events
    assert all(type(event) is tuple for event in result)
    result.clear()
    assert events == LOG


@pytest.mark.parametrize("last", [8, 9, 12, 15, 16])
def test_the_input_is_not_changed(last) -> None:
    events = list(LOG)
    before = [id(event) for event in events]
    with contextlib.suppress(ResyncRequired, ValueError):
        replay(events, last, 2)
    assert events == LOG
    assert [id(event) for event in events] == before


# --- what is refused -----------------------------------------------------------------------------

NO_LIST = [tuple(LOG), iter(LOG), dict(LOG), set(LOG), None, "", b"", 0, LOG[0]]


@pytest.mark.parametrize("events", NO_LIST, ids=lambda value: type(value).__name__)
def test_anything_but_a_list_is_refused(events) -> None:
    assert refused(events)


def test_an_empty_log_is_refused() -> None:
    assert refused([])
    assert refused([], -1)


def test_a_log_of_129_events_is_refused() -> None:
    assert refused(log(0, 129), 5)


NO_EVENT = [[16, 1], (16,), (16, 1, 1), (), None, 16, "ab", b"ab", {16: 1, 17: 1}, range(16, 18)]


@pytest.mark.parametrize("entry", NO_EVENT, ids=repr)
@pytest.mark.parametrize("last", [8, 9, 12])
def test_an_entry_that_is_no_pair_is_refused(entry, last) -> None:
    assert refused([*LOG, entry], last)


@pytest.mark.parametrize("value", NOT_AN_INT, ids=repr)
def test_a_seq_that_is_no_int_is_refused(value) -> None:
    assert refused([(value, 1)], -1)
    assert refused([(0, 1), (value, 1)], -1)


@pytest.mark.parametrize("value", [*NOT_AN_INT, -1001, 1001, 10**40], ids=repr)
def test_a_delta_of_a_wrong_type_or_range_is_refused(value) -> None:
    assert refused([(0, value)], -1)
    assert refused([*log(0, 3), (3, value)], -1, 1)


def test_deltas_at_the_edges_are_taken() -> None:
    assert replay([(0, -1000), (1, 1000)], -1, 16) == [(0, -1000), (1, 1000)]


@pytest.mark.parametrize("seq", [-1, -(2**31), 10**40])
def test_a_seq_out_of_range_is_refused(seq) -> None:
    assert refused([(seq, 1)], -1)
    assert refused([(seq, 1), (seq + 1, 1)], 0)


def test_a_seq_beyond_the_range_at_the_end_is_refused() -> None:
    assert refused(log(SEQ_MAX, 2), SEQ_MAX)


BROKEN = {
    "a hole": [(10, 1), (12, 1)],
    "a late hole": [*LOG, (17, 1)],
    "twice the same": [(10, 1), (10, 1)],
    "late twice the same": [*LOG, (15, -1000)],
    "descending": [(11, 1), (10, 1)],
    "the whole log backwards": LOG[::-1],
    "two swapped": [LOG[0], LOG[2], LOG[1], *LOG[3:]],
    "starting anew": [*LOG, (10, 1)],
}


@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("last", [-1, 10, 12])
def test_seqs_that_are_not_consecutive_and_ascending_are_refused(events, last) -> None:
    assert refused(events, last, 1)


@pytest.mark.parametrize("last", [*NOT_AN_INT, -2, 2147483648, 10**40, -(10**40)], ids=repr)
def test_a_cursor_of_a_wrong_type_or_range_is_refused(last) -> None:
    assert refused(LOG, last)


@pytest.mark.parametrize("last", [16, 17, SEQ_MAX])
def test_a_cursor_beyond_the_final_seq_is_refused(last) -> None:
    assert refused(LOG, last)


@pytest.mark.parametrize("limit", [*NOT_AN_INT, 0, -1, 17, 10**40], ids=repr)
def test_a_limit_of_a_wrong_type_or_range_is_refused(limit) -> None:
    assert refused(LOG, 9, limit)


# --- everything is checked before anything is decided --------------------------------------------

TOO_OLD = 3


@pytest.mark.parametrize("limit", [0, 17, True, None])
def test_a_bad_limit_comes_before_a_resync(limit) -> None:
    assert refused(LOG, TOO_OLD, limit)


@pytest.mark.parametrize("entry", [(17, 1), (16, 1001), (16, True), (True, 1), [16, 1], None])
def test_a_bad_last_entry_comes_before_a_resync(entry) -> None:
    assert refused([*LOG, entry], TOO_OLD, 1)


@pytest.mark.parametrize("entry", [(17, 1), (16, 1001), (16, True), (True, 1), [16, 1], None])
def test_a_bad_entry_beyond_the_limit_is_seen(entry) -> None:
    assert refused([*LOG, entry], 9, 1)


def test_a_bad_entry_before_the_cursor_is_seen() -> None:
    assert refused([(10, 1001), *LOG[1:]], 14)


def test_a_bad_entry_is_seen_though_nothing_would_be_given() -> None:
    assert refused([(10, True), *LOG[1:]], 15)


def test_a_log_that_is_too_long_comes_before_a_resync() -> None:
    assert refused(log(10, 129), TOO_OLD)


# --- against the definition ----------------------------------------------------------------------


def test_random_calls_agree_with_the_definition() -> None:
    rng = random.Random(7)
    for _ in range(5000):
        first, size = rng.randrange(30), rng.randrange(1, 40)
        events = [(seq, rng.randrange(-1000, 1001)) for seq in range(first, first + size)]
        last, limit = rng.randrange(-1, first + size + 3), rng.randrange(1, 17)
        if last > events[-1][0]:
            assert refused(events, last, limit)
        elif last < first - 1:
            with pytest.raises(ResyncRequired):
                replay(events, last, limit)
        else:
            expected = [event for event in events if event[0] > last][:limit]
            assert replay(events, last, limit) == expected


def test_an_error_says_what_was_wrong() -> None:
    log = [(10, 1), (11, 2)]
    with pytest.raises(ResyncRequired) as lacking:
        replay(log, 8, 1)
    assert (lacking.value.last, lacking.value.first) == (8, 10)
    for arguments, words in (
        ((log, -2, 1), "last .* not -2"),
        ((log, 9, 17), "limit .* not 17"),
        ((log, 12, 1), "cursor 12 .* end at 11"),
        (((), 9, 1), "events .* list of 1 to 128"),
        (([[10, 1]], 9, 1), r"tuple .* not \[10, 1\]"),
        (([(10, 1), (12, 1)], 9, 1), "consecutive, but 12 follows 10"),
    ):
        with pytest.raises(ValueError, match=words):
            replay(*arguments)
