"""Find, run and report the migrations; adopt a store that has none recorded.

The library form of `alembic upgrade head`: the same scripts and the same `env.py`, found beside the package in a
checkout and inside it in a wheel. Every run is one transaction under a lock, so that many processes may upgrade at once
and a migration that fails leaves the schema and its revision as they were, on both databases.
"""

from __future__ import annotations

import io
import os
import threading
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import unquote, urlsplit

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Inspector, Table, inspect

from consumer.core.errors import ConsumerError, NotReady, SchemaMismatch, UnsafeDurability
from consumer.store import statements
from consumer.store.databases.engine import READ_ONLY, make_short_engine, parse_url, show_url
from consumer.store.schema import VERSION_TABLE, FoundColumn, checkpoint, difference, ledger, metadata

LOCK_KEY = 0x636F6E73756D6572
"""PostgreSQL: the advisory lock that one migration at a time holds ("consumer" in ASCII)."""

_alembic = threading.Lock()
"""Alembic keeps the running migration in module globals: one thread at a time."""


class MigrationRefused(ConsumerError, CommandError):
    """A migration that would lose something; the message says what and how to insist."""


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


def upgrade(url: str) -> None:
    """Bring a database to the newest revision: create the store, or adopt one that is there, with its data.

    Args:
        url: the database, see `consumer.store.databases.engine.parse_url`.

    Raises:
        InvalidURL: the URL cannot be used.
        UnsafeDurability: it is a database in memory.
        SchemaMismatch: a table of ours is there with another shape; nothing was changed.
        NotReady: the database is at a revision that this version does not know.
        sqlalchemy.exc.DBAPIError: the database failed; nothing was changed.
    """
    if _is_in_memory(parse_url(url)):
        raise UnsafeDurability("a database in memory keeps nothing: name a file, sqlite:///FILE")
    if not _is_at_head(url):  # otherwise there is no need to wait for a lock, which a running consumer may have
        _run(url, lambda config: command.upgrade(config, "head"))


def upgrade_sql(url: str) -> str:
    """Give the SQL of all migrations, for somebody else to apply. Needs no database; adopts nothing."""
    script = io.StringIO()
    _run(url, lambda config: command.upgrade(config, "head", sql=True), output=script)
    return script.getvalue()


def downgrade(url: str, revision: str = "base", *, drop: bool = False) -> None:
    """Go back to an older revision.

    Args:
        url: the database.
        revision: where to; `base` removes the store.
        drop: remove a store even if it holds something. The next RESUME would be -1, and every event would come again.

    Raises:
        MigrationRefused: the store holds something and `drop` was not said.
        InvalidURL, NotReady, sqlalchemy.exc.DBAPIError: as for `upgrade`.
    """
    _run(url, lambda config: command.downgrade(config, revision), x=["drop=yes"] if drop else [])


def status(url: str) -> Status:
    """Read what a store holds and where its schema stands. Changes nothing and creates no file.

    Args:
        url: the database.

    Raises:
        NotReady: there is no store.
        SchemaMismatch: a table of ours is there with another shape.
        InvalidURL, sqlalchemy.exc.DBAPIError: as for `upgrade`.
    """
    parsed = parse_url(url)
    shown = show_url(parsed)
    missing = NotReady(f"there is no store in {shown}: run consumer upgrade --db {shown}")
    if parsed.get_backend_name() == "sqlite" and not _is_there(parsed):
        raise missing
    engine = make_short_engine(parsed)
    with engine.connect().execution_options(**READ_ONLY) as connection:
        if find_tables(connection) != {checkpoint, ledger}:
            raise missing
        row = connection.execute(statements.READ_STATE).one_or_none()
        if row is None:
            raise missing
        return Status(
            last=row.last,
            total=row.total,
            ledger_rows=connection.execute(statements.COUNT_LEDGER).scalar_one(),
            revision=read_revision(connection),
            head=head(),
        )


def head() -> str:
    """Give the newest revision."""
    revision = ScriptDirectory.from_config(_configure()).get_current_head()
    assert revision is not None
    return revision


def read_revision(connection: Connection) -> str | None:
    """Give the revision of a database, None where no migration is recorded."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _is_at_head(url: str) -> bool:
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not _is_there(parsed):
        return False
    with make_short_engine(parsed).connect().execution_options(**READ_ONLY) as connection:
        if read_revision(connection) != head():
            return False
        if find_tables(connection) != {checkpoint, ledger} or connection.execute(statements.READ_STATE).first() is None:
            raise SchemaMismatch("this store is at its newest revision but has lost a table or its cursor: restore it")
        return True


def find_tables(connection: Connection) -> set[Table]:
    """Find which of our tables a database has.

    Raises:
        SchemaMismatch: one of them has another shape.
    """
    found = set()
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        name = _find_name(inspector, table)
        if name is None:
            continue
        keys = inspector.get_pk_constraint(name)["constrained_columns"]
        columns = [FoundColumn(c["name"], str(c["type"]), c["name"] in keys) for c in inspector.get_columns(name)]
        problem = difference(table, columns, sqlite=connection.dialect.name == "sqlite")
        if problem is not None:
            raise SchemaMismatch(f"{problem}. Nothing was changed; rename that table, or use another database")
        found.add(table)
    return found


def _find_name(inspector: Inspector, table: Table) -> str | None:
    """Give the name that a database has a table of ours under: to SQLite case is nothing, to the inspector it is."""
    if inspector.dialect.name == "sqlite":
        names = (*inspector.get_table_names(), *inspector.get_view_names())
        return next((name for name in names if name.lower() == table.name), None)
    return table.name if inspector.has_table(table.name) else None


def lock(connection: Connection) -> None:
    """Wait until no other migration runs on this database. It lasts until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")


def _run(url: str, action: Callable[[Config], None], *, x: Sequence[str] = (), output: TextIO | None = None) -> None:
    config = _configure(x=[f"url={parse_url(url).render_as_string(hide_password=False)}", *x], output=output)
    with _alembic:
        try:
            action(config)
        except MigrationRefused:
            raise
        except CommandError as error:
            raise NotReady(
                f"{error}; if the database is at that revision, another version made it: use that"
            ) from error


def _configure(*, x: Sequence[str] = (), output: TextIO | None = None) -> Config:
    config = Config(output_buffer=output, cmd_opts=Namespace(x=list(x)))
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    return config


def _folder() -> Path:
    """The migrations: inside the package as a wheel ships them, otherwise beside it as a checkout has them."""
    package = Path(__file__).parents[1]
    for folder in (package / "migrations", package.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise NotReady("the migrations are missing from this installation: install resumable-consumer again")


def _is_in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and (
        url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"
    )


def _is_there(url: URL) -> bool:
    """Whether a SQLite database can hold anything: to connect would create the file."""
    path = url.database or ""
    if "uri" in url.query and path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises for a name that is too long
