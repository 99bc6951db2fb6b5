"""The failure table: what is tried again, how often, from where, and what each failure ends in."""

import asyncio
import errno
import socket
import sqlite3
import time
from contextlib import suppress

import pytest
from sqlalchemy import event, exc, make_url

from consumer.core.errors import (
    Conflict,
    CursorAhead,
    Fenced,
    Gap,
    GaveUp,
    HandlerFailed,
    MalformedFrame,
    NotReady,
    ResyncRequired,
    Retry,
    UnsafeDurability,
)
from consumer.observe.observations import Committed, Connected, Disconnected, Retrying
from consumer.runtime import supervision
from consumer.runtime.consumer import Consumer
from consumer.sources.tcp.connection import PublisherConnection
from consumer.store import migrate
from consumer.store.transaction import Store
from consumer.testing.script.conversation import Session

from .databases import check_store, execute, read_last
from .scripted import history, in_turn, lines, sending, serving, silence

pytestmark = pytest.mark.usefixtures("quick")

TCP_REPAIR = 19
"""Linux: while it is set, closing a socket sends nothing."""


# --- what passes by itself -----------------------------------------------------------------------


async def test_a_publisher_that_closes_is_connected_to_again(store, store_url, serve, run):
    async def two(session: Session) -> None:
        await serving([event for event in history(10) if event[0] <= session.last + 2], close=True)(session)

    async with serve(two) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(9)
    assert publisher.resumes[:5] == [-1, 1, 3, 5, 7]
    check_store(store_url, history(10))


