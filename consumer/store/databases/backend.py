"""What differs between SQLite and PostgreSQL for the store: rows in bulk, what is durable, how a call is interrupted.

Each answers the same questions; the transaction around them is in `store.py`.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.sql import ClauseElement

from consumer.core.errors import UnsafeDurability
from consumer.core.events import Events
from consumer.store import statements
from consumer.store.databases import durable
from consumer.store.databases.engine import SET_SESSION
from consumer.store.schema import checkpoint, ledger

BUSY_TIMEOUT_MS = 1000
"""SQLite: a single wait for a lock. Short, since it cannot be interrupted; the store waits again."""

IN_HANDLER = "consumer_in_handler"
"""Key in a connection's `info`: true while a handler runs, when nobody may end the transaction."""


_SEARCH_PATH = "consumer_search_path"
"""Key in a PostgreSQL connection's `info`: what it was made with, which a handler may change."""

_WARNED = "consumer_warned"
"""Key in a PostgreSQL connection's `info`: the severity of the last notice."""


class Backend(ABC):
    """One database's answers."""

    PARAMSTYLE: ClassVar[str]

    def __init__(self, engine: Engine) -> None:
        self._dialect = type(engine.dialect)(paramstyle=self.PARAMSTYLE)  # type: ignore[call-arg]  # DefaultDialect's own

    def compile(self, statement: ClauseElement) -> str:
        """Give a statement's text, once and for all, for the driver, with its values in a dict."""
        return str(statement.compile(dialect=self._dialect))

    @abstractmethod
    def insert(self, driver: Any, events: Events) -> int:
        """Insert the ledger's rows, and say how many were."""

    @abstractmethod
    def make_durable(self, connection: Connection) -> None:
        """Make durable what is committed and visible: a process that died in its commit may have left it otherwise.

        Called in a transaction, on SQLite under the write lock.

        Raises:
            SyncFailed: that cannot be done.
        """

    @abstractmethod
    def check_durability(self, connection: Connection) -> None:
        """Raise `UnsafeDurability` where a commit is not safe from a power cut."""

    @abstractmethod
    def settle(self, connection: Connection) -> None:
        """Undo what a handler may have set for the session, that makes a commit less durable or a wait endless."""

    def commit(self, connection: Connection) -> None:
        """Commit. An error means that nobody knows whether it did."""
        connection.commit()

    @abstractmethod
    def interrupt(self, driver: Any) -> None:
        """Make the statement that runs on this connection, in another thread, fail. It need not succeed."""


class SQLite(Backend):
    """WAL, and a sync at every commit."""

    PARAMSTYLE = "named"

    ROWS = (500, 50)
    """Rows of one INSERT statement, as many of the longer as fit: more gain nothing. What is left goes row by row."""

    SYNCHRONOUS_MIN: ClassVar = {"wal": 2, "delete": 3, "truncate": 3, "persist": 3}
    """What PRAGMA synchronous must say at least: 2 is FULL; 3, EXTRA, syncs the directory too. Other modes never do."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        row = str(statements.INSERT_EVENT.compile(dialect=type(engine.dialect)()))  # two question marks
        values = row[row.rindex("(") :]
        self._insert_row = row
        self._insert_rows = [(rows, row + f", {values}" * (rows - 1)) for rows in self.ROWS]
        event.listen(engine, "connect", _prepare_sqlite)

    def insert(self, driver: Any, events: Events) -> int:
        start = inserted = 0
        for rows, statement in self._insert_rows:
            while len(events) - start >= rows:
                inserted += driver.execute(statement, events[start : start + rows].numbers).rowcount
                start += rows
        if len(events) > start:
            inserted += driver.executemany(self._insert_row, events[start:]).rowcount
        return inserted

    def make_durable(self, connection: Connection) -> None:
        # The log and the directory by their own names: a checkpoint may find nothing to do and sync nothing. The
        # database file itself must not be opened here, since closing it would drop SQLite's locks on it.
        path = durable.main_file(connection.exec_driver_sql(durable.MAIN_FILE).scalar_one())
        durable.write_again(Path(f"{path}-wal"))
        durable.sync(path.parent)

    def check_durability(self, connection: Connection) -> None:
        path = connection.engine.url.database
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
        if synchronous < self.SYNCHRONOUS_MIN.get(mode, synchronous + 1):
            raise UnsafeDurability(
                f"{path or 'a database in memory'}: with journal_mode={mode} and synchronous={synchronous} "
                "a commit may be lost; use a file on a local disk and leave both settings alone"
            )

    def settle(self, connection: Connection) -> None:
        """Nothing can be set: SQLite refuses to change `synchronous` inside a transaction."""

    def interrupt(self, driver: Any) -> None:
        driver.interrupt()


def _prepare_sqlite(connection: sqlite3.Connection, record: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}").close()
    connection.execute("PRAGMA journal_mode=WAL").close()

    def authorize(action: int, *_details: object) -> int:
        """Keep handlers from ending the transaction. It is asked when a statement is prepared, not for each row."""
        ends_transaction = action == sqlite3.SQLITE_TRANSACTION and record.info.get(IN_HANDLER, False)
        return sqlite3.SQLITE_DENY if ends_transaction else sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)


class PostgreSQL(Backend):
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
        self._insert = self.compile(statements.INSERT_EVENTS)
        self._copy = f"COPY {ledger.name} ({ledger.c.seq.name}, {ledger.c.delta.name}) FROM STDIN"
        event.listen(engine, "connect", self._prepare)

    def _prepare(self, connection: Any, record: Any) -> None:
        connection.execute(self._SYNC_AT_COMMIT)
        record.info[_SEARCH_PATH] = connection.execute("SHOW search_path").fetchone()[0]
        connection.commit()
        connection.add_notice_handler(lambda notice: record.info.update({_WARNED: notice.severity_nonlocalized}))

    def insert(self, driver: Any, events: Events) -> int:
        with driver.cursor() as cursor:
            if len(events) < self.COPY_ROWS:
                cursor.execute(self._insert, {"seqs": events.seqs, "deltas": events.deltas})
            else:
                with cursor.copy(self._copy) as copy:
                    copy.write("%d\t%d\n" * len(events) % tuple(events.numbers))
            inserted: int = cursor.rowcount
            return inserted

    def make_durable(self, connection: Connection) -> None:
        """Nothing is visible before it is durable: synchronous_commit is on for every consumer."""

    def check_durability(self, connection: Connection) -> None:
        unsafe = [f"{name}={setting}" for name, setting in connection.exec_driver_sql(self._UNSAFE_SETTINGS)]
        unsafe += [
            f"the table {table.name} is not logged"
            for table in (checkpoint, ledger)
            if connection.exec_driver_sql(self._NOT_LOGGED, (table.name,)).first() is not None
        ]
        if unsafe:
            raise UnsafeDurability(f"PostgreSQL could lose a commit: {', '.join(unsafe)}; change that on the server")

    def settle(self, connection: Connection) -> None:
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


def backend_for(engine: Engine) -> Backend:
    """Choose by the engine's database."""
    return SQLite(engine) if engine.dialect.name == "sqlite" else PostgreSQL(engine)
