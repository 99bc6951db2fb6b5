"""A consumer's calls to its database: one at a time, in the worker thread, and waited for when the consumer stops.

A cancellation waits for the call under way, within a bound, and what the call has committed is still acknowledged. It
may come more than once, as when `asyncio.run` cancels every task of a loop. The thread must not be left in a call to a
database that is closed next, so each wait below takes in a further cancellation, and hurries instead of ending.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from consumer.core.errors import StoppedByForce
from consumer.observe.observations import FailedAtStop, Observation, Stalled
from consumer.runtime.stopping import Stop
from consumer.runtime.worker import Call, Worker

FORCE_GRACE_S = 2.0
"""How long an interrupted database call may take to return."""

INTERRUPT_INTERVAL_S = 0.25
"""How long until it is interrupted again: the first time it may have been in a handler, between two statements."""

STALL_S = 30.0
"""How often a call that does not return is reported. It is not ended: handlers may be long."""

Result = TypeVar("Result")


class Calls:
    """Starts the worker thread. For one event loop.

    Args:
        interrupt: interrupts the call under way; called in another thread.
        stop: how far a stop has come.
        stop_timeout_s: how long a stop waits for a call before it interrupts it, in seconds.
        notify: is called with each observation.
    """

    def __init__(
        self,
        interrupt: Callable[[], None],
        stop: Stop,
        stop_timeout_s: float,
        notify: Callable[[Observation], None],
    ) -> None:
        self._interrupt = interrupt
        self._stop = stop
        self._stop_timeout_s = stop_timeout_s
        self._notify = notify
        self._worker = Worker("consumer-store")
        self._latest: Call[Any] | None = None

    def close(self) -> None:
        """End the thread when it has nothing more to do."""
        self._worker.close()

    async def read(self, function: Callable[[], Result]) -> Result:
        """Make a call that changes nothing. A stop interrupts it at once.

        Raises:
            StoppedByForce: a stop had to interrupt it, and it did not return even then.
            Exception: what the function raised.
        """
        call = self._submit(function)
        try:
            await call.wait()
        except asyncio.CancelledError:
            await self._interrupt_until_done(call, self._stop_timeout_s + FORCE_GRACE_S)
            if call.error is not None and not isinstance(call.error, StoppedByForce):
                self._notify(FailedAtStop(call.error))
            raise
        return call.result()

    async def change(self, function: Callable[[], Result], use: Callable[[Result], None]) -> Result:
        """Make a call that changes something. A stop lets it end, within the stop's timeout.

        Args:
            function: what is called in the thread.
            use: called with the result, even where we are cancelled meanwhile: what is committed is to be acknowledged.

        Raises:
            StoppedByForce: a stop had to interrupt the call, so that nobody knows what it has changed.
            Exception: what the function raised.
        """
        call = self._submit(function)
        try:
            await call.wait()
        except asyncio.CancelledError:
            await self._wait_until_forced(call)
            await self._interrupt_until_done(call, FORCE_GRACE_S)
            if isinstance(call.error, StoppedByForce):
                raise StoppedByForce from call.error
            if call.error is not None:
                self._notify(FailedAtStop(call.error))
            else:
                use(call.result())
            raise
        result = call.result()
        use(result)
        return result

    async def watch(self) -> None:
        """Report a call that does not return, now and then. It never ends."""
        watched, waited_s = None, 0.0
        while True:
            await asyncio.sleep(STALL_S)
            if self._latest is None or self._latest.is_done or self._latest is not watched:
                watched, waited_s = self._latest, 0.0
            else:
                waited_s += STALL_S
                self._notify(Stalled(waited_s))

    def _submit(self, function: Callable[[], Result]) -> Call[Result]:
        self._latest = call = self._worker.submit(function)
        return call

    async def _wait_until_forced(self, call: Call[Any]) -> None:
        """Wait for a call for as long as a stop is patient."""
        forced = asyncio.create_task(self._stop.forced.wait())
        ended = asyncio.create_task(call.wait())
        try:
            with suppress(asyncio.CancelledError):  # again: its patience is at an end
                await asyncio.wait({ended, forced}, timeout=self._stop_timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            forced.cancel()
            ended.cancel()

    async def _interrupt_until_done(self, call: Call[Any], patience_s: float) -> None:
        """Interrupt a call again and again until it has returned.

        Args:
            call: the call.
            patience_s: how long it may take, in seconds, where the consumer is stopped; once that is forced no longer
                than `FORCE_GRACE_S`. Where it is merely cancelled there is no limit.

        Raises:
            StoppedByForce: it took longer.
        """
        left_s = patience_s if self._stop.asked.is_set() else math.inf
        while not call.is_done and left_s > 0:
            ended = asyncio.create_task(call.wait())
            with suppress(asyncio.CancelledError):  # again: it is being interrupted already
                await asyncio.to_thread(self._interrupt)
                await asyncio.wait({ended}, timeout=min(INTERRUPT_INTERVAL_S, left_s))
            ended.cancel()
            left_s -= INTERRUPT_INTERVAL_S
            if self._stop.asked.is_set() and self._stop.forced.is_set():
                left_s = min(left_s, FORCE_GRACE_S)
        if not call.is_done:
            raise StoppedByForce
