"""SIGTERM and SIGINT before a command is at work: from its first line on they end it, quietly and with a known code."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from consumer.store import migrate

RUN = ("run", "tcp://127.0.0.1:9", "--handler", "slow:handler")

SLOW = """
import signal, sys
print("waiting", file=sys.stderr, flush=True)
try:
    while True:
        signal.pause()
except BaseException:
    pass
"""
"""A module that is never done being imported, and lets no exception disturb it."""

HAS_NAMESPACES = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0
)


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """A shell starts what it puts into the background deaf to Ctrl-C, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


Start = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def started(patience_s: float) -> Start:
    return partial(_started, patience_s)


@contextmanager
def _started(
    patience_s: float, folder: Path, *arguments: str, launcher: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """The command as a process, with the modules of a folder in front of all others."""
    with subprocess.Popen(
        [*launcher, sys.executable, "-m", "consumer", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        guard = threading.Timer(patience_s, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()


def wait_for_words(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


def check_end(process: subprocess.Popen[str], code: int, patience_s: float) -> None:
    out, err = process.communicate(timeout=patience_s)
    assert (process.returncode, out) == (code, "")
    assert err.count("\n") <= 1
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", ["typer", "sqlalchemy", "slow"], ids=["the library", "the database", "the handler"])
def test_run_is_stopped_while_it_loads(
    started: Start, tmp_path: Path, module: str, number: signal.Signals, patience_s: float
):
    (tmp_path / f"{module}.py").write_text(SLOW)
    with started(tmp_path, *RUN) as process:
        wait_for_words(process, "waiting")
        process.send_signal(number)
        check_end(process, 0, patience_s)


@pytest.mark.parametrize("arguments", [("serve", "journal"), ("journal", "append", "journal")], ids=["serve", "append"])
def test_what_goes_on_until_it_is_stopped_has_ended_well_when_it_is(
    started: Start, tmp_path: Path, arguments: tuple[str, ...], patience_s: float
):
    (tmp_path / "typer.py").write_text(SLOW)
    with started(tmp_path, *arguments) as process:
        wait_for_words(process, "waiting")
        process.terminate()
        check_end(process, 0, patience_s)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("command", ["upgrade", "status", "demo"])
def test_what_has_something_to_do_and_was_broken_off_says_so(
    started: Start, tmp_path: Path, command: str, number: signal.Signals, code: int, patience_s: float
):
    (tmp_path / "typer.py").write_text(SLOW)
    with started(tmp_path, command) as process:
        wait_for_words(process, "waiting")
        process.send_signal(number)
        check_end(process, code, patience_s)


@pytest.mark.parametrize(
    ("command", "code"), [(("run", "tcp://127.0.0.1:9"), 0), (("upgrade",), 143), (("status",), 143)]
)
def test_the_wait_for_a_locked_file_is_said_and_a_signal_ends_it(
    started: Start, tmp_path: Path, command: tuple[str, ...], code: int, patience_s: float
):
    migrate.upgrade(f"sqlite:///{tmp_path / 'store.db'}")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with started(tmp_path, *command, "--db", "sqlite:///store.db?timeout=1000") as process:
            line = wait_for_words(process, "locked by another process")
            assert "store.db" in line
            process.terminate()
            check_end(process, code, patience_s)


@pytest.mark.skipif(not HAS_NAMESPACES, reason="no process can be made number 1 of a namespace here (unshare --pid)")
@pytest.mark.parametrize("module", ["typer", "slow"], ids=["the library", "the handler"])
def test_as_process_1_of_a_container_it_is_stopped_too(started: Start, tmp_path: Path, module: str, patience_s: float):
    (tmp_path / f"{module}.py").write_text(SLOW)
    with started(tmp_path, *RUN, launcher=("unshare", "--pid", "--fork")) as outside:
        wait_for_words(outside, "waiting")
        (inside,) = Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split()
        os.kill(int(inside), signal.SIGTERM)
        check_end(outside, 0, patience_s)


def test_a_signal_that_the_caller_has_ignored_stays_ignored(started: Start, tmp_path: Path, patience_s: float):
    (tmp_path / "typer.py").write_text(SLOW)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `&` in a script has it; the fixture puts it back
    with started(tmp_path, "upgrade") as process:
        wait_for_words(process, "waiting")
        process.send_signal(signal.SIGINT)
        process.terminate()
        check_end(process, 143, patience_s)


def test_loading_the_command_line_needs_no_command_line():
    code = "import sys, consumer.cli; assert callable(consumer.cli.main); print('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("run", "--help"), ("status", "-h")])
def test_what_only_shows_words_loads_neither_a_database_nor_the_network(arguments: tuple[str, ...]):
    code = (
        "import sys\nfrom consumer.cli import main\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "try:\n    main()\nfinally:\n    print(sorted(set(sys.modules) & {'sqlalchemy', 'alembic', 'asyncio', 'ssl'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
