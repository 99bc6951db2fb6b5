"""Handlers, good and bad: nothing lost, nothing acknowledged that is not there, and the store goes on afterwards."""

import asyncio
import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from consumer.core.errors import HandlerFailed, Retry
from consumer.core.outcome import Outcome
from consumer.core.points import Point
from consumer.store.handlers import Handler, check_handler
from consumer.store.transaction import Store

from .helpers import Stored, at, execute, holding, is_sqlite, on_connect, record, rows, seen, stored, stream

EVENTS = stream(5)

Misdeed = Callable[[Connection], object]


def misbehaving(misdeed: Misdeed, *, swallow: bool = False) -> Handler:
    """A handler that does its work, then what it must not; `swallow`: and goes on as if nothing had happened."""

    def handler(connection: Connection, events: list[tuple[int, int]]) -> None:
        record(connection, events)
        try:
            misdeed(connection)
        except Exception:
            if not swallow:
                raise

    return handler


def check_it_goes_on(store: Store, url: str) -> None:
    """With a good handler the store ends as if nothing had been."""
    outcome = store.apply(EVENTS, record)
    assert (outcome.acked, outcome.error) == (len(EVENTS), None)
    assert stored(url) == holding(EVENTS, handled=True)


# --- what ends the transaction -------------------------------------------------------------------


def commit_session(connection: Connection) -> None:
    with Session(connection, join_transaction_mode="control_fully") as session:
        session.execute(select(1))
        session.commit()


def close_root(connection: Connection) -> None:
    transaction = connection.get_transaction()
    assert transaction is not None
    transaction.close()


def roll_back_savepoint(connection: Connection) -> None:
    savepoint = connection.get_nested_transaction()
    assert savepoint is not None
    savepoint.rollback()


ENDS: dict[str, Misdeed] = {
    "commit": Connection.commit,
    "rollback": Connection.rollback,
    "close": Connection.close,
    "invalidate": Connection.invalidate,
    "detach": Connection.detach,
    "Session.commit in full control": commit_session,
    "the transaction's close": close_root,
    "the savepoint's rollback": roll_back_savepoint,
    "RELEASE of the store's savepoint": lambda connection: connection.exec_driver_sql(
        f"RELEASE SAVEPOINT {connection.get_nested_transaction()._savepoint}"
    ),
    "a savepoint left open": Connection.begin_nested,
}

SQLITE_ENDS: dict[str, Misdeed] = {
    "INSERT OR ROLLBACK": lambda connection: connection.exec_driver_sql(
        "INSERT OR ROLLBACK INTO seen VALUES (0, 0), (0, 0)"
    ),
    "a trigger's RAISE(ROLLBACK)": lambda connection: connection.exec_driver_sql("INSERT INTO guarded VALUES (1)"),
    "the driver's close": lambda connection: connection.connection.driver_connection.close(),
}

POSTGRES_ENDS: dict[str, Misdeed] = {
    "raw ROLLBACK": lambda connection: connection.exec_driver_sql("ROLLBACK"),
    "raw ROLLBACK AND CHAIN": lambda connection: connection.exec_driver_sql("ROLLBACK AND CHAIN"),
    "the driver's rollback": lambda connection: connection.connection.driver_connection.rollback(),
    "an error outside a savepoint": lambda connection: connection.exec_driver_sql("SELECT 1 / 0"),
}

POSTGRES_COMMITS: dict[str, Misdeed] = {
    "raw COMMIT": lambda connection: connection.exec_driver_sql("COMMIT"),
    "raw COMMIT AND CHAIN": lambda connection: connection.exec_driver_sql("COMMIT AND CHAIN"),
    "raw COMMIT and BEGIN": lambda connection: connection.exec_driver_sql("COMMIT; BEGIN"),
    "the driver's commit": lambda connection: connection.connection.driver_connection.commit(),
}

SQLITE_REFUSED: dict[str, Misdeed] = {
    "raw COMMIT": POSTGRES_COMMITS["raw COMMIT"],
    "raw END": lambda connection: connection.exec_driver_sql("END"),
    "raw ROLLBACK": POSTGRES_ENDS["raw ROLLBACK"],
    "raw BEGIN": lambda connection: connection.exec_driver_sql("BEGIN"),
    "the driver's commit": POSTGRES_COMMITS["the driver's commit"],
    "the driver's rollback": POSTGRES_ENDS["the driver's rollback"],
    "executescript": lambda connection: connection.connection.driver_connection.executescript("SELECT 1"),
}


