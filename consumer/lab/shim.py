"""Steps 2, 3 and 5 of the contract: a store in one SQLite file, on a plain `sqlite3` connection.

The definitions and statements are those of `store/schema.py` and `store/statements.py`, compiled once to SQLite's text;
the verdict is that of `core/verdict.py`. What is here is the transaction around them.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql import ClauseElement

from consumer.core.events import check_event
from consumer.core.verdict import Verdict, judge
from consumer.sources.tcp.wire import encode_ack, parse_line
from consumer.store.databases import durable
from consumer.store.schema import CONTRACT, FoundColumn, difference
from consumer.store.statements import Statements

BUSY_TIMEOUT_S = 1
"""How long a statement waits for another connection's lock; the contract's number."""

Fault: TypeAlias = Callable[[], object]
"""What `apply_event` calls in the middle of its transaction, for tests; what it returns is ignored."""


_MAIN = "main"
"""Each table is named with its schema, so that a temporary table of the same name is never meant."""


_DIALECT = sqlite.dialect(paramstyle="named")


def _text(clause: ClauseElement) -> str:
    return str(clause.compile(dialect=_DIALECT, schema_translate_map={None: _MAIN}, render_schema_translate=True))


_TABLES = CONTRACT.contract
_STATEMENTS = Statements(CONTRACT)
_CREATE = [_text(CreateTable(table, if_not_exists=True)) for table in _TABLES]
_INSERT_FIRST_ROW = _text(_STATEMENTS.insert_first_row)
_READ_STATE = _text(_STATEMENTS.read_state)
_READ_DELTA = _text(_STATEMENTS.read_delta)
_INSERT_EVENT = _text(_STATEMENTS.insert_event)
_ADD_TO_TOTAL = _text(_STATEMENTS.add_to_total)
_MOVE_CURSOR = _text(_STATEMENTS.move_cursor)


def open_store(path: str | PathLike[str]) -> sqlite3.Connection:
    """Open a store, and make or complete it where it is not ready. What is there is never reset.

    Args:
        path: the file, passed on to `sqlite3.connect` as it is.

    Returns:
        A connection with `isolation_level=None` (transactions are explicit), a busy timeout of 1 s and
        `PRAGMA synchronous=EXTRA`, which makes a commit durable in SQLite's default journal mode.

    Raises:
        sqlite3.Error: the file cannot be used, or it has a table of ours with other columns. The connection is closed.
    """
    con = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        con.execute("PRAGMA synchronous=EXTRA")
        con.execute("PRAGMA fullfsync=1")  # on macOS a sync stops at the drive's cache otherwise
        if not _is_ready(con):
            _complete(con)
    except BaseException:
        with suppress(sqlite3.Error):
            con.close()
        raise
    return con


def _is_ready(con: sqlite3.Connection) -> bool:
    """Look without a write lock, so that a store in use can be opened."""
    tables_are_there = [_has_table(con, table) for table in _TABLES]
    return all(tables_are_there) and _fetch(con, _READ_STATE) is not None


def _has_table(con: sqlite3.Connection, table: Table) -> bool:
    cursor = con.execute(f"PRAGMA {_MAIN}.table_info({table.name})")
    cursor.row_factory = None
    found = [FoundColumn(name, type_, bool(key)) for _, name, type_, _, _, key in cursor.fetchall()]
    if not found:
        return False
    problem = difference(table, found, _DIALECT)
    if problem is not None:
        raise sqlite3.DatabaseError(problem)
    return True


def _complete(con: sqlite3.Connection) -> None:
    """Create what is missing, under the write lock: several processes may open a new file at once."""
    try:
        con.execute("BEGIN IMMEDIATE")
        for statement in _CREATE:
            con.execute(statement)
        con.execute(_INSERT_FIRST_ROW)
        con.execute("COMMIT")
    except BaseException:
        _roll_back(con)
        raise


def make_durable(con: sqlite3.Connection) -> None:
    """Sync what a process that was killed inside COMMIT may have left visible and not on disk.

    That is the removal of the journal, and so the folder; in a database that another program has set to WAL, the log.

    Raises:
        SyncFailed, UnsafeDurability: that cannot be done.
    """
    row = _fetch(con, durable.MAIN_FILE)
    if row is not None and row[0]:  # otherwise it is in memory
        file = durable.main_file(row[0])
        durable.sync(Path(f"{file}-wal"))
        durable.sync(file.parent)


def files_of(con: sqlite3.Connection) -> durable.FilesInPlace | None:
    """Note which files a connection has open, to find out later whether they still are in their place.

    Returns:
        The files, None for a database in memory.
    """
    row = _fetch(con, durable.MAIN_FILE)
    if row is None or not row[0]:
        return None
    main = os.fsdecode(row[0])
    files = durable.FilesInPlace(main, main, None)
    con.execute(f"PRAGMA {_MAIN}.table_info({CONTRACT.checkpoint.name})").close()  # after a first look there is a log
    mode = _fetch(con, "PRAGMA journal_mode")
    files.note_log(is_there=mode == ("wal",))
    return files


def state(con: sqlite3.Connection) -> tuple[int, int]:
    """Read `(last, total)`: the number of the last event applied, -1 for none, and the sum of all deltas.

    Raises:
        sqlite3.Error: the checkpoint has no row or cannot be read.
    """
    row = _fetch(con, _READ_STATE)
    if row is None:
        raise sqlite3.DatabaseError("the checkpoint has no row: open_store() completes a store")
    last, total = row
    if not isinstance(last, int) or not isinstance(total, int):  # somebody else's table may allow that
        raise sqlite3.DatabaseError(f"the checkpoint holds last {last!r} and total {total!r}: restore it")
    return last, total


def apply_event(con: sqlite3.Connection, seq: int, delta: int, fault: Fault | None = None) -> bool:
    """Apply one event in one transaction: ledger row, total, cursor, commit.

    Args:
        con: a connection from `open_store`, in no transaction.
        seq: the event's number, 0..2147483647.
        delta: its change, -1000..1000.
        fault: called between the updates of total and cursor, for tests of what happens if that fails.

    Returns:
        True where the event was applied, False where it had been before.

    Raises:
        ValueError: seq or delta is no int in range; nothing was touched.
        Gap: an event before this one is missing.
        Conflict: the number is known with other content.
        sqlite3.Error: the database failed, `con` is in a transaction of the caller's, or `fault` ended ours.
        BaseException: whatever else went wrong, `fault` included. Everything is rolled back.
    """
    check_event(seq, delta)
    if con.in_transaction:
        raise sqlite3.ProgrammingError(
            "apply_event needs a transaction of its own: commit or roll back the open one first"
        )
    try:
        con.execute("BEGIN IMMEDIATE")
        recorded = _fetch(con, _READ_DELTA, seq=seq)
        verdict = judge(state(con)[0], seq, delta, None if recorded is None else recorded[0])
        if verdict is Verdict.NEW:
            _write(con, _INSERT_EVENT, seq=seq, delta=delta)
            _write(con, _ADD_TO_TOTAL, delta=delta)
            if fault is not None:
                _call_inside(con, fault)
            _write(con, _MOVE_CURSOR, seq=seq)
        con.execute("COMMIT")
    except BaseException:
        _roll_back(con)
        raise
    return verdict is Verdict.NEW


def consume_line(con: sqlite3.Connection, line: bytes, fault: Fault | None = None) -> bytes:
    r"""Apply one EVENT line and give the ACK line, which exists only when the event is committed.

    Args:
        con: as for `apply_event`.
        line: as for `parse_line`.
        fault: as for `apply_event`.

    Returns:
        ``ACK <seq>\n``, for a duplicate with the same content too.

    Raises:
        BaseException: what `parse_line` and `apply_event` raise.
    """
    seq, delta = parse_line(line)
    apply_event(con, seq, delta, fault)
    return encode_ack(seq)


def _fetch(con: sqlite3.Connection, statement: str, **values: int) -> tuple[Any, ...] | None:
    """The first row, as a plain tuple whatever `row_factory` the caller has set."""
    cursor = con.execute(statement, values)
    cursor.row_factory = None
    row: tuple[Any, ...] | None = cursor.fetchone()
    cursor.close()
    return row


def _write(con: sqlite3.Connection, statement: str, **values: int) -> None:
    """Change exactly one row. A trigger can ignore a write without an error; that must not move the cursor."""
    if con.execute(statement, values).rowcount != 1:
        raise sqlite3.IntegrityError(f"exactly one row should have changed: {statement}")


def _call_inside(con: sqlite3.Connection, fault: Fault) -> None:
    """Call `fault` inside a savepoint, whose release fails if the transaction is no longer the one it was made in."""
    savepoint = f"fault_{secrets.token_hex()}"  # a name that a transaction of the fault's own cannot have by accident
    con.execute(f"SAVEPOINT {savepoint}")
    fault()
    con.execute(f"RELEASE {savepoint}")


def _roll_back(con: sqlite3.Connection) -> None:
    """Leave no transaction, and never hide the error that brought us here: the connection may be closed by now."""
    with suppress(sqlite3.Error):
        if con.in_transaction:
            con.execute("ROLLBACK")
