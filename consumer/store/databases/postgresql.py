"""PostgreSQL: all that this database means for the store.

Its connections, what a transaction needs and checks, what is durable, rows in bulk, and how a statement is interrupted.
What its codes mean is in `sqlstates.py`. psycopg is not imported before SQLAlchemy does, where a URL asks for it.

What the promise needs is set and checked inside each transaction, by the statement that begins it. A setting made at
connect is not there behind a pooler in transaction mode, nor after a handler's SET, and might reach another client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event

from consumer.core.errors import CommitUnconfirmed, DatabaseReadOnly, InvalidOption, NotReady, UnsafeDurability
from consumer.core.events import Events
from consumer.core.keepalive import OURS
from consumer.store.databases import lent, refusals
from consumer.store.databases.base import Database, Insertion, Locking, Moving
from consumer.store.databases.sqlstates import READ_ONLY_TRANSACTION
from consumer.store.schema import Tables
from consumer.store.statements import Statements, StreamStatements

CONNECT_TIMEOUT_S = 10
"""How long a connection may take to be made."""

LOCK_TIMEOUT_S = 30
"""How long a statement waits for a lock. Above any healthy transaction of another consumer."""

_WITHOUT_STANDBY = "consumer_without_standby"
"""Key in a connection's `info`: the server has said that it did not wait for its standby."""

_OWN_SETTINGS = "consumer_own_settings"
"""Key in a connection's `info`: what was set for the session before any handler could."""

_LIBPQ = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives": 1,
    "keepalives_idle": OURS.idle_s,
    "keepalives_interval": OURS.interval_s,
    "keepalives_count": OURS.count,
    "tcp_user_timeout": 1000 * OURS.gone_after_s,
    "application_name": "consumer",
    "client_encoding": "utf8",  # a database in SQL_ASCII would answer in bytes
}

SETTINGS = {
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    "statement_timeout": 0,  # a role's own would end a wait for the row lock; a handler may set one for itself
    "idle_in_transaction_session_timeout": 0,  # handlers may be long
    "client_min_messages": "warning",  # at "error" nobody would hear that a commit has no standby
}
"""What each transaction of ours sets for itself."""

KEEP_ALIVE = {
    "tcp_keepalives_idle": OURS.idle_s,  # a dead client's row lock must go
    "tcp_keepalives_interval": OURS.interval_s,
    "tcp_keepalives_count": OURS.count,
    "tcp_user_timeout": 1000 * OURS.gone_after_s,  # the same for one that dies while data is on its way to it
}
"""What a connection sets for its server's side, once: the promise does not depend on it, and to set them in each
transaction costs as much as all the others. Behind a pooler they concern the pooler, which sees itself who is gone."""

_SET_ALL = (
    "SELECT pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes'), "
    # Whoever asks for more than `local` or for less than a remote flush has his reasons; `off` alone loses commits.
    "pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit') "
    "WHEN 'off' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true), "
    # Since PostgreSQL 17; it would end a transaction with a slow handler.
    "CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL "
    "THEN pg_catalog.set_config('transaction_timeout', '0', true) END, "
) + ", ".join(f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in SETTINGS.items())
"""Sets all of them until the transaction ends, and gives what holds."""

_CHECKED = ("fsync", "full_page_writes", "synchronous_commit")
"""What the first three columns of that are."""

_FORGET = (
    "RESET statement_timeout; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; DEALLOCATE ALL; "
    "UNLISTEN *; "
    "SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
)
"""What `DISCARD ALL` does, which a transaction must not say: nothing that a handler has left for the session stays."""

_OF_THE_SESSION = "SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'session' ORDER BY name"
"""What was set for the session. What we have set for the transaction looks the same."""


_HOLDING = """
SELECT path.name
FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS path(name, place)
JOIN pg_catalog.pg_namespace AS schema ON schema.nspname = path.name
JOIN pg_catalog.pg_class AS entry ON entry.relnamespace = schema.oid
GROUP BY path.name, path.place
HAVING pg_catalog.bool_or(entry.relname = %s)
    OR pg_catalog.count(*) FILTER (WHERE entry.relname = ANY (%s::pg_catalog.name[])) = 2
ORDER BY path.place
"""
"""Gives the schemas of the `search_path` that hold a store: its recorded version, or the contract's two tables."""


