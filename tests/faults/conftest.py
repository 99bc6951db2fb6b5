"""Fixtures of the tests of the consumer's command as a process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from consumer.store import migrate

sys.path.insert(0, str(Path(__file__).parents[1]))  # the scripted publisher is the other folder's
from runtime.certificates import Authority
from runtime.conftest import nothing_left, quick, run, serve, sqlite_store, store, store_url
from runtime.databases import check_unused

__all__ = ["nothing_left", "quick", "run", "serve", "sqlite_store", "store", "store_url"]

HANDLERS = Path(__file__).with_name("handlers.py")


class Command:
    """A process of `consumer run` that tells what it writes on standard error."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid
        self.lines: list[str] = []
        self.out = b""
        self._news = asyncio.Event()
        self._listening = asyncio.gather(self._listen(), self._keep())

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip("\n"))
            self._news.set()

    async def _keep(self) -> None:
        assert self.process.stdout is not None
        self.out = await self.process.stdout.read()

    async def says(self, text: str, count: int = 1) -> str:
        """Wait for the count-th line with a text in it."""
        while len(found := [line for line in self.lines if text in line]) < count:
            assert not self._listening.done(), self.lines
            self._news.clear()
            await self._news.wait()
        return found[count - 1]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for its end, and give its exit code. It has shown no traceback, however it ended."""
        await self._listening
        code = await self.process.wait()
        assert not [line for line in self.lines if line.startswith("Traceback")], self.lines
        return code

    @property
    def error(self) -> str:
        """The one line that says why it ended."""
        return next(line for line in self.lines if line.startswith("consumer: "))

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self._listening
        await self.process.wait()


Start = Callable[..., AbstractAsyncContextManager[Command]]


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of the processes: nothing that a developer has set."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONSUMER_")}


@pytest.fixture
def start(tmp_path: Path, patience_s: float, environment: dict[str, str]) -> Start:
    """`consumer run` as a process, in a folder with `handlers.py`. It is killed at the end if it still runs."""
    (tmp_path / "handlers.py").write_text(HANDLERS.read_text())

    @asynccontextmanager
    async def start(*arguments: str, **variables: str) -> AsyncIterator[Command]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "consumer",
            "run",
            *arguments,
            cwd=tmp_path,
            env=environment | variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        command = Command(process)
        try:
            async with asyncio.timeout(patience_s):
                yield command
        finally:
            await command.kill()

    return start


@pytest.fixture
def ready_sqlite_url(sqlite_url: str) -> str:
    """An empty store on SQLite."""
    migrate.upgrade(sqlite_url)
    return sqlite_url


@pytest.fixture
def postgres_store_url(postgres_url: str, nothing_left: None, patience_s: float) -> Iterator[str]:
    """An empty store on PostgreSQL. No connection of a consumer is left in the end."""
    migrate.upgrade(postgres_url)
    yield postgres_url
    check_unused(postgres_url, patience_s)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")
