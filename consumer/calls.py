"""A consumer's calls to its database: one at a time, in the worker thread, and seen out when the consumer stops.

No call is left alone: a cancellation waits for it, within a bound, and what it has committed is still acknowledged.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, TypeVar

from consumer.errors import StoppedByForce
from consumer.observe import logger
from consumer.worker import Call, Worker

FORCE_GRACE_S = 2.0
"""How long an interrupted database call may take to return."""

INTERRUPT_INTERVAL_S = 0.25
"""How long until it is interrupted again: the first time it may have been in a handler, between two statements."""

STALL_S = 30.0
"""How often a call that does not return is told of. It is not ended: handlers may be long."""

Result = TypeVar("Result")


class Stop:
    """How far a stop has come: `asked` lets the call in flight end, `forced` interrupts it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()

    def ask(self) -> None:
        """Ask for it; asking again forces it."""
        if self.asked.is_set():
            self.forced.set()
        self.asked.set()


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

        Raises:
            StoppedByForce: a stop had to interrupt the call, or it did not return even then.
            Exception: what the function raised.
        """
        call = self._worker.submit(function)
        self._latest = call
        try:
            await call.wait()
        except asyncio.CancelledError:
            await self._see_out(call)
            if call.error is not None:
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

    async def _see_out(self, call: Call[Any]) -> None:
        """Wait for the last call of a stop: patiently first, then with an interruption."""
        forced = asyncio.create_task(self._stop.forced.wait())
        ended = asyncio.create_task(call.wait())
        try:
            await asyncio.wait({ended, forced}, timeout=self._stop_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            grace_s = FORCE_GRACE_S if self._stop.asked.is_set() else math.inf
            while not call.is_done and grace_s > 0:
                await asyncio.to_thread(self._interrupt)
                await asyncio.wait({ended}, timeout=min(INTERRUPT_INTERVAL_S, grace_s))
                grace_s -= INTERRUPT_INTERVAL_S
        finally:
            forced.cancel()
            ended.cancel()
        if not call.is_done or isinstance(call.error, StoppedByForce):
            raise StoppedByForce


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, once, and wait until it has ended; what it ended with is left in it."""
    if not task.cancelling():
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen: asyncio need not complain of it
