"""Fixtures of the store's tests: upgraded stores that are made once, and emptied or copied for each test."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, make_url, pool, text

from consumer.store import migrate, schema, transaction
from consumer.store.transaction import Store

from .helpers import check_nothing_is_left, connected, users

END_SESSIONS = text(
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'consumer'"
)

ONE_ROW = (schema.CONTRACT.checkpoint, schema.CONTRACT.store)
"""Tables whose one row stays."""


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits between tries are none; how often is tried stays what the code says."""
    monkeypatch.setattr(transaction, "HANDLER_WAIT_S", 0.0)


def _make(url: str) -> None:
    migrate.upgrade(url)
    with connected(url) as connection:
        users.create_all(connection)


@pytest.fixture(scope="session")
def made_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "store.db"
    _make(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(made_sqlite: Path, tmp_path: Path) -> str:
    """An upgraded store with the user's table beside it."""
    return f"sqlite:///{shutil.copy(made_sqlite, tmp_path / 'store.db')}"


@pytest.fixture(scope="session")
def made_postgres(postgres_server: str) -> Iterator[str]:
    name = f"consumer_{uuid.uuid4().hex}"
    base = make_url(postgres_server).set(drivername="postgresql+psycopg")
    admin = create_engine(base, isolation_level="AUTOCOMMIT", poolclass=pool.NullPool)
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    url = base.set(database=name).render_as_string(hide_password=False)
    _make(url)
    yield url
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(made_postgres: str) -> str:
    """The same: a database is dear to make, so each test gets it emptied."""
    with connected(made_postgres) as connection:
        connection.execute(END_SESSIONS)  # a test that failed may have left a transaction open
        for name in inspect(connection).get_table_names():
            if name not in users.tables and not schema.owns_table(name):
                connection.exec_driver_sql(f'DROP TABLE "{name}" CASCADE')
        emptied = [table.name for table in schema.CONTRACT.metadata.tables.values() if table not in ONE_ROW]
        connection.exec_driver_sql(f"TRUNCATE {', '.join([*emptied, *users.tables])}")
        connection.exec_driver_sql("UPDATE checkpoint SET last = -1, total = 0")
        connection.exec_driver_sql("UPDATE consumer_store SET moves = 0")
    return made_postgres


@pytest.fixture
def postgres_of_its_own(make_postgres) -> str:
    """An upgraded store in a database whose settings and tables a test may change."""
    url = make_postgres()
    _make(url)
    return url


@pytest.fixture
def store(url: str, patience_s: float) -> Iterator[Store]:
    """A store ready to apply, which must not leave anything behind."""
    with Store(url) as store:
        store.resume()
        yield store
    check_nothing_is_left(url, patience_s)
