"""Several consumers on one database at the same time, as processes, some of them killed again and again."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack

import pytest
from runtime.databases import check_store, execute, read_last
from runtime.scripted import history

from consumer.testing.script.conversation import Session

COUNT = 2_000


@pytest.mark.parametrize("consumers", [2, 4])
async def test_nothing_is_lost_and_nothing_counts_twice(store_url, serve, start, consumers):
    """Every event is in the ledger once, was handled once, and was acknowledged to somebody."""
    execute(store_url, "CREATE TABLE handled (seq BIGINT PRIMARY KEY, delta BIGINT NOT NULL)")
    events = history(COUNT)

    async def in_small_pieces(session: Session) -> None:
        for first in range(session.last + 1, COUNT, 20):
            await session.send_events(events[first : first + 20])
            await asyncio.sleep(0.002)  # so that it lasts, and the consumers overlap

    options = "--db", store_url, "--batch", "17", "--handler", "handlers:counting"
    random_choice = random.Random(consumers)
    async with serve(in_small_pieces) as publisher, AsyncExitStack() as stack:

        async def one():
            return await stack.enter_async_context(start(publisher.url, *options))

        running = [await one()]
        await publisher.session(0)
        running += [await one() for _ in range(consumers - 1)]
        for _ in range(3):
            before = read_last(store_url)
            while read_last(store_url) < min(before + 100, COUNT - 1):  # noqa: ASYNC110 - the database does not tell
                await asyncio.sleep(0.01)
            victim = running.pop(random_choice.randrange(1, len(running)))  # one lives, to whom all is sent
            victim.send(signal.SIGKILL)
            await victim.process.wait()
            running.append(await one())
        await publisher.sessions[0].acked(COUNT - 1)
        for command in running:
            await command.says("connected")  # before that a signal ends it as it ends any process
            command.send(signal.SIGTERM)
        for command in running:
            assert await command.end() == 0
    check_store(store_url, events)
    assert execute(store_url, "SELECT seq, delta FROM handled ORDER BY seq") == events
    for session in publisher.sessions:
        assert session.acks == list(range(session.last + 1, session.last + 1 + len(session.acks)))
    assert {seq for session in publisher.sessions for seq in session.acks} == set(range(COUNT))
