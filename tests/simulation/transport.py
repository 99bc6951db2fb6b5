"""The consumer's end of a simulated connection, as asyncio's streams use it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .world import VirtualLoop

if TYPE_CHECKING:
    from .network import Connection

SOCKET_BYTES = 64
"""How much of what is written the system takes. What is beyond that waits in the process, and dies with it."""


class _Socket:
    """Only to be told options."""

    def setsockopt(self, *_option: int) -> None: ...


class Transport(asyncio.Transport):
    """The consumer's end, as asyncio's streams use it."""

    def __init__(self, connection: Connection, loop: VirtualLoop, protocol: asyncio.Protocol) -> None:
        super().__init__({"socket": _Socket()})
        self.is_dead = False
        """The process is dead: whatever its remains still do does not get out."""
        self._connection = connection
        self._loop = loop
        self._protocol = protocol
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        self._high = 0

    # What streams call.

    def write(self, data: bytes) -> None:
        if not (self.is_dead or self._is_closing or self._is_lost):
            self._connection.watch.write(self._connection, bytes(data))
            self._connection.up.send(data)
            if not self._is_paused and self.get_write_buffer_size() > self._high:
                self._is_paused = True
                self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, len(self._connection.up.waiting) - SOCKET_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self.is_dead:
            self._connection.up.end()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self.get_write_buffer_size() == 0 or self.is_dead:
                self._leave()

    def abort(self) -> None:
        self._is_closing = True
        if not self.is_dead:
            del self._connection.up.waiting[SOCKET_BYTES:]
        self._leave()

    def pause_reading(self) -> None:
        self._connection.down.is_held = True

    def resume_reading(self) -> None:
        self._connection.down.is_held = False
        self._connection.down.move()

    # What the network calls.

    def receive(self, data: bytes) -> None:
        self._loop.call_soon(self._protocol.data_received, data)

    def receive_end(self) -> None:
        self._loop.call_soon(self._protocol.eof_received)

    def lose(self, error: Exception | None) -> None:
        if not self._is_lost and not self.is_dead:
            self._is_lost = self._is_closing = True
            self._connection.watch.close(self._connection)
            self._loop.call_soon(self._protocol.connection_lost, error)

    def has_sent(self) -> None:
        """The system has taken more of what was waiting."""
        if self._is_lost or self.is_dead or self.get_write_buffer_size() > self._high // 4:
            return
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._protocol.resume_writing)
        if self._is_closing and self.get_write_buffer_size() == 0:
            self._leave()

    def _leave(self) -> None:
        """Close the socket. Where something unread was on its way here, what we have sent is lost with it."""
        if self._is_lost:
            return
        self._is_lost = True
        self._loop.call_soon(self._protocol.connection_lost, None)
        if self.is_dead:
            return
        connection = self._connection
        connection.watch.close(connection)
        if connection.down.waiting:
            connection.up.waiting.clear()
        connection.down.stop()
        connection.up.end()
