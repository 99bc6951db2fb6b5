"""The publisher on real sockets, in this process: who is sent what, and what ends a connection."""

# ruff: noqa: ASYNC110, ASYNC240 - files are small here, and what is waited for is somebody else's doing

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.core import disk
from consumer.core.errors import AddressInUse, JournalUnusable
from consumer.publisher import Appender, Limits, Publisher
from consumer.publisher.journal.reader import JournalReader
from consumer.publisher.server import delivery as delivery_room
from consumer.publisher.server.channel import PlainChannel, TLSChannel
from consumer.publisher.server.followed import FollowedJournal
from consumer.publisher.server.limits import SLICE_BYTES
from consumer.publisher.server.notices import Closed, Notice, Resumed

from .helpers import Peer, acks, events, lines, seqs_in, write_large

Publishing = Callable[..., Any]
Meet = Callable[..., Awaitable[Peer]]


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "consumer.publisher")
    return caplog


async def until(condition: Callable[[], bool], patience_s: float) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.001)


# The answer to RESUME, and the events.


@pytest.mark.parametrize("last", [-1, 0, 4, 8])
async def test_what_follows_the_cursor_is_sent(publishing: Publishing, path: Path, meet: Meet, last: int) -> None:
    path.write_bytes(lines(0, 10))
    async with publishing(follow=False) as publisher:
        peer = await meet(publisher.port, b"RESUME %d\n" % last + b"")
        wanted = lines(last + 1, 9 - last)
        assert await peer.hear(len(wanted)) == wanted
        peer.say(acks(range(last + 1, 10)))
        assert await peer.hear_all() == b""


@pytest.mark.parametrize(
    ("journal", "resume", "answer"),
    [
        (lines(10, 5), b"RESUME 8\n", b"TRUNCATED 10\n"),
        (lines(10, 5), b"RESUME -1\n", b"TRUNCATED 10\n"),
        (lines(10, 5), b"RESUME 15\n", b"AHEAD 14\n"),
        (b"", b"RESUME 0\n", b"AHEAD -1\n"),
        (b"SNAPSHOT 9 3\n", b"RESUME 10\n", b"AHEAD 9\n"),
    ],
)
async def test_a_resume_that_cannot_be_served_is_answered_and_the_connection_closed(
    publishing: Publishing, path: Path, meet: Meet, journal: bytes, resume: bytes, answer: bytes
) -> None:
    path.write_bytes(journal)
    async with publishing() as publisher:
        assert await (await meet(publisher.port, resume)).hear_all() == answer


async def test_a_snapshot_is_offered_to_an_older_cursor_and_the_events_follow(
    publishing: Publishing, path: Path, meet: Meet
) -> None:
    path.write_bytes(b"SNAPSHOT 9 -3\n" + lines(10, 5))
    async with publishing(follow=False) as publisher:
        old = await meet(publisher.port, b"RESUME 3\n")
        wanted = b"SNAPSHOT 9 -3\n" + lines(10, 5)
        assert await old.hear(len(wanted)) == wanted
        old.say(acks([14]))
        assert await old.hear_all() == b""
        current = await meet(publisher.port, b"RESUME 9\n")
        assert await current.hear(len(lines(10, 5))) == lines(10, 5)


