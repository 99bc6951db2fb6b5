"""What a running consumer does with good events: apply each once, then acknowledge it; and who waits for that."""

import asyncio
import threading
from types import NoneType

import pytest

from consumer.core.errors import ConsumerError, CursorAhead
from consumer.observe.observations import Committed, Connected
from consumer.runtime.consumer import Consumer
from consumer.runtime.inbox import Inbox
from consumer.testing import Acked
from consumer.testing.script.conversation import Session

from .databases import check_store, execute, read_last
from .scripted import history, in_turn, lines, sending, serving, silence


async def test_events_are_applied_and_acknowledged_in_order(store, store_url, serve, run):
    events = history(30_000)
    async with serve(serving(events, close=True)) as publisher, run(publisher.url, store, once=True) as running:
        await running.end()
    assert [session.acks for session in publisher.sessions] == [[seq for seq, _ in events]]
    assert publisher.resumes == [-1]
    check_store(store_url, events)
    assert sum(committed.new for committed in running.watch.of(Committed)) == len(events)


async def test_an_acknowledgement_comes_after_the_commit_is_visible_to_others(store, store_url, serve, run):
    async def script(session: Session) -> None:
        for event in history(20):
            await session.send_events([event])
            await session.acked(event[0])
        session.close()

    async with (
        serve(script, observe=lambda: read_last(store_url)) as publisher,
        run(publisher.url, store, once=True) as running,
    ):
        await running.end()
    assert publisher.heard[1:] == [Acked(0, seq, seq) for seq in range(20)]


async def test_nothing_is_acknowledged_while_the_transaction_is_open(store, store_url, serve, run):
    entered, leave = threading.Event(), threading.Event()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait()

    async with serve(serving(history(3))) as publisher, run(publisher.url, store, handler) as running:
        session = await publisher.session(0)
        try:
            await asyncio.to_thread(entered.wait)
            assert (session.acks, read_last(store_url)) == ([], -1)
        finally:
            leave.set()
        await session.acked(2)
        assert running.watch.of(Committed)


async def test_events_that_come_again_are_acknowledged_again_and_not_counted(store, store_url, serve, run):
    events = history(10)
    again = sending(lines(events[:4] + events[2:]))
    async with serve(again) as publisher, run(publisher.url, store, once=True) as running:
        await running.end()
    assert publisher.sessions[0].acks == [0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 8, 9]
    check_store(store_url, events)


async def test_an_acknowledgement_goes_only_to_the_connection_that_brought_the_event(
    store, store_url, serve, run, quick
):
    """The connection breaks while its batch commits; the next one must hear nothing of it."""
    entered, leave = threading.Event(), threading.Event()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait()

    async def broken(session: Session) -> None:
        await session.send_events(history(5))
        await asyncio.to_thread(entered.wait)
        session.reset()
        leave.set()

    async with (
        serve(in_turn(broken, serving(history(8)))) as publisher,
        run(publisher.url, store, handler),
    ):
        await (await publisher.session(1)).acked(7)
    assert publisher.resumes == [-1, 4]
    assert publisher.sessions[1].acks == [5, 6, 7]
    check_store(store_url, history(8))


async def test_what_was_queued_from_a_broken_connection_is_dropped_and_comes_again(
    store, store_url, serve, run, quick, monkeypatch
):
    """The next RESUME says the cursor as it is after the commit in flight, and not what was still waiting."""
    entered, leave, noticed = threading.Event(), threading.Event(), asyncio.Event()
    close = Inbox.close

    def notice(self: Inbox, *args, **kwargs) -> None:
        close(self, *args, **kwargs)
        noticed.set()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait()

    async def broken(session: Session) -> None:
        await session.send_events(history(2))
        await asyncio.to_thread(entered.wait)
        await session.send_events(history(3, first=2))
        session.reset()
        await noticed.wait()
        leave.set()

    monkeypatch.setattr(Inbox, "close", notice)
    async with serve(in_turn(broken, serving(history(6)))) as publisher, run(publisher.url, store, handler):
        await (await publisher.session(1)).acked(5)
    assert publisher.resumes == [-1, 1]
    assert publisher.sessions[1].acks == [2, 3, 4, 5]
    check_store(store_url, history(6))


async def test_to_a_connection_that_is_lost_nothing_more_is_written(sqlite_store, serve, run, quick, caplog):
    """Reading waits for room, so what was queued is still committed; asyncio would warn of every acknowledgement."""
    entered, leave = threading.Event(), threading.Event()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait()

    async def broken(session: Session) -> None:
        await session.send_events(history(50))
        await asyncio.to_thread(entered.wait)
        session.reset()
        leave.set()

    async with (
        serve(in_turn(broken, serving(history(60)))) as publisher,
        run(publisher.url, sqlite_store, handler, batch=1) as running,
    ):
        await running.consumer.wait_for(59)
    assert "socket.send() raised exception" not in caplog.text
    assert publisher.resumes[1] > 10


async def test_while_a_batch_commits_the_next_is_read_and_batches_do_not_wait_to_fill(store, serve, run):
    entered, leave = threading.Event(), threading.Event()
    sizes: list[int] = []

    def handler(connection, events) -> None:
        sizes.append(len(events))
        entered.set()
        leave.wait()

    async def script(session: Session) -> None:
        await session.send_events(history(1))
        await asyncio.to_thread(entered.wait)
        await session.send_events(history(100, first=1))
        leave.set()

    async with serve(script) as publisher, run(publisher.url, store, handler, batch=60):
        await (await publisher.session(0)).acked(100)
    assert sizes[0] == 1
    assert max(sizes) <= 60
    assert sum(sizes) == 101


