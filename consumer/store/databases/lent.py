"""Engines and connections that a user lends us: what they must satisfy, found out before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, pool
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from consumer.core.errors import InvalidOption
from consumer.store.schema import Tables

DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
"""SQLAlchemy's names of the drivers that this package works with, for each database."""

_TEMPORARY = {
    "sqlite": "SELECT name FROM sqlite_temp_master",
    "postgresql": "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema()",
}
"""Gives the names of a session's temporary tables and views, among others."""


SAME_AGAIN = "the engine's creator gives the same connection twice: let it make a new one each time"
IN_TRANSACTION = "a listener of the engine's has begun a transaction on a new connection: let it commit or roll back"
"""Why a new connection cannot be used, on both databases."""


def check_dialect(dialect: Dialect) -> None:
    """Raise `InvalidOption` for another database or driver."""
    if dialect.is_async or DRIVERS.get(dialect.name) != dialect.driver:
        raise InvalidOption(
            f"an engine of {dialect.name}+{dialect.driver} cannot be used: make one of sqlite:///FILE or of "
            "postgresql+psycopg://…, which is not asynchronous"
        )


def check_connection(connection: Connection, tables: Tables) -> None:
    """Make sure that what is done on a connection is committed with its user's transaction, or not at all.

    On SQLite the transaction is begun where the driver has not done so yet: it leaves DDL outside otherwise.

    Args:
        connection: the user's.
        tables: those of the store.

    Raises:
        InvalidOption: that is not so.
    """
    check_dialect(connection.dialect)
    if not connection.in_transaction():
        raise InvalidOption(
            "this connection is in no transaction, so nobody would commit: take one of engine.begin(), or call "
            "connection.begin() first"
        )
    if connection.get_execution_options().get("schema_translate_map"):
        raise InvalidOption(
            "this connection has a schema_translate_map: take one without it, and name the schema by schema="
        )
    driver: Any = connection.connection.driver_connection
    is_transactional = not driver.autocommit if connection.dialect.name == "postgresql" else _is_begun(connection)
    if not is_transactional:
        raise InvalidOption(
            "this connection commits each statement by itself (AUTOCOMMIT), so half an upgrade could stay: take one "
            "whose transactions are real"
        )
    found = connection.exec_driver_sql(_TEMPORARY[connection.dialect.name]).scalars()
    hiding = sorted({name.lower() for name in tables.names()} & {name.lower() for name in found})
    if hiding:
        raise InvalidOption(
            f"this connection has a temporary table {hiding[0]}, which hides the store's: drop it first"
        )


def _is_begun(connection: Connection) -> bool:
    """Begin the transaction of SQLite's driver, where that is left to the driver, and say whether there is one."""
    driver: Any = connection.connection.driver_connection
    if getattr(driver, "autocommit", False) is True:  # since Python 3.12
        return False
    if not driver.in_transaction and driver.isolation_level is not None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    return bool(driver.in_transaction)


def check_engine(engine: object) -> Engine:
    """Make sure that connections for a store can be made as a user's engine makes them.

    Returns:
        The engine.

    Raises:
        InvalidOption: that is not so.
    """
    if not isinstance(engine, Engine):
        raise InvalidOption(f"engine= takes an Engine that create_engine() has made, not {type(engine).__name__}")
    check_dialect(engine.dialect)
    if isinstance(engine.pool, pool.StaticPool | pool.SingletonThreadPool):
        raise InvalidOption(
            f"the engine's {type(engine.pool).__name__} shares one connection, and a store needs some of its own: "
            "make it with a file and a QueuePool or a NullPool"
        )
    return engine


def connecting_like(engine: Engine, prepare: Callable[[Any], None]) -> Callable[[], Any]:
    """Give the function that makes a connection of the driver's as a user's engine does, for nobody else's use.

    What the engine was told to do for a connection is done: its arguments, its creator, its listeners. None is taken
    from the user's pool. One that has waited there might be to a file that is gone.

    Args:
        engine: the user's.
        prepare: makes a new connection fit for a store, or raises `InvalidOption`.
    """
    source = engine.pool.recreate()

    def connect() -> Any:
        taken = source.connect()
        taken.detach()
        connection: Any = taken.dbapi_connection
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def make_engine_like(engine: Engine, connect: Callable[[Any], Any]) -> Engine:
    """Make an engine of our own that speaks to a database as a user's does, with connections that `connect` makes.

    Args:
        engine: the user's. Nothing of it changes, and none of its listeners hears of ours.
        connect: given a pool's record, makes a connection of the driver's.
    """

    def creator(rec: ConnectionPoolEntry) -> DBAPIConnection:
        made: DBAPIConnection = connect(rec)
        return made

    ours = pool.QueuePool(creator, dialect=engine.dialect)
    return Engine(ours, engine.dialect, engine.url, echo=engine.echo, hide_parameters=engine.hide_parameters)
