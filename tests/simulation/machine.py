"""The histories: what a publisher, a network, two consumers and a disk may do, in any order.

Hypothesis chooses; a history that breaks an invariant is shortened to the few steps that matter. Everything runs in one
thread and in virtual time, so that the same steps are the same history every time.
"""

import asyncio
import copy
import logging
import os
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import tenacity.nap
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from consumer import Retry, feed, points, service
from consumer.events import Event
from consumer.points import MigrationPoint, Point
from consumer.service import Consumer
from consumer.store import Store
from consumer.testing import Moment

from .audit import Audit
from .disk import Disk
from .network import Break, Listening, Network
from .process import End, Fault, Process
from .publisher import Lie, Publisher
from .world import World

CONSUMERS = 2
"""On one database. More would not meet in other ways."""

HEALED_S = 600.0
"""How long everything may take to come right once nothing disturbs it any more: an idle timeout, and the backoff."""

UNSENT_BYTES_MAX, CHUNK_BYTES = 32, 128
"""The consumer's own limits, so small that a short history meets them."""


@cache
def made() -> tuple[Disk, list[Store]]:
    """What is dear to make, once for all histories of this process: a store, and an engine for each consumer."""
    memory = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="consumer-simulation-", dir=memory if memory.is_dir() else None)
    disk = Disk(Path(folder.name))
    disk.__dict__["folder_itself"] = folder  # removed with it
    return disk, [Store(f"sqlite:///{disk.path}") for _ in range(CONSUMERS)]


def database_error() -> OperationalError:
    """What passes by itself: the disk could not be read, or the answer did not come."""
    cause = sqlite3.OperationalError("disk I/O error")
    cause.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return OperationalError("COMMIT", {}, cause)


@contextmanager
def simulated(machine: "Simulation") -> Iterator[None]:
    """Have our code meet the simulated world, where it would meet threads, the disk and the clock."""
    put_back: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        put_back.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    replace(points, "reach", machine.reach)
    replace(service, "Worker", lambda _: machine.running())
    replace(os, "fsync", machine.disk.fsync)
    replace(tenacity.nap, "time", SimpleNamespace(sleep=lambda _: None))
    replace(feed, "UNSENT_BYTES_MAX", UNSENT_BYTES_MAX)
    replace(feed, "CHUNK_BYTES", CHUNK_BYTES)
    for name in ("consumer", "stamina"):
        replace(logging.getLogger(name), "disabled", True)
    try:
        yield
    finally:
        for owner, name, value in reversed(put_back):
            setattr(owner, name, value)


WHO = st.sampled_from([0, 0, 0, 1])
DELTAS = st.lists(st.integers(-9, 9), max_size=6)
BYTES = st.sampled_from([0, 0, 1, 7, 8, 20, 50])
IN_COMMIT = [Moment.IN_COMMIT] * 3
"""Oftener than the other places: it is what a commit that can be read and is not on the disk comes from."""