def check_it_fails_whole(store: Store, url: str, handler: Handler) -> None:
    outcome = store.apply(EVENTS, handler)
    assert outcome == Outcome(0, 0, -1, outcome.error)
    assert isinstance(outcome.error, HandlerFailed)
    assert outcome.error.seq == 0
    assert stored(url) == holding([])


@pytest.mark.parametrize("swallow", [False, True], ids=["", "swallowed"])
@pytest.mark.parametrize("misdeed", ENDS)
def test_a_handler_that_ends_the_transaction_fails(store, url, misdeed, swallow) -> None:
    check_it_fails_whole(store, url, misbehaving(ENDS[misdeed], swallow=swallow))
    check_it_goes_on(store, url)


@pytest.mark.parametrize("swallow", [False, True], ids=["", "swallowed"])
@pytest.mark.parametrize("misdeed", SQLITE_ENDS)
def test_a_rollback_hidden_in_a_statement_of_sqlite_is_found(sqlite_url, misdeed, swallow) -> None:
    execute(
        sqlite_url,
        "CREATE TABLE guarded(a)",
        "CREATE TRIGGER guard BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    )
    with Store(sqlite_url) as store:
        check_it_fails_whole(store, sqlite_url, misbehaving(SQLITE_ENDS[misdeed], swallow=swallow))
        check_it_goes_on(store, sqlite_url)


@pytest.mark.parametrize("swallow", [False, True], ids=["", "swallowed"])
@pytest.mark.parametrize("misdeed", POSTGRES_ENDS)
def test_a_rollback_sent_to_postgresql_is_found(postgres_url, misdeed, swallow) -> None:
    with Store(postgres_url) as store:
        check_it_fails_whole(store, postgres_url, misbehaving(POSTGRES_ENDS[misdeed], swallow=swallow))
        check_it_goes_on(store, postgres_url)


@pytest.mark.parametrize("misdeed", SQLITE_REFUSED)
def test_sqlite_refuses_statements_that_end_the_transaction(sqlite_url, misdeed) -> None:
    with Store(sqlite_url) as store:
        check_it_fails_whole(store, sqlite_url, misbehaving(SQLITE_REFUSED[misdeed]))
        # Swallowed it does no harm: the statement was never carried out.
        outcome = store.apply(EVENTS, misbehaving(SQLITE_REFUSED[misdeed], swallow=True))
        assert outcome == Outcome(5, 5, 4, None)
        check_it_goes_on(store, sqlite_url)


@pytest.mark.parametrize("then", [None, ValueError("then"), Retry("then"), ConnectionError("then")], ids=repr)
@pytest.mark.parametrize("misdeed", POSTGRES_COMMITS)
def test_a_commit_sent_to_postgresql_is_found_and_not_tried_again(postgres_url, misdeed, then) -> None:
    calls: list[object] = []

    def handler(connection, events) -> None:
        calls.append(events)
        record(connection, events)
        POSTGRES_COMMITS[misdeed](connection)
        if then is not None:
            raise then

    with Store(postgres_url) as store:
        outcome = store.apply(EVENTS, handler)
        assert outcome == Outcome(0, 0, -1, outcome.error)
        assert isinstance(outcome.error, HandlerFailed)
        assert calls == [EVENTS]  # what it has done cannot be undone, and trying again would hide that
        assert stored(postgres_url) == holding(EVENTS, handled=True)
        check_it_goes_on(store, postgres_url)


def test_a_commit_sent_to_postgresql_with_a_single_event_is_not_tried_again_either(postgres_url) -> None:
    """Tried again it would be a duplicate, and the failure would be gone."""
    with Store(postgres_url) as store:
        outcome = store.apply(EVENTS[:1], misbehaving(POSTGRES_COMMITS["raw COMMIT"]))
    assert outcome == Outcome(0, 0, -1, outcome.error)
    assert isinstance(outcome.error, HandlerFailed)
    assert stored(postgres_url) == holding(EVENTS[:1], handled=True)


def test_where_nobody_can_say_whether_a_handler_has_committed_it_is_taken_to_have(store, url, monkeypatch) -> None:
    calls: list[int] = []

    def handler(connection, events) -> None:
        calls.append(len(events))
        if len(events) > 3:
            raise ValueError("too much")
        record(connection, events)
        if len(calls) > 2:
            connection.invalidate()

    def unreachable() -> None:
        raise OSError("the database is gone")

    monkeypatch.setattr(store, "state", unreachable)
    outcome = store.apply(EVENTS, handler)
    assert (outcome.acked, outcome.new, type(outcome.error)) == (2, 2, HandlerFailed)  # what was committed is said
    assert calls == [5, 2, 3]  # not cut any smaller
    monkeypatch.undo()
    check_it_goes_on(store, url)


def test_a_batch_whose_handler_ended_the_transaction_is_not_cut_since_nobody_knows_what_stays(store, url) -> None:
    """On SQLite what comes after a swallowed INSERT OR ROLLBACK commits by itself: to try again would double it."""
    calls = []

    def handler(connection, events) -> None:
        calls.append(events)
        if is_sqlite(url):
            record(connection, events[:1])
            with suppress(DBAPIError):
                connection.exec_driver_sql("INSERT OR ROLLBACK INTO seen VALUES (?, ?)", events[0])
        else:
            connection.rollback()

    outcome = store.apply(EVENTS, handler)
    assert (outcome.acked, outcome.new, outcome.last) == (0, 0, -1)
    assert isinstance(outcome.error, HandlerFailed)
    assert len(calls) == 1
    check_it_goes_on(store, url)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_what_a_handler_sets_for_the_session_is_set_back_before_the_commit(store) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        connection.exec_driver_sql("RESET ALL")
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS app")
        connection.exec_driver_sql("SET search_path TO app")

    seen = []

    def look(connection, events) -> None:
        seen.extend(connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in ("lock_timeout", "search_path"))

    assert store.apply(EVENTS[:1], handler).error is None
    assert store.apply(EVENTS[1:2], look).error is None
    assert seen == ["30s", '"$user", public']


def test_an_interrupt_raised_in_a_worker_thread_is_the_handlers_own_failure(store, url) -> None:
    def handler(connection, events) -> None:
        raise KeyboardInterrupt

    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(store.apply(EVENTS[:1], handler)))
    thread.start()
    thread.join()
    assert isinstance(outcomes[0].error, HandlerFailed)


