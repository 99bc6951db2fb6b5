"""A handler that fails: the bad event is found, what is good before it is committed, and it gets three tries."""

import math

import pytest

from consumer.core.errors import HandlerFailed
from consumer.core.outcome import Outcome
from consumer.store.retry import TRIES

from .helpers import holding, record, stored, stream


class Choosy:
    """A handler that fails on some events, for a number of times each."""

    def __init__(self, **bad: float) -> None:
        self.left = {int(name[1:]): times for name, times in bad.items()}
        self.calls: list[list[tuple[int, int]]] = []

    def __call__(self, connection, events) -> None:
        record(connection, events)
        self.calls.append(events)
        for seq, _ in events:
            if self.left.get(seq, 0) > 0:
                self.left[seq] -= 1
                raise ValueError(f"not {seq}")


@pytest.mark.parametrize(
    ("count", "bad"), [(1, 0), (2, 0), (2, 1), (5, 2), (100, 0), (100, 63), (100, 99), (1000, 777)]
)
def test_the_one_bad_event_is_found_and_those_before_it_are_committed(store, url, count, bad) -> None:
    events = stream(count)
    handler = Choosy(**{f"_{bad}": math.inf})
    outcome = store.apply(events, handler)
    assert (outcome.acked, outcome.new, outcome.last) == (bad, bad, bad - 1)
    assert isinstance(outcome.error, HandlerFailed)
    assert (outcome.error.seq, outcome.error.reason) == (bad, f"ValueError: not {bad}")
    assert isinstance(outcome.error.__cause__, ValueError)
    assert stored(url) == holding(events[:bad], handled=True)
    assert handler.calls.count([events[bad]]) == TRIES
    assert len(handler.calls) <= 2 * math.log2(count) + 1 + TRIES  # halving, not one by one

    assert store.apply(events[bad:], record) == Outcome(count - bad, count - bad, count - 1, None)
    assert stored(url) == holding(events, handled=True)


def test_of_two_bad_events_the_first_is_reported(store, url) -> None:
    events = stream(64)
    outcome = store.apply(events, Choosy(_20=math.inf, _40=math.inf))
    assert (outcome.acked, outcome.error.seq) == (20, 20)
    assert stored(url) == holding(events[:20], handled=True)


def test_a_batch_with_duplicates_in_it_is_cut_where_the_events_are(store, url) -> None:
    events = stream(12)
    store.apply(events[:4], record)
    batch = [*events[2:8], *events[:6], *events[8:]]
    outcome = store.apply(batch, Choosy(_9=math.inf))
    assert (outcome.acked, outcome.new, outcome.last) == (6 + 6 + 1, 5, 8)
    assert outcome.error.seq == 9
    assert stored(url) == holding(events[:9], handled=True)


@pytest.mark.parametrize("times", [1, 2, 3, 4, 6])
def test_a_handler_that_fails_only_sometimes_gets_through(store, url, times) -> None:
    events = stream(16)  # halved four times before the one stands alone, which is then tried three times
    handler = Choosy(_5=times)
    assert store.apply(events, handler) == Outcome(16, 16, 15, None)
    assert stored(url) == holding(events, handled=True)
    assert handler.left == {5: 0}


def test_what_comes_after_a_passing_failure_is_not_handled_one_by_one(store, url) -> None:
    events = stream(256)
    handler = Choosy(_0=9)  # stands alone in the end, and passes
    assert store.apply(events, handler) == Outcome(256, 256, 255, None)
    assert stored(url) == holding(events, handled=True)
    assert len(handler.calls) < 32


def test_an_event_that_is_wrong_behind_one_that_fails_stays_behind_it(store, url) -> None:
    events = stream(6)
    outcome = store.apply([*events, (99, 1)], Choosy(_4=math.inf))
    assert (outcome.acked, outcome.error.seq) == (4, 4)
    assert stored(url) == holding(events[:4], handled=True)
    outcome = store.apply([*events, (99, 1)], Choosy(_4=1))
    assert (outcome.acked, outcome.error.args) == (6, (6, 99))
    assert stored(url) == holding(events, handled=True)
