"""The scripted publisher: each step seen from a plain socket, and what it makes of a real consumer."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import trustme

from consumer import TLS, Consumer
from consumer.core.errors import Conflict, CursorAhead, Gap, MalformedFrame, ResyncRequired
from consumer.observe.observations import Disconnected, Retrying
from consumer.testing import (
    Acked,
    Ahead,
    AwaitAck,
    Close,
    Finish,
    FinishWithoutNotify,
    HalfOpen,
    KeepSilent,
    ReadSlowly,
    Reset,
    Resumed,
    Say,
    Send,
    SendAgain,
    SendByteByByte,
    SendConflict,
    SendGap,
    SendGarbage,
    SendSplit,
    SendTorn,
    Serve,
    Snapshot,
    Truncated,
)
from consumer.testing import ScriptedPublisher as Unbounded

PATIENCE_S = 30.0
EVENTS = [(0, 5), (1, -7), (2, 100)]
LINES = b"EVENT 0 5\nEVENT 1 -7\nEVENT 2 100\n"


class ScriptedPublisher(Unbounded):
    """Nothing inside its `async with` takes longer than the patience."""

    async def __aenter__(self):
        self._limit = asyncio.timeout(PATIENCE_S)
        await self._limit.__aenter__()
        return await super().__aenter__()

    async def __aexit__(self, *error) -> None:
        await super().__aexit__(*error)
        await self._limit.__aexit__(*error)


@asynccontextmanager
async def connected(publisher: ScriptedPublisher, last: int = -1):
    host, _, port = publisher.url.removeprefix("tcp://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"RESUME %d\n" % last)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([Send(EVENTS)], LINES),
        ([Serve(EVENTS)], b"EVENT 1 -7\nEVENT 2 100\n"),
        ([Serve(EVENTS[:1])], b""),
        ([Send(EVENTS[:1]), SendAgain(2)], b"EVENT 0 5\n" * 3),
        ([Send(EVENTS[:1]), SendConflict()], b"EVENT 0 5\nEVENT 0 4\n"),
        ([Send([(0, -1000)]), SendConflict()], b"EVENT 0 -1000\nEVENT 0 -999\n"),
        ([Send(EVENTS), SendGap(2, delta=1)], LINES + b"EVENT 5 1\n"),
        ([SendGap()], b"EVENT 2 0\n"),
        ([Say(Truncated(9))], b"TRUNCATED 9\n"),
        ([Say(Snapshot(4, -3))], b"SNAPSHOT 4 -3\n"),
        ([Say(Ahead(-1))], b"AHEAD -1\n"),
        ([SendGarbage(b"\0\n")], b"\0\n"),
        ([SendTorn((12, 5))], b"EVENT 1"),
        ([SendTorn((1, 5), bytes_kept=100)], b"EVENT 1 5"),
        ([SendByteByByte(EVENTS)], LINES),
        ([SendSplit(EVENTS, at_byte=13)], LINES),
    ],
    ids=str,
)
async def test_a_step_sends_what_its_name_says(steps, wanted: bytes) -> None:
    async with ScriptedPublisher([*steps, Finish()]) as publisher, connected(publisher, 0) as (reader, _):
        assert await reader.read() == wanted
    assert publisher.resumes == [0]


async def test_each_connection_has_its_script_and_the_last_one_stays() -> None:
    async with ScriptedPublisher([Send([(0, 1)]), Finish()], [Close()], [Send([(0, 3)]), Finish()]) as publisher:
        said = []
        for _ in range(4):
            async with connected(publisher) as (reader, _):
                said.append(await reader.read())
    assert said == [b"EVENT 0 1\n", b"", b"EVENT 0 3\n", b"EVENT 0 3\n"]


async def test_a_reset_is_one() -> None:
    async with ScriptedPublisher([Reset()]) as publisher, connected(publisher) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_every_resume_and_ack_is_kept_beside_what_was_seen_at_that_moment() -> None:
    seen = iter("abc")
    async with (
        ScriptedPublisher([AwaitAck(1), Finish(), AwaitAck(2)], observe=lambda: next(seen)) as publisher,
        connected(publisher, 7) as (reader, writer),
    ):
        writer.write(b"ACK 0\nACK 1\nAC")
        await reader.read()
        writer.write(b"K 2\n")
        await (await publisher.session(0)).acked(2)
    assert publisher.heard == [Resumed(0, 7, "a"), Acked(0, 0, "b"), Acked(0, 1, "b"), Acked(0, 2, "c")]
    assert publisher.acks == [0, 1, 2]


async def test_slowly_is_a_few_bytes_at_a_time() -> None:
    reads = []
    script = [ReadSlowly(read_bytes=6, pause_s=0), AwaitAck(3), Finish()]
    async with (
        ScriptedPublisher(script, observe=lambda: reads.append(1), receive_bytes=4096) as publisher,
        connected(publisher) as (reader, writer),
    ):
        writer.write(b"ACK 0\nACK 1\nACK 2\nACK 3\n")
        assert await reader.read() == b""
    assert len(reads) == 1 + 4


async def test_silence_reads_on_and_a_half_open_connection_does_not() -> None:
    async with ScriptedPublisher([KeepSilent(60)], [HalfOpen(), Finish()]) as publisher:
        async with connected(publisher) as (_, writer):
            writer.write(b"ACK 0\n")
            await (await publisher.session(0)).acked(0)
        async with connected(publisher) as (reader, writer):
            session = await publisher.session(1)
            while session.may_read.is_set():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
            writer.write(b"ACK 0\n" * 10_000)
            writer.write_eof()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.read()
            assert len(session.acks) < 10_000
            assert not session.has_left.is_set()


async def test_waits_of_some_seconds_end_by_themselves() -> None:
    async with (
        ScriptedPublisher([KeepSilent(0.01), HalfOpen(0.01), Finish()]) as publisher,
        connected(publisher) as (reader, _),
    ):
        assert await reader.read() == b""


@pytest.mark.parametrize(
    ("script", "said", "error", "words"),
    [
        ([AwaitAck(5)], b"", TimeoutError, r"connection 0, step 0: AwaitAck\(seq=5\) was not over after 0.05 s"),
        ([SendAgain()], b"", ValueError, "none was"),
        ([KeepSilent()], b"NAK 1\n", MalformedFrame, "NAK 1"),
    ],
    ids=str,
)
async def test_what_goes_wrong_comes_out_of_the_context(script, said, error, words) -> None:
    publisher = ScriptedPublisher(script, step_limit_s=0.05 if error is TimeoutError else 30)
    with pytest.raises(error, match=words):
        async with publisher, connected(publisher) as (reader, writer):
            writer.write(said)
            await reader.read()


async def test_a_consumer_that_leaves_where_an_ack_was_due_is_an_error() -> None:
    publisher = ScriptedPublisher([AwaitAck(5)])
    with pytest.raises(AssertionError, match="left before ACK 5"):
        async with publisher:
            async with connected(publisher):
                session = await publisher.session(0)
            await session.has_left.wait()


@pytest.mark.parametrize("line", [b"HELLO\n", b"RESUME", b"x" * 200_000])
async def test_what_is_no_resume_is_malformed(line: bytes) -> None:
    publisher = ScriptedPublisher([])
    with pytest.raises(MalformedFrame):
        async with publisher:
            host, _, port = publisher.url.removeprefix("tcp://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(line)
            writer.write_eof()
            with suppress(ConnectionError):
                await reader.read()
            writer.close()


async def test_without_a_script_there_is_none() -> None:
    with pytest.raises(ValueError, match="give a script"):
        ScriptedPublisher()


# With a real consumer.


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (SendConflict(), Conflict(2, 100, 99)),
        (SendGap(), Gap(3, 4)),
        (SendGarbage(), MalformedFrame(b"\x00\xffEVENT 0\r\n")),
        (Say(Truncated(9)), ResyncRequired(-1, 9)),
        (Say(Snapshot(9, 4)), ResyncRequired(-1, 10, (9, 4))),
        (Say(Ahead(1)), CursorAhead(-1, 1)),
    ],
    ids=str,
)
async def test_a_consumer_makes_of_it_what_it_should(sqlite_store, step, error) -> None:
    script = [Send(EVENTS), AwaitAck(), step]
    async with ScriptedPublisher(script, observe=lambda: sqlite_store.state().last) as publisher:
        with pytest.raises(type(error)) as raised:
            await Consumer(publisher.url, sqlite_store).run()
    assert raised.value.args[1:] == error.args[1:]
    assert publisher.heard[:4] == [Resumed(0, -1, -1), *(Acked(0, seq, 2) for seq in range(3))]


async def test_torn_split_and_byte_by_byte_are_whole_in_the_end(sqlite_store) -> None:
    torn = [Send(EVENTS[:1]), AwaitAck(), SendTorn(EVENTS[1]), Reset()]
    splits = [SendSplit(EVENTS, at) for at in range(1, len(LINES))]
    async with ScriptedPublisher(torn, [*splits, SendByteByByte(EVENTS), SendAgain(3), Finish()]) as publisher:
        await Consumer(publisher.url, sqlite_store, once=True).run()
    assert publisher.resumes == [-1, 0]
    assert publisher.acks == [0, *[0, 1, 2] * len(LINES), 2, 2, 2]
    assert (sqlite_store.state().last, sqlite_store.state().total) == (2, 98)


@pytest.mark.parametrize("step", [KeepSilent(), HalfOpen()], ids=str)
async def test_a_peer_that_says_nothing_is_asked_anew(sqlite_store, step) -> None:
    seen = []
    async with ScriptedPublisher([step], [Serve(EVENTS), AwaitAck(2), Finish()]) as publisher:
        consumer = Consumer(publisher.url, sqlite_store, once=True, timeout=0.5, observers=[seen.append])
        await consumer.run()
    assert publisher.resumes == [-1, -1]
    assert not [one for one in seen if isinstance(one, Retrying)]
    assert "was silent for" in next(one.reason for one in seen if isinstance(one, Disconnected))


async def test_over_tls_an_end_without_close_notify_is_told_from_one_with(sqlite_store, tmp_path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    seen = []
    async with ScriptedPublisher([FinishWithoutNotify()], [Serve(EVENTS), AwaitAck(2), Finish()], tls=context) as one:
        consumer = Consumer(
            one.url, sqlite_store, once=True, tls=TLS(ca=str(tmp_path / "ca.pem")), observers=[seen.append]
        )
        await consumer.run()
    [trouble] = [one for one in seen if isinstance(one, Retrying)]
    assert "broke off before its first frame" in str(trouble.error)
    assert one.acks == [0, 1, 2]
