"""The one table of what is tried again."""

import asyncio
import sqlite3

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError, OperationalError

from consumer.core.errors import (
    Conflict,
    ConnectFailed,
    CursorAhead,
    Fenced,
    Gap,
    GaveUp,
    HandlerFailed,
    InvalidURL,
    MalformedFrame,
    NotReady,
    ResyncRequired,
    Retry,
    StoppedByForce,
    SyncFailed,
    TLSRefused,
    UnsafeDurability,
)
from consumer.store.databases.base import Cause
from consumer.store.databases.choice import cause_of, is_busy, is_database_error
from consumer.store.retry import Patience, patience


def sqlite_error(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("no")
    error.sqlite_errorcode = code
    return error


def wrapped(error: Exception) -> DBAPIError:
    return OperationalError("SELECT 1", {}, error)


PASSING = [
    errors.ConnectionException(),  # 08000
    errors.ConnectionFailure(),  # 08006
    errors.SerializationFailure(),
    errors.DeadlockDetected(),
    errors.TooManyConnections(),
    errors.DiskFull(),
    errors.OutOfMemory(),
    errors.LockNotAvailable(),
    errors.AdminShutdown(),
    errors.CrashShutdown(),
    errors.CannotConnectNow(),
    errors.QueryCanceled(),  # 57014
    errors.lookup("57P05")(),
    errors.ReadOnlySqlTransaction(),
    errors.IoError(),
    errors.IdleInTransactionSessionTimeout(),
    psycopg.OperationalError("connection refused"),  # without a code
    psycopg.errors.ConnectionTimeout("no"),
    sqlite_error(sqlite3.SQLITE_BUSY),
    sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT),
    sqlite_error(sqlite3.SQLITE_FULL),
    sqlite_error(sqlite3.SQLITE_IOERR),
    sqlite_error(sqlite3.SQLITE_IOERR_FSYNC),
]

FINAL = [
    errors.UniqueViolation(),
    errors.ForeignKeyViolation(),
    errors.DatabaseDropped(),  # 57P04
    errors.InsufficientPrivilege(),
    errors.UndefinedTable(),
    errors.InvalidPassword(),
    errors.InFailedSqlTransaction(),
    errors.RaiseException(),
    psycopg.ProgrammingError("no"),
    psycopg.InterfaceError("no"),
    sqlite_error(sqlite3.SQLITE_CORRUPT, sqlite3.DatabaseError),
    sqlite_error(sqlite3.SQLITE_READONLY),
    sqlite_error(sqlite3.SQLITE_CONSTRAINT, sqlite3.IntegrityError),
    sqlite_error(sqlite3.SQLITE_LOCKED),
    sqlite_error(sqlite3.SQLITE_INTERRUPT),
    sqlite_error(sqlite3.SQLITE_CANTOPEN),
    sqlite3.ProgrammingError("without a code"),
]


@pytest.mark.parametrize(
    "error", PASSING, ids=lambda error: f"{type(error).__name__}-{getattr(error, 'sqlite_errorcode', '')}"
)
def test_what_passes_by_itself_is_tried_for_ever_wherever_it_is_raised(error) -> None:
    for form in (error, wrapped(error)):
        assert patience(form) is Patience.FOREVER
        assert cause_of(form) is Cause.PASSING
        assert is_database_error(form)


@pytest.mark.parametrize(
    "error", FINAL, ids=lambda error: f"{type(error).__name__}-{getattr(error, 'sqlite_errorcode', '')}"
)
def test_what_does_not_is_final(error) -> None:
    for form in (error, wrapped(error)):
        assert patience(form) is Patience.NEVER
        assert cause_of(form) in {Cause.CONTENT, Cause.LASTING}
        assert is_database_error(form)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectFailed(), Patience.CONNECTING),
        (Fenced(1), Patience.THRICE),
        (Gap(1, 3), Patience.THRICE),
        (MalformedFrame(b"?"), Patience.THRICE),
        (Retry(), Patience.FOREVER),
        (SyncFailed("store.db-wal", "no"), Patience.FOREVER),
        (ConnectionResetError(), Patience.FOREVER),
        (BrokenPipeError(), Patience.FOREVER),
        (TimeoutError(), Patience.FOREVER),
        (asyncio.IncompleteReadError(b"", 1), Patience.FOREVER),
        (EOFError(), Patience.FOREVER),
        (Conflict(1, 2, 3), Patience.NEVER),
        (CursorAhead(1, 0), Patience.NEVER),
        (ResyncRequired(1), Patience.NEVER),
        (HandlerFailed(1, "no"), Patience.NEVER),
        (UnsafeDurability(), Patience.NEVER),
        (NotReady("no"), Patience.NEVER),
        (StoppedByForce(), Patience.NEVER),
        (TLSRefused(), Patience.NEVER),
        (GaveUp(3, "no"), Patience.NEVER),
        (InvalidURL(), Patience.NEVER),
        (OSError(), Patience.NEVER),
        (ValueError(), Patience.NEVER),
        (InvalidRequestError(), Patience.NEVER),
        (KeyboardInterrupt(), Patience.NEVER),
        (asyncio.CancelledError(), Patience.NEVER),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_other_error_has_its_line(error, expected) -> None:
    assert patience(error) is expected


def test_only_a_databases_errors_are_a_databases() -> None:
    assert is_database_error(InvalidRequestError())
    assert not is_database_error(ValueError())
    assert cause_of(ConnectionResetError()) is None


def test_busy_is_sqlites_busy_alone() -> None:
    assert is_busy(sqlite_error(sqlite3.SQLITE_BUSY_RECOVERY))
    assert is_busy(wrapped(sqlite_error(sqlite3.SQLITE_BUSY)))
    assert not is_busy(sqlite_error(sqlite3.SQLITE_FULL))
    assert not is_busy(errors.LockNotAvailable())
    assert not is_busy(sqlite3.OperationalError("made by hand, without a code"))


def test_a_commit_is_refused_for_its_content_by_a_constraint_or_a_trigger() -> None:
    for error in (errors.ForeignKeyViolation(), errors.RaiseException(), errors.DivisionByZero()):
        assert cause_of(wrapped(error)) is Cause.CONTENT
    assert (
        cause_of(IntegrityError("COMMIT", {}, sqlite3.IntegrityError("FOREIGN KEY constraint failed"))) is Cause.CONTENT
    )
    for error in (errors.SerializationFailure(), psycopg.OperationalError(), sqlite_error(sqlite3.SQLITE_FULL)):
        assert cause_of(wrapped(error)) is not Cause.CONTENT
