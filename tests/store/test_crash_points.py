"""Whatever fails, wherever: the store is in the state before or after, never between, and goes on from there."""

import pytest

from consumer.core.errors import HandlerFailed
from consumer.core.outcome import Outcome
from consumer.core.points import Point
from consumer.store.transaction import Store

from .helpers import POINTS, at, holding, record, run_worker, stored, stream

EVENTS = stream(1200)
HALF = 600


class PowerCut(BaseException):
    """What nobody catches."""


@pytest.mark.parametrize("error", [OSError("gone"), PowerCut()], ids=repr)
@pytest.mark.parametrize(
    ("point", "handler"),
    [(point, handler) for point in POINTS for handler in (None, record) if handler or not point.endswith("_handler")],
)
def test_an_error_at_any_point_leaves_the_state_before_or_after(store, url, point, error, handler) -> None:
    store.apply(EVENTS[:HALF], handler)

    def fail() -> None:
        raise error

    with at(point, fail), pytest.raises(type(error)) as raised:
        store.apply(EVENTS[HALF:], handler)
    assert raised.value is error
    is_committed = point is Point.AFTER_COMMIT
    assert stored(url) == holding(EVENTS if is_committed else EVENTS[:HALF], handled=handler is not None)
    # The events come again, decided anew from what is in the database.
    assert store.apply(EVENTS[HALF:], handler) == Outcome(HALF, 0 if is_committed else HALF, len(EVENTS) - 1, None)
    assert stored(url) == holding(EVENTS, handled=handler is not None)


def test_a_batch_passes_all_points_in_their_order_and_duplicates_pass_none(store) -> None:
    with at(Point.AFTER_COMMIT, lambda: None) as reached:
        store.apply(EVENTS, record)
        assert reached == POINTS
        store.apply(EVENTS, record)
        assert reached == POINTS
        store.apply(stream(1, len(EVENTS)))
    assert reached[len(POINTS) :] == [point for point in POINTS if not point.endswith("_handler")]


def test_a_point_at_which_nothing_happens_costs_nothing_but_its_call(store, url) -> None:
    """Another error than the handler's: it is not taken for one, and nothing is cut in halves."""
    with at(Point.BEFORE_HANDLER, lambda: 1 / 0) as reached, pytest.raises(ZeroDivisionError):
        store.apply(EVENTS, record)
    assert reached.count(Point.AFTER_LEDGER) == 1
    assert not isinstance(store.apply(EVENTS, record).error, HandlerFailed)
    assert stored(url) == holding(EVENTS, handled=True)


@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_at_any_point_leaves_the_state_before_or_after_and_the_next_one_ends_it(
    url, point, patience_s
) -> None:
    count, batch = 50, 20
    events = stream(count)
    code, acked = run_worker(patience_s, url, count, batch, point, 2)  # dies in its second batch
    assert code != 0
    assert acked == [19]  # what was acknowledged is there, and no more was acknowledged
    reached = 40 if point is Point.AFTER_COMMIT else 20
    assert stored(url) == holding(events[:reached], handled=True)

    with Store(url) as store:
        assert store.resume() == reached - 1
        assert store.apply(events, record) == Outcome(count, count - reached, count - 1, None)
    assert stored(url) == holding(events, handled=True)
