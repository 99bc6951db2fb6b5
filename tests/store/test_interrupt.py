"""`interrupt` ends a database call that runs in another thread, whatever it is waiting for."""

import threading
import time

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from consumer.core.errors import StoppedByForce
from consumer.core.outcome import Outcome
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store

from .helpers import Running, holding, is_sqlite, on_connect, record, rows, stored, stream, waiting_for

EVENTS = stream(5)

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT began() UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def began(url, patience_s):
    """A handler with a statement that does not end, and a way to wait until it runs."""
    runs = threading.Event()

    def handler(connection, events) -> None:
        record(connection, events)
        if is_sqlite(url):
            connection.connection.driver_connection.create_function("began", 0, lambda: runs.set() or 0)
            connection.exec_driver_sql(ENDLESS)
        else:
            connection.execute(text("SELECT pg_sleep(100000)"))

    def wait() -> None:
        if is_sqlite(url):
            assert runs.wait(patience_s)
            return
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        for _ in waiting_for(patience_s):
            if rows(url, query):
                return

    return handler, wait


def test_a_statement_inside_a_handler_is_interrupted_and_resume_makes_the_store_usable_again(
    store, url, began, patience_s
) -> None:
    handler, wait = began
    running = Running(lambda: store.apply(EVENTS, handler))
    wait()
    store.interrupt()
    running.ended(patience_s)
    assert isinstance(running.error, StoppedByForce)
    assert patience(running.error) is Patience.NEVER
    assert stored(url) == holding([])

    with pytest.raises(StoppedByForce):  # until somebody says that it may go on
        store.apply(EVENTS, record)
    assert store.resume() == -1
    assert store.apply(EVENTS, record) == Outcome(5, 5, 4, None)
    assert stored(url) == holding(EVENTS, handled=True)


def test_a_handler_that_passes_over_the_interruption_loses_nothing(store, url, began, patience_s) -> None:
    handler, wait = began

    def stubborn(connection, events) -> None:
        try:
            handler(connection, events)
        except Exception:  # noqa: BLE001 - what it must not do
            return

    running = Running(lambda: store.apply(EVENTS, stubborn))
    wait()
    store.interrupt()
    running.ended(patience_s)
    if is_sqlite(url):  # an interrupted SELECT leaves the transaction whole
        assert running.result == Outcome(5, 5, 4, None)
    else:
        assert isinstance(running.error, StoppedByForce)
    store.resume()
    store.apply(EVENTS, record)
    assert [seq for seq, _ in stored(url).seen] == [0, 1, 2, 3, 4]


def test_what_was_committed_before_the_interruption_is_said(store, url, began, patience_s) -> None:
    handler, wait = began

    def choosy(connection, events) -> None:
        if len(events) > 2:
            raise ValueError("too much")
        (record if events == EVENTS[:2] else handler)(connection, events)

    running = Running(lambda: store.apply(EVENTS, choosy))
    wait()
    store.interrupt()
    running.ended(patience_s)
    assert running.result == Outcome(2, 2, 1, running.result.error)
    assert isinstance(running.result.error, StoppedByForce)
    assert stored(url) == holding(EVENTS[:2], handled=True)


def test_waiting_for_another_consumers_lock_is_interrupted(url, patience_s, monkeypatch) -> None:
    monkeypatch.setattr("consumer.store.databases.sqlite.BUSY_TIMEOUT_MS", 20)
    with Store(url) as store, Store(url) as other:
        store.resume()
        held = other._begin()
        other._pair_of(held).lock(other._database.own_cursor(held.connection.driver_connection))
        waits = threading.Event()
        monkeypatch.setattr(store, "_begin", lambda begin=store._begin: waits.set() or begin())
        running = Running(lambda: store.apply(EVENTS, record))
        assert waits.wait(patience_s)
        if not is_sqlite(url):
            for _ in waiting_for(patience_s):
                if rows(url, "SELECT 1 FROM pg_locks WHERE NOT granted"):
                    break
        store.interrupt()
        running.ended(patience_s)
        assert isinstance(running.error, StoppedByForce)
        held.rollback()
        assert store.resume() == -1
        assert store.apply(EVENTS, record) == Outcome(5, 5, 4, None)


def test_an_interruption_between_the_tries_of_a_handler_ends_them(store, url) -> None:
    calls: list[object] = []

    def handler(connection, events) -> None:
        calls.append(events)
        if len(calls) == 2:
            store.interrupt()
        raise ValueError("no")

    with pytest.raises(StoppedByForce):
        store.apply(EVENTS[:1], handler)
    assert len(calls) == 2


def test_an_interruption_of_nothing_is_none(url) -> None:
    store = Store(url)
    store.interrupt()
    with pytest.raises(StoppedByForce):
        store.apply(EVENTS)
    store.resume()
    store.apply(EVENTS)
    store.interrupt()  # a connection that does nothing
    store.resume()
    assert store.apply(EVENTS) == Outcome(5, 0, 4, None)
    connection = store._connection
    connection.connection.driver_connection.close()
    store.interrupt()  # one that is closed already
    connection.invalidate()
    store.interrupt()
    store.close()
    store.interrupt()
    assert store.resume() == 4
    store.close()


def test_another_thread_may_interrupt_at_any_moment(url, patience_s) -> None:
    """Nothing but StoppedByForce comes of it, and what was said to be applied is there."""
    events = stream(300)
    with Store(url) as store:
        done = threading.Event()
        applied: list[int] = []

        def consume() -> None:
            last = None
            while last is None or last < len(events) - 1:
                try:
                    if last is None:
                        last = store.resume()
                    outcome = store.apply(events[last + 1 : last + 21], record)
                    if outcome.error is not None:
                        raise outcome.error
                    applied.append(outcome.last)
                    last = outcome.last
                except StoppedByForce:
                    last = None
            done.set()

        running = Running(consume)
        for _ in range(40):
            store.interrupt()
            if done.wait(0.003):
                break
        running.ended(patience_s)
    assert running.error is None
    assert applied == sorted(applied)
    assert stored(url) == holding(events, handled=True)


def test_a_statement_that_is_cancelled_by_somebody_else_passes(postgres_url) -> None:
    """Nobody can tell an administrator from a `statement_timeout` that the handler has set."""
    with Store(postgres_url) as store:

        def handler(connection, events) -> None:
            connection.execute(text("SET LOCAL statement_timeout = '20ms'"))
            connection.execute(text("SELECT pg_sleep(100000)"))

        with pytest.raises(DBAPIError) as raised:
            store.apply(EVENTS[:1], handler)
        assert patience(raised.value) is Patience.FOREVER
    assert stored(postgres_url) == holding([])


def test_a_timeout_of_the_role_does_not_end_a_slow_handler(postgres_url) -> None:
    timeouts = ("statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout")

    def handler(connection, events) -> None:
        record(connection, events)
        connection.execute(text("SELECT pg_sleep(0.6)"))
        time.sleep(0.6)  # idle in the transaction

    with Store(postgres_url) as store:
        on_connect(store, *(f"SET {name} = '500ms'" for name in timeouts))
        for part in (EVENTS[:2], EVENTS[2:]):
            assert store.apply(part, handler).error is None
    assert stored(postgres_url) == holding(EVENTS, handled=True)
