"""Virtual time: an event loop for each process, and the clock that they share.

Nothing sleeps. When no loop has anything to do, the clock jumps to the next moment at which something is due. The same
rules in the same order give the same history, to the last turn.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Protocol

TURNS_MAX = 100_000
"""How many turns a stretch of virtual time may take: more is a consumer that goes round in circles."""


FOREVER = float("inf")


class World:
    """A clock, what is due when, and the loops that live by it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.loops: list[VirtualLoop] = []
        self.after_turn: deque[Callable[[], None]] = deque()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Have something done by nobody in particular: the network, say."""
        heapq.heappush(self._due, (self.now + delay_s, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let time pass. It ends when all that is due within it is done."""
        until = self.now + seconds
        for _ in range(TURNS_MAX):
            while self.after_turn:
                self.after_turn.popleft()()
            if not self._turn():
                when = self._next()
                assert when < FOREVER or not any(map(asyncio.all_tasks, self.loops)), (
                    "deadlock: nothing will ever be due"
                )
                if when > until:
                    self.now = until
                    return
                self.now = when
        raise AssertionError(f"{TURNS_MAX} turns, and still something to do")

    def _turn(self) -> bool:
        """Do what is to be done at this moment, once around. Whether there was anything."""
        if self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
            return True
        busy = [loop for loop in self.loops if loop.next_timer() <= self.now]
        for loop in busy:
            loop.turn()
        return bool(busy)

    def _next(self) -> float:
        moments = [loop.next_timer() for loop in self.loops] + [due[0] for due in self._due[:1]]
        return min(moments, default=FOREVER)


class Network(Protocol):
    """What a loop needs of one."""

    def connect(self, loop: "VirtualLoop", factory: Callable[[], asyncio.Protocol]) -> Awaitable[Any]: ...


class _NoFiles:
    """A selector that has nothing to look at, and never sleeps."""

    def select(self, timeout: float | None) -> list[Any]:
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one process. `asyncio.open_connection` leads into the simulated network."""

    def __init__(self, world: World, network: Network) -> None:
        super().__init__()
        self.world = world
        self.broken: list[object] = []
        """What went wrong in a callback, where no task could keep it."""
        self._network = network
        self._selector = _NoFiles()
        self.set_exception_handler(lambda _, context: self.broken.append(context) if "handle" in context else None)

    def turn(self) -> None:
        """Run what is ready, and the timers that are due, once."""
        self.call_soon(self.stop)
        self.run_forever()

    def next_timer(self) -> float:
        """When there is something to do: now, at some moment, or never."""
        if self._ready:
            return self.world.now
        return min((timer.when() for timer in self._scheduled if not timer.cancelled()), default=FOREVER)

    def time(self) -> float:
        return self.world.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """What asks for a thread of its own is an interruption: it happens at once."""
        future = self.create_future()
        future.set_result(func(*args))
        return future

    async def getaddrinfo(self, *_: Any, **options: Any) -> Any:
        return [None]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return await self._network.connect(self, protocol_factory)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who must be woken."""
