"""Failures of the database: the connection goes, nothing is acknowledged, and the events are decided anew."""

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError

from consumer.core.outcome import Outcome
from consumer.core.points import Point
from consumer.store.databases import postgresql
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store

from .helpers import (
    Running,
    Stored,
    at,
    connected,
    execute,
    holding,
    is_sqlite,
    on_connect,
    record,
    rows,
    sessions,
    stored,
    stream,
    waiting_for,
)

EVENTS = stream(5)


def check_it_goes_on(store: Store, url: str, *, new: int = len(EVENTS)) -> None:
    assert store.apply(EVENTS, record) == Outcome(len(EVENTS), new, 4, None)
    assert stored(url) == holding(EVENTS, handled=True)


def driver_error(url: str) -> Exception:
    return sqlite3.OperationalError("disk I/O error") if is_sqlite(url) else psycopg.OperationalError("gone")


# --- an unknown outcome: COMMIT fails ------------------------------------------------------------


@pytest.mark.parametrize("is_carried_out", [False, True], ids=["not carried out", "carried out"])
def test_after_an_error_of_commit_the_connection_goes_and_the_events_are_decided_anew(
    store, url, monkeypatch, is_carried_out
) -> None:
    dialect = store._engine.dialect
    real = dialect.do_commit

    def commit(connection: object) -> None:
        if is_carried_out:
            real(connection)
        raise driver_error(url)

    store.apply(EVENTS[:2], record)
    used = store._connection.connection.driver_connection
    with monkeypatch.context() as patch:
        patch.setattr(dialect, "do_commit", commit)
        with pytest.raises(OperationalError):
            store.apply(EVENTS, record)
    assert stored(url) == holding(EVENTS if is_carried_out else EVENTS[:2], handled=True)
    check_it_goes_on(store, url, new=0 if is_carried_out else 3)
    assert store._connection.connection.driver_connection is not used
    with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError), match="closed"):
        used.execute("SELECT 1")


def test_a_disk_that_is_full_at_the_commit_of_sqlite_passes(sqlite_url) -> None:
    log = Path(f"{make_url(sqlite_url).database}-wal")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store(sqlite_url) as store:
        store.apply(EVENTS[:2], record)
        end = log.stat().st_size
        with at(Point.BEFORE_COMMIT, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (end + 100, hard))):
            try:
                with pytest.raises(OperationalError) as raised:
                    store.apply(EVENTS, record)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert patience(raised.value) is Patience.FOREVER
        assert stored(sqlite_url) == holding(EVENTS[:2], handled=True)
        check_it_goes_on(store, sqlite_url, new=3)


def test_a_full_disk_passes(sqlite_url) -> None:
    many = stream(20000)
    with Store(sqlite_url) as store:
        store.apply(many[:2], record)
        store.close()
        on_connect(store, "PRAGMA max_page_count=1")  # SQLite takes as many pages as there are already
        with pytest.raises((DBAPIError, sqlite3.OperationalError), match="full") as raised:
            store.apply(many[2:], record)
        assert patience(raised.value) is Patience.FOREVER
        assert stored(sqlite_url) == holding(many[:2], handled=True)
    with Store(sqlite_url) as store:
        assert store.apply(many, record) == Outcome(20000, 19998, 19999, None)
        assert stored(sqlite_url) == holding(many, handled=True)


def test_a_disk_that_is_full_inside_a_handler_is_not_taken_for_the_handlers_failure(sqlite_url) -> None:
    calls: list[int] = []

    def handler(connection, events) -> None:
        calls.append(len(events))
        record(connection, events)
        connection.execute(text("INSERT INTO blobs VALUES (zeroblob(1000000))"))

    execute(sqlite_url, "CREATE TABLE blobs(a)")
    with Store(sqlite_url) as store:
        on_connect(store, "PRAGMA max_page_count=20")
        with pytest.raises(OperationalError, match="full") as raised:
            store.apply(EVENTS, handler)
        assert patience(raised.value) is Patience.FOREVER
        assert calls == [5]
        check_it_goes_on(store, sqlite_url)


# --- PostgreSQL goes away ------------------------------------------------------------------------


def terminate(url: str) -> Callable[[], None]:
    """End the store's sessions as an administrator would, or a server that stops."""

    def end() -> None:
        execute(
            url,
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'consumer'",
        )

    return end


@pytest.mark.parametrize("point", [Point.AFTER_LEDGER, Point.AFTER_CURSOR, Point.AFTER_HANDLER, Point.BEFORE_COMMIT])
def test_a_session_that_is_ended_in_mid_transaction_passes(postgres_url, point) -> None:
    with Store(postgres_url) as store:
        store.apply(EVENTS[:2], record)
        with (
            at(point, terminate(postgres_url)),
            pytest.raises((DBAPIError, psycopg.OperationalError)) as raised,
        ):
            store.apply(EVENTS, record)
        assert patience(raised.value) is Patience.FOREVER
        assert stored(postgres_url) == holding(EVENTS[:2], handled=True)
        check_it_goes_on(store, postgres_url, new=3)


def test_a_session_that_is_ended_inside_a_handler_passes(postgres_url) -> None:
    calls: list[int] = []

    def handler(connection, events) -> None:
        calls.append(len(events))
        record(connection, events)
        terminate(postgres_url)()
        connection.exec_driver_sql("SELECT 1")

    with Store(postgres_url) as store:
        with pytest.raises((DBAPIError, psycopg.OperationalError)) as raised:
            store.apply(EVENTS, handler)
        assert patience(raised.value) is Patience.FOREVER
        assert calls == [5]
        check_it_goes_on(store, postgres_url)


