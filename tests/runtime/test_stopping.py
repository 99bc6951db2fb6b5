"""Stops and cancellations, at every moment: the commit in flight ends, its acknowledgements are sent, nothing is left."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import make_url

from consumer.core.errors import StoppedByForce
from consumer.observe.observations import Committed, Connected, Retrying
from consumer.runtime import calls, stopping, supervision
from consumer.runtime.consumer import Consumer
from consumer.sources.tcp import connection
from consumer.store.transaction import Store
from consumer.testing.script.conversation import Session

from .databases import check_store, execute, read_last
from .scripted import history, lines, playing, serving, silence

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "postgresql": "SELECT pg_sleep(1000)",
}


class Handler:
    """A handler that a test can hold up."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self, connection, events) -> None:
        self.entered.set()
        self.leave.wait()


class EndlessStatement:
    """A handler whose statement only ends when it is interrupted."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.ended = False

    def __call__(self, connection, events) -> None:
        self.entered.set()
        try:
            connection.exec_driver_sql(ENDLESS[connection.dialect.name])
        finally:
            self.ended = True


async def entered(handler: Handler | EndlessStatement) -> None:
    await asyncio.to_thread(handler.entered.wait)


# --- stop ----------------------------------------------------------------------------------------


async def test_a_stop_ends_an_idle_consumer(store, serve, run):
    async with serve(silence) as publisher, run(publisher.url, store) as running:
        await running.watch.until(Connected)
        await running.stop()
        await publisher.sessions[0].has_left.wait()


async def test_a_stop_ends_a_backoff(sqlite_store, serve, run, monkeypatch):
    monkeypatch.setattr(supervision, "WAIT_INITIAL_S", 1_000.0)
    monkeypatch.setattr(supervision, "WAIT_MAX_S", 1_000.0)
    async with serve(silence) as publisher:
        url = publisher.url
    async with run(url, sqlite_store) as running:
        await running.watch.until(Retrying)
        await running.stop()


async def test_a_stop_ends_an_attempt_to_connect(sqlite_store, serve, run):
    """The peer takes the connection, and never says its part of the TLS handshake."""
    accepted, leave = asyncio.Event(), asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await leave.wait()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with run(url, sqlite_store) as running:
            await accepted.wait()
            await running.stop()
        leave.set()


async def test_a_stop_ends_a_wait_for_somebody_elses_lock(sqlite_store, sqlite_url, serve, run):
    """Before RESUME nothing is under way that could be lost: it is not waited for, and no stop by force."""
    with Store(sqlite_url) as other:
        other.apply(history(3))  # so that the cursor has to be made durable, under the lock
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()
    begin = sqlite_store._begin

    def noted():
        loop.call_soon_threadsafe(waiting.set)
        return begin()

    sqlite_store._begin = noted
    with locked(sqlite_url):
        async with serve(silence) as publisher, run(publisher.url, sqlite_store) as running:
            await waiting.wait()
            await running.stop()
        assert publisher.sessions == []


@contextmanager
def locked(url: str) -> Iterator[None]:
    con = sqlite3.connect(make_url(url).database, isolation_level=None)
    con.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        con.close()


async def test_a_cancelled_run_waits_for_its_handler_however_long_that_takes(sqlite_store, serve, run, monkeypatch):
    """Only a stop has a deadline: whoever cancels goes on using the store."""
    monkeypatch.setattr(calls, "FORCE_GRACE_S", 0.0)
    monkeypatch.setattr(calls, "INTERRUPT_INTERVAL_S", 0.001)
    handler = Handler()
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Semaphore(0)
    interrupt = sqlite_store.interrupt

    def noted() -> None:
        interrupt()
        loop.call_soon_threadsafe(interrupted.release)

    monkeypatch.setattr(sqlite_store, "interrupt", noted)
    async with serve(serving(history(3))) as publisher, run(publisher.url, sqlite_store, handler) as running:
        await entered(handler)
        running.task.cancel()
        for _ in range(5):
            await interrupted.acquire()
        assert not running.task.done()
        handler.leave.set()
        await asyncio.wait({running.task})
    assert running.task.cancelled()


async def never_rests() -> None:
    """Have a timeout expire all the time: it cancels the task too, and for a moment the two cannot be told apart."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()


