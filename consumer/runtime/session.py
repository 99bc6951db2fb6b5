"""One connection from its RESUME to its end: events are read while those before them are applied."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from consumer.core.errors import Gap, ResyncRequired
from consumer.core.events import Events
from consumer.core.outcome import Outcome
from consumer.runtime.calls import cancel
from consumer.runtime.inbox import Inbox
from consumer.sources.tcp.feed import Feed, IdleError


async def consume(feed: Feed, batch: int, apply: Callable[[Events], Awaitable[Outcome]]) -> None:
    """Consume until the publisher closes.

    Args:
        feed: the connection.
        batch: the most events that are applied at once.
        apply: applies events and acknowledges them.

    Raises:
        ResyncRequired: the first event lies beyond the cursor, so that history is gone, or the publisher says so.
        Exception: what else ended it: on the way in, as of `Feed.read`, once all before it was applied; on the way
            out; or `Outcome.error` of an event that cannot be applied.
    """
    inbox = Inbox(2 * batch)
    reading = asyncio.create_task(_read(feed, inbox))
    is_first = True
    try:
        while events := await inbox.take(batch):
            outcome = await apply(events)
            if outcome.error is not None:
                raise _explain(outcome, is_first=is_first)
            is_first = False
            await feed.drain()
        if inbox.error is not None:
            raise inbox.error
    finally:
        await cancel(reading)


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
