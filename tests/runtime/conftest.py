"""Fixtures of the tests of the feed and the supervision: a store, a publisher, a running consumer; nothing is left."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from consumer.observe.observations import Observation
from consumer.runtime import supervision
from consumer.runtime.consumer import Consumer
from consumer.store import migrate, transaction
from consumer.store.transaction import Store
from consumer.testing import ScriptedPublisher

from .databases import check_unused
from .scripted import Script, playing


@pytest.fixture(autouse=True)
async def nothing_left(patience_s: float) -> AsyncIterator[None]:
    """No thread, task, socket or file stays open. Set up first, so it looks last."""

    def found() -> tuple[set[str], set[str], set[str]]:
        threads = {thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}
        tasks = {repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        return threads, tasks, _open_files()

    before = found()
    yield
    try:
        async with asyncio.timeout(patience_s):
            while any(now - then for now, then in zip(found(), before, strict=True)):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)  # what was closed or told to end may take a moment
    except TimeoutError:
        assert found() == before


def _open_files() -> set[str]:
    files = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            files.add(f"{link.name} {link.readlink()}")
        except FileNotFoundError:  # the one that lists the folder
            continue
    return files


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backoff that takes no time to speak of."""
    monkeypatch.setattr(supervision, "WAIT_INITIAL_S", 0.001)
    monkeypatch.setattr(supervision, "WAIT_MAX_S", 0.01)
    monkeypatch.setattr(supervision, "chance", max)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits between the three tries of an event whose handler fails."""
    monkeypatch.setattr(transaction, "HANDLER_WAIT_S", 0.0)


@pytest.fixture
def store_url(url: str, nothing_left: None, patience_s: float) -> Iterator[str]:
    """An empty store's URL, on both databases. No transaction is left in it."""
    migrate.upgrade(url)
    yield url
    check_unused(url, patience_s)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, on both databases in turn."""
    with Store(store_url) as store:
        yield store


@pytest.fixture
def sqlite_store(sqlite_url: str, nothing_left: None, patience_s: float) -> Iterator[Store]:
    """An empty store, where the database does not matter."""
    migrate.upgrade(sqlite_url)
    with Store(sqlite_url) as store:
        yield store
    check_unused(sqlite_url, patience_s)


Serve = Callable[..., AbstractAsyncContextManager[ScriptedPublisher]]


@pytest.fixture
def serve(patience_s: float) -> Serve:
    """A scripted publisher. What is inside its `async with` takes no longer than the patience, or so many times that."""

    @asynccontextmanager
    async def serve(script: Script, *, patiences: int = 1, **options) -> AsyncIterator[ScriptedPublisher]:
        async with asyncio.timeout(patiences * patience_s), playing(script, **options) as publisher:
            yield publisher

    return serve


class Watch:
    """An observer that keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self._news = asyncio.Event()

    def __call__(self, observation: Observation) -> None:
        self.seen.append(observation)
        self._news.set()

    def of(self, kind: type[Observation]) -> list:
        return [observation for observation in self.seen if isinstance(observation, kind)]

    async def until(self, kind: type[Observation], count: int = 1, *, saying: str = "") -> Any:
        """Wait for the count-th observation of a kind, with a text in it, and give it."""
        while len(found := [observation for observation in self.of(kind) if saying in str(observation)]) < count:
            self._news.clear()
            await self._news.wait()
        return found[count - 1]


@dataclass
class Running:
    """A consumer at work."""

    consumer: Consumer
    watch: Watch
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop it, and wait for its end, which must be a good one."""
        self.consumer.stop()
        await self.end()

    async def end(self) -> None:
        """Wait for its end. Whoever gives up waiting, as a test does that takes too long, does not cancel it."""
        await asyncio.shield(self.task)


Run = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def run(patience_s: float) -> Run:
    """A consumer that runs. It is stopped at the end of the `async with` where it has not ended by itself."""

    @asynccontextmanager
    async def run(url: str, store: Store, handler=None, **options) -> AsyncIterator[Running]:
        watch = Watch()
        options.setdefault("timeout", patience_s)
        options.setdefault("stop_timeout", patience_s)
        consumer = Consumer(url, store, handler, observers=[watch, *options.pop("observers", ())], **options)
        running = Running(consumer, watch, asyncio.create_task(consumer.run()))
        try:
            async with asyncio.timeout(patience_s):
                yield running
                if not running.task.done():
                    await running.stop()
        except BaseException:
            await asyncio.to_thread(store.interrupt)  # were that the fault, nothing would come to an end
            raise
        finally:
            if not running.task.done():
                running.task.cancel()
                await asyncio.wait({running.task}, timeout=patience_s)
            if running.task.done() and not running.task.cancelled():
                running.task.exception()

    return run
