"""What the contract tests share: connections that watch and fail, fakes of the two streams, a clock that jumps, a peer.

Nothing here knows how the package is made: the tests are written from the contract's text alone.
"""

import asyncio
import contextlib
import functools
import os
import selectors
import socket
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import consumer

# Bounds whatever must end by itself anyway: no test passes or fails by how soon it did.
GUARD_S = 60.0
# Where running into the timeout is the point and the clock is the real one.
SHORT_S = 0.1

SEQ_MAX = 2147483647
DELTA_MAX = 1000

# Every place where an int within a range is asked for refuses these.
NOT_AN_INT = [True, False, None, "1", b"1", 1.0, 1.5, float("nan"), 1j, [], (1,), range(3)]

ROOT = Path(consumer.__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent


# --- child processes -----------------------------------------------------------------------------


def child_environment() -> dict[str, str]:
    """The package under test comes first, wherever the child is started."""
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(ROOT), *([inherited] if inherited else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run_python(*arguments: str) -> str:
    """Standard output of a Python that must end well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the database --------------------------------------------------------------------------------

Row = tuple[Any, ...]


@contextlib.contextmanager
def another(path: object) -> Iterator[sqlite3.Connection]:
    """A second connection that knows nothing of the first."""
    con = sqlite3.connect(path, timeout=GUARD_S, isolation_level=None)  # type: ignore[arg-type]
    try:
        yield con
    finally:
        con.close()


def contents(con: sqlite3.Connection) -> tuple[list[Row], list[Row]]:
    """Checkpoint and ledger, as this connection sees them."""
    cursor = con.cursor()
    cursor.row_factory = None
    checkpoint = cursor.execute("SELECT id, last, total FROM checkpoint ORDER BY id").fetchall()
    ledger = cursor.execute("SELECT seq, delta FROM ledger ORDER BY seq").fetchall()
    cursor.close()
    return checkpoint, ledger


def stored(path: object) -> tuple[list[Row], list[Row]]:
    """Checkpoint and ledger, as a new connection sees them."""
    with another(path) as con:
        return contents(con)


def holding(*events: tuple[int, int]) -> tuple[list[Row], list[Row]]:
    """The contents of a store after these events, counted from 0."""
    return [(1, len(events) - 1, sum(delta for _, delta in events))], list(events)


EMPTY = holding()


def descriptors() -> list[str]:
    """What the descriptors of this process stand for."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone by now
            found.append(str(link.readlink()))
    return found


def open_files(path: object) -> list[str]:
    """Those that hold the database or one of its companions."""
    return [target for target in descriptors() if target.startswith(str(path))]


def sockets() -> int:
    """How many sockets this process holds."""
    return sum(target.startswith("socket:") for target in descriptors())


class WatchedCursor(sqlite3.Cursor):
    """Reports every statement to its connection first."""

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        self.connection.before(sql)
        return super().execute(sql, *rest)

    def executemany(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        self.connection.before(sql)
        return super().executemany(sql, *rest)

    def executescript(self, sql: str) -> sqlite3.Cursor:
        self.connection.before(sql)
        return super().executescript(sql)


class WatchedConnection(sqlite3.Connection):
    """Counts statements and closings, and fails where it is told to."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.statements: list[str] = []
        self.closings = 0
        self.arm(None)

    def arm(self, nth: int | None, error: BaseException | None = None, *, only: bool = True) -> None:
        """Raise ``error`` at the statement number ``nth`` from here; ``only``, or at all after."""
        self.count, self.nth, self.error, self.only = 0, nth, error, only

    def before(self, sql: str) -> None:
        self.statements.append(sql)
        if self.only and sql.upper().startswith("ROLLBACK"):
            return  # the one statement that a failure has to be able to rely on
        number, self.count = self.count, self.count + 1
        if self.nth is None or self.error is None or number < self.nth:
            return
        if number == self.nth:
            raise self.error
        if not self.only:
            raise sqlite3.OperationalError("and everything after it")

    def cursor(self, factory: Any = WatchedCursor) -> Any:
        return super().cursor(factory)

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        return self.cursor().executescript(*args)

    def commit(self) -> None:
        self.before("COMMIT")
        super().commit()

    def rollback(self) -> None:
        self.before("ROLLBACK")
        super().rollback()

    def close(self) -> None:
        self.closings += 1
        super().close()


class Connects:
    """Stands in for ``sqlite3.connect``: keeps the calls and makes connections that are watched."""

    def __init__(self, prepare: Callable[[WatchedConnection], None] | None = None) -> None:
        self.real = sqlite3.connect
        self.prepare = prepare
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.made: list[WatchedConnection] = []

    def __call__(self, *args: Any, **kwargs: Any) -> WatchedConnection:
        self.calls.append((args, kwargs))
        con = self.real(*args, factory=WatchedConnection, **kwargs)
        self.made.append(con)
        if self.prepare is not None:
            self.prepare(con)
        return con

    @property
    def all_closed(self) -> bool:
        return bool(self.made) and all(is_closed(con) for con in self.made)


def is_closed(con: sqlite3.Connection) -> bool:
    try:
        con.total_changes  # noqa: B018 - the look is the question
    except sqlite3.ProgrammingError:
        return True
    return False


def traced(con: sqlite3.Connection) -> list[str]:
    """A list that grows with every statement that SQLite itself begins on ``con``."""
    seen: list[str] = []
    con.set_trace_callback(seen.append)
    return seen


class Falsy:
    """A callable that is false, and claims to equal None: given all the same."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return other is None or other is self

    def __hash__(self) -> int:
        return 0

    def __call__(self, *args: Any) -> None:
        self.calls.append(args)


class Odd(BaseException):
    """An error outside of Exception that an event loop hands on like any other."""


# --- a clock that jumps --------------------------------------------------------------------------


class JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: where a loop would wait, its clock moves on instead."""

    def __init__(self, clock: "JumpingLoop") -> None:
        super().__init__()
        self.clock = clock

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("nothing is left that could ever happen: a wait without a bound")
        self.clock.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on which an hour passes at once, and a wait without a bound is an error."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(JumpingSelector(self))

    def time(self) -> float:
        return self.now


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a JumpingLoop: its waits are exact and cost nothing, and no task may be left behind."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def to_the_end() -> None:
            await test(*args, **kwargs)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, "a wait goes on after its bound"

        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(to_the_end())

    return run


def clock() -> float:
    return asyncio.get_running_loop().time()


# --- fakes of the streams, with nothing but what step 6 names ------------------------------------

Step = bytes | BaseException | Callable[[], Awaitable[Any]] | None


async def perform(step: Step) -> Any:
    if isinstance(step, BaseException):
        raise step
    if callable(step):
        return await step()
    return step


async def forever() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    vars(loop).setdefault("kept", []).append(future)  # whoever waits for it is not forgotten, and can be found
    await future


def after(seconds: float, step: Step = None) -> Callable[[], Awaitable[Any]]:
    async def run() -> Any:
        await asyncio.sleep(seconds)
        return await perform(step)

    return run


class Gate:
    """A step that says when it has been reached, and ends when the test says so."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> Any:
        self.reached.set()
        return await self.future


class Only:
    """Refuses, aloud, every attribute that the class does not define."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"{type(self).__name__}.{name} is not among what callers pass")


class FakeReader(Only):
    """Gives its steps in turn, then the end of the stream."""

    def __init__(self, log: list[Any], *steps: Step) -> None:
        self.log = log
        self.steps = list(steps)

    async def readline(self) -> bytes:
        self.log.append("readline")
        return await perform(self.steps.pop(0)) if self.steps else b""


class FakeTransport(Only):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def abort(self) -> None:
        self.log.append("abort")


class FakeWriter(Only):
    """Logs what is done to it; every call can be given a step to take."""

    def __init__(
        self,
        log: list[Any],
        *,
        write: BaseException | None = None,
        drain: Step = None,
        close: BaseException | None = None,
        wait_closed: Step = None,
    ) -> None:
        self.log = log
        self.transport = FakeTransport(log)
        self.on_write, self.on_drain = write, drain
        self.on_close, self.on_wait_closed = close, wait_closed

    def write(self, data: bytes) -> None:
        self.log.append(data)
        if self.on_write is not None:
            raise self.on_write

    async def drain(self) -> None:
        self.log.append("drain")
        await perform(self.on_drain)

    def close(self) -> None:
        self.log.append("close")
        if self.on_close is not None:
            raise self.on_close

    async def wait_closed(self) -> None:
        self.log.append("wait_closed")
        await perform(self.on_wait_closed)


def streams(*steps: Step, **writer: Any) -> tuple[FakeReader, FakeWriter, list[Any]]:
    log: list[Any] = []
    return FakeReader(log, *steps), FakeWriter(log, **writer), log


CLOSED = ["close", "wait_closed"]
ABORTED = ["close", "wait_closed", "abort"]


def closing(log: list[Any]) -> list[Any]:
    """What was done to end the connection, in order."""
    return [entry for entry in log if entry in ABORTED]


# --- a peer on 127.0.0.1 that the test plays itself ----------------------------------------------


class Peer:
    """One accepted connection, driven by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""

    async def readline(self) -> bytes:
        """The next line; what is left, and b"" at the last, once the other side has ended."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(GUARD_S):
            while b"\n" not in self.buffer:
                chunk = await loop.sock_recv(self.sock, 4096)
                if not chunk:
                    line, self.buffer = self.buffer, b""
                    return line
                self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line + b"\n"

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(GUARD_S):
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with a RST instead of a FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()


class Listener:
    """A server socket; clients and peers that are left over are ended with it."""

    def __init__(self) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.port: int = self.sock.getsockname()[1]
        self.peers: list[Peer] = []
        self.clients: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self.clients:
            task.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)
        for peer in self.peers:
            peer.close()
        self.sock.close()

    def client(self, path: object, timeout: float = GUARD_S, before_ack: Any = None) -> asyncio.Task[tuple[int, int]]:
        task = asyncio.ensure_future(consumer.run_client("127.0.0.1", self.port, path, timeout, before_ack))
        self.clients.append(task)
        return task

    async def accept(self) -> Peer:
        async with asyncio.timeout(GUARD_S):
            sock, _ = await asyncio.get_running_loop().sock_accept(self.sock)
        sock.setblocking(False)
        self.peers.append(Peer(sock))
        return self.peers[-1]


async def outcome(task: Awaitable[Any]) -> Any:
    """What a task returned, or the error it ended with; itself never waits for ever."""
    async with asyncio.timeout(GUARD_S):
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return result


@contextlib.contextmanager
def raises_exactly(error: BaseException) -> Iterator[None]:
    """This very object has to come out."""
    with pytest.raises(type(error)) as caught:
        yield
    assert caught.value is error
