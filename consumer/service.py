"""The consumer: a feed and a store under supervision, for as long as it takes.

Events are read while the batch before them commits in a worker thread; what is committed is acknowledged to the
connection that brought it. Whatever fails and passes by itself (`retry.py` says what) ends in a new connection and a
RESUME from the cursor in the database. A stop lets the commit in flight end first.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import stamina

from consumer.errors import ConnectFailed, ConsumerError, Gap, GaveUp, InvalidOption, ResyncRequired, StoppedByForce
from consumer.events import Events
from consumer.feed import Address, Feed, IdleError
from consumer.handlers import Handler, check_handler
from consumer.inbox import Inbox
from consumer.observe import Committed, Connected, Disconnected, Observation, Observer, Retrying, logger, notify
from consumer.outcome import Outcome
from consumer.retry import TRIES, Patience, patience
from consumer.schema import NOTHING_YET
from consumer.store import Store
from consumer.streams import check_timeout
from consumer.tls import TLS
from consumer.worker import Call, Worker

TIMEOUT_S = 30.0
"""The longest single wait for the publisher, unless the caller says otherwise."""

STOP_TIMEOUT_S = 20.0
"""How long a stop waits for the commit in flight, unless the caller says otherwise. Supervisors kill after 30 s."""

FORCE_GRACE_S = 2.0
"""How long an interrupted database call may take to return."""

INTERRUPT_INTERVAL_S = 0.25
"""How long until it is interrupted again: the first time it may have been in a handler, between two statements."""

BATCH_EVENTS = 8192
"""The most events of one transaction, unless the caller says otherwise: more gains little and holds the lock longer."""

WAIT_INITIAL_S, WAIT_MAX_S, WAIT_JITTER_S = 0.1, 30.0, 1.0
"""The backoff: twice as long each time, with jitter, so that many consumers do not come back at once."""

REFUSAL_PATIENCE_S = 30.0
"""How long a PostgreSQL server may refuse a consumer that it never let in, before that is final."""

Result = TypeVar("Result")


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
            observers: called with each `consumer.observe.Observation`.

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
        self._stop = asyncio.Event()
        self._force = asyncio.Event()
        self._worker: Worker | None = None
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
            ConsumerError: what trying again does not change; see `consumer.errors`.
            sqlalchemy.exc.DBAPIError: the database cannot be used; or the driver's own error.
            StoppedByForce: the commit in flight did not end in time after a stop.
            CancelledError: it was cancelled; the database call was interrupted and has returned.
        """
        if self._worker is not None:
            raise RuntimeError("a consumer runs once: make a new one")
        self._worker = Worker("consumer-store")
        supervision = asyncio.create_task(self._supervise())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({supervision, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await _cancel(supervision)
        except asyncio.CancelledError:
            self._force.set()
            while not supervision.done():
                with suppress(asyncio.CancelledError):  # once more: the worker is waited for all the same
                    await _cancel(supervision)
            raise
        finally:
            stopping.cancel()
            self._worker.end()
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
        if self._stop.is_set():
            self._force.set()
        self._stop.set()

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
            return (await self._call(self._store.state)).last > self._resumed_from
        except Exception as error:
            if patience(error) is Patience.FOREVER:
                return True  # the next session will see
            raise

    # One session: from RESUME to the end of the connection.

    async def _session(self) -> bool:
        """Consume from one connection. True: the publisher has closed and that is the end."""
        last = self._resumed_from = await self._call(self._store.resume)
        self._note(last)
        async with await Feed.connect(self._address, last, self._timeout, self._context, self._tls.name) as feed:
            self._notify(Connected(str(self._address), last))
            inbox = Inbox(2 * self._batch)
            reading = asyncio.create_task(_read(feed, inbox))
            try:
                await self._consume(feed, inbox)
            finally:
                await _cancel(reading)
                if not isinstance(inbox.error, ConnectFailed):  # on TLS it may turn out only now
                    self._failed_connects = 0
        if self._once:
            self._notify(Disconnected(str(self._address), feed.end))
            return True
        raise EOFError(f"{self._address} {feed.end}")

    async def _consume(self, feed: Feed, inbox: Inbox) -> None:
        is_first = True
        while events := await inbox.take(self._batch):
            outcome = await self._apply(feed, events)
            if outcome.error is not None:
                raise _explain(outcome, is_first=is_first)
            is_first = False
            await feed.drain()
        if inbox.error is not None:
            raise inbox.error

    async def _apply(self, feed: Feed, events: Events) -> Outcome:
        """Commit a batch and acknowledge what is committed, even where we are cancelled meanwhile."""
        began = time.monotonic()

        def settle(outcome: Outcome) -> None:
            feed.acknowledge(events[: outcome.acked].seqs)
            if outcome.error is not None and self._stop.is_set():  # nobody raises it any more
                logger.warning("what was under way at the stop failed: %s", outcome.error)
            if outcome.new:
                self._commits += 1
                self._failures = 0
            self._note(outcome.last)
            took_s = time.monotonic() - began
            self._notify(Committed(outcome.new, outcome.acked, outcome.last, outcome.total, took_s))

        return await self._call(lambda: self._store.apply(events, self._handler), settle)

    # The worker thread: every call to the database, one at a time.

    async def _call(self, function: Callable[[], Result], settle: Callable[[Result], None] | None = None) -> Result:
        """Call in the worker thread. A cancellation waits for the call to end, and settles it, before it passes on."""
        assert self._worker is not None
        call = self._worker.submit(function)
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

    async def _see_out(self, call: Call[Any]) -> None:
        """Wait for the last call of a stop: patiently first, then with an interruption."""
        force = asyncio.create_task(self._force.wait())
        ended = asyncio.create_task(call.wait())
        try:
            await asyncio.wait({ended, force}, timeout=self._stop_timeout, return_when=asyncio.FIRST_COMPLETED)
            grace_s = FORCE_GRACE_S if self._stop.is_set() else math.inf
            while not call.is_done and grace_s > 0:
                await asyncio.to_thread(self._store.interrupt)
                await asyncio.wait({ended}, timeout=min(INTERRUPT_INTERVAL_S, grace_s))
                grace_s -= INTERRUPT_INTERVAL_S
        finally:
            force.cancel()
            ended.cancel()
        if not call.is_done or isinstance(call.error, StoppedByForce):
            raise StoppedByForce

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


async def _read(feed: Feed, inbox: Inbox) -> None:
    """Move events from the socket to the queue. How it ends stands in the queue, behind them."""
    while True:
        try:
            events = await feed.read()
        except IdleError as error:
            if inbox.is_awaited:  # otherwise it may be silent because it waits for our acknowledgements
                return inbox.end(error)
        except ConnectionError as error:
            return inbox.end(error, drop=True)  # nobody is left to acknowledge them to; they will come again
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the events before it are applied
            return inbox.end(error)
        else:
            if not events:
                return inbox.end()
            await inbox.put(events)


def _explain(outcome: Outcome, *, is_first: bool) -> Exception:
    """What an event that cannot be applied means. The first after RESUME is beyond the cursor if history is gone."""
    assert outcome.error is not None
    if isinstance(outcome.error, Gap) and is_first and outcome.acked == 0:
        return ResyncRequired(outcome.last, outcome.error.received)
    return outcome.error


async def _cancel(task: asyncio.Task[Result]) -> None:
    """Cancel a task, once, and wait until it has ended; what it ended with is left in it."""
    if not task.cancelling():
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen: asyncio need not complain of it