async def test_ahead_is_never_said_of_events_that_are_in_the_file(
    publishing: Publishing, path: Path, meet: Meet, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    """Another publisher of the same file may have sent what this one has not looked at yet, or just missed."""
    path.write_bytes(lines(0, 3))
    looked, go_on = threading.Event(), threading.Event()
    look = JournalReader.look

    def slow_look(journal: JournalReader) -> object:
        found = look(journal)
        looked.set()
        go_on.wait()
        return found

    monkeypatch.setattr(JournalReader, "look", slow_look)
    async with publishing() as publisher:
        await until(looked.is_set, patience_s)
        path.write_bytes(lines(0, 9))
        peer = await meet(publisher.port, b"RESUME 7\n")
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        assert await peer.hear_line() == b"EVENT 8 -992\n"


async def test_events_are_sent_as_they_are_appended(publishing: Publishing, path: Path, meet: Meet) -> None:
    with Appender(path) as appender:
        async with publishing() as publisher:
            peer = await meet(publisher.port, b"RESUME -1\n")
            for first in (0, 5, 10):
                appender.append(events(first, 5))
                assert await peer.hear(len(lines(first, 5))) == lines(first, 5)


async def test_who_observes_is_told_of_each_resume_and_each_end_and_disturbs_nothing(
    publishing: Publishing, path: Path, meet: Meet
) -> None:
    def fail(_: Notice) -> None:
        raise RuntimeError

    path.write_bytes(lines(0, 3))
    told: list[Notice] = []
    async with publishing(follow=False, observers=[fail, told.append]) as publisher:
        stranger = await meet(publisher.port, b"HELO\n")
        assert await stranger.hear_all() == b""
        peer = await meet(publisher.port, b"RESUME 0\n")
        assert await peer.hear(len(lines(1, 2))) == lines(1, 2)
        peer.say(acks([1]))
        peer.writer.write_eof()
        assert await peer.hear_all() == b""
        names = [f"127.0.0.1:{one.writer.get_extra_info('sockname')[1]}" for one in (stranger, peer)]
    assert told == [
        Closed(names[0], "it said b'HELO\\n' instead of RESUME"),
        Resumed(names[1], 0, 2),
        Closed(names[1], "it closed the connection", 1, 2),
    ]


async def test_a_torn_line_is_not_sent_before_it_is_whole(publishing: Publishing, path: Path, meet: Meet) -> None:
    path.write_bytes(lines(0, 2) + b"EVENT 2 1")
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        assert await peer.hear(len(lines(0, 2))) == lines(0, 2)
        with path.open("ab") as file:
            file.write(b"00\n")
        assert await peer.hear_line() == b"EVENT 2 100\n"


async def test_nothing_is_sent_before_it_is_on_disk(
    publishing: Publishing, path: Path, meet: Meet, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    path.write_bytes(lines(0, 2))
    syncing, synced = threading.Event(), threading.Event()
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        assert await peer.hear(len(lines(0, 2))) == lines(0, 2)

        def sync(_: int) -> None:
            syncing.set()
            synced.wait()

        monkeypatch.setattr(disk, "sync_file", sync)
        with path.open("ab") as file:
            file.write(lines(2, 1))
        await until(syncing.is_set, patience_s)
        heard = asyncio.create_task(peer.hear_line())
        await asyncio.sleep(0.1)
        assert not heard.done()
        synced.set()
        assert await heard == lines(2, 1)


async def test_a_journal_that_can_no_longer_be_synced_ends_the_publisher(
    path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    path.write_bytes(lines(0, 2))

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with Publisher(path, limits=limits) as publisher:
        monkeypatch.setattr(disk, "sync_file", fail)
        path.write_bytes(lines(0, 3))
        with pytest.raises(JournalUnusable, match="cannot be synced"):
            async with asyncio.timeout(patience_s):
                await publisher.run(asyncio.Event())


# The window, and ACKs.


async def test_no_more_than_the_window_is_unacknowledged(publishing: Publishing, path: Path, meet: Meet) -> None:
    path.write_bytes(lines(0, 100))
    async with publishing(window=7, follow=False) as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        assert await peer.hear(len(lines(0, 7))) == lines(0, 7)
        peer.say(acks([0, 1]))
        assert await peer.hear(len(lines(7, 2))) == lines(7, 2)
        peer.say(acks([8]))  # stands for those before it too
        assert await peer.hear(len(lines(9, 7))) == lines(9, 7)
        peer.say(acks([15]))
        peer.writer.write_eof()
        assert await peer.hear_all() == lines(16, 7)


async def test_a_window_of_one_is_stop_and_wait(publishing: Publishing, path: Path, meet: Meet) -> None:
    path.write_bytes(lines(0, 50))
    async with publishing(window=1, follow=False) as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        for seq in range(50):
            assert await peer.hear_line() == lines(seq, 1)
            peer.say(acks([seq]))
        assert await peer.hear_all() == b""


async def test_a_large_journal_is_sent_byte_for_byte_through_a_small_window(
    publishing: Publishing, path: Path, meet: Meet
) -> None:
    data = lines(0, 100_000)
    path.write_bytes(data)
    async with publishing(window=5000, follow=False) as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        heard = 0
        while heard < len(data):
            piece = await peer.reader.read(50_000)
            assert data.startswith(piece, heard)
            heard += len(piece)
            count = data.count(b"\n", 0, heard)
            if count:
                peer.say(acks([count - 1]))
        assert await peer.hear_all() == b""


@pytest.mark.parametrize("early", [b"ACK 3\n", b"ACK 0\nACK 3\nACK 1\n", b"ACK 2147483647\n"])
async def test_an_ack_for_what_was_never_sent_ends_that_connection_alone(
    publishing: Publishing, path: Path, meet: Meet, log: pytest.LogCaptureFixture, early: bytes
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        good = await meet(publisher.port, b"RESUME -1\n")
        bad = await meet(publisher.port, b"RESUME -1\n")
        await bad.hear(len(lines(0, 3)))
        bad.say(early)
        assert await bad.hear_all() == b""
        assert "it acknowledged event" in log.text
        assert "but 2 was the last that it was sent" in log.text
        assert await good.hear(len(lines(0, 3))) == lines(0, 3)


@pytest.mark.parametrize(
    "said", [b"HELLO\n", b"ACK 01\n", b"ACK 1\r\n", b"ACK -1\n", b"ACK 2147483648\n", b"RESUME 1\n", b"x" * 64, b"\n"]
)
async def test_what_is_no_ack_ends_the_connection(
    publishing: Publishing, path: Path, meet: Meet, log: pytest.LogCaptureFixture, said: bytes
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 3)))
        peer.say(acks([0]) + said)
        assert await peer.hear_all() == b""
        assert "instead of an ACK (event 0 acknowledged, 2 sent)" in log.text


async def test_acks_may_come_in_any_pieces_again_and_out_of_order(
    publishing: Publishing, path: Path, meet: Meet, patience_s: float
) -> None:
    path.write_bytes(lines(0, 20))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 20)))
        for piece in (b"AC", b"K 1", b"2\nACK 3\nACK 12\nA", b"CK 12\n"):
            peer.say(piece)
            await asyncio.sleep(0.01)
        await until(lambda: [one.cursor for one in publisher.consumers()] == [12], patience_s)
        peer.say(acks([1, 0, 12, 19, 5]))
        await until(lambda: [one.lag for one in publisher.consumers()] == [0], patience_s)


