"""PostgreSQL: what the promise needs holds inside each transaction, whatever anybody has set for the session or the role."""

import os
import time

import psycopg
import pytest
from sqlalchemy import event, make_url, text
from sqlalchemy.exc import DBAPIError

from consumer.core.errors import CommitUnconfirmed, DatabaseReadOnly, HandlerFailed, UnsafeDurability
from consumer.store.databases.base import Cause
from consumer.store.databases.choice import cause_of
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store

from .helpers import connected, execute, holding, on_connect, record, rows, stored, stream

EVENTS = stream(10)
PARTS = (EVENTS[:3], EVENTS[3:6], EVENTS[4:8], EVENTS[8:])

LEFT = [
    "SET ROLE {role}",
    "SET SESSION AUTHORIZATION {role}",
    "SET default_transaction_read_only = on",
    "SET client_min_messages = error",
    "SET synchronous_commit = off",
    "SET statement_timeout = '100ms'",
    "SET search_path = nowhere",
    "SET default_transaction_isolation = serializable",
    "SET LOCAL synchronous_commit = off",
    "CREATE TEMP TABLE ledger(seq bigint, delta integer)",
    "CREATE TEMP TABLE checkpoint AS SELECT 1 AS id, 99::bigint AS last, 0::bigint AS total",
    "CREATE TEMP VIEW ledger AS SELECT 1 AS seq, 2 AS delta",
    "PREPARE mine AS SELECT 1",
    "LISTEN mine",
    "SELECT pg_advisory_lock(7)",
]


@pytest.fixture
def role(postgres_url):
    """One that was granted nothing. Its name is this process's: other tests may use the same server."""
    name = f"nothing_granted_{os.getpid()}"
    execute(postgres_url, f"CREATE ROLE {name}")
    yield name
    execute(postgres_url, f"DROP ROLE {name}")


@pytest.mark.parametrize("statement", LEFT)
@pytest.mark.parametrize("raw", [False, True], ids=["SQLAlchemy", "driver"])
def test_what_a_handler_leaves_on_its_session_does_not_reach_the_next_batch(postgres_url, role, statement, raw) -> None:
    settings: list[tuple] = []
    statement = statement.format(role=role)

    def handler(connection, events) -> None:
        record(connection, events)
        settings.append(tuple(connection.exec_driver_sql("SHOW ALL").all()))
        if raw:
            connection.connection.driver_connection.execute(statement)
        else:
            connection.exec_driver_sql(statement)

    with Store(postgres_url) as store:
        store.resume()
        for part in PARTS:
            outcome = store.apply(part, handler)
            assert (outcome.error, outcome.acked) == (None, len(part))
        connection = store._connection
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert connection.exec_driver_sql(locks).scalar_one() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one() == 0
        connection.rollback()
    assert len(set(settings)) == 1
    assert stored(postgres_url) == holding(EVENTS, handled=True)


def test_rows_that_a_handler_asks_for_in_another_shape_are_not_ours(postgres_url) -> None:
    from psycopg.rows import dict_row

    def handler(connection, events) -> None:
        record(connection, events)
        connection.connection.driver_connection.row_factory = dict_row

    with Store(postgres_url) as store:
        store.resume()
        for part in PARTS:
            assert store.apply(part, handler).error is None
    assert stored(postgres_url) == holding(EVENTS, handled=True)


def test_what_a_user_sets_at_connect_is_there_again_after_each_handler(postgres_url) -> None:
    seen: list[str] = []

    def handler(connection, events) -> None:
        record(connection, events)
        seen.append(connection.exec_driver_sql("SHOW timezone").scalar_one())
        connection.exec_driver_sql("SET timezone = 'Asia/Tokyo'")

    with Store(postgres_url) as store:
        on_connect(store, "SET timezone = 'Europe/Vienna'")
        for part in PARTS:
            assert store.apply(part, handler).error is None
    assert seen == ["Europe/Vienna"] * 4


def test_the_server_looks_whether_a_silent_client_is_still_there(postgres_url) -> None:
    names = ["tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout"]
    seen: list[list[str]] = []

    def handler(connection, events) -> None:
        record(connection, events)
        of_the_session = "SELECT name FROM pg_settings WHERE source = 'session' AND name LIKE 'tcp%%' ORDER BY name"
        seen.append(list(connection.exec_driver_sql(of_the_session).scalars()))  # the values are 0 on a Unix socket

    with Store(postgres_url) as store:
        for part in PARTS:
            assert store.apply(part, handler).error is None
    assert seen == [names] * 4


def test_the_commit_of_a_batch_is_synchronous_whatever_the_handler_sets(postgres_url) -> None:
    modes: list[str] = []

    def handler(connection, events) -> None:
        record(connection, events)
        connection.exec_driver_sql("SET synchronous_commit = off")
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    with Store(postgres_url) as store:
        store.resume()

        @event.listens_for(store._engine, "commit")
        def _look(connection) -> None:
            modes.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one())

        for part in PARTS:
            assert store.apply(part, handler).error is None
    assert set(modes) == {"on"}


@pytest.mark.parametrize("mode", ["local", "remote_write", "remote_apply"])
def test_another_kind_of_synchronous_commit_is_left_as_it_is(postgres_url, mode) -> None:
    seen: list[str] = []
    with Store(postgres_url) as store:
        on_connect(store, f"SET synchronous_commit = {mode}")
        store.apply(EVENTS, lambda c, _: seen.append(c.exec_driver_sql("SHOW synchronous_commit").scalar_one()))
    assert seen == [mode]


