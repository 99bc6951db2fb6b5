"""The consumer as a user sees it: its two ends, its options, and how it is run, stopped and waited for.

One session follows the other. Whatever fails and passes by itself ends in a new connection and a RESUME from the cursor
in the database. A stop lets the commit in flight end first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from consumer.observe.log import LogSink
from consumer.observe.observations import Disconnected, Failed, Observation, Observer, Retrying, notify
from consumer.runtime.calls import Calls
from consumer.runtime.defaults import BATCH_EVENTS, STOP_TIMEOUT_S, TIMEOUT_S
from consumer.runtime.progress import Progress
from consumer.runtime.session import Sessions
from consumer.runtime.stopping import Stop, failure_of
from consumer.runtime.supervision import Failures, backoff
from consumer.sources.tcp.connection import IdleError
from consumer.sources.tcp.endpoint import Endpoint
from consumer.sources.tcp.streams import check_timeout
from consumer.sources.tcp.tls import TLS
from consumer.store.handlers import Handler, check_handler
from consumer.store.transaction import Store


class Consumer:
    """Consumes one publisher's events into one store. It runs once."""

    def __init__(
        self,
        url: str,
        store: Store,
        handler: Handler | None = None,
        *,
        timeout: float = TIMEOUT_S,
        stop_timeout: float = STOP_TIMEOUT_S,
        batch: int = BATCH_EVENTS,
        once: bool = False,
        max_attempts: int | None = None,
        tls: TLS | None = None,
        observers: Iterable[Observer] | None = None,
    ) -> None:
        """Name the two ends. Nothing is connected yet.

        Args:
            url: the publisher, `tcp://HOST:PORT` or `tls://HOST:PORT`.
            store: where to. It must be upgraded, is used by this consumer alone while it runs, and stays open.
            handler: `handler(connection, events)`, called in the transaction of each batch; see docs/handlers.md.
            timeout: the longest single wait for the publisher, in seconds.
            stop_timeout: how long a stop waits for the commit in flight, in seconds.
            batch: the most events of one transaction.
            once: end when the publisher closes, instead of connecting again.
            max_attempts: how often in a row connecting may fail, None for no limit.
            tls: certificates, for `tls://`.
            observers: called with each `consumer.observe.observations.Observation`. None for a `LogSink`, which writes
                to the logger `consumer`; whoever gives others and wants log lines too gives one among them.

        Raises:
            InvalidURL, InvalidOption: the URL or a TLS file cannot be used.
            ValueError: a number is out of range.
            TypeError: the handler is a coroutine function.
        """
        check_timeout(timeout)
        check_timeout(stop_timeout)
        if batch < 1 or (max_attempts is not None and max_attempts < 1):
            raise ValueError("batch and max_attempts must be at least 1")
        if handler is not None:
            check_handler(handler)
        self._endpoint = Endpoint(url, tls or TLS(), timeout)
        self._store = store
        self._handler = handler
        self._stop_timeout = stop_timeout
        self._batch = batch
        self._once = once
        self._max_attempts = max_attempts
        self._observers = (LogSink(),) if observers is None else tuple(observers)
        self._stop = Stop()
        self._progress = Progress()
        self._has_run = False

    # What a user calls.

    async def run(self) -> None:
        """Consume until stopped, or until the publisher closes where `once` was said.

        Raises:
            ConsumerError: what trying again does not change; see `consumer.core.errors`.
            sqlalchemy.exc.DBAPIError: the database cannot be used; or the driver's own error.
            StoppedByForce: the commit in flight did not end in time after a stop.
            CancelledError: it was cancelled; the database call was interrupted and has returned.
        """
        if self._has_run:
            raise RuntimeError("a consumer runs once: make a new one")
        self._has_run = True
        calls = Calls(self._store.interrupt, self._stop, self._stop_timeout, self._notify)
        supervision = asyncio.create_task(self._supervise(calls))
        watching = asyncio.create_task(calls.watch())
        try:
            await self._stop.wait_for_end(supervision)
        finally:
            watching.cancel()
            calls.close()
            self._progress.end(failure_of(supervision))
        if not supervision.cancelled():
            supervision.result()

    @property
    def last(self) -> int | None:
        """The cursor, None before it is known."""
        return self._progress.last

    def stop(self) -> None:
        """Stop reading, let the commit in flight end, acknowledge it, close. Called again: interrupt it.

        For the event loop's thread; from another use `loop.call_soon_threadsafe`.
        """
        self._stop.ask()

    async def wait_for(self, seq: int) -> None:
        """Wait until an event is committed, to read what it changed.

        Args:
            seq: the event's number.

        Raises:
            ConsumerError: the consumer has ended without it. Where that was an error, it is the cause of this one.
        """
        await self._progress.wait_for(seq)

    # One session after the other, and the waits between them.

    async def _supervise(self, calls: Calls) -> None:
        failures = Failures(self._max_attempts)
        sessions = Sessions(
            self._endpoint,
            self._store,
            self._handler,
            self._batch,
            calls=calls,
            stop=self._stop,
            progress=self._progress,
            failures=failures,
            notify=self._notify,
        )
        delays, commits = backoff(), self._progress.commits
        while True:
            try:
                has_begun = await sessions.run()
                ending = self._ending(has_begun=has_begun)
                if self._once:
                    return self._notify(ending)
                failure: Exception = EOFError(f"{ending.address} {ending.reason}")
            except IdleError as error:
                self._notify(Disconnected(str(self._endpoint), f"was silent for {error.silent_s:g} s"))
                delays = backoff()
                continue
            except Exception as error:  # noqa: BLE001 - what is final is raised again below
                failure = error
            final = failures.final(failure)
            if final is not None:
                self._notify(Failed(final))
                raise final
            wait_s = next(delays)
            if self._progress.commits != commits:
                delays, commits, wait_s = backoff(), self._progress.commits, 0.0
            self._notify(Retrying(failure, wait_s))
            await asyncio.sleep(wait_s)

    def _ending(self, *, has_begun: bool) -> Disconnected:
        """Say how the publisher has closed. Over TCP an empty stream looks like a publisher that wants TLS."""
        if has_begun:
            return Disconnected(str(self._endpoint), "closed the connection")
        other = "it is no publisher" if self._endpoint.uses_tls else "it is no publisher or speaks TLS: see tls://"
        return Disconnected(
            str(self._endpoint),
            f"closed the connection without a word: it has nothing after event {self._progress.last}, or {other}",
            is_doubtful=True,
        )

    def _notify(self, observation: Observation) -> None:
        notify(self._observers, observation)