async def test_a_flood_of_repeated_acks_ends_the_connection(
    publishing: Publishing,
    path: Path,
    meet: Meet,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    patience_s: float,
) -> None:
    monkeypatch.setattr(delivery_room, "ACKS_SPARE", 10)
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 3)))
        peer.say(acks([2] * 13))
        await until(lambda: [one.lag for one in publisher.consumers()] == [0], patience_s)
        peer.say(acks([2]))
        assert await peer.hear_all() == b""
        assert "many more ACKs than it was sent events" in log.text


async def test_a_consumer_that_waits_for_its_acks_to_be_taken_is_not_waited_for(
    publishing: Publishing, path: Path, meet: Meet, patience_s: float
) -> None:
    """It reads nothing while it writes, and both are more than sockets hold: only one who always reads ACKs gets on."""
    write_large(path, 2_000_000)
    data = path.read_bytes()
    async with publishing(window=2_000_000, follow=False) as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        heard = 0

        async def hear_until(size: int) -> None:
            nonlocal heard
            while heard < size:
                async with asyncio.timeout(patience_s):
                    piece = await peer.reader.read(1 << 20)
                assert piece
                assert data.startswith(piece, heard)
                heard += len(piece)

        await hear_until(len(data) // 2 + 1000)
        peer.writer.transport.pause_reading()
        peer.say(acks(range(1_000_000)))
        async with asyncio.timeout(patience_s):
            await peer.writer.drain()
        peer.writer.transport.resume_reading()
        await hear_until(len(data))


# The end of a connection.


async def test_a_consumer_that_closes_its_side_gets_what_the_window_allows(
    publishing: Publishing, path: Path, meet: Meet
) -> None:
    """As `printf 'RESUME -1\\n' | ncat HOST PORT` does."""
    data = lines(0, 600_000)  # more than sockets hold, so that the end of its side is seen long before all is sent
    path.write_bytes(data + lines(600_000, 10))
    async with publishing(window=600_000) as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        peer.writer.write_eof()
        assert await peer.hear_all() == data


async def test_without_follow_a_connection_ends_when_all_is_acknowledged(
    publishing: Publishing, path: Path, meet: Meet, log: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing(follow=False) as publisher:
        assert await (await meet(publisher.port, b"RESUME 2\n")).hear_all() == b""
        with path.open("ab") as file:
            file.write(lines(3, 1))
        peer = await meet(publisher.port, b"RESUME 2\n")
        assert await peer.hear_line() == lines(3, 1)
        peer.say(acks([3]))
        assert await peer.hear_all() == b""
    assert "all is acknowledged (event 3 acknowledged, 3 sent)" in log.text


@pytest.mark.parametrize(
    "said", [b"RESUM 1\n", b"RESUME 01\n", b"RESUME -2\n", b"RESUME 1\r\n", b"RESUME 2147483648\n", b"x" * 64, b"\n"]
)
async def test_what_is_no_resume_ends_the_connection(
    publishing: Publishing, path: Path, meet: Meet, log: pytest.LogCaptureFixture, said: bytes
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        assert await (await meet(publisher.port, said)).hear_all() == b""
    assert "instead of RESUME" in log.text


async def test_a_resume_may_come_byte_by_byte(publishing: Publishing, path: Path, meet: Meet) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        peer = await meet(publisher.port)
        for byte in b"RESUME 1\n":
            peer.say(bytes([byte]))
            await asyncio.sleep(0)
        assert await peer.hear_line() == lines(2, 1)


async def test_without_a_resume_a_connection_ends_after_the_handshake_timeout(
    publishing: Publishing, path: Path, meet: Meet, limits: Limits, log: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing(limits=replace(limits, handshake_s=0.05)) as publisher:
        assert await (await meet(publisher.port, b"RESUME 1")).hear_all() == b""
    assert "no RESUME within 0.05 s" in log.text


async def test_silence_while_events_are_unacknowledged_ends_the_connection(
    publishing: Publishing, path: Path, meet: Meet, limits: Limits, log: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing(limits=replace(limits, silence_s=0.2)) as publisher:
        idle = await meet(publisher.port, b"RESUME 2\n")
        slow = await meet(publisher.port, b"RESUME -1\n")
        await slow.hear(len(lines(0, 3)))
        assert await slow.hear_all() == b""
        assert [one.cursor for one in publisher.consumers()] == [2]  # who has all may be silent
        idle.say(acks([2]))
    assert "no ACK for 0.2 s while events were unacknowledged" in log.text


async def test_repeated_acks_are_no_progress(
    publishing: Publishing, path: Path, meet: Meet, limits: Limits, patience_s: float
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing(limits=replace(limits, silence_s=0.3)) as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 3)))
        ended = asyncio.create_task(peer.hear_all())
        async with asyncio.timeout(patience_s):
            while not ended.done():
                peer.say(acks([0]))
                await asyncio.sleep(0.01)
        assert await ended == b""


async def test_progress_gives_time_anew(publishing: Publishing, path: Path, meet: Meet, patience_s: float) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 3)))
        (session,) = publisher._deliveries.values()
        before = session._owing_since
        peer.say(acks([0, 2]))
        await until(lambda: session.cursor == 2, patience_s)
        progress = session._owing_since
        assert progress > before
        with path.open("ab") as file:
            file.write(lines(3, 1))
        await peer.hear_line()
        assert session._owing_since > progress  # it owed nothing in between


