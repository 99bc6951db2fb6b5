"""The proof that a handler's effect is there exactly once: disturbed in every way, it must leave the same behind.

First it runs in peace: twice alike, and with the events cut into batches in other ways. Then the database fails at its
statements, and its process is killed at every crash point; each time another process goes on, from the same database,
with a publisher that sends again what was not acknowledged. What is in the database in the end is compared.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from consumer.core.events import Event, Events
from consumer.core.points import Point
from consumer.testing.crash import CrashPoint, Moment
from consumer.testing.proof.databases import Database, Observe, Setup
from consumer.testing.proof.difference import describe
from consumer.testing.proof.runs import Publisher, Runner
from consumer.testing.proof.tasks import Disturbance, Failed, Target, Task

EVENTS_MAX = 1000
"""How many events a proof takes: a few dozen show all that more would, in less time."""

BATCH = 3
"""The size of the batches in which things happen. Those of other sizes are one event each, and all of them."""

FAILURES = 6
"""At how many of the handler's first statements the database fails, one at a time; and at a middle and the last one."""

RUN_LIMIT_S = 30.0
"""How long one run may take, unless the caller says otherwise."""

LINES_MAX = 12
"""How many lines say what differs."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a proof has done.

    Attributes:
        kills: the crash points where the process was killed, with the time of passing it, counted from 1.
        failures: at which of the handler's statements the database failed, counted from 1.
        batches: the sizes of the batches that were tried.
        seconds: how long it took.
    """

    kills: tuple[tuple[CrashPoint, int], ...]
    failures: tuple[int, ...]
    batches: tuple[int, ...]
    seconds: float


def assert_exactly_once(
    handler: str | Callable[..., None],
    events: Sequence[Event],
    url: str,
    *,
    observe: Observe | None = None,
    setup: Setup | None = None,
    limit_s: float = RUN_LIMIT_S,
) -> Proof:
    """Prove that a handler's effect is there exactly once, whatever happens while it is being made.

    Args:
        handler: `handler(connection, events)`, by its name `package.module:function` or as a function of a module; it
            is run in other processes.
        events: `(seq, delta)` tuples, consecutive from 0 on, at most a thousand.
        url: a database of the test's own, whose store has seen no event. Whatever is in it stands there at the
            beginning of each run, and in the end.
        observe: called with a connection after each run; what it returns must be equal each time. Without it that is
            all the rows of all tables but ours.
        setup: called with a connection before each run, in a transaction: makes the tables and rows that the handler
            needs, and puts back what `observe` looks at outside of the database.
        limit_s: how long one run may take, in seconds.

    Returns:
        What was done.

    Raises:
        AssertionError: the effect is not there exactly once; the message says after what, and what differs.
        ValueError: the handler cannot be loaded, the events cannot be used, or the database is not the test's own.
        ConsumerError, sqlalchemy.exc.DBAPIError: the database cannot be used.
    """
    events = _checked(events)
    target = _target(handler, url)
    with Database(url, setup, observe) as database, Runner(*target) as runner:
        return _Prover(runner, database, events, limit_s).prove()


def _checked(events: Sequence[Event]) -> list[Event]:
    events = [(seq, delta) for seq, delta in events]
    known = Events.if_valid(events) if 0 < len(events) <= EVENTS_MAX else None
    if known is None or not known.continue_after(-1):
        raise ValueError(f"give 1 to {EVENTS_MAX} valid events, consecutive from 0 on")
    return events


def _target(handler: str | Callable[..., None], url: str) -> tuple[Target, list[str]]:
    """Say where a handler is, and which folder to look in first."""
    if isinstance(handler, str):
        module, colon, name = handler.partition(":")
        if not (module and colon and name):
            raise ValueError(f"a handler's name is package.module:function, not {handler!r}")
        return Target(module, name, None, url), [os.getcwd()]  # noqa: PTH109 - a string
    module, name = getattr(handler, "__module__", ""), getattr(handler, "__qualname__", "")
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not name or found is not handler:
        raise ValueError(f"{handler!r} cannot be found by another process: give a function of a module, or its name")
    return Target(module, name, getattr(sys.modules[module], "__file__", None), url), []