async def test_a_task_whose_timeout_has_just_expired_is_cancelled_all_the_same(patience_s):
    async with asyncio.timeout(patience_s):
        for turns in range(20):
            task = asyncio.create_task(never_rests())
            for _ in range(turns):
                await asyncio.sleep(0)
            await stopping.cancel(task)


async def test_a_stop_comes_through_where_a_timeout_has_just_expired(patience_s):
    async with asyncio.timeout(patience_s):
        for turns in range(20):
            stop = stopping.Stop()
            task = asyncio.create_task(never_rests())
            ended = asyncio.create_task(stop.wait_for_end(task))
            for _ in range(turns):
                await asyncio.sleep(0)
            stop.ask()
            await ended
            assert task.cancelled()


async def test_a_stop_before_the_run_leaves_the_publisher_alone(store, serve):
    async with serve(serving(history(3))) as publisher:
        consumer = Consumer(publisher.url, store)
        consumer.stop()
        await consumer.run()
        assert publisher.sessions == []


async def test_a_stop_lets_the_commit_in_flight_end_and_acknowledges_it(store, store_url, serve, run):
    handler = Handler()
    async with serve(serving(history(3))) as publisher, run(publisher.url, store, handler) as running:
        await entered(handler)
        running.consumer.stop()
        await asyncio.sleep(0.01)
        assert not running.task.done()
        handler.leave.set()
        await running.end()
        await publisher.sessions[0].has_left.wait()
        assert publisher.sessions[0].acks == [0, 1, 2]
        await running.consumer.wait_for(2)
    check_store(store_url, history(3))


async def test_a_stop_does_not_interrupt_the_statement_in_flight(sqlite_store, serve, run, monkeypatch):
    interrupted = asyncio.Event()
    handler = Handler()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(sqlite_store, "interrupt", lambda: loop.call_soon_threadsafe(interrupted.set))
    async with serve(serving(history(3))) as publisher, run(publisher.url, sqlite_store, handler) as running:
        await entered(handler)
        running.consumer.stop()
        try:
            async with asyncio.timeout(0.1):  # it comes at once, where it comes
                await interrupted.wait()
        except TimeoutError:
            pass
        handler.leave.set()
        await running.end()
    assert not interrupted.is_set()


async def test_a_stop_commits_nothing_more_than_what_was_in_flight(store, store_url, serve, run):
    handler = Handler()

    async def script(session: Session) -> None:
        await session.send_events(history(2))
        await entered(handler)
        await session.send_events(history(5, first=2))

    async with serve(script) as publisher, run(publisher.url, store, handler, batch=2) as running:
        await entered(handler)
        running.consumer.stop()
        handler.leave.set()
        await running.end()
        await publisher.sessions[0].has_left.wait()
    assert publisher.sessions[0].acks == [0, 1]
    check_store(store_url, history(2))


async def test_a_stop_in_mid_stream_loses_no_acknowledgement(store, store_url, serve, run):
    """The publisher is sending at full speed, and has not read everything yet, when the consumer closes."""

    async def stream(session: Session) -> None:
        seq = session.last + 1
        while True:
            await session.send_events(history(500, first=seq))
            await asyncio.sleep(0.001)
            seq += 500

    async with serve(stream) as publisher, run(publisher.url, store, batch=1_000) as running:
        await running.watch.until(Committed, 5)
        await running.stop()
        session = publisher.sessions[0]
        await session.has_left.wait()
        last = read_last(store_url)
    assert session.acks[-1] == last
    assert session.acks == list(range(last + 1))
    check_store(store_url, history(last + 1))


async def test_a_publisher_that_is_still_sending_when_the_consumer_leaves_gets_its_acknowledgements(
    store, store_url, serve, run
):
    """To close a socket in its face would be a reset, which takes back what it has not read yet."""
    handler = Handler()
    committed = asyncio.Event()
    heard = b""

    async def script(session: Session) -> None:
        nonlocal heard
        await session.send_events(history(3))
        await committed.wait()
        for seq in range(3, 23):
            await session.send_events(history(1, first=seq))
            await asyncio.sleep(0.005)
        heard = await session.reader.read()

    def observe(observation) -> None:
        if isinstance(observation, Committed):
            committed.set()

    async with (
        serve(script, reads_acks=False) as publisher,
        run(publisher.url, store, handler, observers=[observe]) as running,
    ):
        await entered(handler)
        running.consumer.stop()
        handler.leave.set()
        await running.end()
    assert heard == b"ACK 0\nACK 1\nACK 2\n"
    check_store(store_url, history(3))


