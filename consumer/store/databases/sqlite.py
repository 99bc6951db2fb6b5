"""SQLite: all that this database means for the store.

Its connections and their settings, what is durable, rows in bulk, how a statement is interrupted, and whose fault a
failure is. The files beside a database, which the system must be asked about, are in `durable.py`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlsplit

from sqlalchemy import URL, Connection, Engine, create_engine, event, pool
from sqlalchemy.exc import DBAPIError

from consumer.core import disk
from consumer.core.errors import InvalidOption, UnsafeDurability
from consumer.core.events import Events
from consumer.store.databases import durable, lent
from consumer.store.databases.base import (
    BEGIN_STATEMENT,
    IN_HANDLER,
    REFUSED,
    Cause,
    Database,
    Insertion,
    Locking,
    Moving,
)
from consumer.store.schema import Tables
from consumer.store.statements import Statements, StreamStatements

SCHEMA = "main"
"""The name of a connection's own file, beside `temp` and whatever is attached."""

BUSY_TIMEOUT_S = 10
"""SQLite: how long a statement waits for another connection's lock. Writers are served unfairly, so it is generous."""

BUSY_TIMEOUT_MS = 1000
"""SQLite: a single wait for a lock. Short, since it cannot be interrupted; the store waits again."""

_LEGACY_AUTOCOMMIT = -1
"""sqlite3.LEGACY_TRANSACTION_CONTROL, which Python has since 3.12: the driver goes by `isolation_level`."""

_FILES = "consumer_files"
"""Key in a connection's `info`: its files."""

_PATH, _BEFORE = "consumer_path", "consumer_before"
"""Keys in a connection's `info`: the name that was opened, and which file had it before that."""

_CHANGED = "consumer_changed"
"""Key in a connection's `info`: a handler has done something that outlasts its transaction on this connection."""

_WRITES = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_REINDEX}
"""What changes a database, DDL included, which changes its schema's table. The fourth thing told is which database."""

_LASTING = {
    sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
}
"""What stays on the connection when the transaction has ended."""

_READING_PRAGMAS = {
    "defer_foreign_keys",  # it is off again when the transaction ends
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
}
"""Pragmas that take a value and set nothing that lasts. SQLAlchemy's inspector uses most of them."""

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
    event.listen(engine, "do_connect", _look_before)
    return _with_explicit_transactions(engine)


def make_engine_like(engine: Engine) -> Engine:
    """The same with connections that are made as a user's engine makes them. For `choice.make_engine_like`."""
    make = lent.connecting_like(engine, _make_fit)

    def connect(record: Any) -> sqlite3.Connection:
        with closing(make()) as first:  # which file it is, SQLite alone can say; so that is known before it is opened
            (main,) = first.cursor().execute(durable.MAIN_FILE).fetchone()
            record.info[_PATH] = os.fsdecode(main)
            record.info[_BEFORE] = disk.file_id(record.info[_PATH])
            connection: sqlite3.Connection = make()
            if connection is first:
                raise InvalidOption(lent.SAME_AGAIN)
        return connection

    return _with_explicit_transactions(lent.make_engine_like(engine, connect))


def _make_fit(connection: sqlite3.Connection) -> None:
    """Have a connection that a user's engine has made as our own are, or say what is wrong with it."""
    if getattr(connection, "autocommit", _LEGACY_AUTOCOMMIT) != _LEGACY_AUTOCOMMIT:
        raise InvalidOption(
            "the engine sets sqlite3's autocommit: leave it out, since the store begins its transactions"
        )
    if connection.in_transaction:
        raise InvalidOption(lent.IN_TRANSACTION)
    if connection.row_factory is not None or connection.text_factory is not str:
        raise InvalidOption("the engine sets a row_factory or a text_factory for its connections: leave it out")
    with ThreadPoolExecutor(1) as other_thread:
        try:
            other_thread.submit(connection.cursor).result().close()
        except sqlite3.ProgrammingError as error:
            raise InvalidOption(
                "the engine's connections are for one thread alone: make them with check_same_thread=False, since the "
                "store's is interrupted and closed by another one"
            ) from error
    connection.isolation_level = None


