"""A consumer's calls to its database: one at a time, in the worker thread, and seen out when the consumer stops.

No call is left alone: a cancellation waits for it, within a bound, and what it has committed is still acknowledged.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, TypeVar

from consumer.core.errors import StoppedByForce
from consumer.observe.observations import logger
from consumer.runtime.worker import Call, Worker

FORCE_GRACE_S = 2.0
"""How long an interrupted database call may take to return."""

INTERRUPT_INTERVAL_S = 0.25
"""How long until it is interrupted again: the first time it may have been in a handler, between two statements."""

STALL_S = 30.0
"""How often a call that does not return is told of. It is not ended: handlers may be long."""

Result = TypeVar("Result")


class Stop:
    """How far a stop has come: `asked` lets the call in flight end, `forced` interrupts it.

    What is to be stopped is cancelled once only: it sees its call out, and a second cancellation would break that off.
    `Task.cancelling` cannot tell whether it was: a timeout inside of the task, just expired, looks the same.
    """

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

    async def see_out(self, task: asyncio.Task[Any]) -> None:
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
        if not task.cancelled():
            task.exception()  # seen: asyncio need not complain of it
        if cancellation is not None:
            raise cancellation

    def _cancel(self) -> None:
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()


class Calls:
    """Starts the worker thread. For one event loop."""

    def __init__(self, interrupt: Callable[[], None], stop: Stop, stop_timeout_s: float) -> None:
        """Say how a call is interrupted, and how long a stop waits for one before it does that."""
        self._interrupt = interrupt
        self._stop = stop
        self._stop_timeout_s = stop_timeout_s
        self._worker = Worker("consumer-store")
        self._latest: Call[Any] | None = None

    def end(self) -> None:
        """End the thread when it has nothing more to do."""
        self._worker.end()

    async def make(self, function: Callable[[], Result], settle: Callable[[Result], None] | None = None) -> Result:
        """Call, and give the result to `settle` too, even where we are cancelled meanwhile.

        Without `settle` the call changes nothing, and a stop interrupts it at once.

        Raises:
            StoppedByForce: a stop had to interrupt a call that changes something, or it did not return even then.
            Exception: what the function raised.
        """
        call = self._worker.submit(function)
        self._latest = call
        try:
            await call.wait()
        except asyncio.CancelledError:
            await self._see_out(call, changes=settle is not None)
            if isinstance(call.error, StoppedByForce):
                pass  # nothing was to be lost
            elif call.error is not None:
                logger.warning("what was under way at the stop failed: %s", call.error)
            elif settle is not None:
                settle(call.result())
            raise
        if settle is not None:
            settle(call.result())
        return call.result()

    async def watch(self, tell: Callable[[float], None]) -> None:
        """Tell of a call that does not return, now and then and for how many seconds at least. It never ends."""
        watched, waited_s = None, 0.0
        while True:
            await asyncio.sleep(STALL_S)
            if self._latest is None or self._latest.is_done or self._latest is not watched:
                watched, waited_s = self._latest, 0.0
            else:
                waited_s += STALL_S
                tell(waited_s)

    async def _see_out(self, call: Call[Any], *, changes: bool) -> None:
        """Wait for the last call of a stop: patiently first, if it changes anything, then with an interruption."""
        forced = asyncio.create_task(self._stop.forced.wait())
        ended = asyncio.create_task(call.wait())
        patience_s = self._stop_timeout_s
        try:
            if changes:
                await asyncio.wait({ended, forced}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                patience_s = 0.0
            left_s = patience_s + FORCE_GRACE_S if self._stop.asked.is_set() else math.inf
            while not call.is_done and left_s > 0:
                await asyncio.to_thread(self._interrupt)
                await asyncio.wait({ended}, timeout=min(INTERRUPT_INTERVAL_S, left_s))
                left_s -= INTERRUPT_INTERVAL_S
                if self._stop.asked.is_set() and self._stop.forced.is_set():
                    left_s = min(left_s, FORCE_GRACE_S)
        finally:
            forced.cancel()
            ended.cancel()
        if not call.is_done or (changes and isinstance(call.error, StoppedByForce)):
            raise StoppedByForce


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait until it has ended; what it ended with is left in it."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen: asyncio need not complain of it
