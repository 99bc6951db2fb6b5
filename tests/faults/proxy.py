"""A proxy between a consumer and its publisher that does to their connections what networks do.

At moments that a seed decides it resets a connection, lets it stall, passes bytes on in tiny pieces, or goes on holding
it without passing anything on. It counts bytes, not time, until the next of these.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Self

RECEIVE_BYTES = 64 * 1024

STALL_MAX_S = 0.2
"""How long a stall may last: less than the timeout of whoever is tested with it, so that it is no end."""

HOLD_MAX_S = 30.0
"""How long a half-open connection is held: longer than that timeout, and not for ever."""

TINY_BYTES_MAX = 7
"""The longest piece of a split: shorter than any line."""

SPLIT_BYTES_MAX = 256
"""How much of what was received is cut into such pieces; the rest follows in one."""

CONNECT_S = 5.0
"""How long the publisher may take to accept."""


class Fault(StrEnum):
    """What may happen to a connection."""

    RESET = "reset"
    STALL = "stall"
    SPLIT = "split"
    HALF_OPEN = "half-open"


class _Broken(Exception):
    """The connection was reset on purpose."""


Hear = Callable[[bytes], None]


class Proxy:
    """Listens on 127.0.0.1. An async context manager that leaves no connection behind.

    Args:
        target: the publisher's port on 127.0.0.1. Nobody need listen there yet.
        seed: decides what happens and when.
        bytes_between: how many bytes pass between two faults, on the average.
        faults: which may happen.
        port: where to listen, 0 for any.
        hear: called for each connection; what it gives is called with what the consumer says, before that is passed on.

    Attributes:
        port: where it listens.
        happened: how often each fault has happened.
    """

    def __init__(
        self,
        target: int,
        seed: int,
        *,
        bytes_between: int = 4000,
        faults: Sequence[Fault] = tuple(Fault),
        port: int = 0,
        hear: Callable[[], Hear] = lambda: lambda _: None,
    ) -> None:
        self.port = port
        self.happened: Counter[Fault] = Counter()
        self._target = target
        self._luck = random.Random(seed)
        self._bytes_between = bytes_between
        self._faults = list(faults)
        self._hear = hear
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_calm = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def calm(self) -> None:
        """Let nothing more happen, and let go of what is held."""
        self._is_calm.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Be one connection, from accepting it to the end of both directions."""
        writers = [writer]
        try:
            async with asyncio.timeout(CONNECT_S):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(far_writer)
            connection = _Connection(self)
            async with asyncio.TaskGroup() as group:
                group.create_task(connection.pump(reader, far_writer, self._hear()))
                group.create_task(connection.pump(far_reader, writer, lambda _: None))
        except* (OSError, _Broken):
            for one in writers:
                _make_close_reset(one)
        finally:
            for one in writers:
                one.transport.abort()

    def draw(self) -> tuple[int, Fault]:
        """Decide what happens next to a connection, and after how many bytes."""
        return 1 + int(self._luck.expovariate(1 / self._bytes_between)), self._luck.choice(self._faults)

    async def befall(self, fault: Fault, data: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Have a fault happen at some data, and give what is still to be passed on."""
        self.happened[fault] += 1
        match fault:
            case Fault.RESET:
                raise _Broken
            case Fault.STALL:
                await self._wait(self._luck.uniform(0, STALL_MAX_S))
            case Fault.HALF_OPEN:
                await self._wait(HOLD_MAX_S)
                raise _Broken
            case Fault.SPLIT:
                split, data = data[:SPLIT_BYTES_MAX], data[SPLIT_BYTES_MAX:]
                while split:
                    size = self._luck.randint(1, TINY_BYTES_MAX)
                    writer.write(split[:size])
                    await writer.drain()
                    await asyncio.sleep(0)  # so that the other side may well see it alone
                    split = split[size:]
        return data

    @property
    def is_calm(self) -> bool:
        """Whether nothing more is to happen."""
        return self._is_calm.is_set()

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_calm.wait()


class _Connection:
    """Two directions that meet the same faults: a connection that stalls or is held does so both ways."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._lock = asyncio.Lock()
        self._bytes_left, self._next = proxy.draw()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hear: Hear) -> None:
        while data := await reader.read(RECEIVE_BYTES):
            hear(data)
            async with self._lock:
                self._bytes_left -= len(data)
                if self._bytes_left <= 0 and not self._proxy.is_calm:
                    data = await self._proxy.befall(self._next, data, writer)
                    self._bytes_left, self._next = self._proxy.draw()
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _make_close_reset(writer: asyncio.StreamWriter) -> None:
    linger_0_s = struct.pack("ii", 1, 0)
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_0_s)