def test_a_handler_that_cannot_take_two_arguments_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="handler\\(connection, events\\)"):
        check_handler(lambda connection: None)


# --- what it gives back and raises ---------------------------------------------------------------


async def coroutine_function(connection, events) -> None:
    """What a user of asyncio writes first."""


class AsynchronousCall:
    async def __call__(self, connection, events) -> None:
        """The same as an object."""


class AsynchronousMethod:
    async def handle(self, connection, events) -> None:
        """The same as a method."""


@pytest.mark.parametrize(
    "handler",
    [
        coroutine_function,
        functools.partial(coroutine_function),
        functools.partial(functools.partial(coroutine_function)),
        AsynchronousCall(),
        AsynchronousMethod().handle,
        functools.partial(AsynchronousMethod().handle),
        None,
        "pkg.mod:func",
        3,
    ],
    ids=lambda handler: type(handler).__name__,
)
def test_what_cannot_be_a_handler_is_refused_before_anything_happens(store, url, handler) -> None:
    with pytest.raises(TypeError, match="plain function"):
        check_handler(handler)
    if handler is not None:
        with pytest.raises(TypeError, match="plain function"):
            store.apply(EVENTS, handler)
    assert stored(url) == holding([])


def generator(connection, events) -> Any:
    record(connection, events)
    yield


