"""`consumer status` of a user who may only read."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, pool

from consumer.store import migrate
from consumer.store.schema import CONTRACT

NOBODY = 65534

LOOK = f"""
import contextlib, io, os, sys
from consumer.cli import main
another, wanted = sys.argv[1:]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    sys.argv[1:] = ["status", "--db", another]
    main()  # loads everything, which this user may be unable to read
if os.geteuid() == 0:
    os.setegid({NOBODY})
    os.seteuid({NOBODY})
sys.argv[1:] = ["status", "--db", wanted]
main()
"""
"""Look at a store as a user who owns nothing; run by root, and by others on files that were made read-only."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


def look(database: str, another: Path) -> str:
    migrate.upgrade(f"sqlite:///{another}")
    command = [sys.executable, "-c", LOOK, f"sqlite:///{another}", database]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def make_wal_store(path: Path) -> None:
    migrate.upgrade(f"sqlite:///{path}")
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("UPDATE checkpoint SET last = 0, total = 5")
        con.execute("INSERT INTO ledger VALUES (0, 5)")


@pytest.mark.parametrize("uri", ["sqlite:///{}", "sqlite:///file:{}?uri=true", "sqlite:///file:{}?mode=ro&uri=true"])
def test_a_sqlite_file_in_a_folder_that_one_may_not_write_to(folder: Path, tmp_path: Path, uri: str):
    path = folder / "store of 100%.db"
    make_wal_store(path)
    path.chmod(0o444)
    folder.chmod(0o555)
    name = str(path) if "uri" not in uri else str(path).replace("%", "%25")
    assert (
        look(uri.format(name), tmp_path / "another.db") == "last 0, total 5, 1 ledger row\nrevision 0002, head 0002\n"
    )
    assert [found.name for found in folder.iterdir()] == [path.name]


def test_a_sqlite_file_that_a_consumer_has_open_is_read_with_its_log(folder: Path, tmp_path: Path):
    path = folder / "store.db"
    make_wal_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("UPDATE checkpoint SET last = 1")
        writer.execute("INSERT INTO ledger VALUES (1, 0)")
        folder.chmod(0o555)
        assert look(f"sqlite:///{path}", tmp_path / "another.db").startswith("last 1, total 5, 2 ledger rows\n")


def test_a_role_of_postgresql_that_was_granted_to_select(postgres_url: str, consumer):
    migrate.upgrade(postgres_url)
    role = f"reader_{os.getpid()}"
    engine = create_engine(postgres_url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        connection.exec_driver_sql(f"GRANT SELECT ON {', '.join(sorted(CONTRACT.names()))} TO {role}")
        try:
            url = make_url(postgres_url).set(username=role).render_as_string(hide_password=False)
            done = consumer("status", "--db", url)
            assert (done.code, done.err) == (0, "")
            assert done.out == "last -1, total 0, 0 ledger rows\nrevision 0002, head 0002\n"
        finally:
            connection.exec_driver_sql(f"DROP OWNED BY {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")
