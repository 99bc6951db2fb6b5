"""Which failures pass by themselves: the one table of what is tried again, and how often.

Errors carry no flag of their own. The supervision (`service.py`) goes by this table, and so does the store, which must
not look for a bad event where the database was at fault.
"""

from __future__ import annotations

import sqlite3
import sys
from enum import Enum
from typing import Any

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from consumer.core.errors import ConnectFailed, Fenced, Gap, MalformedFrame, Retry, SyncFailed


class Patience(Enum):
    """How often a failure is tried again before it is final."""

    FOREVER = "it passes by itself"
    THRICE = "it may pass; without progress three times are enough"
    CONNECTING = "as often as --max-attempts says"
    NEVER = "trying again changes nothing"


TRIES = 3
"""What `Patience.THRICE` means."""

SQLSTATES = (
    "08",  # connection exceptions
    "40001",  # serialization failure
    "40P01",  # deadlock
    "53",  # insufficient resources: connections, memory, disk
    "55P03",  # lock not available: lock_timeout
    "57P01",  # the administrator ends the session
    "57P02",  # the server crashed
    "57P03",  # the server is starting or stopping
)
"""Prefixes of PostgreSQL's codes for what passes by itself."""

REFUSED_SQLSTATES = (
    "22",  # data exceptions
    "23",  # constraints
    "P0",  # RAISE EXCEPTION
)
"""Prefixes of PostgreSQL's codes for content that it, or a trigger of the user's, does not take."""

SQLITE_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
}
"""SQLite's primary codes for what passes by itself."""


def patience(error: BaseException) -> Patience:
    """Look an error up in the table.

    Args:
        error: what was raised, by this package, the database, the network or a handler.

    Returns:
        How often to try again.
    """
    if isinstance(error, ConnectFailed):
        return Patience.CONNECTING
    if isinstance(error, Fenced | Gap | MalformedFrame):
        return Patience.THRICE
    passing = Retry | SyncFailed | ConnectionError | TimeoutError | EOFError
    if isinstance(error, passing) or is_passing_database_failure(error):
        return Patience.FOREVER
    return Patience.NEVER


def is_database_error(error: BaseException) -> bool:
    """Say whether a database, its driver or SQLAlchemy raised this."""
    psycopg = _psycopg()
    return isinstance(error, SQLAlchemyError | sqlite3.Error) or (
        psycopg is not None and isinstance(error, psycopg.Error)
    )


def _psycopg() -> Any:
    """The driver, which whoever has an error of its has loaded; SQLite's users need not have it."""
    return sys.modules.get("psycopg")


def is_busy(error: BaseException) -> bool:
    """Say whether SQLite could not have a lock because another connection has it."""
    return _sqlite_code(error) == sqlite3.SQLITE_BUSY


def is_refused_content(error: DBAPIError) -> bool:
    """Say whether a commit failed for what was to be committed: a deferred constraint or trigger of the user's."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    return isinstance(error, IntegrityError) or str(sqlstate).startswith(REFUSED_SQLSTATES)


def _sqlite_code(error: BaseException) -> int | None:
    """SQLite's primary code: an extended one has it in its low byte."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return (
        cause.sqlite_errorcode & 0xFF
        if isinstance(cause, sqlite3.Error) and hasattr(cause, "sqlite_errorcode")
        else None
    )


def is_passing_database_failure(error: BaseException) -> bool:
    """Say whether a database failed in a way that passes by itself, by its code."""
    cause: Any = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _sqlite_code(cause) in SQLITE_CODES
    psycopg = _psycopg()
    if psycopg is None or not isinstance(cause, psycopg.Error):
        return False
    if cause.sqlstate is None:  # a connection that failed or broke carries no code, whatever the server's reason
        return isinstance(cause, psycopg.OperationalError)
    return str(cause.sqlstate).startswith(SQLSTATES)
