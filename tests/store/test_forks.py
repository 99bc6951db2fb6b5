"""A store after a fork: its connections stay the parent's, whatever the child does."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection

from consumer.core.errors import StoreForked
from consumer.core.events import Event
from consumer.store.transaction import Store

from .forking import EVENTS
from .helpers import ROOT, holding, is_sqlite, record, rows, stored, stream


def in_a_child(work: Callable[[], object]) -> str:
    """What a call comes to in a child: what it gives, or its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = repr(work())
        except BaseException as error:  # noqa: BLE001 - nothing of this process must go on
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        return file.read()


@pytest.mark.parametrize(
    "call",
    [
        Store.state,
        Store.check_durability,
        Store.resume,
        Store.streams,
        lambda store: store.apply(stream(1, 2), record),
        lambda store: store.take_lease("a", "b"),
    ],
)
def test_a_child_is_told_that_the_store_is_its_parents(url: str, store: Store, call: Callable[[Store], object]) -> None:
    store.apply(stream(2), record)
    assert in_a_child(partial(call, store)) == f"StoreForked: {StoreForked()}"
    assert store.apply(stream(1, 2), record).last == 2
    assert store.resume() == 2
    assert stored(url) == holding(stream(3), handled=True)


def test_a_child_that_closes_it_or_stops_it_disturbs_nothing_of_its_parents(url: str, store: Store) -> None:
    def handler(connection: Connection, events: list[Event]) -> None:
        record(connection, events)
        assert in_a_child(store.interrupt) == in_a_child(store.close) == "None"

    assert store.apply(stream(2), handler).error is None
    assert store.apply(stream(1, 2), record).last == 2
    assert stored(url) == holding(stream(3), handled=True)


def test_a_store_that_has_connected_nowhere_yet_or_was_closed_can_be_used_in_a_child(url: str, store: Store) -> None:
    with Store(url) as other:
        assert in_a_child(other.resume) == "-1"
        other.resume()
        other.apply(stream(2), record)
        assert in_a_child(lambda: (other.close(), other.resume())) == "(None, 1)"
        assert other.apply(stream(1, 2), record).last == 2
    assert store.apply(stream(1, 3), record).last == 3


@pytest.mark.parametrize("how", ["return", "raise"])
def test_a_child_that_ends_inside_a_transaction_of_its_parents_takes_nothing_of_it_back(url: str, how: str) -> None:
    """On SQLite it would damage the file: the child's end takes frames out of the log's index."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.forking", url, how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"the child\n{EVENTS - 1} None\n", "")
    if is_sqlite(url):
        assert rows(url, "PRAGMA integrity_check") == [("ok",)]
    assert stored(url) == holding(stream(EVENTS), handled=True)
