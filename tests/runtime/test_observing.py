"""What a running consumer reports, and what its log says without any observer."""

import asyncio
import logging
import threading

import pytest

from consumer.core.errors import CursorAhead, HandlerFailed
from consumer.observe.observations import Committed, Failed, Stalled
from consumer.runtime import calls
from consumer.runtime.consumer import Consumer

from .databases import check_store, read_last
from .scripted import history, playing, sending, serving


async def test_a_call_that_does_not_return_is_told_of_again_and_again(store, store_url, serve, run, monkeypatch):
    monkeypatch.setattr(calls, "STALL_S", 0.01)
    entered, leave = threading.Event(), threading.Event()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait()

    async with serve(serving(history(3))) as publisher, run(publisher.url, store, handler) as running:
        try:
            await asyncio.to_thread(entered.wait)
            told = len(running.watch.of(Stalled))  # of the calls before
            waited_s = [(await running.watch.until(Stalled, told + count)).seconds for count in (1, 2, 3)]
        finally:
            leave.set()
        assert [waited_s[1] - waited_s[0], waited_s[2] - waited_s[1]] == pytest.approx([0.01, 0.01])
        await running.consumer.wait_for(2)
    check_store(store_url, history(3))


async def test_a_consumer_that_has_nothing_to_do_is_not_stalled(sqlite_store, serve, run, monkeypatch):
    monkeypatch.setattr(calls, "STALL_S", 0.0)  # it looks at each turn of the loop
    async with serve(serving(history(3))) as publisher, run(publisher.url, sqlite_store) as running:
        await running.consumer.wait_for(2)
        told = len(running.watch.of(Stalled))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(running.watch.of(Stalled)) == told


async def test_the_error_that_ends_it_is_reported_before_it_is_raised(sqlite_store, serve, run):
    async with serve(sending(b"AHEAD 0\n")) as publisher, run(publisher.url, sqlite_store) as running:
        with pytest.raises(CursorAhead) as raised:
            await running.end()
    assert [failed.error for failed in running.watch.of(Failed)] == [raised.value]


# --- the log -------------------------------------------------------------------------------------


async def test_without_observers_it_writes_log_lines(sqlite_store, serve, caplog):
    caplog.set_level(logging.INFO, logger="consumer")
    async with serve(serving(history(3), close=True)) as publisher:
        await Consumer(publisher.url, sqlite_store, once=True).run()
        assert [(record.name, record.getMessage()) for record in caplog.records] == [
            ("consumer", f"connected to {publisher.url}, resuming after -1"),
            ("consumer", f"{publisher.url} closed the connection"),
        ]


async def test_whoever_gives_observers_has_only_these(sqlite_store, serve, caplog):
    caplog.set_level(logging.INFO, logger="consumer")
    async with serve(serving(history(3), close=True)) as publisher:
        await Consumer(publisher.url, sqlite_store, once=True, observers=[]).run()
    assert not caplog.records


@pytest.mark.usefixtures("impatient")
async def test_where_a_handler_has_failed_is_in_the_log(store, serve, caplog):
    def ring_up() -> None:
        raise LookupError("no such slot")

    def handler(connection, events) -> None:
        ring_up()

    async with serve(serving(history(3))) as publisher:
        with pytest.raises(HandlerFailed):
            await Consumer(publisher.url, store, handler).run()
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.event == "handler_failed"
    assert "in ring_up" in caplog.text


async def test_a_failure_while_it_is_stopped_is_in_the_log(sqlite_store, serve, caplog):
    """Nobody else says so: the stop itself goes well."""
    entered, leave = threading.Event(), threading.Event()

    def handler(connection, events) -> None:
        entered.set()
        leave.wait()
        raise TimeoutError("the till did not answer")

    async with serve(serving(history(3))) as publisher:
        consumer = Consumer(publisher.url, sqlite_store, handler)
        running = asyncio.create_task(consumer.run())
        await asyncio.to_thread(entered.wait)
        consumer.stop()
        leave.set()
        await running
    assert [record.event for record in caplog.records] == ["failed_at_stop"]
    assert "the till did not answer" in caplog.text


def test_an_observer_may_end_the_process(sqlite_store, sqlite_url, patience_s):
    """As `sys.exit` does everywhere: it is no failure of an observer. What was committed stays acknowledged."""
    acks: list[int] = []

    def leaves(observation) -> None:
        if isinstance(observation, Committed):
            raise SystemExit(3)

    async def main() -> None:
        async with asyncio.timeout(patience_s), playing(serving(history(3))) as publisher:
            try:
                await Consumer(publisher.url, sqlite_store, observers=[leaves]).run()
            finally:
                await publisher.sessions[0].has_left.wait()
                acks.extend(publisher.sessions[0].acks)

    with pytest.raises(SystemExit) as raised:
        asyncio.run(main())
    assert raised.value.code == 3
    assert acks == list(range(read_last(sqlite_url) + 1))
    assert acks
