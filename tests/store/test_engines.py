"""A store over a user's own engine: it connects as that one does, and leaves it alone."""

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    event,
    insert,
    make_url,
    pool,
)

from consumer.core.errors import HandlerFailed, InvalidOption, StoppedByForce, StoreReplaced, UnsafeDurability
from consumer.core.events import Event
from consumer.store import migrate
from consumer.store.transaction import Store

from .helpers import (
    Running,
    check_nothing_is_left,
    connected,
    execute,
    holding,
    is_sqlite,
    record,
    rows,
    stored,
    stream,
    waiting_for,
)

POOLS = {"its own": {}, "NullPool": {"poolclass": pool.NullPool}, "a small one": {"pool_size": 1, "max_overflow": 0}}


@pytest.fixture
def make_engine(patience_s: float) -> Iterator[Any]:
    """Make engines as a user does; their sessions on PostgreSQL are told by a name."""
    made = []

    def make(url: str, **options: Any) -> Engine:
        if url.startswith("postgresql"):
            options["connect_args"] = {"application_name": "consumer", **options.get("connect_args", {})}
        made.append((url, create_engine(url, **options)))
        return made[-1][1]

    yield make
    for url, engine in made:
        engine.dispose()
        if make_url(url).database:
            check_nothing_is_left(url, patience_s)


@pytest.mark.parametrize("kind", POOLS)
def test_it_consumes_as_with_a_url(url: str, make_engine: Any, kind: str) -> None:
    with Store(engine=make_engine(url, **POOLS[kind])) as store:
        assert store.resume() == -1
        assert store.apply(stream(1500), record).acked == 1500
        assert store.resume() == 1499
        assert store.apply(stream(20, 1500), record).last == 1519
    assert stored(url) == holding(stream(1520), handled=True)


def test_the_users_engine_stays_as_it_was(url: str, make_engine: Any) -> None:
    """Its pool is not closed, its connections have none of our settings, and its listeners hear nothing of ours."""
    heard: list[str] = []
    engine = make_engine(url)
    for name in ("begin", "commit", "rollback"):
        event.listen(engine, name, lambda *_, name=name: heard.append(name))
    setting = "PRAGMA busy_timeout" if is_sqlite(url) else "SHOW lock_timeout"
    with engine.begin() as connection:
        before = connection.exec_driver_sql(setting).scalar_one()
        waiting = connection.connection.driver_connection
    heard.clear()
    with Store(engine=engine) as store:
        store.resume()
        store.apply(stream(10), record)
        with pytest.raises(HandlerFailed):
            raise store.apply(stream(1, 10), lambda connection, events: 1 / 0).error
    assert heard == []
    with engine.begin() as connection:
        assert connection.connection.driver_connection is waiting
        assert connection.exec_driver_sql(setting).scalar_one() == before
        connection.exec_driver_sql("DELETE FROM seen")  # and commits: no rule of handlers is about this
    assert rows(url, "SELECT * FROM seen") == []


def test_its_connection_is_kept_from_batch_to_batch(url: str, make_engine: Any) -> None:
    used: list[Any] = []

    def handler(connection: Connection, events: list[Event]) -> None:
        used.append(connection.connection.driver_connection)

    with Store(engine=make_engine(url)) as store:
        store.resume()
        for number in range(3):
            store.apply(stream(1, number), handler)
    assert used == [used[0]] * 3


def test_each_connection_is_made_as_the_user_says(url: str, make_engine: Any) -> None:
    """Tokens that expire come from `do_connect`; what an application sets, from `connect`."""
    tokens, seen = [], []
    engine = make_engine(url)

    @event.listens_for(engine, "do_connect")
    def _fresh_token(_dialect: Any, _record: Any, _arguments: Any, _options: Any) -> None:
        tokens.append(len(tokens))

    @event.listens_for(engine, "connect")
    def _set(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA cache_size=77" if is_sqlite(url) else "SET work_mem = '77kB'")
        if not is_sqlite(url):
            connection.commit()

    def handler(connection: Connection, events: list[Event]) -> None:
        seen.append(connection.exec_driver_sql("PRAGMA cache_size" if is_sqlite(url) else "SHOW work_mem").scalar_one())

    with Store(engine=engine) as store:
        store.resume()
        store.apply(stream(1), handler)
        store.close()
        count = len(tokens)
        store.resume()
        store.apply(stream(1, 1), handler)
    assert len(tokens) > count > 0
    assert seen == ([77] * 2 if is_sqlite(url) else ["77kB"] * 2)


def test_a_creator_may_know_what_the_url_does_not(url: str, tmp_path: Path, make_engine: Any, monkeypatch: Any) -> None:
    if is_sqlite(url):
        path = make_url(url).database
        engine = make_engine(
            "sqlite://", poolclass=pool.NullPool, creator=lambda: sqlite3.connect(path, check_same_thread=False)
        )
    else:
        import psycopg

        given = make_url(url).set(drivername="postgresql").update_query_dict({"application_name": "consumer"})
        conninfo = given.render_as_string(hide_password=False)
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo, autocommit=True))
    with Store(engine=engine) as store:
        assert store.resume() == -1
        assert store.apply(stream(3), record).acked == 3
    assert stored(url) == holding(stream(3), handled=True)


