"""The fixture `exactly_once` in a user's own test suite, and the page that shows it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import consumer
from consumer.testing import MigrationPoint, Moment, Point
from consumer.testing.script import steps

ROOT = Path(consumer.__file__).parent.parent
LIMIT_S = 120

WRONG = """
import os


def keep_stock_and_tell(connection, events):
    keep_stock(connection, events)
    with open(os.environ["MAILS"], "a") as file:
        file.write("mail" * len(events))


def test_wrong(exactly_once, tmp_path, monkeypatch):
    path = tmp_path / "mails"
    monkeypatch.setenv("MAILS", str(path))

    def begin(connection):
        setup(connection)
        path.write_text("")

    exactly_once(keep_stock_and_tell, EVENTS, setup=begin, observe=lambda connection: path.read_text())


def test_nothing_else_is_left(tmp_path):
    assert {path.name for path in tmp_path.parent.rglob("*") if path.is_file()} <= {"exactly_once.db", "mails", ".lock"}
"""


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def test_the_pages_examples_run_and_a_wrong_handler_fails(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    one, *others = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for number, text in enumerate([one + WRONG, *others]):
        (tmp_path / f"test_{number}.py").write_text(text)
    done = python(
        "-m", "pytest", "-q", "-W", "error::ResourceWarning", "-p", "consumer.testing.plugin", folder=tmp_path
    )
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: not exactly once, after SIGKILL at after_handler, batch 1" in done.stdout
    assert f"observed: '{9 * 'mail'}', undisturbed '{7 * 'mail'}'" in done.stdout


def test_the_page_names_every_crash_point_and_step_and_no_other() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    table = page.partition("| point | where |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == {*Point, *MigrationPoint, *Moment}
    table = page.partition("| step | what it does |")[2].partition("\n\n")[0]
    shown = set(re.findall(r"`(\w+)\([\w, ]*\)`", table)) - {"Truncated", "Snapshot", "Ahead"}
    assert shown == {name for name, value in vars(steps).items() if hasattr(value, "play") and name != "Step"}


def test_pytest_is_told_of_it_by_an_entry_point_of_the_modules_own_name() -> None:
    """So that a suite that also says `-p consumer.testing.plugin` does not load it twice."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {"consumer.testing.plugin": "consumer.testing.plugin"}
