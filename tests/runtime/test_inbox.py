"""The bounded queue between the socket and the database."""

import asyncio

import pytest

from consumer.core.events import Events
from consumer.runtime.inbox import Inbox


def events(*seqs: int) -> Events:
    return Events.of([(seq, 1) for seq in seqs])


def started(inbox: Inbox, *seqs: int) -> "asyncio.Task[None]":
    return asyncio.create_task(inbox.put(events(*seqs)))


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_events_come_out_in_the_order_of_their_arrival_as_many_as_are_asked_for() -> None:
    inbox = Inbox(100)
    await inbox.put(events(0, 1, 2))
    await inbox.put(events(3, 4))
    assert (await inbox.take(4)).seqs == [0, 1, 2, 3]
    assert (await inbox.take(4)).seqs == [4]


async def test_a_batch_is_what_has_arrived_and_waits_for_no_more() -> None:
    inbox = Inbox(100)
    await inbox.put(events(0))
    assert (await inbox.take(50)).seqs == [0]


async def test_taking_waits_for_the_first_event_and_says_so() -> None:
    inbox = Inbox(100)
    taking = asyncio.create_task(inbox.take(50))
    await settle()
    assert inbox.is_awaited
    assert not taking.done()
    await inbox.put(events(0, 1))
    assert (await taking).seqs == [0, 1]
    assert not inbox.is_awaited


@pytest.mark.parametrize("count", [4, 5, 9])
async def test_putting_waits_while_there_is_no_room(count) -> None:
    inbox = Inbox(4)
    await inbox.put(events(0, 1, 2))
    putting = started(inbox, *range(3, count))
    await settle()
    assert not putting.done()
    taken: list[int] = []
    while not putting.done():
        taken += (await inbox.take(1)).seqs
        await settle()
        assert putting.done() is (count - len(taken) < 4)
    assert taken == list(range(count - 3))
    assert (await inbox.take(50)).seqs == list(range(count - 3, count))


async def test_the_end_comes_after_what_is_waiting() -> None:
    inbox = Inbox(100)
    await inbox.put(events(0, 1))
    error = ConnectionResetError()
    inbox.close(error)
    assert (await inbox.take(1)).seqs == [0]
    assert (await inbox.take(1)).seqs == [1]
    for _ in range(2):
        assert len(await inbox.take(1)) == 0
    assert inbox.error is error


async def test_an_end_may_drop_what_is_waiting() -> None:
    inbox = Inbox(100)
    await inbox.put(events(0, 1))
    inbox.close(drop=True)
    assert len(await inbox.take(1)) == 0
    assert inbox.error is None


async def test_the_end_wakes_who_waits() -> None:
    inbox = Inbox(100)
    taking = asyncio.create_task(inbox.take(50))
    await settle()
    inbox.close()
    assert len(await taking) == 0


async def test_a_cancelled_put_or_take_loses_nothing() -> None:
    inbox = Inbox(1)
    taking = asyncio.create_task(inbox.take(50))
    await settle()
    taking.cancel()
    await asyncio.wait({taking})
    putting = started(inbox, 0, 1)
    await settle()
    putting.cancel()
    await asyncio.wait({putting})
    assert (await inbox.take(50)).seqs == [0, 1]