async def test_beyond_the_limit_on_connections_a_new_one_is_closed(
    publishing: Publishing, path: Path, meet: Meet, limits: Limits, log: pytest.LogCaptureFixture, patience_s: float
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing(limits=replace(limits, connections=2)) as publisher:
        first = await meet(publisher.port, b"RESUME -1\n")
        second = await meet(publisher.port)  # no RESUME yet, but a connection
        await first.hear(len(lines(0, 3)))
        await until(lambda: len(publisher._deliveries) == 2, patience_s)
        assert await (await meet(publisher.port, b"RESUME -1\n")).hear_all() == b""
        assert "refused, since 2 connected already is the limit" in log.text
        await second.close()
        await until(lambda: len(publisher._deliveries) == 1, patience_s)
        third = await meet(publisher.port, b"RESUME -1\n")
        assert await third.hear(len(lines(0, 3))) == lines(0, 3)


async def test_a_system_without_descriptors_is_waited_for(
    publishing: Publishing, path: Path, meet: Meet, limits: Limits, log: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(lines(0, 3))

    class Refusing(socket.socket):
        refusals = 1

        def accept(self) -> tuple[socket.socket, Any]:
            if self.refusals:
                self.refusals -= 1
                raise OSError(24, "Too many open files")
            return super().accept()

    async with publishing(limits=replace(limits, accept_pause_s=0.01)) as publisher:
        loop = asyncio.get_running_loop()
        (listener,) = publisher._listeners
        loop.remove_reader(listener)
        refusing = Refusing(fileno=listener.detach())
        publisher._listeners[:] = [refusing]
        loop.add_reader(refusing, publisher._accept, refusing)
        peer = await meet(publisher.port, b"RESUME -1\n")
        assert await peer.hear(len(lines(0, 3))) == lines(0, 3)
    assert "Too many open files" in log.text


async def test_a_fault_of_ours_in_one_delivery_ends_that_one_alone(
    publishing: Publishing,
    path: Path,
    meet: Meet,
    monkeypatch: pytest.MonkeyPatch,
    log: pytest.LogCaptureFixture,
) -> None:
    path.write_bytes(lines(0, 3))
    async with publishing() as publisher:
        good = await meet(publisher.port, b"RESUME -1\n")
        await good.hear(len(lines(0, 3)))
        with monkeypatch.context() as patch:
            patch.setattr(JournalReader, "find", lambda *_: 1 // 0)
            assert await (await meet(publisher.port, b"RESUME 0\n")).hear_all() == b""
        with path.open("ab") as file:
            file.write(lines(3, 1))
        assert await good.hear_line() == lines(3, 1)
    assert "ZeroDivisionError" in log.text


# The journal changes under it.


async def test_a_journal_that_was_replaced_goes_on_where_the_consumer_is(
    publishing: Publishing, path: Path, tmp_path: Path, meet: Meet, patience_s: float
) -> None:
    """As a compaction does: another file, whose lines stand elsewhere."""
    path.write_bytes(lines(0, 20))
    async with publishing(window=5) as publisher:
        peer = await meet(publisher.port, b"RESUME 9\n")
        assert await peer.hear(len(lines(10, 5))) == lines(10, 5)
        (tmp_path / "new").write_bytes(b"SNAPSHOT 7 0\n" + lines(8, 30))
        (tmp_path / "new").rename(path)
        await until(lambda: publisher.extent.head == 37, patience_s)
        peer.say(acks([14]))
        assert await peer.hear(len(lines(15, 5))) == lines(15, 5)


@pytest.mark.parametrize("new", [lines(0, 3), lines(30, 5)])
async def test_a_consumer_that_a_new_journal_cannot_serve_is_closed_and_told_at_its_next_resume(
    publishing: Publishing, path: Path, tmp_path: Path, meet: Meet, log: pytest.LogCaptureFixture, new: bytes
) -> None:
    path.write_bytes(lines(0, 10))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        assert await peer.hear(len(lines(0, 10))) == lines(0, 10)
        (tmp_path / "new").write_bytes(new)
        (tmp_path / "new").rename(path)
        assert await peer.hear_all() == b""
        answer = await (await meet(publisher.port, b"RESUME 9\n")).hear_all()
        assert answer == (b"AHEAD 2\n" if new == lines(0, 3) else b"TRUNCATED 30\n")
    assert "the journal was replaced by one that does not go on after event 9" in log.text


async def test_a_journal_that_lost_events_in_place_is_no_longer_served_to_those_who_had_them(
    publishing: Publishing, path: Path, meet: Meet
) -> None:
    path.write_bytes(lines(0, 10))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 10)))
        os.truncate(path, len(lines(0, 4)))
        assert await peer.hear_all() == b""
        assert await (await meet(publisher.port, b"RESUME 9\n")).hear_all() == b"AHEAD 3\n"


