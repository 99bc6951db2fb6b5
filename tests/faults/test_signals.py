"""SIGTERM and SIGINT, at every moment: the commit in flight ends, its ACKs are sent, and the process ends in time."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from runtime.databases import check_store, read_last
from runtime.scripted import history, serving, silence

from consumer.testing.script.conversation import Session

pytestmark = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


async def test_in_idle_it_ends_the_consumer(ready_sqlite_url, serve, start, number):
    async with serve(silence) as publisher, start(publisher.url, "--db", ready_sqlite_url) as command:
        await publisher.session(0)
        await command.says("connected")
        command.send(number)
        assert await command.end() == 0
        await publisher.sessions[0].has_left.wait()


async def test_in_a_backoff_it_ends_the_consumer(ready_sqlite_url, serve, start, number):
    async def close(session: Session) -> None:
        session.close()

    async with serve(close) as publisher, start(publisher.url, "--db", ready_sqlite_url) as command:
        await command.says("trying again", 2)
        command.send(number)
        assert await command.end() == 0


async def test_while_connecting_it_ends_the_consumer(ready_sqlite_url, start, number, authority):
    """The peer accepts, and never says its part of the TLS handshake."""
    accepted = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with start(url, "--db", ready_sqlite_url) as command:
            await accepted.wait()
            command.send(number)
            assert await command.end() == 0


async def test_during_a_slow_handler_its_commit_ends_and_is_acknowledged(store_url, serve, start, number, tmp_path):
    leave = tmp_path / "leave"
    os.mkfifo(leave)
    async with (
        serve(serving(history(3))) as publisher,
        start(publisher.url, "--db", store_url, "--handler", "handlers:slow") as command,
    ):
        await command.says("entered")
        command.send(number)
        assert publisher.sessions[0].acks == []
        await asyncio.to_thread(_open_and_close, leave)
        assert await command.end() == 0
        await publisher.sessions[0].has_left.wait()
        assert publisher.sessions[0].acks == [0, 1, 2]
    check_store(store_url, history(3))


def _open_and_close(pipe: Path) -> None:
    """Blocks until the other side reads, which then comes to its end."""
    pipe.write_bytes(b"")


async def test_in_mid_stream_everything_that_was_committed_is_acknowledged(store_url, serve, start, number):
    async def stream(session: Session) -> None:
        seq = session.last + 1
        while True:
            await session.send_events(history(500, first=seq))
            await asyncio.sleep(0.001)
            seq += 500

    async with serve(stream) as publisher, start(publisher.url, "--db", store_url, "--batch", "1000") as command:
        await (await publisher.session(0)).acked(4_999)
        command.send(number)
        assert await command.end() == 0
        session = publisher.sessions[0]
        await session.has_left.wait()
    last = read_last(store_url)
    assert session.acks == list(range(last + 1))
    check_store(store_url, history(last + 1))


@pytest.mark.parametrize("how", ["stop timeout", "second signal"])
@pytest.mark.parametrize("handler", ["stuck", "endless"])
async def test_a_handler_that_never_returns_is_left_by_force(ready_sqlite_url, serve, start, number, how, handler):
    stop_timeout = "0.1" if how == "stop timeout" else "1000"
    options = "--handler", f"handlers:{handler}", "--stop-timeout", stop_timeout
    async with (
        serve(serving(history(3))) as publisher,
        start(publisher.url, "--db", ready_sqlite_url, *options) as command,
    ):
        await command.says("entered")
        command.send(number)
        if how == "second signal":
            command.send(signal.SIGINT if number is signal.SIGTERM else signal.SIGTERM)
        assert await command.end() == 21
        assert "outcome is unknown" in command.error
        await publisher.sessions[0].has_left.wait()
        assert publisher.sessions[0].acks == []
    check_store(ready_sqlite_url, [])


async def test_a_statement_that_runs_on_the_server_is_cancelled_there(
    postgres_store_url, serve, start, number, patience_s
):
    options = "--handler", "handlers:endless", "--stop-timeout", "0.1"
    async with (
        serve(serving(history(3))) as publisher,
        start(publisher.url, "--db", postgres_store_url, *options) as command,
    ):
        await command.says("entered")
        command.send(number)
        assert await command.end() == 21
        assert publisher.sessions[0].acks == []
    check_store(postgres_store_url, [])
