"""What `consumer run` shows on a terminal while it works."""

import pytest

from consumer.cli import live
from consumer.cli.live import LiveLine
from consumer.observe.observations import Committed, Connected


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes when it is told to."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(live.time, "monotonic", lambda: Clock.now)
    return Clock


def commit(line: LiveLine, acked: int, *, new: int | None = None, seconds: float = 0.0) -> None:
    line(Committed(acked if new is None else new, acked, 0, 0, seconds))


def test_the_rate_is_over_the_time_that_has_passed(clock):
    line = LiveLine()
    line(Connected("tcp://h:1", -1))
    clock.now += 1.2
    commit(line, 32_099, seconds=1.2)
    assert "26,749 events/s" in line.__rich__().plain


def test_the_rate_is_over_the_last_seconds_where_more_have_passed(clock):
    line = LiveLine()
    for _ in range(20):
        clock.now += 1
        commit(line, 10, seconds=1)
    assert "10 events/s" in line.__rich__().plain
    clock.now += live.RATE_WINDOW_S + 1
    assert " 0 events/s" in line.__rich__().plain


def test_a_consumer_that_gets_what_another_has_committed_is_at_work_too(clock):
    line = LiveLine()
    clock.now += 2
    commit(line, 100, new=0, seconds=2)
    assert "50 events/s" in line.__rich__().plain


def test_a_first_commit_that_took_no_time_is_no_reason_to_divide_by_zero(clock):
    line = LiveLine()
    assert " 0 events/s" in line.__rich__().plain
    commit(line, 1)
    assert " 4 events/s" in line.__rich__().plain
