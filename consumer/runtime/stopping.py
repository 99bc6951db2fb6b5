"""How a consumer is stopped: how far a stop has come, and tasks that are cancelled once.

What is to be stopped waits for its call to the database, and a second cancellation would break that wait off. Whether
there was a first one is remembered here: `Task.cancelling` cannot tell it from a timeout inside of the task that has
just expired.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Stop:
    """How far a stop has come: `asked` lets the call in flight end, `forced` interrupts it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    def ask(self) -> None:
        """Ask for it; asking again forces it."""
        if self.asked.is_set():
            self.forced.set()
        self.asked.set()
        self._cancel()

    async def wait_for_end(self, task: asyncio.Task[Any]) -> None:
        """Wait until a task has ended, by itself or stopped. Where we are cancelled meanwhile, a stop is forced.

        Raises:
            CancelledError: we were. The task has ended all the same.
        """
        self._task = task
        if self.asked.is_set():
            self._cancel()
        cancellation: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancellation = error
                self.forced.set()
                self._cancel()
        failure_of(task)
        if cancellation is not None:
            raise cancellation

    def _cancel(self) -> None:
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait until it has ended; what it ended with is left in it."""
    task.cancel()
    await asyncio.wait({task})
    failure_of(task)


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Give what a task has failed with, if it has. Once asked for, asyncio does not log it as one that nobody saw."""
    return task.exception() if task.done() and not task.cancelled() else None
