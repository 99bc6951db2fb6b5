"""The sink that writes log lines: what each says, and the facts that come with it."""

import logging

import pytest
from sqlalchemy.exc import OperationalError

from consumer.core.errors import Conflict, HandlerFailed
from consumer.observe import log
from consumer.observe.log import LogSink
from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    Failed,
    FailedAtStop,
    Retrying,
    Stalled,
)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes when it is told to."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(log.time, "monotonic", lambda: Clock.now)
    return Clock


def handler_failed() -> HandlerFailed:
    """As the store makes one."""

    def ring_up(price: object) -> None:
        raise LookupError(f"no such\nslot: {price}")

    try:
        ring_up(7)
    except LookupError as error:
        failed = HandlerFailed(5, "LookupError: no such slot: 7")
        failed.__cause__ = error
    return failed


def test_connections_and_failures_are_written_in_one_line_each(caplog) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink()
    sink(Connected("tcp://h:1", -1))
    sink(Disconnected("tcp://h:1", "was silent for 30 s"))
    sink(Disconnected("tcp://h:1", "closed without a word", is_doubtful=True))
    sink(Retrying(ConnectionResetError("gone\n  away"), 2.345))
    sink(Retrying(OperationalError("SELECT 1", {}, Exception("no\nserver")), 0.0))
    sink(Retrying(OperationalError("SELECT 1", {}, TimeoutError()), 0.0))
    sink(Retrying(EOFError(), 0.0))
    sink(FailedAtStop(ConnectionResetError("gone\n  away")))
    sink(Stalled(60.0))
    assert lines(caplog) == [
        ("INFO", "connected to tcp://h:1, resuming after -1"),
        ("INFO", "tcp://h:1 was silent for 30 s"),
        ("WARNING", "tcp://h:1 closed without a word"),
        ("WARNING", "gone away; trying again in 2.3 s"),
        ("WARNING", "the database: no server; trying again in 0.0 s"),
        ("WARNING", "the database: TimeoutError; trying again in 0.0 s"),
        ("WARNING", "EOFError; trying again in 0.0 s"),
        ("WARNING", "what was under way at the stop failed: gone away"),
        ("WARNING", "neither the database nor the handler has answered for 60 s"),
    ]


def test_each_line_comes_with_the_name_of_what_has_happened_and_its_facts(caplog, clock) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink()
    sink(Connected("tcp://h:1", 4))
    sink(Disconnected("tcp://h:1", "closed"))
    sink(Retrying(EOFError("gone"), 2.345))
    sink(FailedAtStop(EOFError()))
    sink(Stalled(60.0))
    sink(Failed(handler_failed()))
    sink(Committed(0, 1, 9, 12, 20.0))
    assert [(record.event, record.fields) for record in caplog.records] == [
        ("connected", {"address": "tcp://h:1", "last": 4}),
        ("disconnected", {"address": "tcp://h:1", "reason": "closed"}),
        ("retrying", {"error": "EOFError", "reason": "gone", "wait_s": 2.345}),
        ("failed_at_stop", {"error": "EOFError", "reason": "EOFError"}),
        ("stalled", {"seconds": 60.0}),
        ("handler_failed", {"seq": 5, "reason": "LookupError: no such slot: 7"}),
        ("progress", {"last": 9, "total": 12, "events_per_s": 0.1}),
    ]


def test_the_handlers_own_traceback_is_in_the_log(caplog) -> None:
    LogSink()(Failed(handler_failed()))
    assert "the handler failed at event 5" in caplog.text
    assert "in ring_up" in caplog.text
    assert "HandlerFailed" not in caplog.text  # where we have raised it helps nobody


def test_another_error_that_ends_the_consumer_is_reported_by_whoever_runs_it(caplog) -> None:
    LogSink()(Failed(Conflict(1, 2, 3)))
    assert lines(caplog) == []


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_what_is_tried_again_has_a_traceback_for_those_who_debug(caplog, level) -> None:
    caplog.set_level(level)
    LogSink()(Retrying(handler_failed(), 1.0))
    assert ("in ring_up" in caplog.text) == (level == logging.DEBUG)


def test_progress_is_written_now_and_then_with_the_rate_over_the_time_that_has_passed(caplog, clock) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink()
    clock.now += 1000  # until there was something to consume
    for seconds, acked, last in [
        (4, 100, 99),
        (9.9, 100, 199),
        (0.1, 300, 499),
        (9, 10, 509),
        (1, 10, 519),
        (20, 1, 520),
    ]:
        clock.now += seconds
        sink(Committed(0, acked, last, 0, 0.0))
    assert lines(caplog) == [
        ("INFO", "at event 499, 50 events/s"),
        ("INFO", "at event 519, 2 events/s"),
        ("INFO", "at event 520, 0 events/s"),
    ]


def test_the_time_of_the_first_commit_counts(caplog, clock) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink()
    clock.now += 1000
    sink(Committed(200, 200, 199, 0, 10.0))
    assert lines(caplog) == [("INFO", "at event 199, 20 events/s")]


def test_of_two_consumers_of_one_store_both_are_at_work(caplog, clock) -> None:
    """What the other one has committed is acknowledged by this one as well."""
    caplog.set_level(logging.INFO)
    LogSink()(Committed(0, 200, 199, 0, 10.0))
    assert lines(caplog) == [("INFO", "at event 199, 20 events/s")]


def test_the_sink_writes_where_it_is_told(caplog) -> None:
    logger = logging.getLogger("of.its.own")
    caplog.set_level(logging.INFO, logger=logger.name)
    LogSink(logger)(Connected("tcp://h:1", 4))
    assert [record.name for record in caplog.records] == ["of.its.own"]
