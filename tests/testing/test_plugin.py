"""The fixture `exactly_once` in a user's own test suite, and the page that shows it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    done = python("-m", "pytest", "-q", "-W", "error::ResourceWarning", folder=tmp_path)
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


OWN = """
import consumer


def test_what_is_mine():
    assert consumer.MINE


def test_where_ours_is_needed(exactly_once):
    raise AssertionError("it has begun")
"""


@pytest.mark.parametrize(
    "how", [("-m", "pytest"), ("-c", "import pytest; pytest.console_main()", "-o", "pythonpath=.")]
)
@pytest.mark.parametrize("name", ["consumer.py", "consumer/__init__.py"])
def test_a_project_with_a_consumer_of_its_own_has_its_own_in_its_tests(tmp_path: Path, name: str, how) -> None:
    """The fixture of ours says in one line why it cannot be used there."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("MINE = True\n")
    (tmp_path / "test_own.py").write_text(OWN)
    done = python(*how, "-q", "-p", "no:cacheprovider", folder=tmp_path)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    found = (tmp_path / name).parent if name.endswith("__init__.py") else tmp_path / name
    [_, *shown, _, _, _] = done.stdout.partition("ERROR at setup of test_where_ours_is_needed")[2].splitlines()
    why = "the fixture exactly_once needs the package consumer of resumable-consumer, but `import consumer` finds"
    assert shown == [f"{why} {found} here: rename it, or keep its folder off sys.path for this test"]


def test_the_plugin_can_be_named_and_be_left_out(tmp_path: Path) -> None:
    """By the one name that is its module's and its entry point's; a suite that names it does not load it twice."""
    (tmp_path / "test_it.py").write_text("def test_it(exactly_once):\n    pass\n")
    for option, ending in (("resumable_consumer_pytest", "1 passed"), ("no:resumable_consumer_pytest", "1 error")):
        done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", option, folder=tmp_path)
        assert ending in done.stdout, done.stdout + done.stderr