async def asynchronous_generator(connection, events) -> Any:
    record(connection, events)
    yield


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (lambda connection, events: coroutine_function(connection, events=events), "coroutine"),
        (functools.partial(AsynchronousCall()), "coroutine"),
        (generator, "generator"),
        (asynchronous_generator, "async_generator"),
        (lambda connection, events: record(connection, events) or 0, "int"),
        (lambda connection, events: record(connection, events) or False, "bool"),
        (lambda connection, events: record(connection, events) or events, "list"),
        (lambda connection, _: connection.execute(select(1)), "CursorResult"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_handler_that_returns_anything_has_failed(store, url, handler, kind) -> None:
    check_it_fails_whole(store, url, handler)
    assert kind in store.apply(EVENTS, handler).error.reason
    check_it_goes_on(store, url)


class Odd(BaseException):
    """What no `except Exception` stops."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("two\nlines"),
        StopIteration(3),
        StopAsyncIteration(),
        GeneratorExit(),
        SystemExit(0),
        asyncio.CancelledError("no"),
        Odd("odd"),
        AssertionError(),
    ],
    ids=repr,
)
def test_whatever_a_handler_raises_fails_it(store, url, error) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        raise error

    check_it_fails_whole(store, url, handler)
    failed = store.apply(EVENTS, handler).error
    assert failed.__cause__ is error
    assert type(error).__name__ in failed.reason
    assert "\n" not in str(failed)
    check_it_goes_on(store, url)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_even_be_shown_is_named(store, url) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        if events[-1][0] > 2:
            raise Unspeakable

    outcome = store.apply(EVENTS, handler)
    assert (outcome.acked, type(outcome.error)) == (3, HandlerFailed)
    assert "Unspeakable" in str(outcome.error)
    check_it_goes_on(store, url)


def test_an_interrupt_from_the_keyboard_passes_through_and_nothing_stays(store, url) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.apply(EVENTS, handler)
    assert stored(url) == holding([])
    check_it_goes_on(store, url)


@pytest.mark.parametrize(
    "error", [Retry("later"), ConnectionResetError("a service"), TimeoutError("a service")], ids=repr
)
def test_retry_means_the_whole_batch_later(store, url, error) -> None:
    calls: list[object] = []

    def handler(connection, events) -> None:
        calls.append(events)
        record(connection, events)
        raise error

    with pytest.raises(type(error)) as raised:
        store.apply(EVENTS, handler)
    assert raised.value is error
    assert calls == [EVENTS]  # neither cut nor tried again here
    assert stored(url) == holding([])
    check_it_goes_on(store, url)


def test_an_error_of_the_users_own_table_fails_the_handler(store, url) -> None:
    execute(url, f"INSERT INTO seen VALUES (3, {EVENTS[3][1]})")
    outcome = store.apply(EVENTS, record)
    assert (outcome.acked, outcome.last) == (3, 2)
    assert isinstance(outcome.error.__cause__, DBAPIError)
    execute(url, "DELETE FROM seen WHERE seq = 3")
    check_it_goes_on(store, url)


# --- what it may do ------------------------------------------------------------------------------


def test_a_handler_may_use_savepoints_of_its_own(store, url) -> None:
    def handler(connection, events) -> None:
        for seq, delta in events:
            with connection.begin_nested():
                connection.execute(insert(seen).values(seq=seq, delta=delta))
            try:
                with connection.begin_nested():
                    connection.execute(insert(seen).values(seq=seq, delta=0))
            except DBAPIError:
                pass
        connection.exec_driver_sql("SAVEPOINT left_open")

    assert store.apply(EVENTS, handler) == Outcome(5, 5, 4, None)
    check_it_goes_on(store, url)


@pytest.mark.parametrize("mode", ["conditional_savepoint", "rollback_only", "create_savepoint"])
def test_a_session_on_the_connection_may_commit_since_that_only_ends_its_savepoint(store, url, mode) -> None:
    def handler(connection, events) -> None:
        with Session(connection, join_transaction_mode=mode) as session:
            session.execute(insert(seen), [{"seq": seq, "delta": delta} for seq, delta in events])
            session.commit()

    with at(Point.BEFORE_COMMIT, lambda: looks.append(stored(url))):
        looks: list[Stored] = []
        assert store.apply(EVENTS, handler) == Outcome(5, 5, 4, None)
    assert looks == [holding([])]  # nobody else saw anything before the store's own commit
    check_it_goes_on(store, url)


def test_a_handler_sees_the_state_that_it_will_be_committed_with(store) -> None:
    looks: list[object] = []

    def handler(connection, events) -> None:
        looks.append(connection.execute(text("SELECT last, total FROM checkpoint")).one())
        looks.append(connection.execute(text("SELECT count(*) FROM ledger")).scalar_one())

    store.apply(EVENTS, handler)
    assert looks == [(4, sum(delta for _, delta in EVENTS)), 5]


def test_what_a_handler_does_to_its_list_is_its_own_affair(store, url) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        events[0] = (77, 77)
        events.reverse()
        events.clear()

    assert store.apply(EVENTS, handler) == Outcome(5, 5, 4, None)
    check_it_goes_on(store, url)


def test_a_handler_may_make_tables_and_temporary_ones(store, url) -> None:
    """A temporary table is one more entry in SQLite's list of databases."""

    def handler(connection, events) -> None:
        record(connection, events)
        connection.exec_driver_sql("CREATE TEMPORARY TABLE IF NOT EXISTS scratch(a INTEGER)")
        connection.exec_driver_sql("INSERT INTO scratch VALUES (1)")

    assert store.apply(EVENTS[:2], handler) == Outcome(2, 2, 1, None)
    with Store(url) as other:
        other.apply(EVENTS, record)
    assert store.apply(EVENTS, handler) == Outcome(5, 0, 4, None)
    check_it_goes_on(store, url)


def test_what_a_handler_leaves_unread_does_not_hold_the_store_up(store, url) -> None:
    results: list[object] = []

    def handler(connection, events) -> None:
        record(connection, events)
        results.append(connection.execute(select(seen)))

    assert store.apply(EVENTS[:2], handler) == Outcome(2, 2, 1, None)
    assert store.apply(EVENTS[:4], handler) == Outcome(4, 2, 3, None)
    results.clear()
    check_it_goes_on(store, url)


def test_a_handler_may_read_the_store_through_another_connection(store, url) -> None:
    looks: list[int] = []

    def handler(connection, events) -> None:
        record(connection, events)
        looks.append(store.state().last)

    assert store.apply(EVENTS, handler) == Outcome(5, 5, 4, None)
    assert looks == [-1]
    check_it_goes_on(store, url)


# --- what shows only at the commit ---------------------------------------------------------------


def test_a_deferred_foreign_key_that_is_violated_at_the_commit_fails_the_event(url) -> None:
    execute(
        url,
        "CREATE TABLE known(seq INTEGER PRIMARY KEY)",
        "CREATE TABLE refers(seq INTEGER REFERENCES known(seq) DEFERRABLE INITIALLY DEFERRED)",
        *(f"INSERT INTO known VALUES ({seq})" for seq, _ in EVENTS if seq != 3),
    )
    calls: list[int] = []

    def handler(connection, events) -> None:
        record(connection, events)
        for seq, _ in events:
            connection.execute(text("INSERT INTO refers VALUES (:seq)").bindparams(bindparam("seq", seq)))
        calls.append(len(events))

    with Store(url) as store:
        if is_sqlite(url):
            on_connect(store, "PRAGMA foreign_keys=ON")
        outcome = store.apply(EVENTS, handler)
        assert (outcome.acked, outcome.new, outcome.last) == (3, 3, 2)
        assert isinstance(outcome.error, HandlerFailed)
        assert outcome.error.seq == 3
        assert calls == [5, 2, 3, 1, 2, 1, 1, 1]  # halved, and the one tried three times
        assert stored(url) == holding(EVENTS[:3], handled=True)
        execute(url, "INSERT INTO known VALUES (3)")
        assert store.apply(EVENTS, handler) == Outcome(5, 2, 4, None)
        assert rows(url, "SELECT count(*) FROM refers") == [(5,)]
        check_it_goes_on(store, url)


def test_a_deferred_trigger_of_postgresql_that_raises_at_the_commit_fails_the_event(postgres_url) -> None:
    execute(
        postgres_url,
        "CREATE TABLE guarded(seq INTEGER)",
        "CREATE OR REPLACE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.seq = 3 THEN RAISE EXCEPTION 'not three'; END IF; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER guard AFTER INSERT ON guarded DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION guard()",
    )

    def handler(connection, events) -> None:
        record(connection, events)
        connection.execute(text("INSERT INTO guarded VALUES (:seq)"), [{"seq": seq} for seq, _ in events])

    with Store(postgres_url) as store:
        outcome = store.apply(EVENTS, handler)
        assert (outcome.acked, outcome.last) == (3, 2)
        assert isinstance(outcome.error, HandlerFailed)
        assert "not three" in outcome.error.reason
        check_it_goes_on(store, postgres_url)
