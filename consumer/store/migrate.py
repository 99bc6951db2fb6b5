"""Find, run and report the migrations; adopt a store that has none recorded.

The library form of `alembic upgrade head`: the same scripts and the same `env.py`, found beside the package in a
checkout and inside it in a wheel. Every run is one transaction under a lock, so that many processes may upgrade at once
and a migration that fails leaves the schema and its revision as they were, on both databases.

On a connection that a user lends us, a run is a part of the user's transaction, and may be a part of the user's own
Alembic run.
"""

from __future__ import annotations

import io
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from alembic import command, context, op
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Inspector, Table, inspect

from consumer.core.errors import ConsumerError, InvalidOption, NotReady, SchemaMismatch, UnsafeDurability
from consumer.store.databases import lent, postgresql, sqlite
from consumer.store.databases.base import READ_ONLY
from consumer.store.databases.choice import make_short_engine
from consumer.store.databases.url import parse_url
from consumer.store.schema import FoundColumn, Tables, difference
from consumer.store.statements import Statements

LOCK_KEY = 0x636F6E73756D6572
"""PostgreSQL: the advisory lock that one migration at a time holds ("consumer" in ASCII)."""

_alembic = threading.Lock()
"""Alembic keeps the running migration in module globals: one thread at a time."""

FIRST_WITH_STREAMS = "0002"
"""The first revision that has tables for records."""

DROP = "drop=yes"
"""The `-x` argument that lets a store be removed which holds something."""


class MigrationRefused(ConsumerError, CommandError):
    """A migration that was not begun; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Names:
    """How a store's tables are called.

    Attributes:
        prefix: what their names begin with.
        schema: where they are, on PostgreSQL; None for the first schema of the session's `search_path` that exists.
    """

    prefix: str = ""
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What a store holds and where its schema stands.

    Attributes:
        last: the cursor, -1 for none.
        total: the sum of all deltas.
        ledger_rows: how many events the ledger holds.
        revision: the schema's revision, None where no migration is recorded.
        head: the revision that this version needs.
    """

    last: int
    total: int
    ledger_rows: int
    revision: str | None
    head: str

    @property
    def has_streams(self) -> bool:
        """Whether the schema is as new as streams of records."""
        return self.revision is not None and self.revision >= FIRST_WITH_STREAMS


def upgrade(url: str | Connection, *, prefix: str = "", schema: str | None = None) -> None:
    """Bring a database to the newest revision: create the store, or adopt one that is there, with its data.

    Args:
        url: the database, see `consumer.store.databases.url.parse_url`; or a SQLAlchemy connection of yours that is in
            a transaction, such as `op.get_bind()` in a migration of yours. Then nothing is committed here: the store
            is there when you commit, and not if you roll back.
        prefix: what the names of the tables begin with.
        schema: where the tables are, on PostgreSQL; see `Store`.

    Raises:
        InvalidURL: the URL cannot be used.
        InvalidOption: the prefix or the schema cannot be used.
        MigrationRefused: the connection cannot be used, or a URL was given while Alembic runs your own migrations.
        UnsafeDurability: it is a database in memory.
        SchemaMismatch: a table of ours is there with another shape; nothing was changed.
        NotReady: the database is at a revision that this version does not know, or a schema of the `search_path` other
            than the first holds a store.
        sqlalchemy.exc.DBAPIError: the database failed; nothing was changed.
    """
    if isinstance(url, Connection):
        with _lent(url, Names(prefix, schema)) as config:
            if not _is_at_head(url, Tables(prefix)):
                _run(lambda: command.upgrade(config, "head"))
        return
    names, parsed = _checked(url, prefix, schema)
    if parsed.get_backend_name() == "sqlite":
        if sqlite.is_in_memory(parsed):
            raise UnsafeDurability("a database in memory keeps nothing: name a file, sqlite:///FILE")
        is_there = sqlite.is_there(parsed)
    else:
        is_there = True
    if is_there:
        with _looking_at(parsed, names) as connection:
            if _is_at_head(connection, Tables(prefix)):
                return  # there is no need to wait for a lock, which a consumer may have
    config = _configure(names, parsed)
    _run(lambda: command.upgrade(config, "head"))


def upgrade_sql(url: str, *, prefix: str = "", schema: str | None = None) -> str:
    """Give the SQL of all migrations, for somebody else to apply. Needs no database; adopts nothing."""
    script = io.StringIO()
    config = _configure(*_checked(url, prefix, schema), output=script)
    _run(lambda: command.upgrade(config, "head", sql=True))
    return script.getvalue()