async def test_what_is_damaged_at_the_end_is_not_sent_and_said_in_the_log(
    publishing: Publishing, path: Path, meet: Meet, log: pytest.LogCaptureFixture, patience_s: float
) -> None:
    path.write_bytes(lines(0, 10) + b"\0" * 100 + lines(15, 3))
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME 8\n")
        assert await peer.hear_line() == lines(9, 1)
        await until(lambda: "`consumer journal append` has repaired it" in log.text, patience_s)
        with Appender(path) as appender:
            assert appender.append(events(10, 2)) == 11
        assert await peer.hear(len(lines(10, 2))) == lines(10, 2)
        await until(lambda: "in order again" in log.text, patience_s)


async def test_damage_in_old_events_ends_the_connections_that_meet_it(
    publishing: Publishing, path: Path, meet: Meet, log: pytest.LogCaptureFixture
) -> None:
    data = lines(0, 300_000)
    path.write_bytes(data[:1_000_000] + b"\0" * 8192 + data[1_008_192:])
    async with publishing() as publisher:
        met = await meet(publisher.port, b"RESUME %d\n" % data[:1_004_096].count(b"\n"))
        assert await met.hear_all() == b""
        fine = await meet(publisher.port, b"RESUME 299990\n")
        assert await fine.hear_line() == lines(299_991, 1)
    assert "restore it from a copy" in log.text


