"""A file system call that fails, at its n-th time, for every n: nothing is claimed that is not there in the end.

strace makes the call fail, so the process meets what it would meet on a disk that is full or broken, in its own code
and in SQLite's.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from runtime.databases import check_store
from runtime.scripted import history, lines

from consumer import open_store
from consumer.publisher import Appender
from consumer.store import migrate

from .durability import violations
from .trace import Call, strace_command
from .traced import BATCH, LINE, Mode, Run, need_strace, run_traced, sending

SPREAD = int(os.environ.get("CONSUMER_TEST_INJECTIONS", "1"))
"""How many n are tried of each call, evenly spread; 0: every one."""

EVENTS = history(9)
MODES = [replace(BATCH, piece=4, again=1), replace(LINE, piece=4, again=1)]

_undisturbed: dict[Mode, list[Call]] = {}
"""What each mode calls when nothing fails."""

_undisturbed_append: list[str] = []
"""The same of an append, as strace has it."""

PASSING = re.compile(r".* WARNING .*(; trying again in [0-9.]+ s|closed the connection without a word.*)|.* INFO .*")
FATAL = re.compile(r"(consumer|OperationalError|SyncFailed): .*")
"""The last line of a process that has given up."""


@dataclass(frozen=True)
class Fault:
    """A call that fails.

    Attributes:
        call: its name.
        error: what it says.
        times: how often in a row.
    """

    call: str
    error: str
    times: int = 1

    def option(self, n: int) -> str:
        last = f"..{n + self.times - 1}" if self.times > 1 else ""
        return f"inject={self.call}:error={self.error}:when={n}{last}"

    def __str__(self) -> str:
        return f"{self.call}-{self.error}-{self.times}"


FAULTS = [
    Fault("pwrite64", "ENOSPC"),
    Fault("pwrite64", "EIO"),
    Fault("fdatasync", "EIO"),
    Fault("fdatasync", "EIO", 3),
    Fault("fsync", "EIO"),
    Fault("ftruncate", "EIO"),
]


@pytest.fixture(autouse=True)
def _strace() -> None:
    need_strace()


def most(calls: list[Call], name: str) -> int:
    """Count a call's times as strace does, in each thread for itself."""
    return max(Counter(call.thread for call in calls if call.name == name).values(), default=0)