async def test_a_handler_that_never_returns_is_left_behind_after_the_stop_timeout(
    store, store_url, serve, run, monkeypatch
):
    monkeypatch.setattr(calls, "FORCE_GRACE_S", 0.05)
    handler = Handler()
    try:
        async with serve(serving(history(3))) as publisher:
            async with run(publisher.url, store, handler, stop_timeout=0.05) as running:
                await entered(handler)
                running.consumer.stop()
                with pytest.raises(StoppedByForce):
                    await running.end()
            await publisher.sessions[0].has_left.wait()
            assert publisher.sessions[0].acks == []
    finally:
        handler.leave.set()
    await _until_no_worker()


async def test_a_second_stop_does_not_wait_for_the_stop_timeout(sqlite_store, serve, run, monkeypatch):
    monkeypatch.setattr(calls, "FORCE_GRACE_S", 0.05)
    handler = Handler()
    try:
        async with serve(serving(history(3))) as publisher:
            async with run(publisher.url, sqlite_store, handler) as running:
                await entered(handler)
                running.consumer.stop()
                running.consumer.stop()
                with pytest.raises(StoppedByForce):
                    await running.end()
            assert publisher.sessions[0].acks == []
    finally:
        handler.leave.set()
    await _until_no_worker()


async def _until_no_worker() -> None:
    """The store must not be closed under the worker that was left behind."""
    workers = [thread for thread in threading.enumerate() if thread.name == "consumer-store"]
    await asyncio.to_thread(lambda: [worker.join() for worker in workers])


@pytest.mark.parametrize("how", ["second stop", "stop timeout"])
async def test_a_forced_stop_interrupts_a_statement_and_nothing_of_its_batch_stays(store, store_url, serve, run, how):
    handler = EndlessStatement()
    async with serve(serving(history(3))) as publisher:
        stop_timeout = 1_000.0 if how == "second stop" else 0.05
        async with run(publisher.url, store, handler, stop_timeout=stop_timeout) as running:
            await entered(handler)
            running.consumer.stop()
            if how == "second stop":
                running.consumer.stop()
            with pytest.raises(StoppedByForce):
                await running.end()
        await publisher.sessions[0].has_left.wait()
        assert publisher.sessions[0].acks == []
    check_store(store_url, [])
    async with serve(serving(history(3), close=True)) as publisher, run(publisher.url, store, once=True) as running:
        await running.end()
    check_store(store_url, history(3))


async def test_a_publisher_that_does_not_take_our_leave_cannot_hold_up_a_stop(
    sqlite_store, serve, run, monkeypatch, patience_s
):
    """It goes on sending, and never looks whether anybody is there."""
    monkeypatch.setattr(connection, "CLOSE_TIMEOUT_S", 0.05)

    async def stream(session: Session) -> None:
        seq = 0
        while not session.writer.is_closing():
            session.writer.write(lines(history(100, first=seq)))
            await session.writer.drain()
            seq += 100

    loop = asyncio.get_running_loop()
    async with serve(stream, reads_acks=False) as publisher, run(publisher.url, sqlite_store) as running:
        await running.watch.until(Committed, 2)
        began = loop.time()
        await running.stop()
        assert loop.time() - began < patience_s / 2


async def test_a_stop_while_a_final_error_takes_its_leave_closes_the_connection_all_the_same(
    sqlite_store, serve, run, monkeypatch, patience_s
):
    monkeypatch.setattr(connection, "CLOSE_TIMEOUT_S", patience_s)
    left = asyncio.Event()

    async def stays(session: Session) -> None:
        await session.send(b"AHEAD 0\n")
        assert await session.reader.read() == b""
        left.set()
        await asyncio.sleep(patience_s)

    async with serve(stays, reads_acks=False) as publisher, run(publisher.url, sqlite_store) as running:
        await left.wait()
        running.consumer.stop()
        await asyncio.wait({running.task}, timeout=patience_s / 2)
        assert running.task.done()


