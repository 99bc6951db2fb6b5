"""The database of a proof: put back as it was before each run, and read after it.

A proof needs many runs from the same beginning, in the very database that the handler may know by its URL. So what is
in it is kept before the first, and put back: on SQLite page by page, on PostgreSQL table by table. It is a database
for tests, and small; one that is not is refused before anything is changed.
"""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, inspect, select
from sqlalchemy.exc import SAWarning

from consumer.core.events import Event
from consumer.store import migrate
from consumer.store.databases.base import READ_ONLY
from consumer.store.databases.choice import make_short_engine
from consumer.store.schema import CONTRACT, NOTHING_YET, owns_table

ROWS_MAX = 10_000
"""How many rows of a table are looked at or kept. A table with more is not one of a test."""

BYTES_MAX = 16 * 1024 * 1024
"""How large a database may be that is kept in memory or copied for each run."""

Observe = Callable[[Connection], object]
Setup = Callable[[Connection], None]
Tables = dict[str, list[str]]
"""The rows of each of the user's tables, as text, sorted: in which order they stand says nothing."""


class Database:
    """One database, for run after run from the same beginning. A context manager; in the end it is as it was found."""

    def __init__(self, url: str, setup: Setup | None, observe: Observe | None) -> None:
        """Name it. Nothing is done yet.

        Args:
            url: the database, see `consumer.store.databases.url.parse_url`.
            setup: makes what the handler needs, before each run.
            observe: reads what counts, instead of all of the user's tables.
        """
        self._url = url
        self._setup = setup
        self._observe: Observe = observe or read_tables
        self._snapshot: Snapshot

    def __enter__(self) -> Self:
        """Upgrade it and keep what is in it.

        Raises:
            ValueError: the store in it is in use, or it is too large for a test.
        """
        migrate.upgrade(self._url)
        self._engine = make_short_engine(self._url)
        last = migrate.status(self._url).last
        if last != NOTHING_YET:
            raise ValueError(f"the store in this database is at event {last}: a proof needs a database of its own")
        self._snapshot = (SQLite if self._engine.dialect.name == "sqlite" else PostgreSQL)(self._engine)
        return self

    def __exit__(self, *_: object) -> None:
        """Put back what was in it."""
        try:
            self._snapshot.restore()
        finally:
            self._snapshot.close()

    def begin(self) -> None:
        """Make it ready for a run."""
        self._snapshot.restore()
        if self._setup is not None:
            with self._engine.begin() as connection:
                self._setup(connection)

    def look(self) -> tuple[object, list[Event]]:
        """Give what the user's part of it shows, and the ledger."""
        with self._engine.connect().execution_options(**READ_ONLY) as connection:
            rows = connection.execute(select(CONTRACT.ledger).order_by(CONTRACT.ledger.c.seq))
            events = [(int(seq), int(delta)) for seq, delta in rows]
            return self._observe(connection), events


def read_tables(connection: Connection) -> Tables:
    """Read the user's tables: all but ours.

    On PostgreSQL columns that a sequence fills are left out, and those that refer to them: a transaction that is rolled
    back does not give its numbers back, and that is no fault of a handler.

    Raises:
        ValueError: a table has more rows than a test's.
    """
    return {_name(*table): _read_rows(connection, *table) for table in _find_tables(connection)}


def _find_tables(connection: Connection) -> list[tuple[str | None, str]]:
    inspector = inspect(connection)
    default = inspector.default_schema_name
    if connection.dialect.name == "sqlite":
        schemas: list[str | None] = [None]
    else:
        schemas = [None if name == default else name for name in inspector.get_schema_names() if _is_of_users(name)]
    tables = [(where, name) for where in schemas for name in inspector.get_table_names(where)]
    return sorted(
        (table for table in tables if table[0] is not None or not owns_table(table[1])), key=lambda t: _name(*t)
    )


def _is_of_users(name: str) -> bool:
    return name != "information_schema" and not name.startswith("pg_")


def _name(where: str | None, name: str) -> str:
    return name if where is None else f"{where}.{name}"


def _read_rows(connection: Connection, where: str | None, name: str) -> list[str]:
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(quote(column) for column in _columns(connection, where, name))
    table = quote(name) if where is None else f"{quote(where)}.{quote(name)}"
    rows = connection.exec_driver_sql(f"SELECT {columns} FROM {table} LIMIT {ROWS_MAX + 1}").all()  # noqa: S608 - quoted
    if len(rows) > ROWS_MAX:
        raise ValueError(f"the table {_name(where, name)} has more than {ROWS_MAX} rows: this is no database of a test")
    return sorted(repr(tuple(row)) if len(row) > 1 else repr(row[0]) for row in rows)


