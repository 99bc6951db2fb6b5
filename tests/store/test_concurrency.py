"""Several consumers of one store at the same time, some killed: nothing lost, nothing twice, nothing fenced for nothing."""

import os
import random
import signal

import pytest
from sqlalchemy.exc import OperationalError

from consumer.core.errors import Fenced
from consumer.core.outcome import Outcome, State
from consumer.core.points import Point
from consumer.store.databases.choice import is_busy
from consumer.store.pair import Pair
from consumer.store.retry import Patience, patience
from consumer.store.schema import NOTHING_YET
from consumer.store.transaction import Store

from .helpers import (
    Running,
    add_trigger,
    at,
    begin,
    execute,
    holding,
    is_sqlite,
    record,
    remove_trigger,
    rows,
    stored,
    stream,
    waiting_for,
    workers,
)

COUNT = 3000


@pytest.mark.parametrize(("number", "victims"), [(2, 1), (4, 2)])
def test_consumers_in_several_processes_apply_everything_once(url, number, victims, patience_s) -> None:
    chance = random.Random(number * 10 + victims)
    arguments = [(url, COUNT, chance.choice([7, 40, 150])) for _ in range(number)]
    with workers(*arguments) as processes:
        for process in processes:
            begin(process)
        for victim in processes[:victims]:  # after some of its batches, wherever it then is
            for _ in range(chance.randint(1, 8)):
                victim.stdout.readline()
            os.kill(victim.pid, signal.SIGKILL)
        ends = [process.communicate(timeout=2 * patience_s) for process in processes]
    for process, (out, err) in list(zip(processes, ends, strict=True))[victims:]:
        assert process.returncode == 0, err
        assert out.split()[-1] == str(COUNT - 1)  # everyone acknowledges everything
    assert stored(url) == holding(stream(COUNT), handled=True)


@pytest.mark.parametrize("number", [2, 4])
def test_consumers_in_several_threads_apply_everything_once(url, number, patience_s) -> None:
    events = stream(400)

    def consume(batch: int) -> int:
        handled = 0
        with Store(url) as store:
            store.resume()
            for start in range(0, len(events), batch):
                outcome = store.apply(events[start : start + batch], record)
                assert outcome.error is None
                assert outcome.acked == len(events[start : start + batch])
                handled += outcome.new
        return handled

    running = [Running(lambda batch=batch: consume(batch)) for batch in [10, 40, 25, 8][:number]]
    for one in running:
        one.ended(2 * patience_s)
    assert [one.error for one in running] == [None] * number
    assert sum(one.result for one in running) == len(events)
    assert stored(url) == holding(events, handled=True)


def test_the_second_waits_for_the_first_and_finds_its_events_there(url, patience_s) -> None:
    events = stream(10)
    with Store(url) as first, Store(url) as second:
        others: list[Running] = []

        def begin_second() -> None:
            others.append(Running(lambda: second.apply(events, record)))
            if not is_sqlite(url):  # SQLite tells nobody who waits
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                assert any(rows(url, waits) for _ in waiting_for(patience_s))

        with at(Point.BEFORE_COMMIT, begin_second):
            assert first.apply(events, record) == Outcome(10, 10, 9, None)
        others[0].ended(patience_s)
        assert others[0].result == Outcome(10, 0, 9, None)
    assert stored(url) == holding(events, handled=True)


# --- fencing -------------------------------------------------------------------------------------


MEDDLING = {
    "the cursor is moved behind the lock": (
        "ledger",
        "BEFORE INSERT",
        "WHEN NEW.seq = 4 BEGIN UPDATE checkpoint SET last = last + 5; END",
        "IF NEW.seq = 4 THEN UPDATE checkpoint SET last = last + 5; END IF; RETURN NEW;",
    ),
    "a ledger row is ignored": (
        "ledger",
        "BEFORE INSERT",
        "WHEN NEW.seq = 4 BEGIN SELECT RAISE(IGNORE); END",
        "IF NEW.seq = 4 THEN RETURN NULL; END IF; RETURN NEW;",
    ),
    "the checkpoint's update is ignored": (
        "checkpoint",
        "BEFORE UPDATE",
        "WHEN NEW.last <> OLD.last BEGIN SELECT RAISE(IGNORE); END",
        "IF NEW.last <> OLD.last THEN RETURN NULL; END IF; RETURN NEW;",
    ),
}


@pytest.mark.parametrize("size", [7, 1500])
@pytest.mark.parametrize("meddling", MEDDLING)
def test_whoever_meddles_with_the_store_fences_it_off(store, url, meddling, size) -> None:
    events = stream(size)
    store.apply(events[:3], record)
    table, *trigger = MEDDLING[meddling]
    add_trigger(url, table, *trigger)
    try:
        with pytest.raises(Fenced) as raised:
            store.apply(events[3:], record)
    finally:
        remove_trigger(url, table)
    assert raised.value.expected == 2
    assert patience(raised.value) is Patience.THRICE
    assert stored(url) == holding(events[:3], handled=True)
    assert store.apply(events[3:], record) == Outcome(size - 3, size - 3, size - 1, None)
    assert stored(url) == holding(events, handled=True)


def test_a_consumer_whose_lock_does_not_hold_is_fenced_off(postgres_url, monkeypatch) -> None:
    """The last line of defence: the cursor that was read is no longer the one that is there."""
    events = stream(4)
    execute(postgres_url, "ALTER TABLE ledger DROP CONSTRAINT ledger_pkey")  # it would notice, too
    try:
        with Store(postgres_url) as store, Store(postgres_url) as other:
            other.apply(events[:2])
            monkeypatch.setattr(Pair, "lock", lambda *_: State(NOTHING_YET, 0))  # what was read a moment before that
            with pytest.raises(Fenced):
                store.apply(events)
        assert stored(postgres_url) == holding(events[:2])
    finally:
        execute(postgres_url, "TRUNCATE ledger", "ALTER TABLE ledger ADD CONSTRAINT ledger_pkey PRIMARY KEY (seq)")


# --- waiting for a lock --------------------------------------------------------------------------


def test_a_locked_sqlite_file_is_waited_for_and_then_is_an_error_that_passes(sqlite_url, monkeypatch) -> None:
    monkeypatch.setattr("consumer.store.databases.sqlite.BUSY_TIMEOUT_MS", 5)
    monkeypatch.setattr("consumer.store.transaction.BEGIN_TRIES", 4)
    tries: list[bool] = []
    monkeypatch.setattr("consumer.store.transaction.is_busy", lambda error: tries.append(is_busy(error)) or tries[-1])
    with Store(sqlite_url) as store, Store(sqlite_url) as other:

        def look() -> None:
            with pytest.raises(OperationalError) as raised:
                store.apply(stream(2))
            assert is_busy(raised.value)
            assert patience(raised.value) is Patience.FOREVER

        with at(Point.BEFORE_COMMIT, look):
            other.apply(stream(1))
        assert tries == [True] * 4
        assert store.apply(stream(2)) == Outcome(2, 1, 1, None)


def test_a_lock_that_is_given_back_while_it_is_waited_for_is_taken(sqlite_url, monkeypatch) -> None:
    monkeypatch.setattr("consumer.store.databases.sqlite.BUSY_TIMEOUT_MS", 5)
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        blocker = other._begin()

        def busy(error: BaseException) -> bool:
            blocker.rollback()
            return is_busy(error)

        monkeypatch.setattr("consumer.store.transaction.is_busy", busy)
        assert store.apply(stream(3)) == Outcome(3, 3, 2, None)
    assert rows(sqlite_url, "SELECT last FROM checkpoint") == [(2,)]
