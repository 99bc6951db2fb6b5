"""A process that is killed in mid-stream, again and again."""

import signal

from runtime.databases import check_store, execute
from runtime.scripted import history

from consumer.testing.script.conversation import Session


async def test_a_consumer_that_is_killed_in_mid_stream_goes_on_where_it_was(store_url, serve, start):
    """SIGKILL at no chosen moment, several times: each next one says what the database holds."""
    count = 3_000

    async def stream(session: Session) -> None:
        for first in range(session.last + 1, count, 10):
            await session.send_events(history(count)[first : first + 10])

    async with serve(stream, patiences=5) as publisher:
        for number in range(4):
            async with start(publisher.url, "--db", store_url, "--batch", "50") as command:
                session = await publisher.session(number)
                await session.acked(min(session.last + 300, count - 1))
                command.send(signal.SIGKILL)
                await command.process.wait()
                await session.has_left.wait()
        async with start(publisher.url, "--db", store_url) as command:
            session = await publisher.session(4)
            await session.acked(count - 1)
            command.send(signal.SIGTERM)
            assert await command.end() == 0
    check_store(store_url, history(count))
    for earlier, later in zip(publisher.sessions, publisher.sessions[1:], strict=False):
        assert later.last >= earlier.acks[-1]
    assert execute(store_url, "SELECT count(*) FROM ledger") == [(count,)]