# Starting and stopping.


async def test_a_stop_sends_nothing_new_and_takes_the_acks_of_what_was_sent(
    path: Path, limits: Limits, meet: Meet, log: pytest.LogCaptureFixture, patience_s: float
) -> None:
    path.write_bytes(lines(0, 10))
    stop = asyncio.Event()
    with Publisher(path, window=5, limits=replace(limits, linger_s=patience_s)) as publisher:
        running = asyncio.create_task(publisher.run(stop))
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 5)))
        stop.set()
        await until(lambda: all(listener.fileno() < 0 for listener in publisher._listeners), patience_s)
        peer.say(acks(range(5)))
        assert await peer.hear_all() == b""
        async with asyncio.timeout(patience_s):
            await running
    assert "the publisher stops (event 4 acknowledged, 4 sent)" in log.text


async def test_a_stop_waits_for_nobody_beyond_its_bound(
    path: Path, limits: Limits, meet: Meet, log: pytest.LogCaptureFixture, patience_s: float
) -> None:
    path.write_bytes(lines(0, 200_000))
    stop = asyncio.Event()
    with Publisher(path, window=200_000, limits=replace(limits, linger_s=0.05, close_s=0.05)) as publisher:
        running = asyncio.create_task(publisher.run(stop))
        for said in (b"", b"RESUME", b"RESUME -1\n", b"RESUME 199999\n"):
            await meet(publisher.port, said)
        await until(lambda: len(publisher.consumers()) == 2, patience_s)
        stop.set()
        async with asyncio.timeout(patience_s):
            await running
        assert not publisher._deliveries
    assert log.text.count("the publisher stops") == 4


async def test_a_disk_that_hangs_does_not_hold_up_a_stop(
    path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    path.write_bytes(lines(0, 2))
    stop, hanging, answer = asyncio.Event(), threading.Event(), threading.Event()

    def hang(_: int) -> None:
        hanging.set()
        answer.wait()

    with Publisher(path, limits=limits) as publisher:
        monkeypatch.setattr(disk, "sync_file", hang)
        running = asyncio.create_task(publisher.run(stop))
        path.write_bytes(lines(0, 3))
        await until(hanging.is_set, patience_s)
        stop.set()
        async with asyncio.timeout(patience_s):
            await running
        descriptor = publisher._followed.journal.descriptor
        os.fstat(descriptor)  # the thread still uses it, so it is not closed
        answer.set()
    await until(lambda: not publisher._followed._looking, patience_s)
    publisher.close()


async def test_a_cancelled_publisher_closes_everything(path: Path, limits: Limits, meet: Meet) -> None:
    path.write_bytes(lines(0, 2))
    with Publisher(path, limits=replace(limits, linger_s=0.01)) as publisher:
        running = asyncio.create_task(publisher.run(asyncio.Event()))
        peer = await meet(publisher.port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 2)))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await peer.hear_all() == b""


