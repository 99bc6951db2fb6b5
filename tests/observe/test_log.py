"""Hooks that get one frozen object, and the sink that writes log lines."""

import asyncio
import dataclasses
import logging

import pytest
from sqlalchemy.exc import OperationalError

from consumer import Consumer, Store, migrate
from consumer.observe import log as log_module
from consumer.observe.log import LogSink
from consumer.observe.observations import Committed, Connected, Disconnected, Retrying, Stalled, notify
from consumer.testing import AwaitAck, Finish, ScriptedPublisher, Serve

ALL = [
    Connected("tcp://h:1", 4),
    Committed(2, 3, 9, 100, 0.5),
    Disconnected("tcp://h:1", "silent"),
    Retrying(ValueError("no"), 1.0),
    Stalled(30.0),
]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes when it is told to."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(log_module.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.mark.parametrize("observation", ALL, ids=lambda observation: type(observation).__name__)
def test_an_observation_cannot_be_changed(observation) -> None:
    field = dataclasses.fields(observation)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(observation, field, None)


def test_every_observer_is_told_and_none_disturbs_the_others(caplog) -> None:
    told: list[object] = []

    def fails(observation: object) -> None:
        raise ValueError("an observer's own")

    notify((told.append, fails, told.append), ALL[0])
    assert told == [ALL[0], ALL[0]]
    assert lines(caplog) == [("ERROR", "an observer failed")]
    assert "an observer's own" in caplog.text


def test_connections_and_failures_are_written_in_one_line_each(caplog, clock) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink()
    sink(Connected("tcp://h:1", -1))
    sink(Disconnected("tcp://h:1", "was silent for 30 s"))
    sink(Retrying(ConnectionResetError("gone\n  away"), 2.345))
    sink(Retrying(OperationalError("SELECT 1", {}, Exception("no\nserver")), 0.0))
    sink(Retrying(EOFError(), 0.0))
    sink(Stalled(60.0))
    assert lines(caplog) == [
        ("INFO", "connected to tcp://h:1, resuming after -1"),
        ("INFO", "tcp://h:1: was silent for 30 s"),
        ("WARNING", "gone away; trying again in 2.3 s"),
        ("WARNING", "no server; trying again in 0.0 s"),
        ("WARNING", "EOFError; trying again in 0.0 s"),
        ("WARNING", "neither the database nor the handler has answered for 60 s"),
    ]


def test_progress_is_written_now_and_then_with_the_rate_since(caplog, clock) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink()
    for seconds, new, last in [
        (4, 100, 99),
        (5.9, 100, 199),
        (0.1, 300, 499),
        (9, 10, 509),
        (1, 10, 519),
        (20, 0, 519),
    ]:
        clock.now += seconds
        sink(Committed(new, new, last, 0, 0.1))
    assert lines(caplog) == [
        ("INFO", "at event 499, 50 events/s"),
        ("INFO", "at event 519, 2 events/s"),
        ("INFO", "at event 519, 0 events/s"),
    ]


def test_the_sink_writes_where_it_is_told(caplog, clock) -> None:
    logger = logging.getLogger("of.its.own")
    caplog.set_level(logging.INFO, logger=logger.name)
    LogSink(logger)(ALL[0])
    assert [record.name for record in caplog.records] == ["of.its.own"]


def test_every_line_carries_what_was_observed_for_whoever_writes_fields(caplog) -> None:
    caplog.set_level(logging.INFO, "consumer")
    sink = LogSink()
    for observation in ALL:
        sink(observation)
    written = [(record.event, record.fields) for record in caplog.records]
    assert written == [
        ("connected", {"address": "tcp://h:1", "last": 4}),
        ("disconnected", {"address": "tcp://h:1", "reason": "silent", "is_doubtful": False}),
        ("retrying", {"error": "no", "wait_s": 1.0}),
        ("stalled", {"seconds": 30.0}),
    ]


async def test_a_consumer_that_is_given_no_observers_writes_log_lines(tmp_path, caplog, patience_s) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    migrate.upgrade(url)
    caplog.set_level(logging.INFO, "consumer")
    async with ScriptedPublisher([Serve([(0, 1)]), AwaitAck(0), Finish()]) as publisher:
        with Store(url) as store:
            async with asyncio.timeout(patience_s):
                await Consumer(publisher.url, store, once=True).run()
    assert any("resuming after -1" in record.message for record in caplog.records)
