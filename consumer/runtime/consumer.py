"""The consumer: a feed and a store under supervision, for as long as it takes.

One session follows the other. Whatever fails and passes by itself (`retry.py` says what) ends in a new connection and a
RESUME from the cursor in the database. A stop lets the commit in flight end first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from functools import partial

import stamina

from consumer.core.errors import ConnectFailed, ConsumerError, GaveUp, InvalidOption, ResyncRequired
from consumer.core.events import Events
from consumer.core.outcome import Outcome
from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    Observation,
    Observer,
    Retrying,
    Stalled,
    logger,
    notify,
)
from consumer.runtime.calls import Calls, Stop
from consumer.runtime.session import consume
from consumer.sources.tcp.feed import Address, Feed, IdleError
from consumer.sources.tcp.streams import check_timeout
from consumer.sources.tcp.tls import TLS
from consumer.store.handlers import Handler, check_handler
from consumer.store.retry import TRIES, Patience, patience
from consumer.store.schema import NOTHING_YET
from consumer.store.transaction import Store

TIMEOUT_S = 30.0
"""The longest single wait for the publisher, unless the caller says otherwise."""

STOP_TIMEOUT_S = 20.0
"""How long a stop waits for the commit in flight, unless the caller says otherwise. Supervisors kill after 30 s."""

BATCH_EVENTS = 8192
"""The most events of one transaction, unless the caller says otherwise: more gains little and holds the lock longer."""

WAIT_INITIAL_S, WAIT_MAX_S, WAIT_JITTER_S = 0.1, 30.0, 1.0
"""The backoff: twice as long each time, with jitter, so that many consumers do not come back at once."""

REFUSAL_PATIENCE_S = 30.0
"""How long a PostgreSQL server may refuse a consumer that it never let in, before that is final."""


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
        observers: Iterable[Observer] = (),
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
            observers: called with each `consumer.observe.observations.Observation`.

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
        self._address = Address.parse(url)
        self._tls = tls or TLS()
        if self._tls != TLS() and not self._address.uses_tls:
            raise InvalidOption("TLS options need an address that uses TLS: tls://HOST:PORT")
        self._context = self._tls.context() if self._address.uses_tls else None
        self._store = store
        self._handler = handler
        self._timeout = timeout
        self._stop_timeout = stop_timeout
        self._batch = batch
        self._once = once
        self._max_attempts = max_attempts
        self._observers = tuple(observers)
        self._stop = Stop()
        self._running: Calls | None = None
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()
        self._has_ended = False
        self._last: int | None = None  # the cursor, once it is known
        self._resumed_from = NOTHING_YET  # the cursor that the last RESUME said
        self._commits = 0  # how many batches with new events: progress
        self._failed_connects = 0  # in a row
        self._failures = 0  # of those that are tried three times, since the last progress
        self._refused_since: float | None = None

    # What a user calls.

    async def run(self) -> None:
        """Consume until stopped, or until the publisher closes where `once` was said.

        Raises:
            ConsumerError: what trying again does not change; see `consumer.core.errors`.
            sqlalchemy.exc.DBAPIError: the database cannot be used; or the driver's own error.
            StoppedByForce: the commit in flight did not end in time after a stop.
            CancelledError: it was cancelled; the database call was interrupted and has returned.
        """
        if self._running is not None:
            raise RuntimeError("a consumer runs once: make a new one")
        calls = self._running = Calls(self._store.interrupt, self._stop, self._stop_timeout)
        supervision = asyncio.create_task(self._supervise())
        watching = asyncio.create_task(calls.watch(lambda waited_s: self._notify(Stalled(waited_s))))
        try:
            await self._stop.see_out(supervision)
        finally:
            watching.cancel()
            calls.end()
            self._give_up_waiting()
        if not supervision.cancelled():
            supervision.result()

    @property
    def last(self) -> int | None:
        """The cursor, None before it is known."""
        return self._last

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
            ConsumerError: the consumer ended before.
        """
        if self._last is not None and self._last >= seq:
            return
        if self._has_ended:
            raise _never_came(seq)
        waiting = (seq, asyncio.get_running_loop().create_future())
        self._waiting.add(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.discard(waiting)

    # Supervision: one session after the other, and the waits between them.

    async def _supervise(self) -> None:
        try:
            while not await self._run_until_progress():
                pass
        except _Again as again:  # where the application has switched stamina's retrying off
            raise (again.__cause__ or again) from None

    async def _run_until_progress(self) -> bool:
        """Try sessions with growing waits until one makes progress. True: the consumer has ended."""
        commits = self._commits
        async for attempt in stamina.retry_context(
            on=_Again,
            attempts=None,
            timeout=None,
            wait_initial=WAIT_INITIAL_S,
            wait_max=WAIT_MAX_S,
            wait_jitter=WAIT_JITTER_S,
        ):
            with attempt:
                try:
                    return await self._session()
                except IdleError as error:
                    self._notify(Disconnected(str(self._address), str(error)))
                    return False
                except Exception as error:
                    progressed = self._commits != commits
                    await self._check_final(error)
                    self._notify(Retrying(error, 0.0 if progressed else attempt.next_wait))
                    if progressed:
                        return False
                    raise _Again from error
        raise AssertionError("without a limit of attempts there is always another")

    async def _check_final(self, error: Exception) -> None:
        """Raise what is final, by the table in `retry.py` and what was tried so far."""
        match patience(error):
            case Patience.FOREVER:
                if self._is_refused_for_good(error):
                    raise error
            case Patience.CONNECTING:
                self._failed_connects += 1
                if self._max_attempts is not None and self._failed_connects >= self._max_attempts:
                    raise GaveUp(self._failed_connects, str(error)) from error
            case Patience.THRICE:
                self._failures += 1
                if self._failures >= TRIES:
                    raise error
            case Patience.NEVER:
                if not (isinstance(error, ResyncRequired) and await self._was_moved_on()):
                    raise error

    def _is_refused_for_good(self, error: Exception) -> bool:
        """Whether a PostgreSQL server that never let us in keeps refusing: a typing error rather than a restart."""
        if self._last is not None or "FATAL" not in str(error):
            self._refused_since = None
            return False
        if self._refused_since is None:
            self._refused_since = time.monotonic()
        return time.monotonic() - self._refused_since >= REFUSAL_PATIENCE_S

    async def _was_moved_on(self) -> bool:
        """Whether another consumer has moved the cursor since we said it, so that our RESUME was out of date."""
        try:
            return (await self._calls.make(self._store.state)).last > self._resumed_from
        except Exception as error:
            if patience(error) is Patience.FOREVER:
                return True  # the next session will see
            raise

    # One session: from RESUME to the end of the connection.

    async def _session(self) -> bool:
        """Consume from one connection. True: the publisher has closed and that is the end."""
        last = self._resumed_from = await self._calls.make(self._store.resume)
        self._note(last)
        async with await Feed.connect(self._address, last, self._timeout, self._context, self._tls.name) as feed:
            self._notify(Connected(str(self._address), last))
            try:
                await consume(feed, self._batch, partial(self._apply, feed))
            except ConnectFailed:  # on TLS it may turn out only now
                raise
            except BaseException:
                self._failed_connects = 0
                raise
            self._failed_connects = 0
        if self._once:
            self._notify(Disconnected(str(self._address), feed.end))
            return True
        raise EOFError(f"{self._address} {feed.end}")

    async def _apply(self, feed: Feed, events: Events) -> Outcome:
        """Commit a batch and acknowledge what is committed, even where we are cancelled meanwhile."""
        began = time.monotonic()

        def settle(outcome: Outcome) -> None:
            feed.acknowledge(events[: outcome.acked].seqs)
            if outcome.error is not None and self._stop.asked.is_set():  # nobody raises it any more
                logger.warning("what was under way at the stop failed: %s", outcome.error)
            if outcome.new:
                self._commits += 1
                self._failures = 0
            self._note(outcome.last)
            took_s = time.monotonic() - began
            self._notify(Committed(outcome.new, outcome.acked, outcome.last, outcome.total, took_s))

        return await self._calls.make(lambda: self._store.apply(events, self._handler), settle)

    @property
    def _calls(self) -> Calls:
        assert self._running is not None
        return self._running

    # Telling others.

    def _notify(self, observation: Observation) -> None:
        notify(self._observers, observation)

    def _note(self, last: int) -> None:
        self._last = last
        for seq, future in self._waiting:
            if seq <= last and not future.done():
                future.set_result(None)

    def _give_up_waiting(self) -> None:
        self._has_ended = True
        for seq, future in self._waiting:
            if not future.done():
                future.set_exception(_never_came(seq))


def _never_came(seq: int) -> ConsumerError:
    return ConsumerError(f"the consumer ended before event {seq}")


class _Again(Exception):
    """Wraps what is to be tried again, for the backoff."""
