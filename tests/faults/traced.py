"""Consumers under strace, of both kinds: the lab's client, a line at a time, and `consumer run`, a batch at a time."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from runtime.scripted import playing

from consumer.core.events import Event
from consumer.testing import ScriptedPublisher
from consumer.testing.script.conversation import Session

from .trace import Call, parse, strace_command

LINE_CLIENT = Path(__file__).with_name("line_client.py")
KILLED = -9


@functools.cache
def _why_not() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run([*strace_command(Path(os.devnull)), "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()}"


def need_strace() -> None:
    if (reason := _why_not()) is not None:
        pytest.skip(reason)


@dataclass(frozen=True)
class Mode:
    """How events are consumed.

    Attributes:
        name: of the mode.
        piece: how many events are sent at once; so many that the trace shows all that is heard.
        again: how many of them are sent a second time after that.
        shown_bytes: how much of a call's data the trace has.
    """

    name: str
    piece: int
    again: int
    shown_bytes: int

    def command(self, port: int, database: Path) -> list[str]:
        """Give the command that consumes until the publisher closes."""
        if self.name == "line":
            return [sys.executable, str(LINE_CLIENT), str(port), str(database)]
        url, db = f"tcp://127.0.0.1:{port}", f"sqlite:///{database}"
        return [sys.executable, "-m", "consumer", "run", url, "--db", db, "--once", "--timeout", "5"]


LINE = Mode("line", 12, 2, 256)
BATCH = Mode("batch", 100, 10, 4096)


@dataclass(frozen=True)
class Run:
    """A process that has ended.

    Attributes:
        code: what it ended with.
        said: what it has written on standard error, line by line.
        calls: its trace.
    """

    code: int
    said: list[str]
    calls: list[Call]


async def run_traced(
    command: Sequence[str], folder: Path, *options: str, shown_bytes: int = 256, first: int = 0
) -> Run:
    """Run a command under strace to its end.

    Args:
        command: what to run.
        folder: where the trace is written.
        options: more for strace.
        shown_bytes: see `strace_command`.
        first: see `parse`.
    """
    output = folder / "trace"
    process = await asyncio.create_subprocess_exec(
        *strace_command(output, *options, shown_bytes=shown_bytes),
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    code = process.returncode
    assert code is not None
    return Run(code, err.decode().splitlines(), parse(output.read_text(errors="replace").splitlines(), first))


def sending(events: Sequence[Event], mode: Mode) -> ScriptedPublisher:
    """A publisher that sends the events after the cursor in pieces, some of them twice, and closes when all are
    acknowledged."""

    async def script(session: Session) -> None:
        first = session.last + 1
        while first < len(events):
            piece = events[first : first + mode.piece]
            await session.send_events(piece)
            try:
                await session.acked(piece[-1][0])
            except AssertionError:
                return  # it has left; whoever comes next gets the rest
            await session.send_events(piece[-mode.again :])
            first += len(piece)
        session.finish()

    return playing(script)