async def test_a_stop_from_another_thread(sqlite_store, serve, run):
    async with serve(silence) as publisher, run(publisher.url, sqlite_store) as running:
        await publisher.session(0)
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(loop.call_soon_threadsafe, running.consumer.stop)
        await running.end()


# --- cancellation --------------------------------------------------------------------------------


async def cancelled(task: asyncio.Task) -> None:
    """Wait for a task's end, which must be that. (Awaited itself, it would be cancelled with whoever waits.)"""
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_cancelled_run_ends_as_cancelled_in_idle(store, serve, run):
    async with serve(silence) as publisher, run(publisher.url, store) as running:
        await running.watch.until(Connected)
        running.task.cancel()
        await cancelled(running.task)
        await publisher.sessions[0].has_left.wait()


async def test_a_cancelled_run_interrupts_the_database_and_waits_for_it(store, store_url, serve, run):
    handler = EndlessStatement()
    async with serve(serving(history(3))) as publisher, run(publisher.url, store, handler) as running:
        await entered(handler)
        running.task.cancel()
        await cancelled(running.task)
        assert handler.ended
        await publisher.sessions[0].has_left.wait()
        assert publisher.sessions[0].acks == []
    check_store(store_url, [])


@pytest.mark.parametrize("how", ["cancel", "second stop"])
async def test_a_statement_that_begins_after_the_first_interruption_is_interrupted_too(
    store, store_url, serve, run, monkeypatch, how
):
    """A handler may have been between two statements just then."""
    statement, begin = EndlessStatement(), threading.Event()
    interrupt = store.interrupt

    def note() -> None:
        interrupt()
        begin.set()

    def handler(connection, events) -> None:
        statement.entered.set()
        begin.wait()
        statement(connection, events)

    monkeypatch.setattr(store, "interrupt", note)
    async with serve(serving(history(3))) as publisher, run(publisher.url, store, handler) as running:
        await entered(statement)
        if how == "cancel":
            running.task.cancel()
            await cancelled(running.task)
        else:
            running.consumer.stop()
            running.consumer.stop()
            with pytest.raises(StoppedByForce):
                await running.end()
        assert statement.ended
    check_store(store_url, [])


async def test_a_run_that_is_cancelled_again_and_again_waits_for_its_worker_all_the_same(store, store_url, serve, run):
    handler = Handler()
    async with serve(serving(history(3))) as publisher, run(publisher.url, store, handler) as running:
        await entered(handler)
        try:
            for _ in range(5):
                running.task.cancel()
                await asyncio.sleep(0.01)
                assert not running.task.done()
        finally:
            handler.leave.set()
        await cancelled(running.task)
        await publisher.sessions[0].has_left.wait()
        acks = publisher.sessions[0].acks
    assert acks in ([], [0, 1, 2])
    assert read_last(store_url) in {-1, 2}
    assert len(acks) <= read_last(store_url) + 1


def test_a_loop_that_ends_interrupts_the_database_and_waits_for_it(store, store_url, patience_s):
    """`asyncio.run` cancels each task of a loop when its main one has ended, those of the consumer among them."""
    handler = EndlessStatement()
    tasks = []

    async def main() -> None:
        async with asyncio.timeout(patience_s), playing(serving(history(3))) as publisher:
            tasks.append(asyncio.create_task(Consumer(publisher.url, store, handler).run()))
            await entered(handler)

    asyncio.run(main())
    assert handler.ended
    assert tasks[0].cancelled()
    check_store(store_url, [])


def test_a_loop_that_ends_after_a_stop_waits_for_the_commit_no_longer(store, store_url, patience_s):
    handler = EndlessStatement()
    tasks = []

    async def main() -> None:
        async with asyncio.timeout(patience_s), playing(serving(history(3))) as publisher:
            consumer = Consumer(publisher.url, store, handler, stop_timeout=1_000.0)
            tasks.append(asyncio.create_task(consumer.run()))
            await entered(handler)
            consumer.stop()
            await asyncio.sleep(0)

    asyncio.run(main())
    assert handler.ended
    assert tasks[0].done()
    check_store(store_url, [])


