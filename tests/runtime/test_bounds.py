"""Memory and time are bounded whatever the peer sends, or does not take."""

import asyncio
import socket
import threading

import pytest

from consumer.core.errors import MalformedFrame
from consumer.core.keepalive import OURS, KeepAlive
from consumer.observe.observations import Committed, Retrying
from consumer.runtime.inbox import Inbox
from consumer.sources.tcp import connection as connection_module
from consumer.sources.tcp.address import Address
from consumer.sources.tcp.connection import CHUNK_BYTES, UNSENT_BYTES_MAX, PublisherConnection
from consumer.testing.script.conversation import Session

from .databases import check_store, read_last
from .scripted import history, in_turn, lines, serving, silence

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def feeds(monkeypatch: pytest.MonkeyPatch) -> list[PublisherConnection]:
    """Every feed that was opened."""
    opened: list[PublisherConnection] = []
    enter = PublisherConnection.__aenter__

    async def note(self: PublisherConnection) -> PublisherConnection:
        opened.append(self)
        return await enter(self)

    monkeypatch.setattr(PublisherConnection, "__aenter__", note)
    return opened


@pytest.fixture
def inboxes(monkeypatch: pytest.MonkeyPatch) -> list[Inbox]:
    """Every queue that was made."""
    made: list[Inbox] = []
    init = Inbox.__init__

    def note(self: Inbox, *args, **kwargs) -> None:
        made.append(self)
        init(self, *args, **kwargs)

    monkeypatch.setattr(Inbox, "__init__", note)
    return made


async def endless(session: Session) -> None:
    seq = session.last + 1
    while True:
        await session.send_events(history(2_000, first=seq))
        seq += 2_000


async def test_a_line_without_end_is_malformed_as_soon_as_it_is_too_long(sqlite_store, serve, run, feeds):
    async def script(session: Session) -> None:
        while True:
            await session.send(b"x" * 100_000)

    async with serve(script) as publisher, run(publisher.url, sqlite_store) as running:
        with pytest.raises(MalformedFrame):
            await running.end()
    assert max(len(feed._rest) for feed in feeds) <= CHUNK_BYTES


async def test_a_database_that_is_slower_than_the_publisher_holds_it_up(
    sqlite_store, sqlite_url, serve, run, feeds, inboxes
):
    """With the database at a standstill, what has arrived stays within the bounds, and the rest with the publisher."""
    leave = threading.Event()
    batch = 1_000

    def handler(connection, events) -> None:
        leave.wait()

    try:
        async with (
            serve(endless) as publisher,
            run(publisher.url, sqlite_store, handler, batch=batch) as running,
        ):
            await publisher.session(0)
            while not (feeds and feeds[0]._reader._paused):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            assert len(feeds[0]._reader._buffer) <= 3 * CHUNK_BYTES
            shortest_line = len(b"EVENT 0 0\n")
            assert len(inboxes[0]._numbers) // 2 <= 2 * batch + CHUNK_BYTES // shortest_line
            assert read_last(sqlite_url) == -1
            leave.set()
            await running.watch.until(Committed, 30)
            assert max(committed.acked for committed in running.watch.of(Committed)) <= batch
    finally:
        leave.set()


async def test_events_may_come_byte_by_byte(store, store_url, serve, run):
    async def script(session: Session) -> None:
        session.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in lines(history(12)):
            await session.send(bytes([byte]))
            await asyncio.sleep(0)
        await session.acked(11)
        session.close()

    async with serve(script) as publisher, run(publisher.url, store, once=True) as running:
        await running.end()
    assert publisher.sessions[0].acks == list(range(12))
    check_store(store_url, history(12))


async def test_a_publisher_that_is_gone_without_a_word_is_missed_by_the_system(serve, patience_s):
    async with (
        serve(silence) as publisher,
        await PublisherConnection.connect(Address.parse(publisher.url), -1, patience_s, None, None) as feed,
    ):
        sock = feed._writer.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == OURS.idle_s
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == OURS.interval_s
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == OURS.count


async def test_a_publisher_that_never_reads_acknowledgements_is_left(
    sqlite_store, sqlite_url, serve, run, monkeypatch, feeds
):
    """Only so much waits to be sent to it, and only for so long."""
    send_bytes, batch, waiting = 4_096, 2_000, []
    keep_alive, acknowledge = connection_module.keep_alive, PublisherConnection.acknowledge

    def with_small_buffer(sock: socket.socket, how: KeepAlive) -> None:
        keep_alive(sock, how)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)

    def watched(self: PublisherConnection, seqs) -> None:
        acknowledge(self, seqs)
        waiting.append(self._writer.transport.get_write_buffer_size())

    monkeypatch.setattr(connection_module, "keep_alive", with_small_buffer)
    monkeypatch.setattr(PublisherConnection, "acknowledge", watched)
    monkeypatch.setattr(connection_module, "CLOSE_TIMEOUT_S", 0.05)
    async with (
        serve(endless, reads_acks=False, receive_bytes=send_bytes) as publisher,
        run(publisher.url, sqlite_store, batch=batch, timeout=0.2) as running,
    ):
        await running.watch.until(Retrying, saying="took no acknowledgements for 0.2 s")
        next_one = await publisher.session(len(publisher.sessions))
    longest_line = len(b"ACK 2147483647\n")
    assert UNSENT_BYTES_MAX < max(waiting) <= UNSENT_BYTES_MAX + batch * longest_line
    assert next_one.last > 0  # what was committed counts, whether it was heard or not


async def test_a_peer_that_accepts_and_takes_nothing_does_not_hold_up_a_stop(
    sqlite_store, serve, run, monkeypatch, patience_s
):
    """The acknowledgements that it does not read are given up after the bound on closing."""
    monkeypatch.setattr(connection_module, "CLOSE_TIMEOUT_S", 0.05)
    loop = asyncio.get_running_loop()

    async with (
        serve(endless, reads_acks=False, receive_bytes=4_096) as publisher,
        run(publisher.url, sqlite_store) as running,
    ):
        await running.watch.until(Committed, 3)
        began = loop.time()
        await running.stop()
        assert loop.time() - began < patience_s / 2


async def test_an_event_cut_anywhere_between_two_reads_is_whole(sqlite_store, sqlite_url, serve, run):
    text = lines(history(3))

    async def script(session: Session) -> None:
        session.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in range(1, len(text)):
            await session.send(text[:cut])
            await asyncio.sleep(0)
            await session.send(text[cut:])
        session.finish()

    async with serve(script) as publisher, run(publisher.url, sqlite_store, once=True) as running:
        await running.end()
    assert publisher.sessions[0].acks == [0, 1, 2] * (len(text) - 1)
    check_store(sqlite_url, history(3))


async def test_what_a_broken_connection_left_half_read_does_not_reach_the_next(sqlite_store, sqlite_url, serve, run):
    async def cut(session: Session) -> None:
        await session.send(lines(history(2)) + b"EVENT 2 ")
        await session.acked(1)
        session.reset()

    async with serve(in_turn(cut, serving(history(4)))) as publisher, run(publisher.url, sqlite_store) as running:
        await running.consumer.wait_for(3)
    assert publisher.resumes == [-1, 1]
    check_store(sqlite_url, history(4))
