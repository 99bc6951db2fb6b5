"""PostgreSQL: all that this database means for the store.

Its connections and their settings, what is durable, rows in bulk, how a statement is interrupted, and whose fault a
failure is. psycopg is not imported here: SQLAlchemy does that where a URL asks for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from consumer.core.errors import NotReady, UnsafeDurability
from consumer.core.events import Events
from consumer.core.keepalive import OURS
from consumer.store.databases.base import Cause, Database, Insertion
from consumer.store.schema import Tables
from consumer.store.statements import Statements

CONNECT_TIMEOUT_S = 10
"""PostgreSQL: how long a connection may take to be made."""

LOCK_TIMEOUT_S = 30
"""PostgreSQL: how long a statement waits for a lock. Above any healthy transaction of another consumer."""

_SEARCH_PATH = "consumer_search_path"
"""Key in a PostgreSQL connection's `info`: what it was made with, which a handler may change."""

_WARNED = "consumer_warned"
"""Key in a PostgreSQL connection's `info`: the severity of the last notice."""


# Keepalive is for both ends: a dead client's row lock must go too. The user timeout is the same for a peer that dies
# while data is on its way to it.

_LIBPQ = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives": 1,
    "keepalives_idle": OURS.idle_s,
    "keepalives_interval": OURS.interval_s,
    "keepalives_count": OURS.count,
    "tcp_user_timeout": 1000 * OURS.gone_after_s,
    "application_name": "consumer",
}

SESSION = {
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    "statement_timeout": 0,  # a role's own would end a wait for the row lock; a handler may set one for itself
    "idle_in_transaction_session_timeout": 0,  # handlers may be long
    "tcp_keepalives_idle": OURS.idle_s,
    "tcp_keepalives_interval": OURS.interval_s,
    "tcp_keepalives_count": OURS.count,
    "tcp_user_timeout": 1000 * OURS.gone_after_s,
}


SET_SESSION = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SESSION.items())
"""PostgreSQL: sets all of them for the session."""


PASSING_SQLSTATES = (
    "08",  # connection exceptions
    "40001",  # serialization failure
    "40P01",  # deadlock
    "53",  # insufficient resources: connections, memory, disk
    "55P03",  # lock not available: lock_timeout
    "57P01",  # the administrator ends the session
    "57P02",  # the server crashed
    "57P03",  # the server is starting or stopping
)
"""Prefixes of codes for what passes by itself."""

CONTENT_SQLSTATES = (
    "22",  # data exceptions
    "23",  # constraints
    "P0",  # RAISE EXCEPTION
)
"""Prefixes of codes for content that the server, or a trigger of the user's, does not take."""


def make_engine(url: URL, **options: Any) -> Engine:
    """Make an engine whose waits are bounded. For `choice.make_engine`."""
    arguments = {name: value for name, value in _LIBPQ.items() if name not in url.query}
    # READ COMMITTED whatever the server's default: under REPEATABLE READ a second consumer's lock is an error, no wait.
    engine = create_engine(url, connect_args=arguments, isolation_level="READ COMMITTED", **options)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute(SET_SESSION)
        connection.commit()

    return engine


class PostgreSQL(Database):
    """One row lock for all consumers of a store, and COPY."""

    PARAMSTYLE = "pyformat"

    COPY_ROWS = 1000
    """From how many rows on COPY is faster than one INSERT from two arrays."""

    CANCEL_TIMEOUT_S = 5.0
    """How long the request to cancel a statement may take; it needs a connection of its own."""

    _UNSAFE_SETTINGS = (
        "SELECT name, setting FROM pg_settings "
        "WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'"
    )
    _NOT_LOGGED = "SELECT 1 FROM pg_class WHERE oid = to_regclass(%s) AND relpersistence <> 'p'"

    _SYNC_AT_COMMIT = (
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        event.listen(engine, "connect", self._prepare)

    def _prepare(self, connection: Any, record: Any) -> None:
        connection.execute(self._SYNC_AT_COMMIT)
        record.info[_SEARCH_PATH] = connection.execute("SHOW search_path").fetchone()[0]
        connection.commit()
        connection.add_notice_handler(lambda notice: record.info.update({_WARNED: notice.severity_nonlocalized}))

    def current_schema(self, connection: Connection) -> str:
        found: str | None = connection.exec_driver_sql("SELECT pg_catalog.current_schema()").scalar_one()
        if found is None:
            raise NotReady(
                "no schema of this session's search_path exists, so there is no place for a store: name one by `schema`"
            )
        return found

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

    def make_durable(self, connection: Connection) -> None:
        """Nothing is visible before it is durable: synchronous_commit is on for every consumer."""

    def check_durability(self, connection: Connection, tables: Tables, schema: str) -> None:
        quote = self._dialect.identifier_preparer.quote
        where = quote(schema)
        unsafe = [f"{name}={setting}" for name, setting in connection.exec_driver_sql(self._UNSAFE_SETTINGS)]
        unsafe += [
            f"the table {table.name} is not logged"
            for table in tables.metadata.sorted_tables
            if connection.exec_driver_sql(self._NOT_LOGGED, (f"{where}.{quote(table.name)}",)).first() is not None
        ]
        if unsafe:
            raise UnsafeDurability(f"PostgreSQL could lose a commit: {', '.join(unsafe)}; change that on the server")

    def check_place(self, connection: Connection) -> None:
        """A server looks after its files itself."""

    def own_cursor(self, driver: Any) -> Any:
        from psycopg.rows import tuple_row  # noqa: PLC0415 - only where the driver is there

        return driver.cursor(row_factory=tuple_row)

    def was_changed(self, connection: Connection) -> bool:
        return False

    def restore_session(self, connection: Connection) -> None:
        connection.exec_driver_sql(SET_SESSION)
        connection.exec_driver_sql(self._SYNC_AT_COMMIT)
        search_path = connection.info[_SEARCH_PATH]
        connection.exec_driver_sql("SELECT set_config('search_path', %s, false)", (search_path,))

    def commit(self, connection: Connection) -> None:
        info = connection.info
        info.pop(_WARNED, None)
        connection.commit()
        if info.pop(_WARNED, None) == "WARNING":  # so it answers where the wait for a standby was cancelled
            raise TimeoutError("PostgreSQL has committed without the standby that it should have waited for")

    def interrupt(self, driver: Any) -> None:
        with suppress(Exception):  # a server that cannot be reached cannot be asked; the caller's deadline still holds
            driver.cancel_safe(timeout=self.CANCEL_TIMEOUT_S)


def cause_of(error: Any) -> Cause:
    """Say who caused a failure.

    Args:
        error: a `psycopg.Error`.
    """
    if error.sqlstate is None:  # a connection that failed or broke carries no code, whatever the server's reason
        return Cause.PASSING if _is_operational(error) else Cause.LASTING
    if error.sqlstate.startswith(PASSING_SQLSTATES):
        return Cause.PASSING
    return Cause.CONTENT if error.sqlstate.startswith(CONTENT_SQLSTATES) else Cause.LASTING


def _is_operational(error: Any) -> bool:
    return any(kind.__name__ == "OperationalError" for kind in type(error).__mro__)