@dataclass(slots=True)
class _Prover:
    runner: Runner
    database: Database
    events: list[Event]
    limit_s: float
    kills: list[tuple[CrashPoint, int]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    expected: object = None
    statements: int = 0

    def prove(self) -> Proof:
        began = time.monotonic()
        size = min(BATCH, max(1, len(self.events) // BATCH))  # at least three batches, where there are three events
        self.statements = self._run("a run that nothing disturbs", size)
        self.expected = self._look("a run that nothing disturbs")
        self._compare("a second run that nothing disturbs: the handler does not do the same every time", size)
        batches = sorted({1, BATCH, len(self.events)} - {size})
        for other in batches:
            self._compare(f"batches of {other} instead of {size}: the effect depends on where batches are cut", other)
        for times in sorted({*range(1, min(FAILURES, self.statements) + 1), *_some(self.statements)}):
            self._fail_at(times, size)
        for point in self._points():
            passed = self.statements if point is Moment.HANDLER_STATEMENT else -(-len(self.events) // size)
            for times in _some(passed):
                self._kill_at(point, times, size)
        return Proof(tuple(self.kills), tuple(self.failures), tuple(sorted({size, *batches})), time.monotonic() - began)

    def _points(self) -> Iterator[CrashPoint]:
        yield from Point
        yield Moment.HANDLER_STATEMENT
        if self.runner.dies_in_calls:
            yield Moment.IN_COMMIT

    def _fail_at(self, times: int, size: int) -> None:
        what = f"a failure of the database at {Moment.HANDLER_STATEMENT}, statement {times}"
        self._compare(what, size, Disturbance(Moment.HANDLER_STATEMENT, times, kills=False))
        self.failures.append(times)

    def _kill_at(self, point: CrashPoint, times: int, size: int) -> None:
        unit = "statement" if point is Moment.HANDLER_STATEMENT else "batch"
        what = f"SIGKILL at {point}, {unit} {times}, and another process that went on"
        self._compare(what, size, Disturbance(point, times))
        self.kills.append((point, times))

    def _compare(self, what: str, size: int, disturbance: Disturbance | None = None) -> None:
        self._run(what, size, disturbance)
        lines = describe(self.expected, self._look(what))
        if lines:
            more = ["…"] if len(lines) > LINES_MAX else []
            raise AssertionError("\n  ".join([f"not exactly once, after {what}", *lines[:LINES_MAX], *more]))

    def _run(self, what: str, size: int, disturbance: Disturbance | None = None) -> int:
        """Run from the beginning to the end, in as many processes as it takes, and count the handler's statements."""
        self.database.begin()
        publisher = Publisher(self.events, size)
        task = Task("", size, self.limit_s, disturbance)
        report = self.runner.run(task, publisher)
        if report is None:
            report = self.runner.run(Task("", size, self.limit_s, None), publisher)
        elif disturbance is not None and disturbance.kills and not isinstance(report, Failed):
            raise AssertionError(f"not exactly once: {what}: it never came there; the handler is not always the same")
        if isinstance(report, Failed):
            raise AssertionError(f"not exactly once: {what} came to nothing\n  {report.reason}")
        if report is None or not publisher.is_done:
            raise AssertionError(f"not exactly once: {what}: only {publisher.acked} events were acknowledged")
        return report.statements

    def _look(self, what: str) -> object:
        found, ledger = self.database.look()
        if ledger != self.events:
            raise AssertionError(
                f"not exactly once, after {what}: the ledger is not what was sent; it is not to be changed"
            )
        return found


def _some(count: int) -> list[int]:
    """The first, one in the middle and the last of so many."""
    return sorted({1, (count + 1) // 2, count}) if count else []
