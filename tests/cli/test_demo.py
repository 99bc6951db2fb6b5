"""`consumer demo`: the story is told in order, its check can fail, and nothing of it is left behind."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from consumer import apply_event, open_store
from consumer.cli import story
from consumer.publisher import Appender

STORY = [
    "serves events 0 to 4 of its journal, one at a time, at 127.0.0.1:",
    "on a new file, says RESUME -1",
    "hears RESUME -1, sends event 0 next",
    "has committed event 0",
    "has committed event 1, is about to send ACK 1",
    "killed with SIGKILL after commit 1, before its ACK",
    "event 1 was sent, but ACK 0 is the last that came",
    "on the same file, says RESUME 1",
    "hears RESUME 1, sends event 2 next",
    "has committed event 2",
    "has committed event 4",
    "publisher 2  knows no RESUME, sends the journal from its first line again",
    "says RESUME 4",
    "holds",
]
ENDS = [
    "has ACK 4, the last: nothing was sent twice",
    "consumer 2   ends in good order: last 4, total 12",
    "publisher 2  has ACK 0, ACK 1, ACK 2, ACK 3, ACK 4",
    "consumer 3   recognises events 0, 1, 2, 3, 4, acknowledges each, counts none again",
    "consumer 3   ends in good order: last 4, total 12",
]
"""Who of the two that part says so first is chance."""


def check_that_it_is_told_in_order(text: str) -> None:
    at = 0
    for part in STORY:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} does not come in its turn:\n{text}"
        at = found + len(part)
    assert [text.count(part) for part in ENDS] == [1] * len(ENDS), text
    assert "does not hold" not in text


def start(tmp_path: Path, **how: object) -> subprocess.Popen[str]:
    """The demo as a process that leads a group of its own, like a shell's job."""
    return subprocess.Popen(
        [sys.executable, "-m", "consumer", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
        text=True,
        **how,  # type: ignore[arg-type]
    )


def group(leader: int) -> list[str]:
    """The commands that run in a group; what has ended and was not yet waited for does not count."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, pgrp = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == leader and state not in "ZX":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has just ended
            continue
    return found


def check_that_the_group_ends(leader: int, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while remaining := group(leader):
        assert time.monotonic() < until, remaining
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """A shell starts what it puts into the background deaf to Ctrl-C, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def running(tmp_path: Path, patience_s: float) -> Iterator[subprocess.Popen[str]]:
    with start(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None or group(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"the demo ended before {words!r}")


def test_it_tells_the_story_into_a_pipe(running: subprocess.Popen[str], tmp_path: Path, patience_s: float):
    out, err = running.communicate(timeout=patience_s)
    assert (running.returncode, err) == (0, "")
    check_that_it_is_told_in_order(out)
    assert "\x1b" not in out
    assert len(re.findall(r"committed event \d", out)) == len(story.EVENTS)
    check_that_the_group_ends(running.pid, patience_s)
    assert not list(tmp_path.glob("consumer-demo-*"))


def test_it_tells_the_story_on_a_terminal(tmp_path: Path, patience_s: float):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    with start(tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        try:
            while more := os.read(ours, 4096):
                said += more
        except OSError:  # what Linux says when the other end is closed
            pass
        os.close(ours)
        assert process.wait(patience_s) == 0
    assert b"\x1b[" in said
    check_that_it_is_told_in_order(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode()).replace("\r\n", "\n"))


@pytest.mark.parametrize("words", ["serves events", "is about to send ACK 1", "says RESUME 1", "says RESUME 4"])
def test_ctrl_c_ends_it_with_all_its_processes(
    running: subprocess.Popen[str], words: str, tmp_path: Path, patience_s: float
):
    read_until(running, words)
    os.killpg(running.pid, signal.SIGINT)  # a terminal sends it to the whole group
    _, err = running.communicate(timeout=patience_s)
    assert (running.returncode, err) == (130, "")
    check_that_the_group_ends(running.pid, patience_s)
    assert not list(tmp_path.glob("consumer-demo-*"))


@pytest.mark.parametrize("words", ["is about to send ACK 1", "says RESUME 4"])  # when none is just being started
def test_its_processes_do_not_outlive_it_when_it_is_killed(
    running: subprocess.Popen[str], words: str, patience_s: float
):
    read_until(running, words)
    running.kill()
    _, err = running.communicate(timeout=patience_s)  # which ends when the last of them has closed it
    assert err == ""
    check_that_the_group_ends(running.pid, patience_s)


def test_it_fails_when_the_check_does_not_hold(consumer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(story, "decode", lambda _: ([*story.EVENTS[:-1], (4, 2)], b"", None))
    done = consumer("demo")
    assert done.code == 1
    assert "does not hold" in done.out


@pytest.mark.parametrize(
    "fault",
    [
        "UPDATE checkpoint SET total = total - 3",  # event 1 counted twice
        "UPDATE checkpoint SET last = 3",
        "DELETE FROM ledger WHERE seq = 1",
        "INSERT INTO ledger VALUES (5, 0)",
        "UPDATE ledger SET delta = 11 WHERE seq = 0",
        None,
    ],
)
def test_the_check_sees_every_kind_of_difference(tmp_path: Path, fault: str | None):
    with Appender(tmp_path / "journal") as appender:
        appender.append(story.EVENTS)
    with closing(open_store(tmp_path / "store.db")) as con:
        for event in story.EVENTS:
            apply_event(con, *event)
        if fault is not None:
            con.execute(fault)
    console = Console(file=StringIO())
    assert story._check(console, tmp_path / "journal", tmp_path / "store.db") is (fault is None)
