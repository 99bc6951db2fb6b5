"""Engines and connections that a user lends us: what they must satisfy, found out before anything is done."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Dialect

from consumer.store.schema import Tables

DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
"""SQLAlchemy's names of the drivers that this package works with, for each database."""

_TEMPORARY = {
    "sqlite": "SELECT name FROM sqlite_temp_master",
    "postgresql": "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema()",
}
"""Gives the names of a session's temporary tables and views, among others."""


class Unusable(Exception):
    """What was lent cannot be used; the message says why, and what to do instead."""


def check_dialect(dialect: Dialect) -> None:
    """Raise `Unusable` for another database or driver."""
    if dialect.is_async or DRIVERS.get(dialect.name) != dialect.driver:
        raise Unusable(
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
        Unusable: that is not so.
    """
    check_dialect(connection.dialect)
    if not connection.in_transaction():
        raise Unusable(
            "this connection is in no transaction, so nobody would commit: take one of engine.begin(), or call "
            "connection.begin() first"
        )
    if connection.get_execution_options().get("schema_translate_map"):
        raise Unusable(
            "this connection has a schema_translate_map: take one without it, and name the schema by schema="
        )
    driver: Any = connection.connection.driver_connection
    is_transactional = not driver.autocommit if connection.dialect.name == "postgresql" else _is_begun(connection)
    if not is_transactional:
        raise Unusable(
            "this connection commits each statement by itself (AUTOCOMMIT), so half an upgrade could stay: take one "
            "whose transactions are real"
        )
    found = connection.exec_driver_sql(_TEMPORARY[connection.dialect.name]).scalars()
    hiding = sorted({name.lower() for name in tables.names()} & {name.lower() for name in found})
    if hiding:
        raise Unusable(f"this connection has a temporary table {hiding[0]}, which hides the store's: drop it first")


def _is_begun(connection: Connection) -> bool:
    """Begin the transaction of SQLite's driver, where that is left to the driver, and say whether there is one."""
    driver: Any = connection.connection.driver_connection
    if getattr(driver, "autocommit", False) is True:  # since Python 3.12
        return False
    if not driver.in_transaction and driver.isolation_level is not None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    return bool(driver.in_transaction)
