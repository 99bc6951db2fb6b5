"""Engines: database connections whose transactions, waits and settings are ours, for SQLite and PostgreSQL.

SQLAlchemy leaves the beginning of a transaction to the drivers. On SQLite that is too late for a lock and leaves DDL
outside the transaction, so here every transaction begins with an explicit statement. No wait is unbounded.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, pool
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from consumer.core.errors import InvalidURL
from consumer.core.keepalive import OURS

BUSY_TIMEOUT_S = 10
"""SQLite: how long a statement waits for another connection's lock. Writers are served unfairly, so it is generous."""

CONNECT_TIMEOUT_S = 10
"""PostgreSQL: how long a connection may take to be made."""

LOCK_TIMEOUT_S = 30
"""PostgreSQL: how long a statement waits for a lock. Above any healthy transaction of another consumer."""

BEGIN_STATEMENT = "consumer_begin"
"""Execution option: what begins a transaction on SQLite, where it is not to be BEGIN IMMEDIATE."""

READ_ONLY = {BEGIN_STATEMENT: "BEGIN DEFERRED"}
"""Execution options for a transaction that only reads: it takes no write lock."""

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}

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


def parse_url(text: str | URL) -> URL:
    """Read a database URL.

    Args:
        text: `sqlite:///FILE`, with `timeout` in seconds or, for a `file:` URI, `uri=true` and SQLite's own options
            after a `?`; or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` with libpq's options after it.

    Returns:
        The URL, with the driver that this package uses.

    Raises:
        InvalidURL: it is none, or of another database or driver.
    """
    try:
        str(text).encode()
    except UnicodeEncodeError:
        raise InvalidURL("this database URL cannot be used: it holds bytes that are no UTF-8") from None
    try:
        url = make_url(text)
        url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
        usable = url.drivername in _DRIVERS.values() and _is_usable(url)
    except (ArgumentError, NoSuchModuleError, ValueError, TypeError):
        url, usable = None, False
    if url is None or not usable:
        scheme = str(text).partition(":")[0] if "://" in str(text) else ""
        raise InvalidURL(
            f"this database URL{f' ({scheme}://…)' if scheme else ''} cannot be used: "
            "give sqlite:///FILE or postgresql://USER@HOST/DATABASE, with %40 for an @ in a password"
        )
    return url


def _is_usable(url: URL) -> bool:
    """Look at what SQLAlchemy would find out too late, or would put right with a warning."""
    if "@" in (url.host or ""):
        return False  # the rest of a password with a bare @, which would be shown as the host's name
    if url.get_backend_name() == "sqlite" and "uri" not in url.query and set(url.query) - {"timeout"}:
        return False  # `?mode=ro` without `uri=true` would be ignored
    url.get_dialect()().create_connect_args(url)  # raises where a value is none
    return True


def show_url(url: URL) -> str:
    """Write a URL as it may be shown: no password, wherever in it that stands."""
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)


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
    return _make_sqlite(url, **options) if url.get_backend_name() == "sqlite" else _make_postgresql(url, **options)


def _make_sqlite(url: URL, **options: Any) -> Engine:
    # isolation_level=None keeps the driver from beginning and committing by itself.
    arguments: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
    if "timeout" not in url.query:
        arguments["timeout"] = BUSY_TIMEOUT_S
    options.setdefault("poolclass", pool.QueuePool)  # for a URI SQLAlchemy would guess at a pool, with a warning
    engine = create_engine(url, connect_args=arguments, **options)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute(
            "PRAGMA synchronous=EXTRA"
        )  # durable in the default journal mode too, directory entry included

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(BEGIN_STATEMENT, "BEGIN IMMEDIATE"))

    return engine


def _make_postgresql(url: URL, **options: Any) -> Engine:
    arguments = {name: value for name, value in _LIBPQ.items() if name not in url.query}
    # READ COMMITTED whatever the server's default: under REPEATABLE READ a second consumer's lock is an error, no wait.
    engine = create_engine(url, connect_args=arguments, isolation_level="READ COMMITTED", **options)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute(SET_SESSION)
        connection.commit()

    return engine


def make_short_engine(url: str | URL) -> Engine:
    """Make an engine for one short task: it keeps no connection."""
    return make_engine(url, poolclass=pool.NullPool)
