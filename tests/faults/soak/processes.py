"""The processes of a soak: the real commands, forked from one that has loaded everything, so that a start is cheap."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from consumer.cli import app as cli
from consumer.cli import appending, consuming, serving  # noqa: F401 - what the commands load when they run
from consumer.core import points
from consumer.core.points import MigrationPoint, Point
from consumer.publisher import Appender
from consumer.runtime import supervision
from consumer.sources.tcp.wire import decode_acks, parse_resume
from consumer.testing import Moment, crash_at
from tests.faults.proxy import Fault, Hear, Proxy

from .board import Board, Slot

PATIENCE_S = 180.0
"""How long anything that must happen is waited for: a consumer whose connection is lost first commits what it has read,
one event a transaction perhaps."""

CRASH_POINTS = (*Point, *Moment)
"""Everywhere that a consumer dies by its own hand."""

TIMEOUT_S = 0.5
"""The consumer's `--timeout`: a connection that is half open is given up after it."""

BATCHES = (1, 5, 50, 8192)
"""What a consumer may get as `--batch`."""

BACKLOG_MAX = 2_000
"""How far the appender may be ahead of what is acknowledged: what such a consumer may have read."""

APPEND_EVENTS_MAX, APPEND_PAUSE_S = 40, 0.01
"""How much is appended at once, and how often: what the consumer gets comes in small pieces."""

BYTES_BETWEEN_FAULTS = 40_000
"""Some thousand events: about as many faults of the network as kills."""

_LOOK_S = 0.002
"""How often the board and the children are looked at."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is."""

    folder: Path
    db: str
    publisher_port: int
    proxy_port: int

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def log(self) -> Path:
        return self.folder / "consumer.log"


