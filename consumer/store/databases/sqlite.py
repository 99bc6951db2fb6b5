"""SQLite: all that this database means for the store.

Its connections and their settings, what is durable, rows in bulk, how a statement is interrupted, and whose fault a
failure is. The files beside a database, which the system must be asked about, are in `durable.py`.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from sqlalchemy import URL, Connection, Engine, create_engine, event, pool

from consumer.core.errors import UnsafeDurability
from consumer.core.events import Events
from consumer.store.databases import durable
from consumer.store.databases.base import BEGIN_STATEMENT, IN_HANDLER, Cause, Database, Insertion
from consumer.store.schema import Tables
from consumer.store.statements import Statements

SCHEMA = "main"
"""The name of a connection's own file, beside `temp` and whatever is attached."""

BUSY_TIMEOUT_S = 10
"""SQLite: how long a statement waits for another connection's lock. Writers are served unfairly, so it is generous."""

BUSY_TIMEOUT_MS = 1000
"""SQLite: a single wait for a lock. Short, since it cannot be interrupted; the store waits again."""

PASSING_CODES = {
    sqlite3.SQLITE_BUSY,  # another connection has the lock
    sqlite3.SQLITE_FULL,  # the disk is full
    sqlite3.SQLITE_IOERR,  # the system failed to read or write
}
"""Primary codes of what passes by itself."""


def make_engine(url: URL, **options: Any) -> Engine:
    """Make an engine on which a transaction begins with the write lock. For `choice.make_engine`."""
    # isolation_level=None keeps the driver from beginning and committing by itself.
    arguments: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
    if "timeout" not in url.query:
        arguments["timeout"] = BUSY_TIMEOUT_S
    options.setdefault("poolclass", pool.QueuePool)  # for a URI SQLAlchemy would guess at a pool, with a warning
    engine = create_engine(url, connect_args=arguments, **options)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous=EXTRA")  # durable in the default journal mode too, its folder included

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(BEGIN_STATEMENT, "BEGIN IMMEDIATE"))

    return engine


class SQLite(Database):
    """WAL, and a sync at every commit."""

    PARAMSTYLE = "named"

    ROWS = (500, 50)
    """Rows of one INSERT statement, as many of the longer as fit: more gain nothing. What is left goes row by row."""

    SYNCHRONOUS_MIN: ClassVar = {"wal": 2, "delete": 3, "truncate": 3, "persist": 3}
    """What PRAGMA synchronous must say at least: 2 is FULL; 3, EXTRA, syncs the directory too. Other modes never do."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        event.listen(engine, "connect", _prepare)

    def current_schema(self, connection: Connection) -> str:
        return SCHEMA

    def insertion(self, statements: Statements, schema: str) -> Insertion:
        one = self.compile(statements.insert_event, schema).replace(":seq", "?").replace(":delta", "?")
        values = one[one.rindex("(") :]
        many = [(rows, one + f", {values}" * (rows - 1)) for rows in self.ROWS]

        def insert(driver: Any, events: Events) -> int:
            start = inserted = 0
            for rows, statement in many:
                while len(events) - start >= rows:
                    inserted += driver.execute(statement, events[start : start + rows].numbers).rowcount
                    start += rows
            if len(events) > start:
                inserted += driver.executemany(one, events[start:]).rowcount
            return inserted

        return insert

    def make_durable(self, connection: Connection) -> None:
        # The log and the directory by their own names: a checkpoint may find nothing to do and sync nothing. The
        # database file itself must not be opened here, since closing it would drop SQLite's locks on it.
        path = durable.main_file(connection.exec_driver_sql(durable.MAIN_FILE).scalar_one())
        durable.write_again(Path(f"{path}-wal"))
        durable.sync(path.parent)

    def check_durability(self, connection: Connection, tables: Tables, schema: str) -> None:
        path = connection.engine.url.database
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
        if synchronous < self.SYNCHRONOUS_MIN.get(mode, synchronous + 1):
            raise UnsafeDurability(
                f"{path or 'a database in memory'}: with journal_mode={mode} and synchronous={synchronous} "
                "a commit may be lost; use a file on a local disk and leave both settings alone"
            )

    def restore_session(self, connection: Connection) -> None:
        """Nothing can be set: SQLite refuses to change `synchronous` inside a transaction."""

    def interrupt(self, driver: Any) -> None:
        driver.interrupt()


def _prepare(connection: sqlite3.Connection, record: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}").close()
    connection.execute("PRAGMA journal_mode=WAL").close()

    def authorize(action: int, *_details: object) -> int:
        """Keep handlers from ending the transaction. It is asked when a statement is prepared, not for each row."""
        ends_transaction = action == sqlite3.SQLITE_TRANSACTION and record.info.get(IN_HANDLER, False)
        return sqlite3.SQLITE_DENY if ends_transaction else sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)


def primary_code(error: sqlite3.Error) -> int | None:
    """Give SQLite's primary code, which an extended one has in its low byte; None where the driver itself complains."""
    return error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else None


def cause_of(error: sqlite3.Error) -> Cause:
    """Say who caused a failure."""
    if primary_code(error) in PASSING_CODES:
        return Cause.PASSING
    return Cause.CONTENT if isinstance(error, sqlite3.IntegrityError) else Cause.LASTING


def is_in_memory(url: URL) -> bool:
    """Say whether a URL names a database that is gone with its connection."""
    return url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"


def is_there(url: URL) -> bool:
    """Say whether the file that a URL names can hold anything: to connect would create it."""
    path = url.database or ""
    if "uri" in url.query and path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises for a name that is too long