class Simulation(RuleBasedStateMachine):
    """One history."""

    figures: ClassVar[Counter[str]] = Counter()
    """What was done and checked, in all histories."""

    def __init__(self) -> None:
        super().__init__()
        self.disk, self._stores = made()
        self.disk.wipe()
        self._simulated = simulated(self)
        self._simulated.__enter__()
        self.processes: dict[int, Process] = {}
        self._failures: list[Exception] = []
        self._poison = -1

    @initialize(
        honours_resume=st.booleans(),
        window=st.sampled_from([100, 4, 1]),
        batch=st.sampled_from([100, 3, 1]),
        pace_s=st.sampled_from([0.002, 0.03, 1.0]),
        consumers=st.sampled_from([1, 1, CONSUMERS]),
        more=DELTAS,
    )
    def begin(
        self, honours_resume: bool, window: int, batch: int, pace_s: float, consumers: int, more: list[int]
    ) -> None:
        self.world = World()
        self.publisher = Publisher(honours_resume=honours_resume, window=window)
        self.audit = Audit(self.disk, self.publisher, self.figures)
        self.network = Network(self.world, self.audit)
        self.network.accept = self.publisher.accept
        self._batch = batch
        self._pace_s = pace_s
        self._database_delay_s = 0.001
        for who in range(consumers):
            self._start(who)
        self.publish(more)

    # What our code meets.

    def running(self) -> Process:
        """The process whose code is running."""
        loop = asyncio.get_running_loop()
        return next(process for process in self.processes.values() if process.loop is loop)

    def reach(self, point: Point | MigrationPoint) -> None:
        self.running().reach(point)

    def handle(self, connection: Connection, events: list[Event]) -> None:
        """The user's handler: his own table, in the same transaction."""
        for event in events:
            connection.exec_driver_sql("INSERT INTO seen VALUES (?, ?)", event)
        if any(seq == self._poison for seq, _ in events):
            self.audit.handler_failures += 1
            raise RuntimeError("poison")
        if self._failures:
            self.audit.handler_failures += 1
            raise self._failures.pop()

    # Consumers.

    def _start(self, who: int) -> None:
        store = copy.copy(self._stores[who])  # the same engine, and the memory of a new process
        consumer = Consumer("tcp://publisher:7000", store, self.handle, batch=self._batch)
        process = Process(self.world, self.network, self.disk, store, consumer, self._cut_power)
        process.database_delay_s = self._database_delay_s
        if who in self.processes:
            self.processes[who].kill(0)
        self.processes[who] = process
        self.audit.processes = list(self.processes.values())
        self.figures["starts"] += 1

    def _is_running(self, who: int) -> bool:
        return who in self.processes and self.processes[who].is_running

    def _consumer(self, who: int) -> Process:
        """A process at work: where it has ended, a new one."""
        if not self._is_running(who):
            self._start(who)
        return self.processes[who]

    @rule(who=WHO)
    def start(self, who: int) -> None:
        self._consumer(who)
        self._go_on()

    @rule(
        who=WHO,
        point=st.sampled_from([None, *Point, *IN_COMMIT]),
        times=st.integers(1, 2),
        kept_bytes=BYTES,
        with_power=st.booleans(),
        more=DELTAS,
    )
    def kill(
        self, who: int, point: Point | Moment | None, times: int, kept_bytes: int, with_power: bool, more: list[int]
    ) -> None:
        """Now, or where the process comes to a point; alone, or together with the machine."""
        process = self._consumer(who)
        if point is not None:
            process.fault = Fault(point, times, None, kept_bytes, with_power)
        elif with_power:
            self._cut_power(kept_bytes)
        else:
            process.kill(kept_bytes)
        self.publish(more)

    def _cut_power(self, kept_bytes: int = 0) -> None:
        for process in self.processes.values():
            process.kill(kept_bytes, is_silent=True)
        self.world.after_turn.append(self._take_back)  # once their files are closed

    def _take_back(self) -> None:
        self.figures["power cuts"] += 1
        self.figures["commits taken back"] += self.disk.cut_power()

    @rule(who=WHO, how=st.sampled_from(End))
    def end(self, who: int, how: End) -> None:
        self._consumer(who).end_by(how)
        self.figures["stops"] += 1
        self._go_on()

    # The database and the handler.

    @rule(
        who=WHO,
        point=st.sampled_from([Point.AFTER_LEDGER, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, *IN_COMMIT]),
        times=st.integers(1, 2),
        more=DELTAS,
    )
    def fail_in_database(self, who: int, point: Point | Moment, times: int, more: list[int]) -> None:
        self._consumer(who).fault = Fault(point, times, database_error())
        self.figures["database failures"] += 1
        self.publish(more)

    @rule(times=st.integers(1, 4), is_retry=st.booleans(), more=DELTAS)
    def fail_in_handler(self, times: int, is_retry: bool, more: list[int]) -> None:
        self._failures = [Retry("later") if is_retry else RuntimeError("once") for _ in range(times)]
        self.publish(more)

    @rule(ahead=st.integers(1, 5), more=DELTAS)
    def poison(self, ahead: int, more: list[int]) -> None:
        """Have the handler refuse an event for good."""
        self._poison = self.disk.last() + ahead
        self.publish(more)

    # The publisher.

    @rule(more=DELTAS)
    def publish(self, more: list[int]) -> None:
        self.publisher.publish(more)
        self._go_on()

    @rule(count=st.integers(1, 6), more=DELTAS)
    def send_again(self, count: int, more: list[int]) -> None:
        self.publisher.send_again(count)
        self.publish(more)

    @rule(count=st.integers(1, 10))
    def truncate(self, count: int) -> None:
        self.publisher.truncate(count)
        self._go_on()

    @rule(forgets=st.booleans())
    def restart_publisher(self, forgets: bool) -> None:
        for connection in self.network.connections:
            if connection.is_open:
                connection.break_off(Break.RESET)
        if forgets:
            self.publisher.forget()
        self.figures["publisher restarts"] += 1
        self._go_on()

    @rule(lie=st.sampled_from(Lie), more=DELTAS)
    def lie(self, lie: Lie, more: list[int]) -> None:
        self.publisher.publish(more)
        for session in self.publisher.live()[-1:]:
            if session.sent or lie is not Lie.CONFLICT:
                session.lie(lie)
                self.figures["lies"] += 1
        self._go_on()

    # The network.

    @rule(how=st.sampled_from(Break), is_down=st.booleans(), after_bytes=BYTES, more=DELTAS)
    def break_connection(self, how: Break, is_down: bool, after_bytes: int, more: list[int]) -> None:
        for connection in [connection for connection in self.network.connections if connection.is_open][-1:]:
            pipe = connection.down if is_down else connection.up
            pipe.break_after(after_bytes, partial(connection.break_off, how))
            self.figures["cuts"] += 1
        self.publish(more)

    @rule(listening=st.sampled_from(Listening))
    def listen(self, listening: Listening) -> None:
        self.network.listening = listening
        self._go_on()

    @rule(
        delay_s=st.sampled_from([0.0, 0.001, 0.04, 3.0]),
        cuts=st.lists(st.sampled_from([1, 3, 8, 21, 64, 1000]), min_size=1, max_size=3),
        database_delay_s=st.sampled_from([0.001, 0.05, 25.0]),
    )
    def weather(self, delay_s: float, cuts: list[int], database_delay_s: float) -> None:
        self.network.weather(delay_s, cuts)
        self._slow_database(database_delay_s)
        self._go_on()

    def _slow_database(self, delay_s: float) -> None:
        self._database_delay_s = delay_s
        for process in self.processes.values():
            process.database_delay_s = delay_s

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 4.0, 35.0]))
    def wait(self, seconds: float) -> None:
        self.world.run(seconds)

    def _go_on(self) -> None:
        self.world.run(self._pace_s)

    # What must be true.

    @invariant()
    def everything_is_as_it_must_be(self) -> None:
        if hasattr(self, "audit"):
            self.audit.check()
            self.figures["steps"] += 1

    def teardown(self) -> None:
        """Put everything right: a consumer must then reach the head. Not where something was found wrong before."""
        try:
            if hasattr(self, "audit") and sys.exc_info()[0] is None:
                self._heal()
        finally:
            for process in self.processes.values():
                process.kill(0)
            if self.processes:
                self.world.run(0)
            self._simulated.__exit__(None, None, None)
            self.disk.close()

    def _heal(self) -> None:
        self.network.fair()
        self._failures, self._poison = [], -1
        self._slow_database(0.001)
        for session in self.publisher.sessions:
            if session.is_over:
                session.connection.break_off(Break.RESET)
        self.publisher.publish([1])
        for _ in range(len(Lie)):  # what was under way of lies may end it a few times yet
            self._revive()
            if self._comes_right():
                break
        else:
            raise AssertionError("it does not come right")
        self.figures["histories"] += 1
        self.figures["events"] += self.disk.last() + 1

    def _revive(self) -> None:
        for who in self.processes:
            if not self._is_running(who):
                self._start(who)
            self.processes[who].fault = None

    def _comes_right(self) -> bool:
        """Whether all is consumed and acknowledged, or the history is gone and the consumers say so."""
        until = self.world.now + HEALED_S
        while self.world.now < until:
            self.world.run(5.0)
            self.everything_is_as_it_must_be()
            if not all(map(self._is_running, self.processes)):
                return self.disk.last() + 1 < self.publisher.first
            if self.disk.last() == self.publisher.head and all(map(self._has_acknowledged, self.processes.values())):
                return True
        raise AssertionError(f"{HEALED_S} s in good weather, and event {self.publisher.head} is not acknowledged")

    def _has_acknowledged(self, process: Process) -> bool:
        sessions = [session for session in self.publisher.live() if session.connection.loop is process.loop]
        return any(s.next > self.publisher.head and s.acked == len(s.sent) for s in sessions)