class Process:
    """A child."""

    def __init__(self, name: str, work: Callable[[], None], log: Path) -> None:
        """Fork one that works and then ends."""
        self.name = name
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(work, log, parent)

    def ended(self) -> int | None:
        """Give the exit code, negative for a signal; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end, and give the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while (code := self.ended()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the {self.name} has not ended after {PATIENCE_S:g} s")
            time.sleep(_LOOK_S)
        return code


def _be_child(work: Callable[[], None], log: Path, parent: int) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C is the parent's business
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        work()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:  # noqa: BLE001 - it must not go on as if it were its parent
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


class Processes:
    """All of them. A context manager: none is left."""

    def __init__(self, place: Place, board: Board, luck: random.Random) -> None:
        self.place = place
        self.board = board
        self._luck = luck
        self.running: dict[str, Process] = {}
        self._work: dict[str, Callable[[int], None]] = {
            "proxy": self._pass_on,
            "publisher": self._publish,
            "appender": self._append,
            "consumer": self._consume,
        }
        self.starts = 0

    def __enter__(self) -> Self:
        for name in self._work:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
        while self.running:
            self.running.popitem()[1].wait()

    def start(self, name: str) -> None:
        """Start one, or start it again."""
        seed = self._luck.randrange(2**30)
        log = self.place.folder / f"{name}.log"
        if name == "consumer":
            self.board[Slot.PLACE] = self.board[Slot.ARMED] = -1
        self.running[name] = Process(name, lambda: self._work[name](seed), log)
        self.starts += 1

    def kill(self, name: str) -> int:
        """SIGKILL, and give what it ended with: another code where it was quicker."""
        self.running[name].kill()
        return self.end(name)

    def end(self, name: str) -> int:
        """Wait for the end of one, and give its exit code."""
        code = self.running[name].wait()
        del self.running[name]
        return code

    def wait_until(self, is_so: Callable[[], bool], *, what: str) -> None:
        """Wait for something that the board tells.

        Raises:
            TimeoutError: it took too long.
            ChildProcessError: a process has ended that nobody has killed.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            for name, process in tuple(self.running.items()):
                if (code := process.ended()) is not None:
                    del self.running[name]
                    raise ChildProcessError(f"the {name} has ended by itself, with {code}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} has not come about after {PATIENCE_S:g} s")
            time.sleep(_LOOK_S)

    # What they do. Each gets a seed.

    def _publish(self, _: int) -> None:
        sys.argv = ["consumer", "serve", str(self.place.journal), "--port", str(self.place.publisher_port)]
        cli.main()

    def _append(self, seed: int) -> None:
        luck = random.Random(seed)
        with Appender(self.place.journal, lock_wait_s=PATIENCE_S) as appender:
            while not self.board[Slot.CALM]:
                first = appender.head + 1
                known = max(self.board[Slot.ACKED], self.board[Slot.RESUMED])  # an ACK may be lost, the RESUME says it
                if first - known < BACKLOG_MAX:
                    seqs = range(first, first + luck.randint(1, APPEND_EVENTS_MAX))
                    self.board[Slot.APPENDED] = appender.append((seq, luck.randint(-1000, 1000)) for seq in seqs)
                time.sleep(APPEND_PAUSE_S)

    def _pass_on(self, seed: int) -> None:
        async def run() -> None:
            board = self.board
            slots = {Fault.RESET: Slot.RESETS, Fault.STALL: Slot.STALLS}
            slots |= {Fault.SPLIT: Slot.SPLITS, Fault.HALF_OPEN: Slot.HALF_OPENS}
            place = self.place
            async with Proxy(
                place.publisher_port,
                seed,
                port=place.proxy_port,
                bytes_between=BYTES_BETWEEN_FAULTS,
                hear=lambda: _witness(board),
            ) as proxy:
                while True:  # it is killed
                    for fault, slot in slots.items():
                        board[slot] = proxy.happened[fault]
                    if board[Slot.CALM]:
                        proxy.calm()
                    await asyncio.sleep(0.01)

        asyncio.run(run())

    def _consume(self, seed: int) -> None:
        supervision.WAIT_MAX_S = 0.5  # a kill must not cost half a minute
        sys.argv = ["consumer", "run", f"tcp://127.0.0.1:{self.place.proxy_port}", "--db", self.place.db]
        sys.argv += ["--handler", f"{__package__}.handler:keep", "--timeout", str(TIMEOUT_S)]
        sys.argv += ["--batch", str(random.Random(seed).choice(BATCHES))]
        with ExitStack() as armed:
            points.reach = _noting(self.board, armed)
            cli.main()


def _noting(board: Board, armed: ExitStack) -> Callable[[Point | MigrationPoint], None]:
    """Make what the consumer passes by: it says where it is, and arms a crash point when it is told to."""
    order = list(Point)

    def reach(point: Point | MigrationPoint) -> None:
        if isinstance(point, Point):
            board[Slot.PLACE] = order.index(point)
        if point is Point.AFTER_COMMIT:
            board[Slot.BATCHES] += 1
        if (number := board[Slot.ARMED]) >= 0:
            board[Slot.ARMED] = -1
            armed.enter_context(crash_at(CRASH_POINTS[number], signal.SIGKILL, times=board[Slot.TIMES]))

    return reach


def _witness(board: Board) -> Hear:
    """Make what listens to one connection of a consumer: what it says must be true."""
    rest, due = b"", None

    def hear(data: bytes) -> None:
        nonlocal rest, due
        rest += data
        if due is None:
            line, newline, after = rest.partition(b"\n")
            if not newline:
                return
            last = parse_resume(line + newline)
            board[Slot.UNTRUE] += last < board[Slot.ACKED] or last < board[Slot.RESUMED]
            board[Slot.ADVANCES] += last > board[Slot.RESUMED]
            board[Slot.RESUMED] = max(board[Slot.RESUMED], last)
            rest, due = after, last + 1
        seqs, rest, stop = decode_acks(rest)
        board[Slot.UNTRUE] += stop is not None or list(seqs) != list(range(due, due + len(seqs)))
        due += len(seqs)
        if seqs:
            board[Slot.ACKED] = max(board[Slot.ACKED], seqs[-1])

    return hear