def test_the_users_serializer_serves_in_a_handler(url: str, make_engine: Any) -> None:
    notes = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("words", JSON))
    with connected(url) as connection:
        notes.create(connection)

    def handler(connection: Connection, events: list[Event]) -> None:
        connection.execute(insert(notes), [{"id": 1, "words": Decimal("1.50")}])

    with Store(engine=make_engine(url, json_serializer=lambda value: json.dumps(str(value)))) as store:
        store.resume()
        assert store.apply(stream(1), handler).error is None
    assert [str(words).strip('"') for (words,) in rows(url, "SELECT words FROM notes")] == ["1.50"]


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE"])
def test_the_users_isolation_level_is_not_the_stores(url: str, make_engine: Any, level: str) -> None:
    with Store(engine=make_engine(url, isolation_level=level)) as store:
        store.resume()
        outcome = store.apply(stream(2), lambda connection, events: record(connection, events) or 1 / 0)
        assert isinstance(outcome.error, HandlerFailed)
    assert stored(url) == holding([])


def test_a_setting_that_could_lose_a_commit_is_put_right(sqlite_url: str, make_engine: Any) -> None:
    engine = make_engine(sqlite_url)
    event.listen(engine, "connect", lambda connection, _record: connection.execute("PRAGMA synchronous=OFF"))
    with Store(engine=engine) as store:
        store.check_durability()
        store.resume()


def test_a_database_in_memory_is_refused(make_engine: Any) -> None:
    with (
        pytest.raises(UnsafeDurability, match="in memory"),
        Store(
            engine=make_engine("sqlite://", poolclass=pool.NullPool, connect_args={"check_same_thread": False})
        ) as store,
    ):
        store.check_durability()


def test_a_file_that_was_replaced_is_noticed(sqlite_url: str, make_engine: Any) -> None:
    path = Path(make_url(sqlite_url).database)
    engine = make_engine(sqlite_url)
    with engine.connect() as connection:  # one waits in the pool
        connection.exec_driver_sql("SELECT 1")
    with Store(engine=engine) as store:
        store.resume()
        store.apply(stream(2))
        copy = path.with_name("copy.db")
        with sqlite3.connect(path) as old, sqlite3.connect(copy) as new:
            old.backup(new)
        old.close()
        new.close()
        copy.rename(path)
        with pytest.raises(StoreReplaced):
            store.apply(stream(1, 2))
        path.with_name("store.db-wal").unlink()
        path.with_name("store.db-shm").unlink()
        assert store.resume() == 1
        assert store.apply(stream(1, 2)).last == 2
    assert stored(sqlite_url).last == 2


def test_a_file_that_is_replaced_while_it_is_opened_is_noticed(sqlite_url: str, make_engine: Any) -> None:
    """Nobody knows then which of the two files is open."""
    execute(sqlite_url, "PRAGMA journal_mode=WAL")
    path = Path(make_url(sqlite_url).database)
    engine = make_engine(sqlite_url)
    opened: list[object] = []

    @event.listens_for(engine, "connect")
    def _replace(connection: Any, _record: Any) -> None:
        opened.append(connection)
        if len(opened) == 2:  # the one that the store is to keep
            connection.execute("SELECT * FROM checkpoint").close()
            copy = path.with_name("copy.db")
            copy.write_bytes(path.read_bytes())
            copy.rename(path)

    with pytest.raises(StoreReplaced), Store(engine=engine) as store:
        store.resume()
    opened.clear()