def test_an_address_in_use_is_an_error_that_names_it(path: Path) -> None:
    path.write_bytes(b"")
    with Publisher(path) as first:
        with pytest.raises(AddressInUse) as caught:
            Publisher(path, port=first.port)
        assert str(first.port) in str(caught.value)


def test_a_name_with_several_addresses_is_listened_at_on_one_port(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"")
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with Publisher(path, "both") as publisher:
        assert publisher.addresses == [f"tcp://127.0.0.1:{publisher.port}", f"tcp://127.0.0.2:{publisher.port}"]


def test_a_window_of_nothing_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="window"):
        Publisher(path, window=0)


async def test_all_that_is_sent_is_consecutive_whatever_the_consumers_do(
    publishing: Publishing, path: Path, meet: Meet
) -> None:
    """Ten consumers of different patience, on a journal that grows meanwhile."""
    with Appender(path) as appender:
        appender.append(events(0, 20_000))
        async with publishing(window=3000) as publisher:

            async def consume(pace: int) -> None:
                peer = await meet(publisher.port, b"RESUME -1\n")
                heard, last = b"", -1
                while last < 39_999:
                    heard += await peer.hear_line() if pace == 1 else await peer.reader.read(pace)
                    whole, newline, heard = heard.rpartition(b"\n")
                    seqs = seqs_in(whole + newline)
                    assert seqs == list(range(last + 1, last + 1 + len(seqs)))
                    if seqs:
                        last = seqs[-1]
                        peer.say(acks(seqs if pace % 2 else seqs[-1:]))

            consuming = [asyncio.create_task(consume(pace)) for pace in (7000, 333, 20_001, 65_536, 999, 4096)]
            for first in range(20_000, 40_000, 2000):
                appender.append(events(first, 2000))
                await asyncio.sleep(0.001)
            await asyncio.gather(*consuming)


async def test_a_socket_that_takes_everything_leaves_the_others_their_turn(path: Path, limits: Limits) -> None:
    path.write_bytes(lines(0, 400_000))
    slices: list[tuple[int, int]] = []

    class Greedy:
        slice_bytes = SLICE_BYTES

        async def send_slice(self, _: JournalReader, offset: int, end: int) -> None:
            slices.append((offset, end))

    source = FollowedJournal(str(path), 1.0)
    session = delivery_room.Delivery(source, limits, 2**31, peer="greedy", follow=True, tell=print)
    session.cursor = -1
    sending = asyncio.create_task(session._send(Greedy()))
    turns = 0
    while not slices or slices[-1][1] < source.journal.extent.end:
        await asyncio.sleep(0)
        turns += 1
        assert len(slices) <= turns
    assert len(slices) > 5
    sending.cancel()
    source.close()


async def test_a_file_that_is_cut_between_looking_and_sending_is_an_error(path: Path) -> None:
    path.write_bytes(lines(0, 1000))
    journal = JournalReader(path)
    end, _ = journal.cut(0, 0, 999, SLICE_BYTES)
    os.truncate(path, 100)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    channel = PlainChannel(ours)
    with pytest.raises(JournalUnusable, match="it ends at byte 100"):
        await channel.send_slice(journal, 0, end)
    await channel.close()
    theirs.close()
    reader, writer = asyncio.StreamReader(), FakeWriter()
    with pytest.raises(JournalUnusable, match="it ends at byte 100"):
        await TLSChannel(reader, writer, 1.0).send_slice(journal, 0, end)
    assert writer.written == b""
    journal.close()


class FakeWriter:
    """As much of a stream's writer as sending needs."""

    def __init__(self) -> None:
        self.written = b""
        self.transport = self

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        pass