@contextmanager
def suppress_passing() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, psycopg.OperationalError) as error:
        if patience(error) is not Patience.FOREVER:
            raise


def test_a_session_that_is_ended_between_two_batches_passes(postgres_url) -> None:
    with Store(postgres_url) as store:
        store.apply(EVENTS[:2], record)
        store.state()
        terminate(postgres_url)()
        for call in (lambda: store.apply(EVENTS, record), store.resume):
            with suppress_passing():
                call()
            call()
        check_it_goes_on(store, postgres_url, new=0)


def test_a_deadlock_inside_a_handler_passes(postgres_url, patience_s) -> None:
    execute(
        postgres_url, "CREATE TABLE shelf(id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO shelf VALUES (1, 0), (2, 0)"
    )
    others: list[Running] = []

    def other() -> None:
        with connected(postgres_url) as connection:
            connection.exec_driver_sql("SET deadlock_timeout = '1h'")
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql("UPDATE shelf SET n = n + 1 WHERE id = 2")
            connection.exec_driver_sql("UPDATE shelf SET n = n + 1 WHERE id = 1")
            connection.exec_driver_sql("COMMIT")

    def handler(connection, events) -> None:
        record(connection, events)
        connection.exec_driver_sql("SET LOCAL deadlock_timeout = '10ms'")  # so that it is we who are found
        connection.exec_driver_sql("UPDATE shelf SET n = n + 1 WHERE id = 1")
        if not others:
            others.append(Running(other))
            for _ in waiting_for(patience_s):
                if rows(postgres_url, "SELECT 1 FROM pg_locks WHERE NOT granted"):
                    break
        connection.exec_driver_sql("UPDATE shelf SET n = n + 1 WHERE id = 2")

    with Store(postgres_url) as store:
        with pytest.raises(OperationalError) as raised:
            store.apply(EVENTS, handler)
        assert raised.value.orig.sqlstate == "40P01"
        assert patience(raised.value) is Patience.FOREVER
        others[0].ended(patience_s)
        assert store.apply(EVENTS, handler) == Outcome(5, 5, 4, None)
        assert rows(postgres_url, "SELECT n FROM shelf") == [(2,), (2,)]
        check_it_goes_on(store, postgres_url, new=0)


def test_a_lock_timeout_inside_a_handler_passes(postgres_url) -> None:
    execute(postgres_url, "CREATE TABLE shelf(id INTEGER PRIMARY KEY)", "INSERT INTO shelf VALUES (1)")

    def handler(connection, events) -> None:
        record(connection, events)
        connection.exec_driver_sql("SET LOCAL lock_timeout = '10ms'")
        connection.exec_driver_sql("SELECT * FROM shelf FOR UPDATE")

    with Store(postgres_url) as store, connected(postgres_url) as other:
        other.exec_driver_sql("BEGIN")
        other.exec_driver_sql("SELECT * FROM shelf FOR UPDATE")
        with pytest.raises(OperationalError) as raised:
            store.apply(EVENTS, handler)
        assert raised.value.orig.sqlstate == "55P03"
        assert patience(raised.value) is Patience.FOREVER
        other.exec_driver_sql("ROLLBACK")
        assert store.apply(EVENTS, handler) == Outcome(5, 5, 4, None)
        check_it_goes_on(store, postgres_url, new=0)


def test_a_lock_that_another_consumer_keeps_for_too_long_passes(postgres_url, monkeypatch) -> None:
    short = postgresql._SET_ALL.replace("'lock_timeout', '30s'", "'lock_timeout', '10ms'")
    monkeypatch.setattr(postgresql, "_SET_ALL", short)
    with Store(postgres_url) as store, Store(postgres_url) as other:
        held = other._begin()
        other._pair_of(held).lock(other._database.own_cursor(held.connection.driver_connection))
        with pytest.raises((DBAPIError, psycopg.Error)) as raised:
            store.apply(EVENTS, record)
        assert patience(raised.value) is Patience.FOREVER
        held.rollback()
        check_it_goes_on(store, postgres_url)


def test_every_wait_of_a_session_is_bounded(postgres_url) -> None:
    with Store(postgres_url) as store:
        shown: list[str] = []

        def handler(connection, events) -> None:
            for name in ("lock_timeout", "transaction_isolation", "idle_in_transaction_session_timeout"):
                shown.append(connection.exec_driver_sql(f"SHOW {name}").scalar_one())

        store.apply(EVENTS[:1], handler)
    assert shown == ["30s", "read committed", "0"]


# --- nothing is left -----------------------------------------------------------------------------


def test_between_batches_no_transaction_is_open(store, url) -> None:
    def at_rest() -> bool:
        if is_sqlite(url):
            return not store._connection.connection.driver_connection.in_transaction
        return set(sessions(url)) == {"idle"}

    store.apply(EVENTS[:2], record)
    assert at_rest()
    store.apply(EVENTS[:2], record)
    assert at_rest()
    store.apply([(9, 9)], record)
    assert at_rest()
    store.state()
    store.resume()
    assert at_rest()
    looks: list[Stored] = []
    with at(Point.BEFORE_COMMIT, lambda: looks.append(stored(url))):
        store.apply(EVENTS, record)
    assert looks == [holding(EVENTS[:2], handled=True)]


def test_failures_leave_no_connection_behind(store, url) -> None:
    def bad(connection, events) -> None:
        raise ValueError("no")

    for _ in range(5):
        store.apply(EVENTS, bad)
        with at(Point.AFTER_CURSOR, lambda: 1 / 0), pytest.raises(ZeroDivisionError):
            store.apply(EVENTS)
    store.state()
    assert store._engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    if not is_sqlite(url):
        assert len(sessions(url)) <= 1