def spread(count: int) -> Iterator[int]:
    """Choose among 1 to count."""
    if SPREAD == 0 or count <= SPREAD:
        yield from range(1, count + 1)
        return
    yield from (1 + count * (2 * part + 1) // (2 * SPREAD) for part in range(SPREAD))


async def consume(mode: Mode, folder: Path, patience_s: float, *options: str, first: int = 0) -> tuple[Run, int]:
    """Run a consumer until it has all or gives up. What came of it, and the highest ACK that the publisher got."""
    async with asyncio.timeout(patience_s), sending(EVENTS, mode) as publisher:
        command = mode.command(publisher.port, folder / "store.db")
        run = await run_traced(command, folder, *options, shown_bytes=mode.shown_bytes, first=first)
        return run, max((seq for session in publisher.sessions for seq in session.acks), default=-1)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
async def test_a_call_that_fails_costs_no_event_and_claims_none(
    mode: Mode, fault: Fault, tmp_path: Path, patience_s: float
) -> None:
    """It is tried again, or ends in one line; what was acknowledged is there, and the next process gets the rest."""
    if mode not in _undisturbed:
        run, _ = await consume(mode, made(tmp_path, 0, mode), patience_s)
        assert run.code == 0, run.said
        _undisturbed[mode] = run.calls
    count = most(_undisturbed[mode], fault.call)
    # In a row at the end: the close of the failed connection fails too, and leaves a commit that can be read.
    for n in sorted({*spread(count), *range(count - fault.times + 2, count + 1)}):
        folder = made(tmp_path, n, mode)
        database = folder / "store.db"
        run, acknowledged = await consume(mode, folder, patience_s, "-e", fault.option(n))
        check_end(run, f"{fault} at {n}")
        calls = run.calls
        if run.code != 0:
            went_on, _ = await consume(mode, folder, patience_s, first=calls[-1].began + 1000)
            assert went_on.code == 0, (n, went_on.said)
            assert resumed_from(went_on) >= acknowledged, n  # nobody else has looked, who would have rolled back
            calls = calls + went_on.calls
        assert list(violations(calls, str(database), [str(database)])) == [], n
        check_store(f"sqlite:///{database}", EVENTS)


def made(tmp_path: Path, n: int, mode: Mode) -> Path:
    """Make a folder with an empty store in it."""
    folder = tmp_path / str(n)
    folder.mkdir()
    if mode.name == "line":
        open_store(folder / "store.db").close()
    else:
        migrate.upgrade(f"sqlite:///{folder / 'store.db'}")
    return folder


def resumed_from(run: Run) -> int:
    """Tell what a process has said first."""
    return int(next(call.text.split()[1] for call in run.calls if call.text.startswith("RESUME ")))


def check_end(run: Run, when: str) -> None:
    """It has ended well, or with the code for a database that cannot be used and one line that says so."""
    *before, last = run.said or [""]
    assert run.code in (0, 19), (when, run.said)
    assert all(PASSING.fullmatch(line) for line in before), (when, run.said)
    if run.code:
        assert FATAL.fullmatch(last), (when, run.said)


@pytest.mark.parametrize("fault", [*FAULTS[:2], Fault("write", "ENOSPC"), *FAULTS[4:]], ids=str)
def test_a_call_that_fails_in_an_append_loses_nothing_that_was_reported(fault: Fault, tmp_path: Path) -> None:
    """It ends in one line; opening again shows what is there, and what comes after that can be appended."""
    output = tmp_path / "trace"

    def append(journal: Path, first: int, *options: str) -> subprocess.CompletedProcess[str]:
        options = ("-P", str(journal), "-P", str(journal.parent), *options)
        return subprocess.run(
            [*strace_command(output, *options), sys.executable, "-m", "consumer", "journal", "append", str(journal)],
            input=lines(EVENTS[first:]).decode(),
            capture_output=True,
            text=True,
            check=False,
        )

    def begun(n: int) -> Path:
        folder = tmp_path / str(n)
        folder.mkdir()
        journal = folder / "journal"
        journal.write_bytes(lines(EVENTS[:3]) + b"EVENT to")  # it is repaired first
        return journal

    if not _undisturbed_append:
        assert append(begun(0), 3).returncode == 0
        _undisturbed_append.append(output.read_text())
    count = len(re.findall(rf"(?m)^\d+ +{fault.call}\(", _undisturbed_append[0]))
    assert count >= 1
    for n in spread(count):
        journal = begun(n)
        done = append(journal, 3, "-e", fault.option(n))
        assert done.returncode == 19, (n, done)
        assert done.stdout == "", (n, done)
        assert FATAL.fullmatch(done.stderr.splitlines()[-1]), (n, done)
        with Appender(journal) as appender:
            assert appender.head >= 2
            appender.append(EVENTS[appender.head + 1 :])
        assert journal.read_bytes() == lines(EVENTS), n


def serving(journal: Path, *tracing: str) -> subprocess.Popen[str]:
    command = [*tracing, sys.executable, "-m", "consumer", "serve", str(journal), "--port", "0"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("n", [1, 2], ids=["of the file", "of its folder"])
def test_a_publisher_whose_first_sync_fails_does_not_begin(n: int, tmp_path: Path, patience_s: float) -> None:
    journal = tmp_path / "journal"
    journal.write_bytes(lines(EVENTS))
    with serving(journal, *strace_command(tmp_path / "trace", "-e", Fault("fsync", "EIO").option(n))) as process:
        _, said = process.communicate(timeout=patience_s)
    assert process.returncode == 19
    assert FATAL.fullmatch(said.rstrip("\n")), said


def test_what_cannot_be_synced_is_not_sent_and_ends_the_publisher(tmp_path: Path, patience_s: float) -> None:
    journal = tmp_path / "journal"
    journal.write_bytes(lines(EVENTS[:3]))
    with serving(journal) as process:
        try:
            assert process.stderr is not None
            port = int(process.stderr.readline().rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), patience_s) as peer, peer.makefile("rb") as heard:
                peer.sendall(b"RESUME -1\n")
                assert [heard.readline() for _ in range(3)] == lines(EVENTS[:3]).splitlines(keepends=True)
                inject = ["strace", "-f", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO", "-p", str(process.pid)]
                with subprocess.Popen(inject, stderr=subprocess.PIPE, text=True) as tracer:
                    assert tracer.stderr is not None
                    assert "attached" in tracer.stderr.readline()
                    with journal.open("ab") as file:
                        file.write(lines(EVENTS[3:]))
                    assert heard.readline() == b""
                    _, said = process.communicate(timeout=patience_s)
                    tracer.communicate(timeout=patience_s)
        finally:
            process.kill()
    assert process.returncode == 19
    assert re.fullmatch(r"consumer: .* cannot be synced .*", said.splitlines()[-1]), said