def downgrade(
    url: str | Connection, revision: str = "base", *, drop: bool = False, prefix: str = "", schema: str | None = None
) -> None:
    """Go back to an older revision.

    Args:
        url: the database, or a connection of yours, as for `upgrade`.
        revision: where to; `base` removes the store.
        prefix: what the names of the tables begin with.
        schema: where the tables are, on PostgreSQL; see `Store`.
        drop: remove a store even if it holds something. The next RESUME would be -1, and every event would come again.

    Raises:
        MigrationRefused: the store holds something and `drop` was not said; or as for `upgrade`.
        InvalidURL, NotReady, sqlalchemy.exc.DBAPIError: as for `upgrade`.
    """
    x = [DROP] if drop else []
    if isinstance(url, Connection):
        with _lent(url, Names(prefix, schema), x) as config:
            _run(lambda: command.downgrade(config, revision))
        return
    config = _configure(*_checked(url, prefix, schema), x=x)
    _run(lambda: command.downgrade(config, revision))


def status(url: str, *, prefix: str = "", schema: str | None = None) -> Status:
    """Read what a store holds and where its schema stands. Changes nothing and creates no file.

    Args:
        url: the database.
        prefix: what the names of the tables begin with.
        schema: where the tables are, on PostgreSQL; see `Store`.

    Raises:
        NotReady: there is no store.
        SchemaMismatch: a table of ours is there with another shape.
        InvalidURL, InvalidOption, sqlalchemy.exc.DBAPIError: as for `upgrade`.
    """
    with looking(url, prefix=prefix, schema=schema) as (_, found):
        return found


@contextmanager
def looking(url: str, *, prefix: str, schema: str | None) -> Iterator[tuple[Connection, Status]]:
    """Connect to a store to read only, with its schema entered. Gives the connection, and what `status` gives.

    Raises:
        Exception: as for `status`.
    """
    names, parsed = _parsed(url, prefix, schema)
    missing = NotReady("there is no store in this database", needs_upgrade=True)
    if parsed.get_backend_name() == "sqlite" and not sqlite.is_there(parsed):
        raise missing
    tables = Tables(names.prefix)
    statements = Statements(tables)
    readable = sqlite.as_it_can_be_read(parsed) if parsed.get_backend_name() == "sqlite" else parsed
    with _looking_at(readable, names) as connection:
        if find_tables(connection, tables.contract) != set(tables.contract):
            raise missing
        row = connection.execute(statements.read_state).one_or_none()
        if row is None:
            raise missing
        ledger_rows = connection.execute(statements.count_ledger).scalar_one()
        yield connection, Status(row.last, row.total, ledger_rows, read_revision(connection, tables), head())


def head() -> str:
    """Give the newest revision."""
    revision = ScriptDirectory.from_config(_find_scripts()).get_current_head()
    assert revision is not None
    return revision


def read_revision(connection: Connection, tables: Tables) -> str | None:
    """Give the revision of a database, None where no migration is recorded."""
    return MigrationContext.configure(connection, opts={"version_table": tables.version.name}).get_current_revision()


@contextmanager
def _looking_at(url: URL, names: Names) -> Iterator[Connection]:
    """Connect, to read only, with the store's schema entered."""
    with make_short_engine(url).connect().execution_options(**READ_ONLY) as connection:
        enter_schema(connection, names)
        yield connection


def _is_at_head(connection: Connection, tables: Tables) -> bool:
    if read_revision(connection, tables) != head():
        return False
    if not _has_all(connection, tables) or connection.execute(Statements(tables).read_state).first() is None:
        raise SchemaMismatch("this store is at its newest revision but has lost a table or its cursor: restore it")
    return True


def _has_all(connection: Connection, tables: Tables) -> bool:
    ours = tables.metadata.sorted_tables
    return find_tables(connection, ours) == set(ours)


def find_tables(connection: Connection, tables: Iterable[Table]) -> set[Table]:
    """Find which of some tables a database has.

    Raises:
        SchemaMismatch: one of them has another shape.
    """
    found = set()
    inspector = inspect(connection)
    for table in tables:
        name = _find_name(inspector, table)
        if name is None:
            continue
        keys = inspector.get_pk_constraint(name)["constrained_columns"]
        columns = [FoundColumn(c["name"], str(c["type"]), c["name"] in keys) for c in inspector.get_columns(name)]
        problem = difference(table, columns, connection.dialect)
        if problem is not None:
            raise SchemaMismatch(f"{problem}. Nothing was changed; rename that table, or use another database")
        found.add(table)
    return found


def _find_name(inspector: Inspector, table: Table) -> str | None:
    """Give the name that a database has a table of ours under: to SQLite case is nothing, to the inspector it is."""
    if inspector.dialect.name == "sqlite":
        names = (*inspector.get_table_names(), *inspector.get_view_names())
        return next((name for name in names if name.lower() == table.name.lower()), None)
    return table.name if inspector.has_table(table.name) else None


