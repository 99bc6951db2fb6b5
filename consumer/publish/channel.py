"""The two kinds of connection: plain TCP, where the kernel sends slices of the file by itself, and TLS.

Plain sockets are used as they are: `os.sendfile` copies nothing through this process, so that a slow consumer holds no
memory here, and sending is as fast as `cat`. asyncio's own sendfile on a transport stops reading meanwhile, and so
could wait for ever for a consumer that waits for its ACKs to be read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from typing import Protocol

from consumer.errors import JournalUnusable
from consumer.publish.journal import Journal
from consumer.publish.limits import RECEIVE_BYTES, SLICE_BYTES, TLS_SLICE_BYTES, Limits
from consumer.streams import close_writer


class Channel(Protocol):
    """What a session needs of a connection."""

    slice_bytes: int
    """How much to send at once."""

    async def receive(self) -> bytes:
        """Wait for bytes; empty when the consumer has closed its side."""

    async def send(self, data: bytes) -> None:
        """Send a few bytes."""

    async def send_slice(self, journal: Journal, offset: int, end: int) -> None:
        """Send bytes of a journal's file. Others get their turn in any case."""

    async def close(self) -> None:
        """Close for certain, within a bound."""


class PlainChannel:
    """TCP.

    Args:
        sock: a connected socket that does not block.
    """

    slice_bytes = SLICE_BYTES

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """See `Channel`."""
        return await self._loop.sock_recv(self._sock, RECEIVE_BYTES)

    async def send(self, data: bytes) -> None:
        """See `Channel`."""
        await self._loop.sock_sendall(self._sock, data)

    async def send_slice(self, journal: Journal, offset: int, end: int) -> None:
        """See `Channel`."""
        while offset < end:
            try:
                sent = os.sendfile(self._sock.fileno(), journal.descriptor, offset, end - offset)
            except BlockingIOError:
                await self._wait_for_room()
                continue
            if sent == 0:
                raise JournalUnusable(journal.path, f"it ends at byte {offset}, where there were events")
            offset += sent
        await asyncio.sleep(0)  # where the socket takes everything at once, nobody else would get a turn

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

    async def send(self, data: bytes) -> None:
        """See `Channel`."""
        self._writer.write(data)
        await self._writer.drain()

    async def send_slice(self, journal: Journal, offset: int, end: int) -> None:
        """See `Channel`."""
        await self.send(journal.read(offset, end - offset))
        await asyncio.sleep(0)  # drain() lets nobody else have a turn while the socket takes everything

    async def close(self) -> None:
        """See `Channel`. A consumer that never answers close_notify is not waited for longer than `close_s`."""
        await close_writer(self._writer, self._close_s)


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
