"""Crash points by name: turn one into an exception, or into the death of the process.

Those of the store, the feed and the migrations are `consumer.core.points`: plain calls of a function that does nothing,
which is replaced here for as long as a test wants. Two more need no call in the production path at all.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sqlalchemy import Connection, Engine, event

from consumer.core import points
from consumer.core.points import MigrationPoint, Point
from consumer.store.databases.base import IN_HANDLER
from consumer.testing.proof.syscalls import ANSWER, SYNC, die_in_next


class Moment(StrEnum):
    """Places that nothing in the production path has to pass by."""

    HANDLER_STATEMENT = "handler_statement"
    """Before a statement that the handler sends through its connection, savepoints left out."""

    IN_COMMIT = "in_commit"
    """Inside COMMIT. SQLite: entering its first sync. PostgreSQL: it was sent, and the answer is being waited for.

    SQLite has written all of the commit by then, but for the first one in a new log, which syncs the log's head before.
    """


CrashPoint: TypeAlias = Point | MigrationPoint | Moment

How: TypeAlias = BaseException | type[BaseException] | signal.Signals
"""An exception to raise, or `signal.SIGKILL`."""


_SAVEPOINTS = ("SAVEPOINT ", "RELEASE ", "ROLLBACK TO ")


@dataclass(slots=True)
class Crash:
    """What has become of a crash point.

    Attributes:
        point: which.
        times: at which time of passing it the crash happens.
        passed: how often it was passed.
    """

    point: CrashPoint
    times: int
    passed: int = 0

    @property
    def has_happened(self) -> bool:
        """Whether the exception was raised."""
        return self.passed >= self.times


def find_point(name: str) -> CrashPoint:
    """Find a crash point by its name.

    Raises:
        ValueError: there is none; the message names all.
    """
    for kind in (Point, MigrationPoint, Moment):
        if name in list(kind):
            return kind(name)
    raise ValueError(f"{name!r} is no crash point; there are {', '.join((*Point, *MigrationPoint, *Moment))}")


@contextmanager
def crash_at(point: str, how: How, *, times: int = 1) -> Iterator[Crash]:
    """Crash at a point, in this process.

    Args:
        point: a member of `Point`, `MigrationPoint` or `Moment`, or its name.
        how: an exception, which is raised there once; or `signal.SIGKILL`, which kills the process that calls this, so
            call it in a child. `Moment.IN_COMMIT` takes SIGKILL only.
        times: at which time of passing the point, counted from 1.

    Yields:
        What becomes of it.

    Raises:
        ValueError: there is no such point, it cannot be that, or `times` is below 1.
    """
    crash = Crash(find_point(point), times)
    if times < 1:
        raise ValueError("times is counted from 1")
    if isinstance(how, signal.Signals) and how is not signal.SIGKILL:
        raise ValueError("a crash is an exception or SIGKILL")
    if crash.point is Moment.IN_COMMIT and not isinstance(how, signal.Signals):
        raise ValueError("inside COMMIT a process can only be killed")
    lock = threading.Lock()  # the feed's points and the store's are passed in two threads

    def passes(is_it: bool) -> bool:
        with lock:
            crash.passed += is_it
            return is_it and crash.passed == times

    hook = _on_statement if crash.point is Moment.HANDLER_STATEMENT else _on_point
    with hook(crash.point, how, passes):
        yield crash


@contextmanager
def _on_point(crash_point: CrashPoint, how: How, passes: Callable[[bool], bool]) -> Iterator[None]:
    previous = points.reach
    awaited = Point.BEFORE_COMMIT if crash_point is Moment.IN_COMMIT else crash_point

    def reach(point: Point | MigrationPoint) -> None:
        previous(point)
        if passes(point is awaited):
            if awaited is crash_point:
                _crash(how)
            else:
                die_in_next((*SYNC, *ANSWER))

    points.reach = reach
    try:
        yield
    finally:
        points.reach = previous


@contextmanager
def _on_statement(_: CrashPoint, how: How, passes: Callable[[bool], bool]) -> Iterator[None]:
    def before(connection: Connection, _: object, statement: str, *__: object) -> None:
        if passes(is_of_handler(connection, statement)):
            _crash(how)

    event.listen(Engine, "before_cursor_execute", before)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", before)


def is_of_handler(connection: Connection, statement: str) -> bool:
    """Say whether this is a handler's statement; one that only sets or ends a savepoint is not counted as one."""
    return bool(connection.info.get(IN_HANDLER, False)) and not statement.startswith(_SAVEPOINTS)


def _crash(how: How) -> None:
    if isinstance(how, signal.Signals):
        os.kill(os.getpid(), how)
    else:
        raise how