def _columns(connection: Connection, where: str | None, name: str) -> list[str]:
    if connection.dialect.name == "sqlite":
        return _counted(connection, where, name)[0]
    columns, counted = _counted(connection, where, name)
    for key in inspect(connection).get_foreign_keys(name, where):
        referred = _counted(connection, key["referred_schema"], key["referred_table"])[1]
        pairs = zip(key["constrained_columns"], key["referred_columns"], strict=True)
        counted |= {column for column, target in pairs if target in referred}
    return [column for column in columns if column not in counted] or columns


def _counted(connection: Connection, where: str | None, name: str) -> tuple[list[str], set[str]]:
    """Give the names of all columns, and of those that a sequence fills."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # a type that SQLAlchemy does not know
        columns = inspect(connection).get_columns(name, where)
    counted = {
        str(column["name"])
        for column in columns
        if column.get("identity") or str(column.get("default") or "").startswith("nextval(")
    }
    return [str(column["name"]) for column in columns], counted


class Snapshot(ABC):
    """What was in a database."""

    @abstractmethod
    def __init__(self, engine: Engine) -> None:
        """Keep it."""

    @abstractmethod
    def restore(self) -> None:
        """Put it back."""

    @abstractmethod
    def close(self) -> None:
        """Forget it."""


class SQLite(Snapshot):
    """A copy of the file, by SQLite's own means: other connections may be open."""

    _SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        with _driver(engine) as driver:
            size = driver.execute(self._SIZE).fetchone()[0]
            if size > BYTES_MAX:
                raise ValueError(f"this database has {size} bytes: it is none of a test")
            self._folder = tempfile.TemporaryDirectory(prefix="consumer-proof-")
            self._copy = make_short_engine(f"sqlite:///{Path(self._folder.name) / 'copy.db'}")
            with _driver(self._copy) as copy:
                driver.backup(copy)

    def restore(self) -> None:
        """Copy the file back."""
        with _driver(self._engine) as driver, _driver(self._copy) as copy:
            copy.backup(driver)

    def close(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()


class PostgreSQL(Snapshot):
    """The rows of all tables, and where the sequences stand. Tables that were not there are dropped."""

    _MINE = (
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname <> 'information_schema' "
        "AND n.nspname NOT LIKE 'pg\\_%' AND NOT EXISTS "
        "(SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') "  # an extension's
    )
    _TABLES = f"SELECT c.oid::regclass::text {_MINE} AND c.relkind = 'r'"
    _SEQUENCES = f"SELECT c.oid::regclass::text {_MINE} AND c.relkind = 'S'"
    _REFERENCES = (
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint "
        "WHERE contype = 'f' AND conrelid <> confrelid"
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: dict[str, bytes] = {}
        with _driver(engine) as driver, driver.cursor() as cursor:
            tables = self._names(cursor, self._TABLES)
            order = TopologicalSorter({table: set[str]() for table in tables})
            for table, referred in cursor.execute(self._REFERENCES).fetchall():
                if table in tables and referred in tables:
                    order.add(table, referred)
            for table in order.static_order():  # those that are referred to come first
                with cursor.copy(f"COPY {table} TO STDOUT") as copy:
                    self._rows[table] = b"".join(map(bytes, copy))
                if sum(map(len, self._rows.values())) > BYTES_MAX:
                    raise ValueError(f"this database has more than {BYTES_MAX} bytes: it is none of a test")
            self._sequences = {
                name: cursor.execute(f"SELECT last_value, is_called FROM {name}").fetchone()  # noqa: S608 - as the server quotes it
                for name in self._names(cursor, self._SEQUENCES)
            }

    @staticmethod
    def _names(cursor: Any, query: str) -> list[str]:
        return [name for (name,) in cursor.execute(query).fetchall()]

    def restore(self) -> None:
        """Fill all tables anew, in one transaction."""
        with _driver(self._engine) as driver, driver.cursor() as cursor:
            for table in self._names(cursor, self._TABLES):
                if table not in self._rows:
                    cursor.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
            cursor.execute(f"TRUNCATE {', '.join(self._rows)}")
            for table, rows in self._rows.items():
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(rows)
            for name, (value, is_called) in self._sequences.items():
                cursor.execute("SELECT setval(%s::regclass, %s, %s)", (name, value, is_called))
            driver.commit()

    def close(self) -> None:
        """Nothing is kept but in memory."""


@contextmanager
def _driver(engine: Engine) -> Iterator[Any]:
    """Give a connection of the driver, with no transaction begun."""
    with closing(engine.raw_connection()) as connection:
        yield connection.driver_connection
