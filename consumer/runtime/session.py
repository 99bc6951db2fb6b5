"""One connection to the publisher, from its RESUME to its end: events are read while those before them are applied."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from consumer.core.errors import ConnectFailed, Gap, ResyncRequired
from consumer.core.events import Events
from consumer.core.outcome import Outcome
from consumer.observe.observations import Committed, Connected, FailedAtStop, Observation
from consumer.runtime.calls import Calls
from consumer.runtime.inbox import Inbox
from consumer.runtime.progress import Progress
from consumer.runtime.stopping import Stop, cancel
from consumer.runtime.supervision import Failures
from consumer.sources.tcp.connection import IdleError, PublisherConnection
from consumer.sources.tcp.endpoint import Endpoint
from consumer.store.handlers import Handler
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store


class Sessions:
    """Makes one session after the other between the same two ends.

    Args:
        endpoint: the publisher.
        store: where to.
        handler: called in the transaction of each batch.
        batch: the most events of one transaction.
        calls: makes the calls to the store.
        stop: how far a stop has come.
        progress: is told of every commit.
        failures: is told what has succeeded.
        notify: is called with each observation.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        store: Store,
        handler: Handler | None,
        batch: int,
        *,
        calls: Calls,
        stop: Stop,
        progress: Progress,
        failures: Failures,
        notify: Callable[[Observation], None],
    ) -> None:
        self._endpoint = endpoint
        self._store = store
        self._handler = handler
        self._batch = batch
        self._calls = calls
        self._stop = stop
        self._progress = progress
        self._failures = failures
        self._notify = notify

    async def run(self) -> bool:
        """Consume from one connection until the publisher closes it.

        Returns:
            Whether the publisher has said anything.

        Raises:
            OutdatedError: the cursor that was said in RESUME was moved on by another consumer.
            Exception: whatever else ended the session; see `consume`.
        """
        last = await self._calls.read(self._store.resume)
        self._progress.note(last)
        try:
            async with await self._endpoint.connect(last) as connection:
                self._notify(Connected(str(self._endpoint), last))
                try:
                    await consume(connection, self._batch, lambda events: self._apply(connection, events))
                except ConnectFailed:  # over TLS that may turn out only now
                    raise
                except BaseException:
                    self._failures.connected()
                    raise
                self._failures.connected()
                return connection.has_begun
        except ResyncRequired as error:
            if await self._was_moved_on(last):
                raise OutdatedError(last) from error
            raise

    async def _apply(self, connection: PublisherConnection, events: Events) -> Outcome:
        """Commit a batch and acknowledge what is committed, even where we are cancelled meanwhile."""
        began = time.monotonic()

        def acknowledge(outcome: Outcome) -> None:
            connection.acknowledge(events[: outcome.acked].seqs)
            if outcome.error is not None and self._stop.asked.is_set():  # nobody raises it any more
                self._notify(FailedAtStop(outcome.error))
            if outcome.new:
                self._progress.commits += 1
                self._failures.progressed()
            self._progress.note(outcome.last)
            took_s = time.monotonic() - began
            self._notify(Committed(outcome.new, outcome.acked, outcome.last, outcome.total, took_s))

        return await self._calls.change(lambda: self._store.apply(events, self._handler), acknowledge)

    async def _was_moved_on(self, last: int) -> bool:
        """Whether another consumer has moved the cursor since we said it, so that our RESUME was out of date."""
        try:
            return (await self._calls.read(self._store.state)).last > last
        except Exception as error:
            if patience(error) is Patience.FOREVER:
                return True  # the next session will find out
            raise


class OutdatedError(ConnectionError):
    """The cursor was moved on between RESUME and its answer: the next RESUME says the new one.

    Attributes:
        last: the cursor that was said.
    """

    def __init__(self, last: int) -> None:
        super().__init__(f"another consumer has gone on from event {last} meanwhile")
        self.last = last


async def consume(connection: PublisherConnection, batch: int, apply: Callable[[Events], Awaitable[Outcome]]) -> None:
    """Consume until the publisher closes.

    Args:
        connection: the connection.
        batch: the most events that are applied at once.
        apply: applies events and acknowledges them.

    Raises:
        ResyncRequired: the first event lies beyond the cursor, so that history is gone, or the publisher says so.
        Exception: what else ended it: on the way in, as of `PublisherConnection.read`, once all before it was applied;
            on the way out; or `Outcome.error` of an event that cannot be applied.
    """
    inbox = Inbox(2 * batch)
    reading = asyncio.create_task(_read(connection, inbox))
    is_first = True
    try:
        while events := await inbox.take(batch):
            outcome = await apply(events)
            if outcome.error is not None:
                raise _explain(outcome, is_first=is_first)
            is_first = False
            await connection.drain()
        if inbox.error is not None:
            raise inbox.error
    finally:
        await cancel(reading)


async def _read(connection: PublisherConnection, inbox: Inbox) -> None:
    """Move events from the socket to the queue. How it ends stands in the queue, behind them."""
    while True:
        try:
            events = await connection.read()
        except IdleError as error:
            if inbox.is_awaited:  # otherwise it may be silent because it waits for our acknowledgements
                return inbox.close(error)
        except ConnectionError as error:
            return inbox.close(error, drop=True)  # nobody is left to acknowledge them to; they will come again
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the events before it are applied
            return inbox.close(error)
        else:
            if not events:
                return inbox.close()
            await inbox.put(events)


def _explain(outcome: Outcome, *, is_first: bool) -> Exception:
    """Say what an event that cannot be applied means. For the first after RESUME, a Gap means that history is gone."""
    assert outcome.error is not None
    if isinstance(outcome.error, Gap) and is_first and outcome.acked == 0:
        return ResyncRequired(outcome.last, outcome.error.received)
    return outcome.error