def lock(connection: Connection) -> None:
    """Wait until no other migration runs on this database. It lasts until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")


def search_path(schema: str) -> str:
    """Give the statement that makes a schema the one in which names are looked up, for one transaction."""
    quoted = schema.replace('"', '""').replace("'", "''")
    return f"SELECT pg_catalog.set_config('search_path', '\"{quoted}\"', true)"


def enter_schema(connection: Connection, names: Names) -> None:
    """Have the names of tables looked up in the store's schema only, until the transaction ends.

    Args:
        connection: a connection of our own, in a transaction.
        names: how the store's tables are called.

    Raises:
        InvalidOption: a schema was named, and this database has none.
        NotReady: there is no such schema, or another one of the `search_path` holds a store.
    """
    schema = _find_schema(connection, names)
    if schema is not None:
        postgresql.bound_waits(connection)
        connection.exec_driver_sql(search_path(schema).replace("%", "%%"))
        connection.dialect.default_schema_name = schema  # what Alembic compares with


def _find_schema(connection: Connection, names: Names) -> str | None:
    if connection.dialect.name != "postgresql":
        _refuse_schema(names.schema)
        return None
    if names.schema is None:
        return postgresql.current_schema(connection, Tables(names.prefix))
    if not inspect(connection).has_schema(names.schema):
        raise NotReady(f"there is no schema {names.schema} in this database: create it, or name another one")
    return names.schema


def _refuse_schema(schema: str | None) -> None:
    if schema is not None:
        raise InvalidOption("SQLite has no schemas: leave the schema out, or give a prefix")


def names_in(config: Config) -> Names:
    """Give the names that the tables have in a running migration."""
    names: Names = config.attributes["names"]
    return names


def _checked(url: str, prefix: str, schema: str | None) -> tuple[Names, URL]:
    """Read what was given for a run of our own."""
    if "config" in vars(context) and not _alembic.locked():  # Alembic has that name there while it runs
        raise MigrationRefused(
            "Alembic runs migrations of yours in this process, and a store's cannot be run beside them by a URL: call "
            "it before or after, or give it the connection of that run, such as op.get_bind(), in place of the URL; an "
            "offline run has none, so have `migrate.upgrade_sql` write a script for it"
        )
    return _parsed(url, prefix, schema)


def _parsed(url: str, prefix: str, schema: str | None) -> tuple[Names, URL]:
    parsed = parse_url(url)
    Tables(prefix)
    if parsed.get_backend_name() == "sqlite":
        _refuse_schema(schema)
    return Names(prefix, schema), parsed


@contextmanager
def _lent(connection: Connection, names: Names, x: Sequence[str] = ()) -> Iterator[Config]:
    """Prepare a user's connection for a run, and put it back as it was. Where that fails, all of it is undone.

    Raises:
        MigrationRefused: the connection cannot be used.
        InvalidOption, NotReady: as for `upgrade`.
    """
    try:
        lent.check_connection(connection, Tables(names.prefix))
    except InvalidOption as error:
        raise MigrationRefused(str(error)) from error
    with connection.begin_nested():
        lock(connection)
        schema = _find_schema(connection, names)
        if schema is None:
            yield _configure(names, connection, x=x)
            return
        before = connection.exec_driver_sql("SELECT pg_catalog.current_setting('search_path')").scalar_one()
        connection.exec_driver_sql(search_path(schema).replace("%", "%%"))
        yield _configure(names, connection, x=x)
        connection.exec_driver_sql("SELECT pg_catalog.set_config('search_path', %s, true)", (before,))


def _run(action: Callable[[], None]) -> None:
    with _alembic, _alembics_globals_kept():
        try:
            action()
        except MigrationRefused:
            raise
        except CommandError as error:
            raise NotReady(
                f"{error}; if the database is at that revision, another version made it: use that"
            ) from error


@contextmanager
def _alembics_globals_kept() -> Iterator[None]:
    """Leave the run that is under way as it is: Alembic keeps it in the globals of two modules, and clears them."""
    kept = [(vars(module), dict(vars(module))) for module in (context, op)]
    try:
        yield
    finally:
        for now, before in kept:
            for name in now.keys() - before.keys():
                del now[name]
            now.update(before)


def _configure(
    names: Names, database: URL | Connection, *, x: Sequence[str] = (), output: TextIO | None = None
) -> Config:
    """Make the configuration of a run. `env.py` finds in it which database is meant, and the names of the tables."""
    config = _find_scripts(output)
    config.cmd_opts = Namespace(x=list(x))
    config.attributes.update(names=names, database=database)
    return config


def _find_scripts(output: TextIO | None = None) -> Config:
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    return config


def _folder() -> Path:
    """The migrations: inside the package as a wheel ships them, otherwise beside it as a checkout has them."""
    package = Path(__file__).parents[1]
    for folder in (package / "migrations", package.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise NotReady("the migrations are missing from this installation: install resumable-consumer again")