def test_nothing_is_prepared_on_the_server(postgres_url: str, make_engine: Any) -> None:
    """Behind a pooler the next transaction may meet a server that has not prepared it."""
    found: list[int] = []

    def handler(connection: Connection, events: list[Event]) -> None:
        for _ in range(9):
            found.append(connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one())

    with Store(engine=make_engine(postgres_url)) as store:
        store.resume()
        store.apply(stream(1), handler)
    assert found == [0] * 9


# --- what cannot be used -------------------------------------------------------------------------


def test_a_url_or_an_engine_and_not_both(url: str, make_engine: Any) -> None:
    for given in ({}, {"url": url, "engine": make_engine(url)}):
        with pytest.raises(InvalidOption, match="a URL or an engine"):
            Store(**given)
    for wrong in (url, object()):
        with pytest.raises(InvalidOption, match="create_engine"):
            Store(engine=wrong)


@pytest.mark.parametrize("kind", [pool.StaticPool, pool.SingletonThreadPool])
def test_an_engine_that_shares_one_connection_is_refused(url: str, make_engine: Any, kind: Any) -> None:
    with pytest.raises(InvalidOption, match=f"{kind.__name__}.*QueuePool or a NullPool"):
        Store(engine=make_engine(url, poolclass=kind))


def test_a_creator_that_gives_one_connection_twice_is_refused(url: str, make_engine: Any) -> None:
    made = create_engine(url, poolclass=pool.NullPool).raw_connection()
    driver = made.driver_connection
    made.detach()
    store = Store(engine=make_engine(url, creator=lambda: driver))
    with pytest.raises(InvalidOption, match="the same connection twice"):
        for _ in range(2):
            store.close()
            store.resume()
    driver.close()


def test_a_listener_that_leaves_a_transaction_open_is_refused(url: str, make_engine: Any) -> None:
    engine = make_engine(url)

    @event.listens_for(engine, "connect")
    def _begin(connection: Any, _record: Any) -> None:
        connection.execute("BEGIN" if is_sqlite(url) else "SET work_mem = '77kB'")

    with pytest.raises(InvalidOption, match="has begun a transaction"):
        Store(engine=engine).resume()


def test_connections_for_one_thread_alone_are_refused(sqlite_url: str, make_engine: Any) -> None:
    store = Store(engine=make_engine(sqlite_url, connect_args={"check_same_thread": True}))
    with pytest.raises(InvalidOption, match=r"one thread alone.*check_same_thread=False"):
        store.resume()


@pytest.mark.parametrize(("name", "value"), [("row_factory", sqlite3.Row), ("text_factory", bytes)])
def test_other_rows_are_refused(sqlite_url: str, make_engine: Any, name: str, value: Any) -> None:
    engine = make_engine(sqlite_url)
    event.listen(engine, "connect", lambda connection, _record: setattr(connection, name, value))
    with pytest.raises(InvalidOption, match="row_factory or a text_factory"):
        Store(engine=engine).resume()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has the attribute since Python 3.12")
@pytest.mark.parametrize("value", [True, False])
def test_sqlites_autocommit_is_refused(sqlite_url: str, make_engine: Any, value: bool) -> None:
    with pytest.raises(InvalidOption, match="autocommit"):
        Store(engine=make_engine(sqlite_url, connect_args={"autocommit": value})).resume()


def test_the_store_can_be_interrupted(url: str, make_engine: Any, patience_s: float) -> None:
    begun = threading.Event()

    def slow(connection: Connection, events: list[Event]) -> None:
        begun.set()
        connection.exec_driver_sql(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
            if is_sqlite(url)
            else "SELECT pg_sleep(1000)"
        )

    with Store(engine=make_engine(url)) as store:
        store.resume()
        running = Running(lambda: store.apply(stream(1), slow))
        assert begun.wait(patience_s)
        for _ in waiting_for(patience_s):
            store.interrupt()  # again, since the statement may not have begun
            if running.error is not None:
                break
        assert isinstance(running.error, StoppedByForce)
        running.ended(patience_s)
        running.error = None
    assert stored(url) == holding([])


def test_a_store_made_on_its_connection_is_found(url: str, make_engine: Any) -> None:
    engine = make_engine(url)
    with engine.begin() as connection:
        migrate.upgrade(connection, prefix="shop_")
    with Store(engine=engine, prefix="shop_") as store:
        assert store.resume() == -1
    with connected(url) as connection:
        for name in ("checkpoint", "ledger", "consumer_alembic_version"):
            connection.exec_driver_sql(f"DROP TABLE shop_{name}")
