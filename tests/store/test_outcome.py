"""What `apply` says of a batch, and that everything it says is in the database at that moment."""

import pytest

from consumer import Conflict, Gap
from consumer.core.errors import NotReady
from consumer.core.events import Events
from consumer.core.outcome import Outcome, State
from consumer.core.points import Point
from consumer.store.transaction import Store

from .helpers import SEQ_MAX, at, execute, holding, record, rows, stored, stream

GOOD = stream(7)

WRONG = {
    "gap": ((9, 1), Gap(7, 9)),
    "conflict with the ledger": ((1, 999), Conflict(1, GOOD[1][1], 999)),
    "conflict inside the batch": ((6, 999), Conflict(6, GOOD[6][1], 999)),
    "seq out of range": ((SEQ_MAX + 1, 1), ValueError(f"seq must be an int from 0 to {SEQ_MAX}, not {SEQ_MAX + 1}")),
    "delta out of range": ((7, 1001), ValueError("delta must be an int from -1000 to 1000, not 1001")),
    "a bool": ((7, True), ValueError("delta must be an int from -1000 to 1000, not True")),
    "text": (("7", 1), ValueError(f"seq must be an int from 0 to {SEQ_MAX}, not '7'")),
}


@pytest.mark.parametrize("handler", [None, record], ids=["no handler", "handler"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_precedes_a_wrong_event_is_committed_and_may_be_acknowledged(store, url, wrong, handler) -> None:
    store.apply(GOOD[:3], handler)
    event, error = WRONG[wrong]
    outcome = store.apply([GOOD[2], *GOOD[3:], event, *stream(3, 7)], handler)
    assert (outcome.acked, outcome.new, outcome.last, outcome.total) == (5, 4, 6, sum(delta for _, delta in GOOD))
    assert (type(outcome.error), outcome.error.args) == (type(error), error.args)
    assert stored(url) == holding(GOOD, handled=handler is not None)


@pytest.mark.parametrize("wrong", ["gap", "delta out of range", "conflict with the ledger"])
def test_a_wrong_event_in_front_changes_nothing(store, url, wrong) -> None:
    store.apply(GOOD, record)
    event, error = WRONG[wrong]
    outcome = store.apply([event, *stream(3, 7)], record)
    assert outcome == Outcome(0, 0, 6, outcome.error)
    assert (type(outcome.error), outcome.error.args) == (type(error), error.args)
    assert stored(url) == holding(GOOD, handled=True)


def test_an_event_below_the_cursor_that_the_ledger_does_not_hold_is_a_conflict(store, url) -> None:
    store.apply(GOOD)
    execute(url, "DELETE FROM ledger WHERE seq = 2")
    outcome = store.apply([GOOD[1], GOOD[2], GOOD[3]])
    assert (outcome.acked, outcome.new, outcome.last) == (1, 0, 6)
    assert isinstance(outcome.error, Conflict)
    assert (outcome.error.seq, outcome.error.recorded, outcome.error.received) == (2, None, GOOD[2][1])


def test_an_empty_batch_is_nothing(store, url) -> None:
    store.apply(GOOD, record)
    assert store.apply([], record) == Outcome(0, 0, 6, None)
    assert store.apply(Events([])) == Outcome(0, 0, 6, None)
    assert stored(url) == holding(GOOD, handled=True)


def test_duplicates_are_acknowledged_and_not_handled_again(store, url) -> None:
    handled: list[list[tuple[int, int]]] = []

    def note(connection, events) -> None:
        handled.append(events)
        record(connection, events)

    assert store.apply([*GOOD[:3], *GOOD[:3]], note) == Outcome(6, 3, 2, None)
    assert store.apply(GOOD[:3], note) == Outcome(3, 0, 2, None)
    assert store.apply([*GOOD[1:5], GOOD[0], GOOD[4]], note) == Outcome(6, 2, 4, None)
    assert handled == [GOOD[:3], GOOD[3:5]]
    assert stored(url) == holding(GOOD[:5], handled=True)


def test_the_handler_gets_a_plain_list_of_plain_tuples(store) -> None:
    given: list[object] = []
    store.apply(Events.of(GOOD), lambda _connection, events: given.append(events))
    assert given == [GOOD]
    assert type(given[0]) is list
    assert {type(event) for event in given[0]} == {tuple}


def test_the_range_of_numbers_has_an_end(store, url) -> None:
    execute(url, f"UPDATE checkpoint SET last = {SEQ_MAX - 2}, total = 5000000000")
    outcome = store.apply([(SEQ_MAX - 1, 1000), (SEQ_MAX, 1000), (SEQ_MAX + 1, 1)], record)
    assert (outcome.acked, outcome.new, outcome.last, outcome.total) == (2, 2, SEQ_MAX, 5000002000)
    assert isinstance(outcome.error, ValueError)
    assert store.apply([(SEQ_MAX, 1000), (SEQ_MAX - 1, 1000)], record) == Outcome(2, 0, SEQ_MAX, None)
    assert store.resume() == SEQ_MAX
    assert store.state() == State(SEQ_MAX, 5000002000)
    assert rows(url, "SELECT seq, delta FROM seen ORDER BY seq") == [(SEQ_MAX - 1, 1000), (SEQ_MAX, 1000)]


@pytest.mark.parametrize("size", [1, 2, 49, 50, 51, 499, 500, 501, 551, 999, 1000, 1001, 8192, 20000])
def test_a_batch_of_any_size_is_applied_whole(store, url, size) -> None:
    events = stream(size)
    assert store.apply(events) == Outcome(size, size, size - 1, None)
    more = stream(size, size)
    assert store.apply(Events.of([*events, *more])) == Outcome(2 * size, size, 2 * size - 1, None)
    assert stored(url) == holding([*events, *more])


def test_it_raises_where_nothing_of_the_batch_is_committed(store, url) -> None:
    with at(Point.AFTER_CURSOR, lambda: 1 / 0), pytest.raises(ZeroDivisionError):
        store.apply(GOOD)
    assert stored(url) == holding([])


def test_it_does_not_raise_where_something_of_the_batch_is_committed(store, url) -> None:
    """A batch that was cut because of its handler, and then the database fails."""

    def choosy(connection, events) -> None:
        record(connection, events)
        if len(events) > 2:
            raise ValueError("too much")

    fail = OSError("the disk is gone")

    def break_down() -> None:
        raise fail

    with at(Point.AFTER_LEDGER, break_down, after=3):  # 7, 3, 1, and then the next one
        outcome = store.apply(GOOD, choosy)
    assert outcome == Outcome(1, 1, 0, fail)
    assert stored(url) == holding(GOOD[:1], handled=True)
    assert store.apply(GOOD, choosy) == Outcome(7, 6, 6, None)
    assert stored(url) == holding(GOOD, handled=True)


def test_a_programming_error_of_the_caller_leaves_the_store_usable(store, url) -> None:
    for nonsense in ([1], [(1, 2, 3)], [None]):
        with pytest.raises((TypeError, ValueError)):
            store.apply(nonsense)  # type: ignore[list-item]
    assert store.apply(GOOD) == Outcome(7, 7, 6, None)


def test_the_callers_events_are_left_as_they_are(store) -> None:
    events = [*GOOD, (20, 1)]
    store.apply(events, lambda _connection, given: given.clear())
    assert events == [*GOOD, (20, 1)]


def test_a_store_goes_on_after_it_was_closed(store, url) -> None:
    store.apply(GOOD[:3])
    store.close()
    assert store.apply(GOOD) == Outcome(7, 4, 6, None)
    assert store.state() == State(6, stored(url).total)


# --- no store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["state", "resume"])
def test_a_database_without_a_store_is_not_ready(tmp_path, make_postgres, call) -> None:
    for url in (f"sqlite:///{tmp_path / 'empty.db'}", make_postgres()):
        with Store(url) as store, pytest.raises(NotReady, match="consumer upgrade"):
            getattr(store, call)()


@pytest.mark.parametrize("call", ["state", "resume"])
@pytest.mark.parametrize(
    "change",
    ["UPDATE consumer_alembic_version SET version_num = '0000'", "DELETE FROM consumer_alembic_version"],
    ids=["another revision", "no revision"],
)
def test_a_store_at_another_revision_is_not_ready(url, call, change) -> None:
    [[revision]] = rows(url, "SELECT version_num FROM consumer_alembic_version")
    execute(url, change)
    try:
        with Store(url) as store, pytest.raises(NotReady, match=rf"needs {revision}.*consumer upgrade"):
            getattr(store, call)()
    finally:
        execute(
            url, "DELETE FROM consumer_alembic_version", f"INSERT INTO consumer_alembic_version VALUES ('{revision}')"
        )


@pytest.mark.parametrize("call", [Store.state, Store.resume, lambda store: store.apply(GOOD)])
def test_a_checkpoint_without_its_row_is_not_ready(url, call) -> None:
    execute(url, "DELETE FROM checkpoint")
    try:
        with Store(url) as store, pytest.raises(NotReady, match="consumer upgrade"):
            call(store)
    finally:
        execute(url, "INSERT INTO checkpoint (id, last, total) VALUES (1, -1, 0)")
