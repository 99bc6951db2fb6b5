"""What a running consumer tells of a database, or a handler, that does not answer."""

import asyncio
import threading

import pytest

from consumer.observe.observations import Stalled
from consumer.runtime import calls

from .databases import check_store
from .scripted import history, serving


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