async def test_all_acknowledgements_are_drained_before_a_clean_close(sqlite_store, serve, run):
    """The publisher reads the first of them only after the consumer has had every reason to leave."""
    events = history(20_000)
    done = asyncio.Event()

    async def script(session: Session) -> None:
        session.may_read.clear()
        await session.send_events(events)
        session.finish()
        await done.wait()
        session.may_read.set()

    async with serve(script) as publisher, run(publisher.url, sqlite_store, once=True) as running:
        await running.consumer.wait_for(19_999)
        done.set()
        await running.end()
        session = await publisher.session(0)
        await session.has_left.wait()
        assert session.acks == list(range(20_000))


async def test_it_says_the_cursor_of_the_database_at_each_connection(store, store_url, serve, run, quick):
    """Somebody else may have moved it, and what this consumer remembers is not asked."""
    others = [f"INSERT INTO ledger VALUES ({seq}, 1)" for seq in (2, 3)]

    async def first(session: Session) -> None:
        await session.send_events(history(2))
        await session.acked(1)
        execute(store_url, *others, "UPDATE checkpoint SET last = 3, total = total + 2")
        session.close()

    async with serve(in_turn(first, silence)) as publisher, run(publisher.url, store) as running:
        await publisher.session(1)
        await running.watch.until(Connected, 2)
    assert publisher.resumes == [-1, 3]
    assert [connected.last for connected in running.watch.of(Connected)] == [-1, 3]


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_an_observer_that_fails_disturbs_nobody(sqlite_store, serve, caplog, error):
    def broken(observation) -> None:
        raise error("an observer's own")

    async with serve(serving(history(3), close=True)) as publisher:
        await Consumer(publisher.url, sqlite_store, once=True, observers=[broken]).run()
        assert publisher.sessions[0].acks == [0, 1, 2]
    assert "an observer failed" in caplog.text


async def test_a_consumer_runs_once(sqlite_store, serve, run):
    async with serve(silence) as publisher, run(publisher.url, sqlite_store) as running:
        await publisher.session(0)
        with pytest.raises(RuntimeError, match="make a new one"):
            await running.consumer.run()


# --- wait_for ------------------------------------------------------------------------------------


async def test_waiting_for_an_event_ends_when_it_is_committed(store, store_url, serve, run):
    async with serve(serving(history(3))) as publisher, run(publisher.url, store) as running:
        await running.consumer.wait_for(2)
        assert read_last(store_url) == 2
        await running.consumer.wait_for(0)
        waiting = asyncio.create_task(running.consumer.wait_for(5))
        await publisher.sessions[0].send_events(history(2, first=3))
        await publisher.sessions[0].acked(4)
        assert not waiting.done()
        await publisher.sessions[0].send_events(history(1, first=5))
        await waiting
        assert read_last(store_url) == 5


async def test_waiting_may_begin_before_the_consumer_runs(sqlite_store, serve):
    async with serve(serving(history(3), close=True)) as publisher:
        consumer = Consumer(publisher.url, sqlite_store, once=True)
        waiting = asyncio.create_task(consumer.wait_for(2))
        await asyncio.sleep(0)
        await consumer.run()
        await waiting


async def test_an_event_that_was_committed_by_an_earlier_run_need_not_come_again(sqlite_store, serve, run):
    async with serve(serving(history(3), close=True)) as publisher:
        await Consumer(publisher.url, sqlite_store, once=True).run()
    async with serve(silence) as publisher, run(publisher.url, sqlite_store) as running:
        await running.consumer.wait_for(2)


@pytest.mark.parametrize("how", ["ended", "stopped", "failed"])
async def test_whoever_waits_for_an_event_learns_that_the_consumer_ended(sqlite_store, serve, run, how):
    scripts = {
        "ended": serving(history(2), close=True),
        "stopped": serving(history(2)),
        "failed": sending(b"AHEAD 0\n"),
    }
    async with (
        serve(scripts[how]) as publisher,
        run(publisher.url, sqlite_store, once=how == "ended") as running,
    ):
        waiting = asyncio.create_task(running.consumer.wait_for(7))
        await publisher.session(0)
        if how == "stopped":
            await running.stop()
        await asyncio.wait({running.task})
        with pytest.raises(ConsumerError, match="event 7"):
            await waiting
        with pytest.raises(ConsumerError, match="event 8") as raised:
            await running.consumer.wait_for(8)
        assert isinstance(raised.value.__cause__, CursorAhead if how == "failed" else NoneType)
        assert ("the cursor is at" in str(raised.value)) == (how == "failed")


async def test_an_event_that_was_committed_can_be_waited_for_after_the_end(sqlite_store, serve, run):
    async with (
        serve(serving(history(2), close=True)) as publisher,
        run(publisher.url, sqlite_store, once=True) as running,
    ):
        await running.end()
        await running.consumer.wait_for(1)


async def test_waiting_can_be_cancelled(sqlite_store, serve, run):
    async with serve(serving(history(2))) as publisher, run(publisher.url, sqlite_store) as running:
        waiting = asyncio.create_task(running.consumer.wait_for(1_000))
        await running.consumer.wait_for(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