def make_engine(url: URL, **options: Any) -> Engine:
    """Make an engine whose waits are bounded. For `choice.make_engine`."""
    arguments: dict[str, Any] = {name: value for name, value in _LIBPQ.items() if name not in url.query}
    arguments["prepare_threshold"] = None  # a pooler may lead the next transaction to a server that has not prepared it
    # READ COMMITTED whatever the server's default: under REPEATABLE READ a second consumer's lock is an error, no wait.
    engine = create_engine(url, connect_args=arguments, isolation_level="READ COMMITTED", **options)
    event.listen(engine, "do_connect", refusals.connect)
    return engine


def make_engine_like(engine: Engine) -> Engine:
    """The same with connections that are made as a user's engine makes them. For `choice.make_engine_like`."""
    given: WeakSet[Any] = WeakSet()

    def make_fit(connection: Any) -> None:
        if connection in given:
            raise InvalidOption(lent.SAME_AGAIN)
        given.add(connection)
        if connection.info.transaction_status:  # idle is 0
            raise InvalidOption(lent.IN_TRANSACTION)
        connection.prepare_threshold = None
        engine.dialect.set_isolation_level(connection, "READ COMMITTED")

    make = lent.connecting_like(engine, make_fit)
    return lent.make_engine_like(engine, lambda _record: make())


def bound_waits(connection: Connection) -> None:
    """Have no statement of a transaction wait without end."""
    connection.exec_driver_sql(_SET_ALL)


def current_schema(connection: Connection, tables: Tables) -> str:
    """Give the schema that a store is in, or is to be made in, where its user has named none.

    That is the first of the session's `search_path` that exists.

    Raises:
        NotReady: there is none; or it holds no store, and another one of the `search_path` does. Nobody but the user
            knows which of them is meant.
    """
    first: str | None = connection.exec_driver_sql("SELECT pg_catalog.current_schema()").scalar_one()
    if first is None:
        raise NotReady(
            "no schema of this session's search_path exists, so there is no place for a store: name one by `schema`"
        )
    both = [tables.checkpoint.name, tables.ledger.name]
    holding = connection.exec_driver_sql(_HOLDING, (tables.version.name, both)).scalars().all()
    if holding and first not in holding:
        raise NotReady(
            f"this session's search_path begins with the schema {first}, which holds no store, and the schema "
            f"{holding[0]} further on holds one: name the schema that is meant, {holding[0]} to "
            f"use that store or {first} for one of its own"
        )
    return first


