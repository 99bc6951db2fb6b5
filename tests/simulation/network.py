"""A network in memory: what TCP may do to a connection, and nothing that it cannot.

Bytes arrive in order and once. They may be cut anywhere, take any time, and stop: with a reset, with an end, or without
a word. What stood in a buffer when a process died may have been sent or not.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from itertools import cycle
from typing import Any, Protocol

from .transport import SOCKET_BYTES, Transport
from .world import VirtualLoop, World


class Listening(StrEnum):
    """What becomes of an attempt to connect."""

    OPEN = "open"
    REFUSED = "refused"
    SILENT = "silent"


class Break(StrEnum):
    """How a connection may end that nobody wanted to."""

    RESET = "reset"
    END = "end"
    SILENCE = "silence"


class Peer(Protocol):
    """The publisher's side of a connection."""

    def receive(self, data: bytes) -> None: ...

    def lose(self) -> None: ...


class Watch(Protocol):
    """Who is told what a consumer does to a connection, at the moment when it does it."""

    def write(self, connection: "Connection", data: bytes) -> None: ...

    def close(self, connection: "Connection") -> None: ...


class Pipe:
    """One direction."""

    def __init__(self, network: "Network", deliver: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self.waiting = bytearray()
        self.delivered = 0
        self.is_stopped = False
        self.is_held = False
        self._fuse: tuple[int, Callable[[], None]] | None = None
        self._network = network
        self._deliver = deliver
        self._end = end
        self._is_ending = False
        self._is_moving = False

    def send(self, data: bytes) -> None:
        if not self._is_ending:
            self.waiting += data
            self.move()

    def end(self) -> None:
        """Nothing comes behind what is under way."""
        self._is_ending = True
        self.move()

    def stop(self) -> None:
        """Nothing of what is under way arrives."""
        self.is_stopped = True
        self.waiting.clear()

    def break_after(self, count: int, how: Callable[[], None]) -> None:
        """Have the connection broken once so many more bytes have arrived."""
        self._fuse = (self.delivered + count, how)
        self.move()

    def move(self) -> None:
        if not self._is_moving:
            self._is_moving = True
            self._network.world.later(self._network.delay_s, self._move)

    def _move(self) -> None:
        self._is_moving = False
        if self.is_stopped or self.is_held:
            return
        room = self._fuse[0] - self.delivered if self._fuse else len(self.waiting)
        data = bytes(self.waiting[: min(next(self._network.cuts), room)])
        if data:
            del self.waiting[: len(data)]
            self.delivered += len(data)
            self._deliver(data)
        if self._fuse and self._fuse[0] <= self.delivered:
            _, how = self._fuse
            self._fuse = None
            how()
        elif self.waiting:
            self.move()
        elif self._is_ending and not self.is_stopped:
            self.is_stopped = True
            self._end()


class Connection:
    """A connection from a consumer to the publisher."""

    def __init__(self, network: "Network", loop: VirtualLoop, protocol: asyncio.Protocol) -> None:
        self.loop = loop
        self.transport = Transport(self, loop, protocol)
        self.down = Pipe(network, self.transport.receive, self.transport.receive_end)
        self.up = Pipe(network, self._arrive, self._lose)
        self.peer: Peer | None = None
        self.has_resumed = False
        self.acked = 0
        """How many ACKs the consumer has written to it."""
        self.watch = network.watch

    @property
    def is_open(self) -> bool:
        """Whether bytes can still arrive at either end."""
        return not (self.up.is_stopped and self.down.is_stopped)

    def break_off(self, how: Break) -> None:
        """Break it now."""
        if how is Break.END:
            self.down.waiting.clear()
            self.down.end()
            return
        self.up.stop()
        self.down.stop()
        if how is Break.RESET:
            self.transport.lose(ConnectionResetError("reset"))
            self._lose()

    def die(self, kept_bytes: int, *, is_silent: bool) -> None:
        """The consumer's process is gone, without a line of it run. Some of what it had written has been sent."""
        self.transport.is_dead = True
        self.down.stop()
        del self.up.waiting[min(kept_bytes, SOCKET_BYTES) :]
        if is_silent:
            self.up.move()
        else:
            self.up.end()

    def _arrive(self, data: bytes) -> None:
        self.transport.has_sent()
        if self.peer is not None:
            self.peer.receive(data)

    def _lose(self) -> None:
        if self.peer is not None:
            self.peer.lose()


class Network:
    """All connections, and the weather that they have in common."""

    def __init__(self, world: World, watch: Watch) -> None:
        self.world = world
        self.watch = watch
        self.connections: list[Connection] = []
        self.accept: Callable[[Connection], Peer] | None = None
        self.fair()

    def fair(self) -> None:
        """Good weather."""
        self.listening = Listening.OPEN
        self.weather(0.001, [1_000])

    def weather(self, delay_s: float, cuts: list[int]) -> None:
        """From now on each piece takes so long, and is so large: one of these sizes after the other."""
        self.delay_s = delay_s
        self.cuts = cycle(cuts)

    async def connect(self, loop: VirtualLoop, factory: Callable[[], asyncio.Protocol]) -> tuple[Any, Any]:
        await asyncio.sleep(self.delay_s)
        if self.listening is Listening.SILENT:
            await loop.create_future()
        if self.listening is Listening.REFUSED or self.accept is None:
            raise ConnectionRefusedError("refused")
        protocol = factory()
        connection = Connection(self, loop, protocol)
        self.connections.append(connection)
        protocol.connection_made(connection.transport)
        connection.peer = self.accept(connection)
        return connection.transport, protocol
