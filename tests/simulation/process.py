"""A consumer's process: our code as it is, until it ends, or is killed between two lines of it."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from consumer.core.points import MigrationPoint, Point
from consumer.runtime.consumer import Consumer
from consumer.runtime.worker import Call
from consumer.store.transaction import Store
from consumer.testing import Moment

from .disk import Disk
from .network import Network
from .world import VirtualLoop, World

AFTERLIFE_S = 10_000.0
"""How long the remains of a dead process may take, in a time of their own, to come to rest."""


class Killed(BaseException):
    """The process is dead. Nothing that it still does has any effect."""


class End(StrEnum):
    """How a process is told to end."""

    STOP = "stop"
    STOP_BY_FORCE = "stop by force"
    CANCEL = "cancel"


@dataclass
class Fault:
    """What happens where a point is passed for the n-th time.

    Attributes:
        point: where. `Moment.IN_COMMIT`: what is committed can be read, and nothing of it is synced.
        times: how often it is still to be passed.
        error: what the database raises there; None where the process is killed.
        with_power: the whole machine goes with it.
        kept_bytes: how much of what the system was given to send still arrives.
    """

    point: Point | Moment
    times: int
    error: Exception | None = None
    kept_bytes: int = 0
    with_power: bool = False

    @property
    def is_in_commit(self) -> bool:
        return self.point is Moment.IN_COMMIT

    def strikes(self, point: Point | MigrationPoint) -> bool:
        """Count a point that is passed, and say whether this is the time."""
        self.times -= point is (Point.AFTER_COMMIT if self.is_in_commit else self.point)
        return self.times == 0


class Process:
    """One process with a consumer in it."""

    def __init__(
        self,
        world: World,
        network: Network,
        disk: Disk,
        store: Store,
        consumer: Consumer,
        cut_power: Callable[[], None],
    ) -> None:
        self.world = world
        self.network = network
        self.disk = disk
        self.store = store
        self.consumer = consumer
        self.cut_power = cut_power
        self.fault: Fault | None = None
        self.is_dead = False
        self.ended_by: set[End] = set()
        self.database_delay_s = 0.001
        self.floor = disk.durable
        """The cursor when it last had no connection: the next RESUME cannot be below it."""
        self._calls: deque[Call[Any]] = deque()
        self.loop = VirtualLoop(world, network)
        self.task = self.loop.create_task(consumer.run())
        world.loops.append(self.loop)

    @property
    def is_running(self) -> bool:
        return not self.is_dead and not self.task.done()

    # Its end.

    def kill(self, kept_bytes: int, *, is_silent: bool = False) -> None:
        """Kill it. From here on nothing of it reaches the network or the disk."""
        if self.is_dead:
            return
        self.is_dead = True
        for connection in self.network.connections:
            if connection.loop is self.loop:
                connection.die(kept_bytes, is_silent=is_silent)
        self.world.loops.remove(self.loop)
        self.world.after_turn.append(self._bury)

    def end_by(self, how: End) -> None:
        """Have it end by itself."""
        self.ended_by.add(how)
        if how is End.CANCEL:
            self.loop.call_soon(self.task.cancel)
        else:
            self.loop.call_soon(self.consumer.stop)
        if how is End.STOP_BY_FORCE:
            self.loop.call_soon(self.consumer.stop)

    def _bury(self) -> None:
        """Let what is left of it run down where nobody sees it, so that nothing of it lies about."""
        self.loop.world = afterlife = World(self.world.now)
        afterlife.loops.append(self.loop)
        for call in self._calls:
            call.error = Killed()
            self.loop.call_soon(call._finish)
        self._calls.clear()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        afterlife.run(AFTERLIFE_S)
        assert not asyncio.all_tasks(self.loop)
        if self.task.done() and not self.task.cancelled():
            self.task.exception()
        self.loop.close()
        self.store.close()

    # What stands for its worker thread, and for the places in the code.

    def submit(self, function: Callable[[], Any]) -> Call[Any]:
        """Call it in a while, and in one go: on SQLite nobody else's transaction can come between."""
        call: Call[Any] = Call(self._die if self.is_dead else function)
        self._calls.append(call)
        if len(self._calls) == 1:
            self.loop.call_later(self.database_delay_s, self._run_call)
        return call

    def close(self) -> None:
        """The thread ends; there is none."""

    def _run_call(self) -> None:
        if not self._calls:
            return
        self._calls[0].run()
        self._calls.popleft()
        if self._calls:
            self.loop.call_later(self.database_delay_s, self._run_call)

    def _die(self) -> None:
        raise Killed

    def reach(self, point: Point | MigrationPoint) -> None:
        """Stands for `points.reach`."""
        if self.is_dead:
            raise Killed
        fault = self.fault
        if fault is not None and fault.is_in_commit and fault.times == 1 and point is Point.BEFORE_COMMIT:
            self.disk.before_commit()
        if fault is None or not fault.strikes(point):
            if point is Point.AFTER_COMMIT:
                self._has_committed()
            return
        self.fault = None
        if point is Point.AFTER_COMMIT and not fault.is_in_commit:
            self._has_committed()
        if fault.error is not None:
            raise fault.error
        self.kill(fault.kept_bytes)
        if fault.with_power:
            self.world.after_turn.append(self.cut_power)
        raise Killed

    def _has_committed(self) -> None:
        self.disk.committed(self.store._connection.connection.driver_connection)