class PostgreSQL(Database):
    """One row lock for all consumers of a store, and COPY."""

    PARAMSTYLE = "pyformat"

    CLOCK_MS = "CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()) * 1000 AS BIGINT)"

    COPY_ROWS = 1000
    """From how many rows on COPY is faster than one INSERT from two arrays."""

    CANCEL_TIMEOUT_S = 5.0
    """How long the request to cancel a statement may take; it needs a connection of its own."""

    _NOT_LOGGED = "SELECT 1 FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass(%s) AND relpersistence <> 'p'"

    _READ_ONLY = (
        "SELECT pg_catalog.pg_is_in_recovery() OR pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool"
    )

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        event.listen(engine, "connect", _keep_alive)
        event.listen(engine, "checkout", self._listen)

    @staticmethod
    def _listen(connection: Any, record: Any, _proxy: object) -> None:
        """Have the connection tell us when a commit has not waited for its standby."""
        if _WITHOUT_STANDBY in record.info:
            return
        record.info[_WITHOUT_STANDBY] = False

        def hear(notice: Any) -> None:
            # Only this function of the server's says so, in whatever language. Any other warning is a user's own.
            if notice.source_function == "SyncRepWaitForLSN":
                record.info[_WITHOUT_STANDBY] = True

        connection.add_notice_handler(hear)

    def current_schema(self, connection: Connection, tables: Tables) -> str:
        return current_schema(connection, tables)

    def bound_waits(self, connection: Connection) -> None:
        bound_waits(connection)

    def insertion(self, statements: Statements, schema: str) -> Insertion:
        few = self.compile(statements.insert_events, schema)
        many = f"COPY {few.split('INSERT INTO ', 1)[1].split(')', 1)[0]}) FROM STDIN"

        def insert(cursor: Any, events: Events) -> int:
            if len(events) < self.COPY_ROWS:
                cursor.execute(few, {"seqs": events.seqs, "deltas": events.deltas})
            else:
                with cursor.copy(many) as copy:
                    copy.write("%d\t%d\n" * len(events) % tuple(events.numbers))
            inserted: int = cursor.rowcount
            return inserted

        return insert

    def locking(self, statements: StreamStatements, schema: str) -> Locking:
        some = self.compile(statements.lock_in_array, schema)

        def lock(cursor: Any, names: list[str]) -> Sequence[Any]:
            with _naming_read_only():
                rows: Sequence[Any] = cursor.execute(some, {"names": names}).fetchall()
            return rows

        return lock

    def moving(self, statements: StreamStatements, schema: str) -> Moving:
        all_at_once = self.compile(statements.move_all_on, schema)

        def move(cursor: Any, rows: list[dict[str, Any]]) -> int:
            cursor.execute(all_at_once, {name: [row[name] for row in rows] for name in rows[0]})
            moved: int = cursor.rowcount
            return moved

        return move

    def own_cursor(self, driver: Any) -> Any:
        from psycopg.rows import tuple_row  # noqa: PLC0415 - only where the driver is there

        return driver.cursor(row_factory=tuple_row)

    def set_up(self, cursor: Any) -> None:
        _check(cursor.execute(_SET_ALL).fetchone())

    def lock(self, cursor: Any, statement: str) -> Any:
        with _naming_read_only():
            # Both in one message, so that a transaction is no round trip longer for its settings.
            cursor.execute(f"{_SET_ALL}; {statement}")
        _check(cursor.fetchone())
        cursor.nextset()
        return cursor.fetchone()

    def make_durable(self, connection: Connection) -> None:
        """Nothing is visible before it is durable: synchronous_commit is on for every consumer."""

    def check_durability(self, connection: Connection, tables: Tables, schema: str) -> None:
        if connection.exec_driver_sql(self._READ_ONLY).scalar_one():
            raise DatabaseReadOnly
        _check(connection.exec_driver_sql(_SET_ALL).one())
        quote = self._dialect.identifier_preparer.quote
        for table in tables.metadata.sorted_tables:
            name = f"{quote(schema)}.{quote(table.name)}"
            if connection.exec_driver_sql(self._NOT_LOGGED, (name,)).first() is not None:
                raise UnsafeDurability(
                    f"PostgreSQL could lose a commit: the table {name} is not logged; change that on the server"
                )

    def check_place(self, connection: Connection) -> None:
        """A server looks after its files itself."""

    def before_handler(self, connection: Connection) -> None:
        info = connection.info
        if _OWN_SETTINGS not in info:  # once a connection: it takes a millisecond
            found = connection.exec_driver_sql(_OF_THE_SESSION)
            info[_OWN_SETTINGS] = [(name, value) for name, value in found if not _is_of_the_transaction(name)]

    def after_handler(self, connection: Connection) -> None:
        own = [(_quote(name), _quote(value)) for name, value in connection.info[_OWN_SETTINGS]]
        driver: Any = connection.connection.driver_connection
        again = "".join(f"; SELECT pg_catalog.set_config({name}, {value}, false)" for name, value in own)
        with self.own_cursor(driver) as cursor:
            cursor.execute(f"{_FORGET}{again}; {_SET_ALL}")

    def was_changed(self, connection: Connection) -> bool:
        return False

    def commit(self, connection: Connection) -> None:
        info = connection.info
        info[_WITHOUT_STANDBY] = False
        connection.commit()
        if info[_WITHOUT_STANDBY]:
            raise CommitUnconfirmed

    def interrupt(self, driver: Any) -> None:
        with suppress(Exception):  # a server that cannot be reached cannot be asked; the caller's deadline still holds
            driver.cancel_safe(timeout=self.CANCEL_TIMEOUT_S)


@contextmanager
def _naming_read_only() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if getattr(error, "sqlstate", None) == READ_ONLY_TRANSACTION:
            raise DatabaseReadOnly from error
        raise


def _keep_alive(connection: Any, _record: object) -> None:
    """Have the server find out whether a client that is silent is still there."""
    connection.execute("; ".join(f"SET {name} = {value}" for name, value in KEEP_ALIVE.items()))
    connection.commit()


def _check(row: Any) -> None:
    unsafe = [f"{name}=off" for name, setting in zip(_CHECKED, row, strict=False) if setting == "off"]
    if unsafe:
        raise UnsafeDurability(f"PostgreSQL could lose a commit: {', '.join(unsafe)}; change that on the server")


def _is_of_the_transaction(name: str) -> bool:
    return name in SETTINGS or name == "synchronous_commit" or name.startswith("transaction")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