async def test_a_cancellation_while_a_stop_is_in_progress_interrupts(store, store_url, serve, run):
    handler = EndlessStatement()
    async with serve(serving(history(3))) as publisher:
        async with run(publisher.url, store, handler, stop_timeout=1_000.0) as running:
            await entered(handler)
            running.consumer.stop()
            await asyncio.sleep(0.01)
            running.task.cancel()
            await cancelled(running.task)
        await publisher.sessions[0].has_left.wait()
        assert publisher.sessions[0].acks == []
    check_store(store_url, [])


async def test_a_stop_while_a_cancellation_is_in_progress_does_not_hide_it(sqlite_store, serve, run):
    handler = Handler()
    async with serve(serving(history(3))) as publisher, run(publisher.url, sqlite_store, handler) as running:
        await entered(handler)
        running.task.cancel()
        await asyncio.sleep(0.01)
        running.consumer.stop()
        handler.leave.set()
        await cancelled(running.task)


async def test_a_timeout_around_the_run_is_a_timeout(sqlite_store, serve):
    async with serve(serving(history(3))) as publisher:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Consumer(publisher.url, sqlite_store).run()


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_it_can_be_ended_at_any_step_of_the_event_loop(sqlite_store, sqlite_url, serve, how):
    """Exactly when a connection was made, a read has finished, a commit returned: each is met at some step."""

    async def chatty(session: Session) -> None:
        for event in history(4, first=session.last + 1):
            await session.send_events([event])

    async with serve(chatty, patiences=10) as publisher:  # a hundred consumers
        for steps in (*range(40), *range(40, 400, 6)):
            consumer = Consumer(publisher.url, sqlite_store)
            task = asyncio.create_task(consumer.run())
            for _ in range(steps):
                await asyncio.sleep(0)
            assert not task.done()
            if how == "cancel":
                task.cancel()
                await cancelled(task)
            else:
                consumer.stop()
                await task
            for session in publisher.sessions:
                await session.has_left.wait()
            last = read_last(sqlite_url)
            for session in publisher.sessions:
                assert session.acks == list(range(session.last + 1, session.last + 1 + len(session.acks)))
                assert session.last + len(session.acks) <= last
    check_store(sqlite_url, history(last + 1))


async def test_the_event_loop_is_not_blocked_by_the_database(store, serve, run, patience_s):
    """A handler may take long; others on the loop do not notice."""
    entered, leave = threading.Event(), threading.Event()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait(patience_s)  # a loop that it blocks could never let it go

    async with serve(serving(history(1))) as publisher, run(publisher.url, store, handler) as running:
        await asyncio.to_thread(entered.wait)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not running.watch.of(Committed)
        leave.set()
        await running.watch.until(Committed)


async def test_a_stop_waits_for_a_connection_that_is_being_made_to_the_database(sqlite_store, serve, run, monkeypatch):
    """`resume` cannot be interrupted, and is short: the worker is seen out."""
    began, leave = threading.Event(), threading.Event()
    resume = sqlite_store.resume

    def slow() -> int:
        began.set()
        leave.wait()
        return resume()

    monkeypatch.setattr(sqlite_store, "resume", slow)
    async with serve(silence) as publisher, run(publisher.url, sqlite_store) as running:
        await asyncio.to_thread(began.wait)
        running.consumer.stop()
        await asyncio.sleep(0.01)
        assert not running.task.done()
        leave.set()
        await running.end()
        assert publisher.sessions == []


async def test_a_store_can_be_consumed_into_again_after_every_kind_of_end(store, store_url, serve, run):
    async with serve(serving(history(3))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(2)
    async with serve(serving(history(5))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(4)
        running.task.cancel()
        await cancelled(running.task)
    async with serve(serving(history(7), close=True)) as publisher, run(publisher.url, store, once=True) as running:
        await running.end()
    check_store(store_url, history(7))
    assert execute(store_url, "SELECT count(*) FROM checkpoint") == [(1,)]
