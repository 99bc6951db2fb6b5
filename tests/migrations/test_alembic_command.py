"""The command `alembic` in a checkout, as a contributor types it: in processes of its own."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.store import migrate

from .helpers import ROOT, execute, picture, rows

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["checkout"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what the command needs, in a folder of a given name."""
    folder = tmp_path / request.param
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "consumer", folder / "consumer", ignore=ignored)
    shutil.copytree(ROOT / "migrations", folder / "migrations", ignore=ignored)
    shutil.copy(ROOT / "alembic.ini", folder)
    return folder


@pytest.fixture
def alembic(checkout: Path, patience_s: float) -> Run:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if name not in ("CONSUMER_DB", "PYTHONPATH")}
        return subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "alembic", *arguments],
            cwd=checkout,
            env={**clean, **environment},
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )

    return run


def check_that_it_failed(done: subprocess.CompletedProcess[str], reason: str) -> None:
    """One line that names the reason; what the command was about to do may stand before it."""
    assert done.returncode != 0
    said = (done.stdout + done.stderr).splitlines()
    failures = [line for line in said if not line.startswith("INFO ")]
    assert len(failures) == 1, said
    assert failures[0].startswith("FAILED: ")
    assert reason in failures[0]


@pytest.mark.parametrize("checkout", ["checkout", "a b"], indirect=True)
def test_up_and_down_in_the_checkouts_own_database(alembic: Run, checkout: Path):
    url = f"sqlite:///{checkout / 'consumer.db'}"
    done = alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert "Running upgrade 0001 -> 0002" in done.stderr
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "0002", "0002")
    assert alembic("current").stdout == "0002 (head)\n"
    done = alembic("check")
    assert (done.returncode, done.stdout) == (0, "No new upgrade operations detected.\n")

    execute(url, "INSERT INTO ledger VALUES (0, 5)")
    check_that_it_failed(alembic("downgrade", "base"), "say -x drop=yes to insist")
    assert rows(url, "SELECT seq FROM ledger") == [(0,)]
    assert alembic("-x", "drop=yes", "downgrade", "base").returncode == 0
    assert picture(url) == {}


def test_it_takes_another_database_from_x_before_the_environment(alembic: Run, checkout: Path, url: str):
    assert alembic("upgrade", "head", CONSUMER_DB=url).returncode == 0
    assert migrate.status(url).revision == "0002"
    assert alembic("-x", f"url={url}", "check", CONSUMER_DB="sqlite:///other.db").returncode == 0
    assert alembic("-x", f"url={url}", "downgrade", "base", CONSUMER_DB="sqlite:///other.db").returncode == 0
    assert picture(url) == {}
    assert not list(checkout.glob("*.db"))


def test_a_new_migration_is_made_from_the_tables_and_can_be_run(alembic: Run, checkout: Path, sqlite_url: str):
    migrate.upgrade(sqlite_url)
    schema = checkout / "consumer" / "store" / "schema.py"
    schema.write_text(
        schema.read_text().replace(
            "        self.version = Table(",
            '        Table("consumer_later", self.metadata, Column("id", Integer, primary_key=True))\n'
            "        self.version = Table(",
        )
    )
    check_that_it_failed(alembic("check", CONSUMER_DB=sqlite_url), "consumer_later")
    done = alembic("revision", "--autogenerate", "-m", "later", "--rev-id", "9000", CONSUMER_DB=sqlite_url)
    assert done.returncode == 0, done.stderr
    done = alembic("upgrade", "head", CONSUMER_DB=sqlite_url)
    assert done.returncode == 0, done.stderr
    assert "consumer_later" in picture(sqlite_url)
    assert alembic("check", CONSUMER_DB=sqlite_url).returncode == 0


def test_a_database_that_is_not_upgraded_is_not_up_to_date_and_stays_so(alembic: Run, url: str):
    check_that_it_failed(alembic("check", CONSUMER_DB=url), "Target database is not up to date")
    assert alembic("current", CONSUMER_DB=url).stdout == ""
    assert picture(url) == {}


@pytest.mark.parametrize(
    ("database", "reason"),
    [
        ("mysql://somebody:s3cr3t@nowhere.invalid/x", "give sqlite:///FILE or postgresql://"),
        ("postgresql://somebody:s3cr3t@127.0.0.1:1/x", "Connection refused"),
        ("sqlite:///.", "unable to open database file"),
    ],
)
def test_an_error_is_one_line_without_the_password(alembic: Run, database: str, reason: str):
    done = alembic("-x", f"url={database}", "upgrade", "head")
    check_that_it_failed(done, reason)
    assert "s3cr3t" not in done.stdout + done.stderr


def test_a_table_of_another_shape_is_refused_in_one_line(alembic: Run, url: str):
    execute(url, "CREATE TABLE ledger(seq BIGINT PRIMARY KEY, delta TEXT)")
    before = picture(url)
    check_that_it_failed(alembic("upgrade", "head", CONSUMER_DB=url), "a table ledger exists with other columns")
    assert picture(url) == before


def test_the_script_goes_to_standard_output_alone(alembic: Run):
    done = alembic("-x", "url=postgresql://nobody@nowhere.invalid/x", "upgrade", "head", "--sql")
    assert done.returncode == 0
    assert done.stdout == migrate.upgrade_sql("postgresql://nobody@nowhere.invalid/x")
