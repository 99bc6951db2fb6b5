"""Where a history takes place: two consumers, a publisher, a network and a disk, and what must be true of them."""

import asyncio
import copy
import sys
from collections import Counter
from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant
from sqlalchemy import Connection

from consumer.core.events import Event
from consumer.core.points import MigrationPoint, Point
from consumer.runtime.consumer import Consumer

from .audit import Audit
from .network import Break, Network
from .process import Process
from .publisher import Lie, Publisher
from .surroundings import made, simulated
from .world import World

HEALED_S = 600.0
"""How long everything may take to come right once nothing disturbs it any more: an idle timeout, and the backoff."""


class Scene(RuleBasedStateMachine):
    """A history in which nothing happens yet; `machine.py` has the rules."""

    figures: ClassVar[Counter[str]] = Counter()
    """What was done and checked, in all histories."""

    def __init__(self) -> None:
        super().__init__()
        self.disk, self._stores = made()
        self.disk.wipe()
        self._simulated = simulated(self.disk, self.running, self.reach)
        self._simulated.__enter__()
        self.processes: dict[int, Process] = {}
        self._failures: list[Exception] = []
        self._poison = -1

    def _set_up(self, publisher: Publisher, batch: int, pace_s: float) -> None:
        self.world = World()
        self.publisher = publisher
        self.audit = Audit(self.disk, publisher, self.figures)
        self.network = Network(self.world, self.audit)
        self.network.accept = publisher.accept
        self._batch = batch
        self._pace_s = pace_s
        self._database_delay_s = 0.001

    # What our code meets.

    def running(self) -> Process:
        """The process whose code is running."""
        loop = asyncio.get_running_loop()
        return next(process for process in self.processes.values() if process.loop is loop)

    def reach(self, point: Point | MigrationPoint) -> None:
        process = self.running()
        was_dead = process.is_dead
        try:
            process.reach(point)
        finally:
            self.figures["kills"] += process.is_dead and not was_dead

    def handle(self, connection: Connection, events: list[Event]) -> None:
        """The user's handler: his own table, in the same transaction."""
        connection.exec_driver_sql("INSERT INTO seen VALUES (?, ?)", events)
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

    def _cut_power(self, kept_bytes: int = 0) -> None:
        for process in self.processes.values():
            process.kill(kept_bytes, is_silent=True)
        self.world.after_turn.append(self._take_back)  # once their files are closed

    def _take_back(self) -> None:
        self.figures["power cuts"] += 1
        self.figures["commits taken back"] += self.disk.cut_power()

    def _slow_database(self, delay_s: float) -> None:
        self._database_delay_s = delay_s
        for process in self.processes.values():
            process.database_delay_s = delay_s

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
