"""What a running consumer writes into the log."""

import logging

import pytest

from consumer import observe
from consumer.errors import Retry
from consumer.observe import Committed, Connected, Disconnected, LogSink, Retrying


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="consumer")
    return caplog


def test_each_connection_and_each_failure_has_a_line(log):
    sink = LogSink()
    sink(Connected("tcp://host:7000", -1))
    sink(Disconnected("tcp://host:7000", "tcp://host:7000 was silent for 30 s"))
    sink(Retrying(Retry("the till\n  is closed"), 1.25))
    sink(Retrying(TimeoutError(), 0.0))
    assert [(record.levelname, record.getMessage()) for record in log.records] == [
        ("INFO", "connected to tcp://host:7000, resuming after -1"),
        ("INFO", "tcp://host:7000: tcp://host:7000 was silent for 30 s"),
        ("WARNING", "the till is closed; trying again in 1.2 s"),
        ("WARNING", "TimeoutError; trying again in 0.0 s"),
    ]


def test_progress_has_a_line_now_and_then_and_not_for_each_batch(log, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(observe.time, "monotonic", lambda: now_s)
    sink = LogSink()
    for last in range(5):
        sink(Committed(new=1, acked=1, last=last, total=0, seconds=0.1))
    assert not log.records
    now_s += 2 * observe.PROGRESS_INTERVAL_S
    sink(Committed(new=15, acked=15, last=19, total=0, seconds=0.1))
    sink(Committed(new=1, acked=1, last=20, total=0, seconds=0.1))
    assert [record.getMessage() for record in log.records] == ["at event 19, 1 events/s"]