def _with_explicit_transactions(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous=EXTRA")  # durable in the default journal mode too, its folder included
        for pragma in ("fullfsync", "checkpoint_fullfsync"):  # on macOS they mean what `core.disk` means by a sync
            connection.execute(f"PRAGMA {pragma}=1")

    event.listen(engine, "begin", _begin_at_once)
    return engine


def _begin_at_once(connection: Connection) -> None:
    """Begin a transaction, by the driver: SQLAlchemy's way of executing would be a third of a small transaction."""
    statement = connection.get_execution_options().get(BEGIN_STATEMENT, "BEGIN IMMEDIATE")
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute(statement).close()
    except sqlite3.Error as error:
        raise DBAPIError.instance(statement, None, error, sqlite3.Error, dialect=connection.dialect) from error


class SQLite(Database):
    """WAL, and a sync at every commit."""

    PARAMSTYLE = "named"

    CLOCK_MS = "CAST(strftime('%s', 'now') || substr(strftime('%f', 'now'), 4) AS INTEGER)"

    ROWS = (500, 50)
    """Rows of one INSERT statement, as many of the longer as fit: more gain nothing. What is left goes row by row."""

    SYNCHRONOUS_MIN: ClassVar = {"wal": 2, "delete": 3, "truncate": 3, "persist": 3}
    """What PRAGMA synchronous must say at least: 2 is FULL; 3, EXTRA, syncs the directory too. Other modes never do."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        event.listen(engine, "connect", _prepare)

    def current_schema(self, connection: Connection, tables: Tables) -> str:
        return SCHEMA

    def bound_waits(self, connection: Connection) -> None:
        """They are bounded by the connection's busy timeout."""

    def insertion(self, statements: Statements, schema: str) -> Insertion:
        one = self.compile(statements.insert_event, schema).replace(":seq", "?").replace(":delta", "?")
        values = one[one.rindex("(") :]
        many = [(rows, one + f", {values}" * (rows - 1)) for rows in self.ROWS]

        def insert(cursor: sqlite3.Cursor, events: Events) -> int:
            start = inserted = 0
            for rows, statement in many:
                while len(events) - start >= rows:
                    inserted += cursor.execute(statement, events[start : start + rows].numbers).rowcount
                    start += rows
            if len(events) > start:
                inserted += cursor.executemany(one, events[start:]).rowcount
            return inserted

        return insert

    def locking(self, statements: StreamStatements, schema: str) -> Locking:
        some = self.compile(statements.lock_in_list, schema)

        def lock(cursor: sqlite3.Cursor, names: list[str]) -> Sequence[Any]:
            return cursor.execute(some, {"names": json.dumps(names)}).fetchall()

        return lock

    def moving(self, statements: StreamStatements, schema: str) -> Moving:
        one = self.compile(statements.move_on, schema)
        return lambda cursor, rows: cursor.executemany(one, rows).rowcount

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

    def check_place(self, connection: Connection) -> None:
        files = connection.info.get(_FILES)
        if files is None:
            return
        if not files.knows_log:
            files.note_log(is_there=connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal")
        files.check()

    def own_cursor(self, driver: sqlite3.Connection) -> sqlite3.Cursor:
        cursor = driver.cursor()
        cursor.row_factory = None
        return cursor

    def set_up(self, cursor: sqlite3.Cursor) -> None:
        """Its settings are the connection's."""

    def lock(self, cursor: sqlite3.Cursor, statement: str) -> Any:
        return cursor.execute(statement).fetchone()

    def before_handler(self, connection: Connection) -> None:
        """Nothing need be noted."""

    def after_handler(self, connection: Connection) -> None:
        """Nothing need be undone: SQLite refuses to change `synchronous` inside a transaction."""

    def was_changed(self, connection: Connection) -> bool:
        driver: Any = connection.connection.driver_connection
        return (
            bool(connection.info.pop(_CHANGED, False))
            or driver.row_factory is not None
            or driver.text_factory is not str
            or driver.isolation_level is not None
        )

    def interrupt(self, driver: Any) -> None:
        driver.interrupt()


def _look_before(_dialect: object, record: Any, arguments: list[Any], options: dict[str, Any]) -> None:
    """Note which file has the name that SQLite is about to open."""
    path = _path_of(arguments[0]) if options.get("uri") else arguments[0]
    record.info[_PATH], record.info[_BEFORE] = path, disk.file_id(path)


def _prepare(connection: sqlite3.Connection, record: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}").close()
    connection.execute("PRAGMA journal_mode=WAL").close()
    (main,) = connection.execute(durable.MAIN_FILE).fetchone()
    info = record.info
    if main:  # otherwise it is in memory
        info[_FILES] = durable.FilesInPlace(info[_PATH], os.fsdecode(main), info.pop(_BEFORE))
    connection.set_authorizer(_authorizer(info))


def _authorizer(info: dict[str, Any]) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    """Make the function that SQLite asks when a statement is prepared, not for each row, whether that may be done.

    It keeps a handler from ending the transaction and from what would not be atomic with it, and it notes what a
    handler does that outlasts the transaction on its connection.
    """

    def authorize(action: int, name: str | None, value: str | None, database: str | None, _trigger: str | None) -> int:
        if not info.get(IN_HANDLER, False):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_DENY
        if action in {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}:
            info[REFUSED] = (
                "a handler must not attach or detach a database: what is written to another file is not committed "
                "together with the cursor"
            )
            return sqlite3.SQLITE_DENY
        if action in _WRITES and database not in {SCHEMA, "temp", None}:
            info[REFUSED] = (
                f"a handler must not write to the attached database {database}: it is another file, which is not "
                "committed together with the cursor"
            )
            return sqlite3.SQLITE_DENY
        if action in _LASTING or (
            action == sqlite3.SQLITE_PRAGMA and value is not None and name not in _READING_PRAGMAS
        ):
            info[_CHANGED] = True
        return sqlite3.SQLITE_OK

    return authorize


def _path_of(name: str) -> str:
    """Give the path in what SQLite is given to open: a path, or a `file:` URI."""
    return unquote(urlsplit(name).path) if name.startswith("file:") else name


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
    return os.path.exists(_path_of(path) if "uri" in url.query else path)  # noqa: PTH110 - `Path.exists` raises for a name that is too long


def as_it_can_be_read(url: URL) -> URL:
    """Give the URL under which this user can read a file: as it is, where only that is possible.

    To read a file in WAL mode SQLite makes the files of the log anew, which somebody who may only read the folder
    cannot do. Where there is no log, all is in the file itself, and SQLite takes it as one that does not change.
    """
    path = _path_of(url.database or "") if "uri" in url.query else url.database or ""
    places = (path, os.path.dirname(path) or ".")  # noqa: PTH120 - as in `is_there`
    if all(
        os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids) for place in places
    ) or os.path.exists(f"{path}-wal"):  # noqa: PTH110
        return url
    return url.set(database=f"file:{quote(path)}").update_query_dict({"uri": "true", "immutable": "1"})
