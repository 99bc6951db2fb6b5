"""The two kinds of connection, plain TCP and TLS, as a delivery needs them: both directions at once, and bounded.

A plain socket is used as it is. One buffer serves all of them, since what a full socket does not take is not kept, but
read again later: a slow consumer holds no memory here, and sending is as fast as `cat`. asyncio's own sendfile stops
reading meanwhile, and so could wait for ever for a consumer that waits for its ACKs to be read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from typing import Protocol

from consumer.core.errors import JournalUnusable
from consumer.publisher.journal.reader import JournalReader
from consumer.publisher.server.limits import PIECE_BYTES, RECEIVE_BYTES, SLICE_BYTES, TLS_SLICE_BYTES, Limits
from consumer.sources.tcp.streams import close_writer


class Channel(Protocol):
    """What a delivery needs of a connection."""

    slice_bytes: int
    """How much to send at once, before others have their turn."""

    async def receive(self) -> bytes:
        """Wait for bytes; empty when the consumer has closed its side."""

    async def receive_all(self, take: Callable[[bytes], None]) -> None:
        """Hand over all bytes as they come, until the consumer closes its side. What `take` raises ends it."""

    async def send(self, data: bytes) -> None:
        """Send a few bytes."""

    async def send_slice(self, journal: JournalReader, offset: int, end: int) -> None:
        """Send bytes of a journal's file."""

    async def close(self) -> None:
        """Close for certain, within a bound."""


class PlainChannel:
    """TCP.

    Args:
        sock: a connected socket that does not block.
    """

    slice_bytes = SLICE_BYTES
    _piece = memoryview(bytearray(PIECE_BYTES))  # shared by all: what is in it matters only between two waits

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """See `Channel`."""
        return await self._loop.sock_recv(self._sock, RECEIVE_BYTES)

    async def receive_all(self, take: Callable[[bytes], None]) -> None:
        """See `Channel`."""
        ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._sock, self._take_once, take, ended)
        try:
            await ended
        finally:
            self._loop.remove_reader(self._sock)

    def _take_once(self, take: Callable[[bytes], None], ended: asyncio.Future[None]) -> None:
        """Read once. Called by the loop itself, since waking a task for each ACK would cost as much again."""
        if ended.done():
            return
        try:
            data = self._sock.recv(RECEIVE_BYTES)
            if data:
                take(data)
            else:
                ended.set_result(None)
        except BlockingIOError:
            pass
        except Exception as error:  # noqa: BLE001 - it goes to the task that waits, and not to the loop
            ended.set_exception(error)

    async def send(self, data: bytes) -> None:
        """See `Channel`."""
        await self._loop.sock_sendall(self._sock, data)

    async def send_slice(self, journal: JournalReader, offset: int, end: int) -> None:
        """See `Channel`."""
        while offset < end:
            size = os.preadv(journal.descriptor, [self._piece[: end - offset]], offset)
            if size == 0:
                raise _lost_events(journal, offset)
            try:
                offset += self._sock.send(self._piece[:size])
            except BlockingIOError:
                await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        room = asyncio.Event()
        self._loop.add_writer(self._sock, room.set)
        try:
            await room.wait()
        finally:
            self._loop.remove_writer(self._sock)

    async def close(self) -> None:
        """See `Channel`. What the socket has taken is still delivered by the kernel."""
        self._sock.close()


class TLSChannel:
    """TLS over TCP, on asyncio's streams."""

    slice_bytes = TLS_SLICE_BYTES

    def __init__(self, reader: StreamReader, writer: StreamWriter, close_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._close_s = close_s
        # One slice at a time, out of our hands before the next. Not 0: asyncio's TLS takes "as full as 0" for full.
        writer.transport.set_write_buffer_limits(high=1)

    async def receive(self) -> bytes:
        """See `Channel`."""
        return await self._reader.read(RECEIVE_BYTES)

    async def receive_all(self, take: Callable[[bytes], None]) -> None:
        """See `Channel`."""
        while data := await self.receive():
            take(data)

    async def send(self, data: bytes) -> None:
        """See `Channel`."""
        self._writer.write(data)
        await self._writer.drain()

    async def send_slice(self, journal: JournalReader, offset: int, end: int) -> None:
        """See `Channel`."""
        data = journal.read(offset, end - offset)
        if len(data) < end - offset:
            raise _lost_events(journal, offset + len(data))
        await self.send(data)

    async def close(self) -> None:
        """See `Channel`. A consumer that never answers close_notify is not waited for longer than `close_s`."""
        await close_writer(self._writer, self._close_s)


def _lost_events(journal: JournalReader, offset: int) -> JournalUnusable:
    """Make the error that says that the file became shorter while it was sent. The next look finds out what is left."""
    return JournalUnusable(journal.path, f"it ends at byte {offset}, where there were events")


async def open_channel(sock: socket.socket, tls: ssl.SSLContext | None, limits: Limits) -> Channel:
    """Make a channel of a socket that was accepted.

    Args:
        sock: connected, not blocking.
        tls: how to speak TLS, None for plain TCP.
        limits: how long the handshake and the close may take.

    Returns:
        The channel, after the handshake.

    Raises:
        OSError: the handshake failed.
    """
    if tls is None:
        return PlainChannel(sock)
    loop = asyncio.get_running_loop()
    reader = StreamReader(limit=RECEIVE_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol, sock, ssl=tls, ssl_handshake_timeout=limits.handshake_s, ssl_shutdown_timeout=limits.close_s
    )
    return TLSChannel(reader, StreamWriter(transport, protocol, reader, loop), limits.close_s)