@pytest.mark.parametrize("cut", [b"E", b"EVENT 3", b"EVENT 3 -", b"EVENT 3 7"])
async def test_a_frame_cut_by_the_end_of_the_connection_is_no_event(store, store_url, serve, run, cut):
    """Whatever precedes it counts; the cut one comes again, and may mean something else than it seemed to."""
    first = sending(lines(history(3)) + cut)
    async with serve(in_turn(first, serving(history(5)))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(4)
        retrying = await running.watch.until(Retrying)
    assert "middle of a frame" in str(retrying.error)
    assert publisher.sessions[1].last in {-1, 2}  # a connection that broke drops what is queued
    check_store(store_url, history(5))


async def test_once_does_not_take_a_cut_frame_for_the_end(sqlite_store, sqlite_url, serve, run):
    cut = sending(lines(history(2)) + b"EVENT 2")
    whole = sending(lines(history(3)))
    async with serve(in_turn(cut, whole)) as publisher, run(publisher.url, sqlite_store, once=True) as running:
        await running.end()
    assert len(publisher.sessions) == 2
    check_store(sqlite_url, history(3))


async def test_a_reset_connection_is_made_again(store, store_url, serve, run):
    async def reset(session: Session) -> None:
        await session.send_events(history(2))
        await session.acked(1)
        session.reset()

    async with serve(in_turn(reset, reset_at_once, serving(history(4)))) as publisher, run(publisher.url, store) as r:
        await r.consumer.wait_for(3)
    assert publisher.resumes == [-1, 1, 1]
    check_store(store_url, history(4))


async def reset_at_once(session: Session) -> None:
    session.reset()


async def test_a_network_failure_that_is_no_broken_connection_passes_too(
    sqlite_store, sqlite_url, serve, run, monkeypatch
):
    """No route to a host, say: the system reports it on a connection that stands, and Python as a plain OSError."""
    feeds: list[PublisherConnection] = []
    monkeypatch.setattr(PublisherConnection, "__aenter__", _noted(feeds))
    async with serve(in_turn(silence, serving(history(3)))) as publisher, run(publisher.url, sqlite_store) as running:
        await publisher.session(0)
        await running.watch.until(Connected)
        feeds[0]._reader.set_exception(OSError(errno.EHOSTUNREACH, "No route to host"))
        await running.consumer.wait_for(2)
        assert "No route to host" in str((await running.watch.until(Retrying)).error)
    check_store(sqlite_url, history(3))


def _noted(feeds: list[PublisherConnection]):
    enter = PublisherConnection.__aenter__

    async def note(self: PublisherConnection) -> PublisherConnection:
        feeds.append(self)
        return await enter(self)

    return note


async def test_a_publisher_that_is_not_there_yet_is_waited_for(store, store_url, serve, run):
    async with serve(silence) as publisher:
        url, port = publisher.url, publisher.port
    async with run(url, store) as running:
        await running.watch.until(Retrying, 3)
        assert not running.watch.of(Connected)
        async with serve(serving(history(3)), port=port):
            await running.consumer.wait_for(2)
    check_store(store_url, history(3))


async def test_retry_from_a_handler_means_the_whole_batch_again_and_no_bisection(store, store_url, serve, run):
    sizes: list[int] = []

    def handler(connection, events) -> None:
        sizes.append(len(events))
        if len(sizes) < 3:
            raise Retry("the till is closed")

    async with serve(serving(history(6))) as publisher, run(publisher.url, store, handler) as running:
        await running.consumer.wait_for(5)
        assert str(running.watch.of(Retrying)[0].error) == "the till is closed"
    assert sizes == [6, 6, 6]
    assert publisher.resumes == [-1, -1, -1]
    assert [session.acks for session in publisher.sessions[:2]] == [[], []]
    check_store(store_url, history(6))


@pytest.mark.parametrize("error", [ConnectionResetError("a service of mine"), TimeoutError(), EOFError()])
async def test_a_handler_whose_own_connections_fail_is_tried_again_with_the_whole_batch(
    sqlite_store, serve, run, error
):
    sizes: list[int] = []

    def handler(connection, events) -> None:
        sizes.append(len(events))
        if len(sizes) < 2:
            raise error

    async with serve(serving(history(4))) as publisher, run(publisher.url, sqlite_store, handler) as running:
        await running.consumer.wait_for(3)
    assert sizes == [4, 4]


# --- idle ----------------------------------------------------------------------------------------


async def test_a_silent_publisher_is_asked_anew_at_once_and_that_is_no_failure(store, serve, run, monkeypatch):
    monkeypatch.setattr(supervision, "WAIT_INITIAL_S", 1_000.0)  # a backoff would not come to an end
    monkeypatch.setattr(supervision, "WAIT_MAX_S", 1_000.0)
    async with (
        serve(in_turn(silence, silence, silence, serving(history(2)))) as publisher,
        run(publisher.url, store, timeout=0.5, max_attempts=1) as running,
    ):
        await running.consumer.wait_for(1)
        assert len(running.watch.of(Disconnected)) >= 3
        assert not running.watch.of(Retrying)
    assert publisher.resumes[:4] == [-1, -1, -1, -1]


async def test_a_peer_that_falls_silent_after_events_is_asked_anew_from_there(store, store_url, serve, run):
    """As a half-open connection looks: nothing comes, and nothing says that the other end is gone."""
    async with (
        serve(in_turn(serving(history(3)), serving(history(5)))) as publisher,
        run(publisher.url, store, timeout=0.5) as running,
    ):
        await running.consumer.wait_for(4)
    assert publisher.resumes[:2] == [-1, 2]
    check_store(store_url, history(5))


async def test_a_half_open_connection_is_found_by_its_silence(store, store_url, serve, run):
    """The publisher's machine is gone: its end of the connection no longer exists, and nothing was said about that."""
    async with (
        serve(in_turn(gone_without_a_word, serving(history(5)))) as publisher,
        run(publisher.url, store, timeout=0.5) as running,
    ):
        await running.consumer.wait_for(4)
    assert publisher.resumes[:2] == [-1, 1]
    check_store(store_url, history(5))


async def gone_without_a_word(session: Session) -> None:
    await session.send_events(history(2))
    await session.acked(1)
    try:
        session.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except OSError:
        pytest.skip("only root may close a connection without telling the other end, on Linux")
    session.writer.transport.abort()


async def test_a_publisher_that_waits_for_a_slow_handler_is_not_idle(store, store_url, serve, run):
    """It has sent all that its window allows, and says nothing until it is acknowledged: that is our silence."""
    timeout_s = 0.4

    def handler(connection, events) -> None:
        time.sleep(2.5 * timeout_s)

    async def window_of_two(session: Session) -> None:
        for seq in range(0, 6, 2):
            await session.send_events(history(2, first=seq))
            await session.acked(seq + 1)
        await session.has_left.wait()

    async with (
        serve(window_of_two) as publisher,
        run(publisher.url, store, handler, timeout=timeout_s, batch=2) as running,
    ):
        await running.consumer.wait_for(5)
    assert publisher.sessions[0].acks == list(range(6))


async def test_the_idle_clock_starts_anew_with_an_acknowledgement(sqlite_store, serve, run, monkeypatch):
    """A publisher that has just been acknowledged has a whole timeout to say something."""
    timeout_s = 0.4
    loop = asyncio.get_running_loop()
    acknowledged_at: list[float] = []
    found_idle_at: list[float] = []
    acknowledge = PublisherConnection.acknowledge

    def note(self: PublisherConnection, seqs) -> None:
        acknowledge(self, seqs)
        acknowledged_at.append(loop.time())

    def observe(observation) -> None:
        if isinstance(observation, Disconnected):
            found_idle_at.append(loop.time())

    def handler(connection, events) -> None:
        time.sleep(timeout_s / 2)

    monkeypatch.setattr(PublisherConnection, "acknowledge", note)
    async with (
        serve(in_turn(serving(history(1)), silence)) as publisher,
        run(publisher.url, sqlite_store, handler, timeout=timeout_s, observers=[observe]),
    ):
        await publisher.session(1)
    clock_s = 0.02  # the loop takes what is due within its clock's resolution
    assert found_idle_at[0] - acknowledged_at[0] > timeout_s - clock_s


# --- backoff -------------------------------------------------------------------------------------


async def test_the_backoff_grows_up_to_its_maximum_and_starts_anew_after_progress(
    store, store_url, serve, run, monkeypatch
):
    monkeypatch.setattr(supervision, "WAIT_INITIAL_S", 0.001)
    monkeypatch.setattr(supervision, "WAIT_MAX_S", 0.004)

    async def close(session: Session) -> None:
        session.close()

    scripts = [close] * 4 + [serving(history(2), close=True)] + [close] * 2 + [silence]
    async with serve(in_turn(*scripts)) as publisher, run(publisher.url, store) as running:
        await publisher.session(len(scripts) - 1)
        waits = [retrying.wait_s for retrying in running.watch.of(Retrying)]
    assert waits == [0.001, 0.002, 0.004, 0.004, 0.0, 0.001, 0.002]


async def test_duplicates_are_no_progress(sqlite_store, serve, run):
    """A publisher that sends the same events for ever, and closes, is not asked in a tight circle."""
    async with serve(sending(lines(history(2)))) as publisher, run(publisher.url, sqlite_store) as running:
        await publisher.session(4)
        waits = [retrying.wait_s for retrying in running.watch.of(Retrying)]
    assert waits[:4] == [0.0, 0.001, 0.002, 0.004]


# --- three times ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"EVENT 3 1\r\n", b"EVENT 03 1\n", bytes(range(128, 256)), b"x" * 64],
)
async def test_garbage_is_final_the_third_time(store, store_url, serve, run, garbage):
    """What precedes it is applied and acknowledged, each time."""
    script = sending(lines(history(3)) + garbage, close=False)
    async with serve(script) as publisher, run(publisher.url, store) as running:
        with pytest.raises(MalformedFrame):
            await running.end()
    assert publisher.resumes == [-1, 2, 2]
    assert [session.acks for session in publisher.sessions] == [[0, 1, 2]] * 3
    check_store(store_url, history(3))


