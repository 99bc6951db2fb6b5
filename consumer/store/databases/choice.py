"""The database that a URL names: its engine, its answers for the store, and the causes of its failures.

SQLAlchemy leaves the beginning of a transaction to the drivers. On SQLite that is too late for a lock and leaves DDL
outside the transaction, so on our engines every transaction begins with an explicit statement. No wait is unbounded.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

from sqlalchemy import URL, Engine, pool
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from consumer.core.errors import InvalidURL
from consumer.store.databases import forks, lent, postgresql, sqlite, sqlstates
from consumer.store.databases.base import Cause, Database
from consumer.store.databases.url import parse_url


def make_engine(url: str | URL, **options: Any) -> Engine:
    """Make an engine on which every transaction is explicit.

    Args:
        url: see `parse_url`.
        options: further arguments for SQLAlchemy's `create_engine`.

    Returns:
        The engine. Nothing is connected yet.

    Raises:
        InvalidURL: see `parse_url`.
    """
    url = parse_url(url)
    try:
        url.get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        raise InvalidURL("PostgreSQL needs a driver: pip install 'resumable-consumer[postgres]'") from error
    make = sqlite.make_engine if url.get_backend_name() == "sqlite" else postgresql.make_engine
    return forks.watched(make(url, **options))


def make_engine_like(engine: Engine) -> Engine:
    """Make an engine of our own, whose connections are made as a user's engine makes them. That one stays as it is.

    Raises:
        InvalidOption: it is of another database or driver, or shares its connections.
    """
    is_sqlite = lent.check_engine(engine).dialect.name == "sqlite"
    return forks.watched(sqlite.make_engine_like(engine) if is_sqlite else postgresql.make_engine_like(engine))


def make_short_engine(url: str | URL) -> Engine:
    """Make an engine for one short task: it keeps no connection."""
    return make_engine(url, poolclass=pool.NullPool)


def database_of(engine: Engine) -> Database:
    """Give the answers of an engine's database."""
    return sqlite.SQLite(engine) if engine.dialect.name == "sqlite" else postgresql.PostgreSQL(engine)


def cause_of(error: BaseException) -> Cause | None:
    """Say who caused a failure of a database, by its code. None where it is none."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return sqlite.cause_of(cause)
    psycopg = sys.modules.get("psycopg")  # whoever has an error of its has loaded it; SQLite's users need not have it
    if psycopg is not None and isinstance(cause, psycopg.Error):
        return sqlstates.cause_of_code(cause.sqlstate) if cause.sqlstate else _cause_without_code(psycopg, cause)
    return Cause.LASTING if isinstance(error, SQLAlchemyError) else None


def _cause_without_code(psycopg: Any, error: BaseException) -> Cause:
    """A connection that failed or broke carries no code. Nor does a mistake in the use of the driver."""
    return Cause.PASSING if isinstance(error, psycopg.OperationalError) else Cause.LASTING


def is_database_error(error: BaseException) -> bool:
    """Say whether a database, its driver or SQLAlchemy raised this."""
    return cause_of(error) is not None


def is_busy(error: BaseException) -> bool:
    """Say whether SQLite could not have a lock because another connection has it."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, sqlite3.Error) and sqlite.primary_code(cause) == sqlite3.SQLITE_BUSY
