"""The examples and what `docs/handlers.md` shows run, on both databases."""

import asyncio
import importlib.util
import re
from types import ModuleType

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from consumer.core.errors import HandlerFailed, Retry
from consumer.core.outcome import Outcome
from consumer.store.transaction import Store

from .helpers import ROOT, Stored, check_nothing_is_left, execute, holding, rows, stored, stream

EXAMPLES = ["stock_core", "stock_orm"]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stock(events: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    return [(1, sum(delta for _, delta in events), sum(-delta for _, delta in events if delta < 0))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_keeps_its_stock_however_the_events_are_cut(url, name) -> None:
    example = load(name)
    example.prepare(url)
    events = stream(1500)
    with Store(url) as store:
        store.resume()
        position = 0
        for size in (1, 2, 0, 7, 1000, 490):
            batch = events[max(0, position - 3) : position + size]  # some of them again
            assert store.apply(batch, example.handler).error is None
            position += size
            assert rows(url, "SELECT machine, pieces, sold FROM stock") == stock(events[:position])
    example.prepare(url)  # it is there already
    assert rows(url, "SELECT machine, pieces, sold FROM stock") == stock(events)


class Publisher:
    """Any publisher: it sends what comes after the cursor, waits for the acknowledgements, and closes."""

    def __init__(self, events: list[tuple[int, int]]) -> None:
        self.events = events
        self.resumed: list[int] = []
        self.acked: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            last = int((await reader.readline()).removeprefix(b"RESUME "))
            self.resumed.append(last)
            for seq, delta in self.events[max(0, last - 4) :]:  # the last ones again
                writer.write(b"EVENT %d %d\n" % (seq, delta))
            while not self.acked or self.acked[-1] != self.events[-1][0]:
                self.acked.append(int((await reader.readline()).removeprefix(b"ACK ")))
        finally:
            writer.close()


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_consumes_from_a_socket_and_goes_on_where_it_was(url, name, patience_s) -> None:
    example = load(name)
    events = stream(500)
    publisher = Publisher(events[:200])
    async with await asyncio.start_server(publisher.serve, "127.0.0.1", 0) as server:
        address = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for count in (200, 500):
            publisher.events = events[:count]
            async with asyncio.timeout(patience_s):
                await asyncio.to_thread(example.main, address, url, once=True)
            assert rows(url, "SELECT machine, pieces, sold FROM stock") == stock(events[:count])
    assert publisher.resumed == [-1, 199]
    assert publisher.acked[-1] == 499
    assert stored(url).last == 499
    check_nothing_is_left(url, patience_s)


# --- docs/handlers.md ----------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "handlers.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block(begins: str) -> dict[str, object]:
    """The names of the block of the page in which a line begins like this."""
    [source] = [text for text in BLOCKS if re.search(rf"^{re.escape(begins)}", text, re.MULTILINE)]
    names: dict[str, object] = {}
    exec(compile(source, "docs/handlers.md", "exec"), names)
    return names


EVENTS = [(seq, delta) for seq, delta in stream(5)]


@pytest.fixture
def tables(url) -> None:
    execute(
        url,
        "CREATE TABLE stock(machine INTEGER PRIMARY KEY, pieces INTEGER NOT NULL, sold INTEGER NOT NULL)",
        "INSERT INTO stock VALUES (1, 0, 0)",
        "CREATE TABLE outbox(seq INTEGER PRIMARY KEY, text VARCHAR(100) NOT NULL)",
        "CREATE TABLE sales(seq INTEGER PRIMARY KEY, pieces INTEGER NOT NULL)",
    )


def check_page(store: Store, handler: object) -> None:
    assert store.apply(EVENTS[:2], handler) == Outcome(2, 2, 1, None)
    assert store.apply(EVENTS, handler) == Outcome(5, 3, 4, None)


def test_the_pages_first_handler(store, url, tables) -> None:
    check_page(store, block("def keep_stock")["keep_stock"])
    assert rows(url, "SELECT pieces FROM stock") == [(sum(delta for _, delta in EVENTS),)]


def test_the_pages_rows_in_bulk(store, url, tables) -> None:
    check_page(store, block("def record_sales")["record_sales"])
    assert rows(url, "SELECT seq, pieces FROM sales ORDER BY seq") == [
        (seq, -delta) for seq, delta in EVENTS if delta < 0
    ]


def test_the_pages_session(store, url, tables) -> None:
    check_page(store, block("def with_a_session")["with_a_session"])
    assert rows(url, "SELECT pieces FROM stock") == [(sum(delta for _, delta in EVENTS),)]


def test_the_pages_outbox(store, url, tables) -> None:
    check_page(store, block("def announce")["announce"])
    assert [seq for (seq,) in rows(url, "SELECT seq FROM outbox ORDER BY seq")] == [
        seq for seq, delta in EVENTS if delta <= -990
    ]


def test_the_pages_retry(store, url, tables) -> None:
    names = block("def only_when_open")
    names["is_open"] = lambda: False
    with pytest.raises(Retry):
        store.apply(EVENTS, names["only_when_open"])
    assert stored(url) == holding([])
    names["is_open"] = lambda: True
    check_page(store, names["only_when_open"])


def test_the_pages_savepoint(store, url, tables) -> None:
    execute(url, "INSERT INTO sales VALUES (3, 7)")
    check_page(store, block("def once_each")["once_each"])
    assert [seq for (seq,) in rows(url, "SELECT seq FROM sales ORDER BY seq")] == [0, 1, 2, 3, 4]


def test_the_page_shows_nothing_that_is_not_run_here() -> None:
    assert len(BLOCKS) == 6  # each has its test above


def test_a_session_that_is_not_committed_leaves_nothing_as_the_page_warns(store, url, tables) -> None:
    def forgetful(connection: Connection, events: list[tuple[int, int]]) -> None:
        with Session(connection) as session:
            session.execute(text("UPDATE stock SET pieces = 77"))

    assert store.apply(EVENTS, forgetful) == Outcome(5, 5, 4, None)
    assert rows(url, "SELECT pieces FROM stock") == [(0,)]


def test_the_pages_failure(store, url, tables) -> None:
    def failing(connection: Connection, events: list[tuple[int, int]]) -> None:
        if any(seq == 3 for seq, _ in events):
            raise ValueError("no such machine")

    outcome = store.apply(EVENTS, failing)
    assert isinstance(outcome.error, HandlerFailed)
    [line] = re.findall(r"^consumer: (.*)$", PAGE, re.MULTILINE)
    assert line == str(outcome.error)
    assert stored(url) == Stored(2, sum(delta for _, delta in EVENTS[:3]), EVENTS[:3])
