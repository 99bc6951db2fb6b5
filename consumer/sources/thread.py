"""A thread for what blocks: a disk, or an engine's client. It runs one call after the other.

It is a daemon, so that a call that never returns, on a network's file system for example, does not keep the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")


class Thread:
    """A thread that makes calls for one event loop, the one that is running when it is made."""

    def __init__(self, name: str) -> None:
        """Start it, under a name that shows in debuggers."""
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Have a function called after those before it. Cancelling the future leaves the call alone."""
        future: asyncio.Future[Result] = self._loop.create_future()
        future.add_done_callback(_retrieve)
        self._calls.put(lambda: self._make(function, future))
        return future

    def end(self) -> None:
        """End the thread when it has made all calls."""
        self._calls.put(None)

    def _make(self, function: Callable[[], Result], future: asyncio.Future[Result]) -> None:
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            finish = partial(_fail, future, error)
        else:
            finish = partial(_succeed, future, result)
        try:
            self._loop.call_soon_threadsafe(finish)
        except RuntimeError:
            return  # the loop is closed, and nobody waits any more

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # it holds what was read


def _retrieve(future: asyncio.Future[Result]) -> None:
    """Take an error as seen: who does not wait for a call any more does not miss its error either."""
    if not future.cancelled():
        future.exception()


def _succeed(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Result], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
