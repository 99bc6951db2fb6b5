"""One thread for the database: it runs one call after the other, and the event loop waits for them.

A `ThreadPoolExecutor` would do, at a higher cost for a small call, and would keep a process from ending for as long as
a call has not returned.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Call(Generic[Result]):
    """A call under way."""

    def __init__(self, function: Callable[[], Result]) -> None:
        """Say what is to be called."""
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] = self._loop.create_future()
        self._result: Result
        self.error: BaseException | None = None
        self.is_done = False

    def run(self) -> None:
        """Call, in the worker's thread."""
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            self.error = error
        try:
            self._loop.call_soon_threadsafe(self._finish)
        except RuntimeError:
            return  # the loop is closed, and nobody waits any more

    def _finish(self) -> None:
        self.is_done = True
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until the call has returned. A cancellation leaves the call alone; one can wait again."""
        if not self.is_done:
            if self._waiter.cancelled():
                self._waiter = self._loop.create_future()
            await self._waiter

    def result(self) -> Result:
        """Give what the call returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self._result


class Worker:
    """A daemon thread: a call that never returns does not keep the process."""

    def __init__(self, name: str) -> None:
        """Start it."""
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, function: Callable[[], Result]) -> Call[Result]:
        """Have a function called when those before it have returned."""
        call = Call(function)
        self._calls.put(call)
        return call

    def close(self) -> None:
        """End the thread when it has nothing more to do."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            del call  # it holds a batch
