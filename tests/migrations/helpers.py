"""What the migration tests share: a plain look into a database, Alembic's configuration, and other processes.

The look goes through SQLAlchemy's own engine, not through `consumer.store.databases`: what is tested does not check itself.
"""

import io
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic.config import Config
from sqlalchemy import Connection, create_engine, make_url, pool

import consumer

ROOT = Path(consumer.__file__).resolve().parent.parent
MIGRATIONS = ROOT / "migrations"

CONTRACT = (
    "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), last INTEGER NOT NULL, total INTEGER NOT NULL)",
    "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL)",
)
"""The contract's own two statements."""

STORE = (
    "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last BIGINT, total BIGINT)",
    "CREATE TABLE ledger(seq BIGINT PRIMARY KEY, delta INTEGER)",
)
"""Somebody's own store: without CHECK and NOT NULL."""

Row = tuple[Any, ...]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection on which every statement is a transaction of its own."""
    engine = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


def execute(url: str, *statements: str) -> None:
    with connected(url) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def rows(url: str, query: str) -> list[Row]:
    with connected(url) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def is_sqlite(url: str) -> bool:
    return make_url(url).get_backend_name() == "sqlite"


def picture(url: str) -> dict[str, tuple[list[Row], list[Row]]]:
    """Every table and view, each with its definition and its rows: two equal pictures, and nothing has changed."""
    with connected(url) as connection:

        def read(query: str) -> list[Row]:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

        def define(name: str) -> list[Row]:  # however the statement was laid out
            return [(what, " ".join((text or "").split())) for what, text in read(definition.format(name))]

        if connection.dialect.name == "sqlite":
            names = read("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            definition = "SELECT type, sql FROM sqlite_master WHERE tbl_name = '{0}' ORDER BY name"
        else:
            names = read("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
            definition = (
                "SELECT column_name, concat_ws(' ', data_type, is_nullable, column_default) "
                "FROM information_schema.columns WHERE table_name = '{0}' "
                "UNION ALL SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
                "WHERE conrelid = '\"{0}\"'::regclass ORDER BY 1"
            )
        return {name: (define(name), sorted(read(f'SELECT * FROM "{name}"'), key=repr)) for (name,) in names}


def configure(url: str, *x: str, scripts: Path = MIGRATIONS, output: io.StringIO | None = None) -> Config:
    """Alembic's configuration as the command `alembic` would have it, but for the file."""
    config = Config(output_buffer=output, stdout=io.StringIO(), cmd_opts=Namespace(x=[f"url={url}", *x]))
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return config


def start_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A new Python process that can be spoken to."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def ended(processes: Sequence[subprocess.Popen[str]]) -> Iterator[None]:
    """Leave none of them behind, whatever happens."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()
