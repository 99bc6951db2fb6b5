"""TLS: who is trusted, what a refusal looks like from either side, and how a connection ends."""

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from consumer.core.errors import GaveUp, InvalidOption, TLSRefused
from consumer.observe.observations import Connected, Disconnected, Failed, Retrying
from consumer.runtime.consumer import Consumer
from consumer.sources.tcp import connection as connection_module
from consumer.sources.tcp.tls import TLS
from consumer.testing.script.conversation import Session

from .certificates import Authority
from .databases import check_store, read_last
from .scripted import history, in_turn, lines, sending, serving, silence

pytestmark = pytest.mark.usefixtures("quick")

versions = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "stranger")


async def close(session: Session) -> None:
    session.close()


async def abort(session: Session) -> None:
    session.reset()


async def vanish(session: Session) -> None:
    """End the connection without a word of TLS, as a publisher does that is killed."""
    session.writer.transport.abort()


# --- what works ----------------------------------------------------------------------------------


@versions
async def test_events_come_and_acknowledgements_go_over_tls(store, store_url, serve, run, authority, version):
    events = history(20_000)
    context = authority.context(version=version)
    async with (
        serve(serving(events, close=True), tls=context) as publisher,
        run(publisher.url, store, once=True, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.end()
    assert publisher.sessions[0].acks == list(range(len(events)))
    check_store(store_url, events)


@versions
async def test_a_publisher_that_has_nothing_to_send_and_closes_properly_is_a_good_end(
    sqlite_store, serve, run, authority, version
):
    context = authority.context(version=version)
    async with (
        serve(close, tls=context) as publisher,
        run(publisher.url, sqlite_store, once=True, max_attempts=1, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.end()
    assert len(publisher.sessions) == 1


@versions
async def test_the_name_in_the_certificate_can_be_another_than_the_host(sqlite_store, serve, run, authority, version):
    context = authority.context("publisher.test", version=version)
    async with (
        serve(serving(history(3)), tls=context) as publisher,
        run(publisher.url, sqlite_store, tls=TLS(ca=authority.ca, name="publisher.test")) as running,
    ):
        await running.consumer.wait_for(2)


@versions
@pytest.mark.parametrize("in_one_file", [False, True])
async def test_a_client_certificate_lets_us_in(
    sqlite_store, serve, run, authority, stranger, version, in_one_file, tmp_path
):
    mine = stranger.issue("consumer.test")
    tls = TLS(authority.ca, mine.cert, mine.key)
    if in_one_file:
        tls = TLS(authority.ca, str(mine.write_both(tmp_path / "both.pem")))
    context = authority.context(client_ca=stranger.ca, version=version)
    async with (
        serve(serving(history(3)), tls=context) as publisher,
        run(publisher.url, sqlite_store, tls=tls) as running,
    ):
        await running.consumer.wait_for(2)


# --- refusals ------------------------------------------------------------------------------------


@versions
@pytest.mark.parametrize("why", ["expired", "other name", "unknown authority"])
async def test_a_certificate_that_is_not_accepted_is_final(sqlite_store, serve, run, authority, stranger, version, why):
    context = {
        "expired": lambda: authority.context(expired=True, version=version),
        "other name": lambda: authority.context("publisher.test", version=version),
        "unknown authority": lambda: stranger.context(version=version),
    }[why]()
    async with (
        serve(silence, tls=context) as publisher,
        run(publisher.url, sqlite_store, tls=TLS(ca=authority.ca)) as running,
    ):
        with pytest.raises(
            TLSRefused, match=r"certificate of tls://127\.0\.0\.1:\d+ is not accepted: .*trust its authority"
        ):
            await running.end()
    assert [type(observation) for observation in running.watch.seen] == [Failed]


async def test_the_system_does_not_trust_a_private_authority(sqlite_store, serve, run, authority):
    async with serve(silence, tls=authority.context()) as publisher, run(publisher.url, sqlite_store) as running:
        with pytest.raises(TLSRefused):
            await running.end()


async def test_a_missing_client_certificate_is_final_where_the_handshake_says_so(
    sqlite_store, serve, run, authority, stranger
):
    context = authority.context(client_ca=stranger.ca, version=ssl.TLSVersion.TLSv1_2)
    async with (
        serve(silence, tls=context) as publisher,
        run(publisher.url, sqlite_store, max_attempts=3, tls=TLS(ca=authority.ca)) as running,
    ):
        with pytest.raises((TLSRefused, GaveUp)):
            await running.end()


@pytest.mark.parametrize("mine", ["none", "of another authority"])
async def test_a_client_certificate_that_is_refused_without_a_word_counts_as_an_attempt(
    sqlite_store, serve, run, authority, stranger, mine
):
    """So asyncio does under TLS 1.3: the handshake is over for us when it closes the connection."""
    other = authority.issue("consumer.test")
    tls = TLS(authority.ca) if mine == "none" else TLS(authority.ca, other.cert, other.key)
    context = authority.context(client_ca=stranger.ca)
    async with (
        serve(silence, tls=context) as publisher,
        run(publisher.url, sqlite_store, max_attempts=3, tls=tls) as running,
    ):
        with pytest.raises((TLSRefused, GaveUp)) as raised:
            await running.end()
    assert "client certificate" in str(raised.value)


async def test_a_connection_that_ends_without_a_word_before_its_first_frame_counts_as_an_attempt(
    sqlite_store, serve, run, authority
):
    async with (
        serve(vanish, tls=authority.context()) as publisher,
        run(publisher.url, sqlite_store, max_attempts=3, tls=TLS(ca=authority.ca)) as running,
    ):
        with pytest.raises(GaveUp, match=r"after 3 attempts.*before its first frame.*client certificate"):
            await running.end()
    assert len(publisher.sessions) == 3
    assert len(running.watch.of(Retrying)) == 2


@pytest.mark.parametrize("between", [serving(history(1), close=True), close])
async def test_a_session_in_between_starts_the_count_of_attempts_anew(sqlite_store, serve, run, authority, between):
    scripts = [vanish, vanish, between, vanish, vanish, serving(history(3))]
    async with (
        serve(in_turn(*scripts), tls=authority.context()) as publisher,
        run(publisher.url, sqlite_store, max_attempts=3, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.consumer.wait_for(2)


async def test_silence_in_between_starts_the_count_of_attempts_anew(sqlite_store, serve, run, authority):
    scripts = [vanish, silence, vanish, serving(history(3))]
    async with (
        serve(in_turn(*scripts), tls=authority.context()) as publisher,
        run(publisher.url, sqlite_store, max_attempts=2, timeout=0.3, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.consumer.wait_for(2)
        assert running.watch.of(Disconnected)


# --- one side speaks TLS, the other does not -----------------------------------------------------


async def test_a_publisher_that_speaks_first_and_without_tls_cannot_be_connected_to(
    sqlite_store, patience_s, run, authority
):
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"EVENT 0 1\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with run(url, sqlite_store, max_attempts=2, tls=TLS(ca=authority.ca)) as running:
            with pytest.raises(
                GaveUp, match=r"cannot be reached: .*; perhaps it does not speak TLS, and tcp:// is meant"
            ):
                await running.end()


async def test_a_plain_publisher_that_closes_at_what_it_does_not_understand_is_named_as_such(
    sqlite_store, run, authority
):
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with run(url, sqlite_store, max_attempts=1, tls=TLS(ca=authority.ca)) as running:
            with pytest.raises(GaveUp, match=r"gave up after 1 attempt to connect: .*tcp:// is meant"):
                await running.end()


async def test_a_plain_publisher_that_waits_for_resume_is_given_up_after_the_timeout(sqlite_store, run, authority):
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with run(url, sqlite_store, max_attempts=2, timeout=0.05, tls=TLS(ca=authority.ca)) as running:
            with pytest.raises(GaveUp, match=r"did not answer within 0\.05 s"):
                await running.end()


async def test_plain_tcp_to_a_tls_publisher_is_tried_again(sqlite_store, serve, run, authority):
    """What it answers is the beginning of no frame and then the end: nothing is applied, nothing is final."""
    async with serve(silence, tls=authority.context()) as publisher:
        url = publisher.url.replace("tls", "tcp")
        async with run(url, sqlite_store) as running:
            await running.watch.until(Retrying, 3)
            assert not running.task.done()


async def test_plain_tcp_to_a_publisher_that_answers_in_tls_is_told_so(sqlite_store, serve, run):
    alert = bytes.fromhex("15030100020246")  # protocol_version, as OpenSSL says it
    async with serve(sending(alert)) as publisher, run(publisher.url, sqlite_store) as running:
        await running.watch.until(Retrying, 1)
        assert str(running.watch.of(Retrying)[0].error).endswith("answers in TLS; give tls://")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            b"",
            "closed the connection without a word: it has nothing after event -1, or it is no publisher or speaks TLS",
        ),
        (b"EVENT 0 1\n", "closed the connection"),
    ],
)
async def test_once_ends_well_with_nothing_too_and_says_so(sqlite_store, serve, run, said: bytes, reason: str):
    async with serve(sending(said)) as publisher, run(publisher.url, sqlite_store, once=True) as running:
        await running.end()
        last = running.watch.of(Disconnected)[-1]
        assert last.reason.startswith(reason)
        assert ("tls://" in last.reason) == last.is_doubtful == (said == b"")


async def test_nothing_said_is_doubtful_whatever_the_cursor(sqlite_store, serve, run):
    sqlite_store.resume()
    sqlite_store.apply([(0, 1)])
    async with serve(sending(b"")) as publisher, run(publisher.url, sqlite_store, once=True) as running:
        await running.end()
    last = running.watch.of(Disconnected)[-1]
    assert last.is_doubtful
    assert "nothing after event 0" in last.reason


# --- how a connection ends -----------------------------------------------------------------------


@versions
async def test_a_publisher_that_is_killed_in_mid_stream_is_connected_to_again(
    store, store_url, serve, run, authority, version
):
    async def killed(session: Session) -> None:
        await session.send_events(history(2))
        await session.acked(1)
        await vanish(session)

    context = authority.context(version=version)
    async with (
        serve(in_turn(killed, abort, serving(history(5))), tls=context) as publisher,
        run(publisher.url, store, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.consumer.wait_for(4)
    assert publisher.resumes == [-1, 1, 1]
    check_store(store_url, history(5))


@versions
async def test_once_over_tls_is_good_though_the_publisher_does_not_wait_for_acknowledgements(
    sqlite_store, sqlite_url, serve, run, authority, version
):
    """TLS has no half-closed connections in asyncio: what comes after the end cannot be acknowledged. It is applied."""
    context = authority.context(version=version)
    async with (
        serve(sending(lines(history(5_000))), tls=context) as publisher,
        run(publisher.url, sqlite_store, once=True, max_attempts=1, batch=10, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.end()
    assert len(publisher.sessions) == 1
    check_store(sqlite_url, history(5_000))


@versions
async def test_a_broken_record_is_a_broken_connection(sqlite_store, sqlite_url, serve, run, authority, version):
    async def broken(session: Session) -> None:
        await session.send_events(history(2))
        await session.acked(1)
        session.writer.get_extra_info("socket")._sock.send(b"this is no TLS record at all")

    context = authority.context(version=version)
    async with (
        serve(in_turn(broken, serving(history(4))), tls=context) as publisher,
        run(publisher.url, sqlite_store, tls=TLS(ca=authority.ca)) as running,
    ):
        await running.consumer.wait_for(3)
        assert "TLS" in str(running.watch.of(Retrying)[0].error) or "SSL" in str(running.watch.of(Retrying)[0].error)
    assert publisher.resumes == [-1, 1]
    check_store(sqlite_url, history(4))


@versions
async def test_a_peer_that_never_answers_close_notify_cannot_hold_up_a_close(
    sqlite_store, serve, run, authority, version, monkeypatch, patience_s
):
    monkeypatch.setattr(connection_module, "CLOSE_TIMEOUT_S", 0.05)
    deaf = asyncio.Event()

    async def script(session: Session) -> None:
        await session.send_events(history(2))
        await session.acked(1)
        session.writer.get_extra_info("socket")  # it stays open
        session.writer.transport.pause_reading()
        deaf.set()
        await asyncio.sleep(patience_s)

    loop = asyncio.get_running_loop()
    context = authority.context(version=version)
    async with (
        serve(script, tls=context) as publisher,
        run(publisher.url, sqlite_store, tls=TLS(ca=authority.ca)) as running,
    ):
        await deaf.wait()
        began = loop.time()
        await running.stop()
        assert loop.time() - began < patience_s / 2


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_it_can_be_ended_at_any_step_of_the_event_loop(sqlite_store, sqlite_url, serve, authority, how):
    """In every step of the handshake too."""
    async with serve(serving(history(4)), tls=authority.context()) as publisher:
        for steps in range(0, 300, 5):
            consumer = Consumer(publisher.url, sqlite_store, tls=TLS(ca=authority.ca))
            task = asyncio.create_task(consumer.run())
            for _ in range(steps):
                await asyncio.sleep(0)
            assert not task.done()
            if how == "cancel":
                task.cancel()
            else:
                consumer.stop()
            await asyncio.wait({task})
            assert task.cancelled() is (how == "cancel")
            if how == "stop":
                task.result()
    for session in publisher.sessions:
        assert session.last + len(session.acks) <= read_last(sqlite_url)


async def test_a_handshake_that_never_ends_is_bounded_by_the_timeout(sqlite_store, run, authority):
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with run(url, sqlite_store, timeout=0.05, tls=TLS(ca=authority.ca)) as running:
            await running.watch.until(Retrying, 3)
            assert not running.watch.of(Connected)


# --- the options ---------------------------------------------------------------------------------


def test_verification_is_on_whatever_is_given(authority: Authority):
    mine = authority.issue("consumer.test")
    for tls in (TLS(), TLS(authority.ca), TLS(authority.ca, mine.cert, mine.key, "publisher.test")):
        context = tls.context()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_file_that_cannot_be_used_is_named(authority: Authority, tmp_path: Path):
    mine, other = authority.issue("consumer.test"), authority.issue("other.test")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    missing = str(tmp_path / "missing.pem")
    locked = tmp_path / "locked.key"
    key = serialization.load_pem_private_key(Path(mine.key).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    locked.write_bytes(key.private_bytes(*pem, encryption))
    for tls, named in (
        (TLS(ca=missing), missing),
        (TLS(ca=str(garbage)), str(garbage)),
        (TLS(cert=missing), missing),
        (TLS(cert=mine.cert), mine.cert),
        (TLS(cert=mine.cert, key=other.key), mine.cert),
        (TLS(cert=mine.cert, key=missing), mine.cert),
        (TLS(cert=mine.cert, key=str(locked)), "encrypted"),
        (TLS(key=mine.key), "certificate"),
        (TLS(name=".test"), ".test"),
        (TLS(name="a..test"), "a..test"),
    ):
        with pytest.raises(InvalidOption) as raised:
            tls.context()
        assert named in str(raised.value)