async def test_a_gap_that_stays_is_final_the_third_time(store, store_url, serve, run):
    """From a publisher that ignores RESUME. What precedes the gap counts."""
    events = history(6)
    script = sending(lines(events[:3] + events[4:]), close=False)
    async with serve(script) as publisher, run(publisher.url, store) as running:
        with pytest.raises(Gap) as gap:
            await running.end()
    assert (gap.value.expected, gap.value.received) == (3, 4)
    assert publisher.resumes == [-1, 2, 2]
    assert [session.acks for session in publisher.sessions] == [[0, 1, 2]] * 3
    check_store(store_url, history(3))


async def test_a_gap_in_a_later_batch_is_a_gap_too_and_no_lost_history(store, store_url, serve, run):
    """Only the first event after RESUME can say that history is gone."""
    events = history(6)

    async def ignores_resume(session: Session) -> None:
        await session.send_events(events[:3])
        await session.acked(2)
        await session.send_events(events[4:])

    async with serve(ignores_resume) as publisher, run(publisher.url, store) as running:
        with pytest.raises(Gap):
            await running.end()
    assert publisher.resumes == [-1, 2, 2]
    check_store(store_url, history(3))


async def test_a_gap_that_passes_is_none(store, store_url, serve, run):
    events = history(6)
    gap = sending(lines(events[:3] + events[4:]), close=False)
    async with serve(in_turn(gap, serving(events))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(5)
    assert publisher.resumes == [-1, 2]
    check_store(store_url, events)


async def test_progress_between_failures_starts_the_count_anew(sqlite_store, sqlite_url, serve, run):
    async def one_and_garbage(session: Session) -> None:
        await session.send(lines(history(1, first=session.last + 1)) + b"?\n")

    scripts = [one_and_garbage] * 5 + [serving(history(8))]
    async with serve(in_turn(*scripts)) as publisher, run(publisher.url, sqlite_store) as running:
        await running.consumer.wait_for(7)
    assert publisher.resumes == [-1, 0, 1, 2, 3, 4]


async def test_a_cursor_that_others_move_under_our_lock_is_final_the_third_time(store, store_url, serve, run):
    """Nothing that follows the rules does that; a trigger of the user's may."""
    if store_url.startswith("sqlite"):
        execute(
            store_url,
            "CREATE TRIGGER meddle AFTER INSERT ON ledger BEGIN UPDATE checkpoint SET last = last - 1; END",
        )
    else:
        execute(
            store_url,
            "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN UPDATE checkpoint SET last = last - 1; RETURN NULL; END'",
            "CREATE TRIGGER meddle AFTER INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION meddle()",
        )
    async with serve(serving(history(2))) as publisher, run(publisher.url, store) as running:
        with pytest.raises(Fenced):
            await running.end()
    assert publisher.resumes == [-1, -1, -1]
    assert [session.acks for session in publisher.sessions] == [[], [], []]
    check_store(store_url, [])


# --- final at once -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "facts"),
    [
        (b"TRUNCATED 9\n", ResyncRequired, (2, 9, None)),
        (b"SNAPSHOT 8 15\n", ResyncRequired, (2, 9, (8, 15))),
        (b"SNAPSHOT -1 0\n", ResyncRequired, (2, 0, (-1, 0))),
        (b"AHEAD 1\n", CursorAhead, (2, 1)),
        (b"AHEAD -1\n", CursorAhead, (2, -1)),
        (b"EVENT 9 1\n", ResyncRequired, (2, 9, None)),
        (b"EVENT 2 999\n", Conflict, (2, history(3)[2][1], 999)),
    ],
)
async def test_an_answer_that_trying_again_does_not_change_is_final(store, store_url, serve, run, answer, error, facts):
    execute(store_url, *[f"INSERT INTO ledger VALUES ({seq}, {delta})" for seq, delta in history(3)])
    execute(store_url, f"UPDATE checkpoint SET last = 2, total = {sum(delta for _, delta in history(3))}")
    async with serve(sending(answer, close=False)) as publisher, run(publisher.url, store) as running:
        with pytest.raises(error) as raised:
            await running.end()
    assert raised.value.args == facts
    assert publisher.resumes == [2]
    assert publisher.sessions[0].acks == []
    check_store(store_url, history(3))