def test_a_settings_row_that_says_off_commits_nothing(postgres_url, monkeypatch) -> None:
    monkeypatch.setattr("consumer.store.databases.postgresql._SET_ALL", "SELECT 'off', 'on', 'on'")
    with Store(postgres_url) as store, pytest.raises(UnsafeDurability, match="fsync=off"):
        store.apply(EVENTS, record)
    assert stored(postgres_url) == holding([])


# --- a standby that is not there -----------------------------------------------------------------


WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.mark.parametrize("level", ["notice", "error"])
def test_a_commit_whose_wait_for_the_standby_is_cancelled_is_not_acknowledged(
    postgres_of_its_own, patience_s, level
) -> None:
    import threading

    url = postgres_of_its_own
    execute(url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    stop = threading.Event()

    def cancel() -> None:
        while not stop.wait(0.02):
            with connected(url) as connection:
                connection.exec_driver_sql(f"SELECT pg_cancel_backend(pid) FROM ({WAITING}) AS waiting")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        execute(url, "SET synchronous_commit = local")
        with Store(url) as store:
            on_connect(store, f"SET client_min_messages = {level}")
            with pytest.raises(CommitUnconfirmed) as raised:
                store.apply(EVENTS, record)
            assert patience(raised.value) is Patience.FOREVER
    finally:
        stop.set()
        canceller.join(patience_s)
        execute(url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def test_a_warning_of_a_deferred_trigger_is_no_missing_standby(postgres_of_its_own) -> None:
    url = postgres_of_its_own
    execute(
        url,
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON seen DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION warn()",
    )
    with Store(url) as store:
        store.resume()
        for part in PARTS:
            assert store.apply(part, record).acked == len(part)
    assert stored(url) == holding(EVENTS, handled=True)


# --- a server that takes no changes --------------------------------------------------------------


def test_a_read_only_server_is_waited_for_and_no_cursor_is_said(postgres_of_its_own) -> None:
    url = postgres_of_its_own
    with Store(url) as store:
        store.resume()
        name = make_url(url).database
        execute(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        store.close()  # a failover ends all sessions
        for act in (store.resume, lambda: store.apply(EVENTS, record)):
            with pytest.raises(DatabaseReadOnly, match="target_session_attrs=read-write") as raised:
                act()
            assert patience(raised.value) is Patience.FOREVER
        with connected(url) as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        store.close()
        assert store.resume() == -1
        assert store.apply(EVENTS, record).acked == 10


# --- who is let in -------------------------------------------------------------------------------


def test_a_refused_name_is_final_and_carries_its_code(postgres_url) -> None:
    for wrong, code in (
        (make_url(postgres_url).set(database="nowhere"), "3D000"),
        (make_url(postgres_url).set(username="nobody"), "28000"),
    ):
        with Store(wrong) as store, pytest.raises(DBAPIError) as raised:
            store.resume()
        assert raised.value.orig.sqlstate == code
        assert cause_of(raised.value) is Cause.LASTING


def test_a_database_that_allows_no_connections_for_a_while_is_waited_for(postgres_of_its_own, postgres_server) -> None:
    url = postgres_of_its_own
    name = make_url(url).database
    execute(
        postgres_server.replace("postgresql://", "postgresql+psycopg://"),
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
    )
    with Store(url) as store, pytest.raises(DBAPIError) as raised:
        store.resume()
    assert cause_of(raised.value) is Cause.PASSING
    execute(
        postgres_server.replace("postgresql://", "postgresql+psycopg://"),
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS true",
    )


def test_a_server_that_is_not_there_passes(tmp_path) -> None:
    with Store("postgresql://somebody@127.0.0.1:1/x") as store, pytest.raises(DBAPIError) as raised:
        store.resume()
    assert cause_of(raised.value) is Cause.PASSING


def test_a_session_that_the_server_ends_for_being_idle_passes(postgres_url) -> None:
    with Store(postgres_url) as store:
        on_connect(store, "SET idle_session_timeout = '20ms'")
        store.resume()
        store.apply(EVENTS[:5], record)
        time.sleep(0.2)
        with pytest.raises((DBAPIError, psycopg.Error)) as raised:
            store.apply(EVENTS[5:], record)
        assert cause_of(raised.value) is Cause.PASSING
        last = store.resume()
        assert store.apply(EVENTS[last + 1 :], record).error is None
    assert stored(postgres_url) == holding(EVENTS, handled=True)


def test_a_database_in_sql_ascii_is_a_good_one(postgres_server) -> None:
    from consumer.store import migrate

    admin = postgres_server.replace("postgresql://", "postgresql+psycopg://")
    execute(admin, "DROP DATABASE IF EXISTS in_ascii")
    execute(admin, "CREATE DATABASE in_ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    url = make_url(admin).set(database="in_ascii").render_as_string(hide_password=False)
    try:
        migrate.upgrade(url)
        with Store(url) as store:
            assert store.resume() == -1
            assert store.apply(EVENTS).acked == 10
        assert migrate.status(url).last == 9
    finally:
        execute(admin, "DROP DATABASE in_ascii WITH (FORCE)")


def test_a_handler_that_fails_for_a_statement_of_its_own_is_named(postgres_url) -> None:
    with Store(postgres_url) as store:
        outcome = store.apply(EVENTS, lambda connection, _: connection.execute(text("SELECT * FROM nowhere_at_all")))
    assert isinstance(outcome.error, HandlerFailed)
    assert rows(postgres_url, "SELECT count(*) FROM ledger") == [(0,)]