async def test_what_precedes_a_conflict_is_applied_and_acknowledged(store, store_url, serve, run):
    script = sending(lines([*history(5), (1, 999), (5, 1)]), close=False)
    async with serve(script) as publisher, run(publisher.url, store) as running:
        with pytest.raises(Conflict):
            await running.end()
        await publisher.sessions[0].has_left.wait()
    assert publisher.sessions[0].acks == [0, 1, 2, 3, 4]
    check_store(store_url, history(5))


async def test_a_gap_after_a_reconnect_to_a_publisher_that_honours_resume_is_lost_history(store, store_url, serve, run):
    events = history(6)
    del events[3]
    async with serve(serving(events)) as publisher, run(publisher.url, store) as running:
        with pytest.raises(ResyncRequired) as raised:
            await running.end()
    assert raised.value.args == (2, 4, None)
    assert publisher.resumes == [-1, 2]
    check_store(store_url, history(3))


def move_on(url: str, first: int, count: int) -> None:
    """What another consumer does meanwhile."""
    with Store(url) as other:
        assert other.apply(history(count, first=first)).new == count


@pytest.mark.parametrize("answer", [b"TRUNCATED 4\n", b"SNAPSHOT 3 0\n"])
async def test_history_that_is_gone_for_a_cursor_that_was_moved_meanwhile_is_no_reason_to_end(
    store, store_url, serve, run, answer
):
    async def truncated(session: Session) -> None:
        move_on(store_url, 0, 4)
        await session.send(answer)

    async with serve(in_turn(truncated, serving(history(6)))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(5)
    assert publisher.resumes == [-1, 3]
    check_store(store_url, history(6))


@pytest.mark.parametrize("moved", [1, 4])
async def test_a_first_event_beyond_a_cursor_that_was_moved_meanwhile_is_no_reason_to_end(
    store, store_url, serve, run, moved
):
    """Up to it, where it is a duplicate; or not so far yet, where our RESUME was out of date all the same."""

    async def truncated(session: Session) -> None:
        move_on(store_url, 0, moved)
        await session.send_events(history(3, first=3))

    async with serve(in_turn(truncated, serving(history(6)))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(5)
    check_store(store_url, history(6))


@pytest.mark.usefixtures("impatient")
async def test_an_event_that_its_handler_fails_on_is_final_and_those_before_it_count(store, store_url, serve, run):
    def handler(connection, events) -> None:
        if any(seq == 5 for seq, _ in events):
            raise LookupError("no such slot")

    async with serve(serving(history(9))) as publisher, run(publisher.url, store, handler) as running:
        with pytest.raises(HandlerFailed, match="event 5: LookupError: no such slot"):
            await running.end()
        await publisher.sessions[0].has_left.wait()
    assert publisher.sessions[0].acks == [0, 1, 2, 3, 4]
    check_store(store_url, history(5))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "end", ["COMMIT", "ROLLBACK", "commit", "rollback", "close", "value", "hidden rollback", "coroutine"]
)
async def test_a_handler_that_breaks_a_rule_is_final_and_nothing_of_its_event_is_acknowledged(
    store, store_url, serve, run, end
):
    if end == "COMMIT" and store_url.startswith("postgresql"):
        pytest.skip("a raw COMMIT on PostgreSQL is detected, not prevented")
    if end == "hidden rollback" and store_url.startswith("postgresql"):
        pytest.skip("INSERT OR ROLLBACK is SQLite's")

    async def coroutine() -> None:
        pass

    def handler(connection, events):
        result = None
        match end:
            case "COMMIT" | "ROLLBACK":
                connection.connection.driver_connection.execute(end)
            case "commit" | "rollback" | "close":
                getattr(connection, end)()
            case "value":
                result = 1
            case "coroutine":
                result = coroutine()
            case "hidden rollback":
                with suppress(exc.IntegrityError):
                    connection.exec_driver_sql("INSERT OR ROLLBACK INTO checkpoint VALUES (1, 1, 1)")
        return result

    async with serve(serving(history(2))) as publisher, run(publisher.url, store, handler) as running:
        with pytest.raises(HandlerFailed):
            await running.end()
        await publisher.sessions[0].has_left.wait()
    assert publisher.sessions[0].acks == []
    check_store(store_url, [])


async def test_a_coroutine_function_is_refused_before_anything_begins(sqlite_store):
    async def handler(connection, events) -> None:
        pass

    with pytest.raises(TypeError, match="plain function"):
        Consumer("tcp://127.0.0.1:7000", sqlite_store, handler)


async def test_connecting_is_given_up_after_as_many_attempts_as_were_allowed(store, serve, run):
    async with serve(silence) as publisher:
        url = publisher.url
    async with run(url, store, max_attempts=3) as running:
        with pytest.raises(GaveUp, match=r"after 3 attempts .*cannot be reached"):
            await running.end()
    assert len(running.watch.of(Retrying)) == 2


async def test_attempts_are_counted_in_a_row(sqlite_store, serve, run):
    """A connection in between starts the count anew, even one that brings nothing."""
    async with serve(silence) as publisher:
        url, port = publisher.url, publisher.port
    async with run(url, sqlite_store, max_attempts=1_000) as running:
        await running.watch.until(Retrying, 2)
        async with serve(in_turn(reset_at_once, silence), port=port) as publisher:
            await publisher.session(1)


async def test_no_store_is_final(serve, url, run):
    async with serve(silence) as publisher:
        with Store(url) as store:
            async with run(publisher.url, store) as running:
                with pytest.raises(NotReady, match="consumer upgrade"):
                    await running.end()
    assert publisher.sessions == []


async def test_a_store_of_another_version_is_final(store, store_url, serve, run):
    execute(store_url, "UPDATE consumer_alembic_version SET version_num = 'other'")
    async with serve(silence) as publisher, run(publisher.url, store) as running:
        with pytest.raises(NotReady, match="other"):
            await running.end()
    assert publisher.sessions == []


async def test_an_unsafe_database_is_final_before_anything_is_said(store_url, serve, run):
    if store_url.startswith("sqlite"):
        unsafe = Store(store_url)

        @event.listens_for(unsafe._engine, "connect")
        def _weaken(connection, _record) -> None:
            connection.execute("PRAGMA synchronous=NORMAL")
    else:
        execute(store_url, "ALTER TABLE ledger SET UNLOGGED")
        unsafe = Store(store_url)
    with unsafe:
        async with serve(silence) as publisher, run(publisher.url, unsafe) as running:
            with pytest.raises(UnsafeDurability):
                await running.end()
    assert publisher.sessions == []


@pytest.mark.parametrize("refused", ["password", "database"])
async def test_a_server_that_refuses_what_was_typed_is_final(postgres_url, serve, run, refused):
    wrong = make_url(postgres_url)
    wrong = wrong.set(database="nowhere") if refused == "database" else wrong.set(username="nobody")
    with Store(wrong) as store:
        async with serve(silence) as publisher, run(publisher.url, store) as running:
            with pytest.raises(exc.DBAPIError, match="does not exist"):
                await running.end()
            assert not running.watch.of(Retrying)
    assert publisher.sessions == []


async def test_a_server_that_lets_nobody_in_for_a_while_is_waited_for(postgres_url, serve, run):
    migrate.upgrade(postgres_url)
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    admin = postgres_url.replace(name, "postgres")
    with Store(postgres_url) as store:
        async with serve(serving(history(3), close=True)) as publisher, run(publisher.url, store) as running:
            await running.consumer.wait_for(2)
            execute(
                admin,
                f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
            )
            await running.watch.until(Retrying, saying="not currently accepting")
            assert not running.task.done()
            execute(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            connections = len(running.watch.of(Connected))
            await running.watch.until(Connected, connections + 1)


# --- a database that fails for a while -----------------------------------------------------------


async def test_a_locked_sqlite_file_is_waited_for(sqlite_store, sqlite_url, serve, run, monkeypatch):
    monkeypatch.setattr("consumer.store.transaction.BEGIN_TRIES", 1)
    sqlite_store.state()  # the first connection needs the file for itself, to switch it to WAL
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        async with serve(serving(history(3))) as publisher, run(publisher.url, sqlite_store) as running:
            assert "locked" in str((await running.watch.until(Retrying)).error)
            assert publisher.sessions == []  # before it says a cursor, it makes sure of it under the lock
            other.execute("ROLLBACK")
            await running.consumer.wait_for(2)
    finally:
        other.close()
    check_store(sqlite_url, history(3))


async def test_a_full_database_is_waited_for(sqlite_store, sqlite_url, serve, run):
    """SQLITE_FULL, wherever raised: the whole batch comes again, and no event is blamed for it."""
    sizes: list[int] = []

    def handler(connection, events) -> None:
        sizes.append(len(events))
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        limit = pages if len(sizes) < 3 else 1_000_000
        connection.exec_driver_sql(f"PRAGMA max_page_count = {limit}")
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS bulk (filling BLOB)")
        connection.exec_driver_sql("INSERT INTO bulk VALUES (zeroblob(100000))")

    async with serve(serving(history(4))) as publisher, run(publisher.url, sqlite_store, handler) as running:
        await running.consumer.wait_for(3)
        assert "full" in str(running.watch.of(Retrying)[0].error)
    assert sizes == [4, 4, 4]
    check_store(sqlite_url, history(4))


async def test_the_store_as_it_is_afterwards_is_what_is_reported(store, store_url, serve, run):
    async with serve(serving(history(5), close=True)) as publisher, run(publisher.url, store, once=True) as running:
        await running.end()
    committed = running.watch.of(Committed)[-1]
    assert (committed.last, committed.total) == (4, sum(delta for _, delta in history(5)))
    assert read_last(store_url) == 4
