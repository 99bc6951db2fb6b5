"""One connection of the scripted publisher: what was said on it, and what can be done with it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from consumer.core.events import Event
from consumer.sources.tcp.wire import decode_acks, encode_event

READ_BYTES = 64 * 1024
"""How much is read at once, unless a step says less."""


class Session:
    """One connection, as the publisher sees it, after its RESUME.

    Attributes:
        number: which connection it is, counted from 0.
        last: the cursor that RESUME said.
        acks: the acknowledgements, in the order in which they came.
        sent: the event that was sent last, None before the first.
        has_left: set when the consumer has closed or the connection is broken, so far as we still read.
        read_bytes: how much is read at once.
        read_pause_s: how long nothing is read after that, in seconds.
        may_read: cleared where nothing is read any more.
        reader, writer: the streams themselves, for a step of your own that needs them.
    """

    def __init__(self, number: int, last: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.last = last
        self.acks: list[int] = []
        self.sent: Event | None = None
        self.has_left = asyncio.Event()
        self.read_bytes = READ_BYTES
        self.read_pause_s = 0.0
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.reader = reader
        self.writer = writer
        self._news = asyncio.Event()

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while the consumer takes none.

        Raises:
            ConnectionError: the consumer has left.
        """
        if self.has_left.is_set():
            raise ConnectionResetError("the consumer has left")
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # `drain` alone gives nobody else a turn while the consumer takes everything

    async def send_events(self, events: Iterable[Event]) -> None:
        """Send the lines of events in one write."""
        events = list(events)
        if events:
            await self.send(b"".join(encode_event(*event) for event in events))
            self.sent = events[-1]

    async def acked(self, seq: int) -> None:
        """Wait until an event, or a later one, is acknowledged.

        Raises:
            AssertionError: the consumer left before.
        """
        while not self.acks or max(self.acks) < seq:
            if self.has_left.is_set():
                raise AssertionError(
                    f"connection {self.number}: the consumer left before ACK {seq}, after {self.acks[-1:]}"
                )
            self._news.clear()
            await self._news.wait()

    def finish(self) -> None:
        """End our direction and read on; over TLS, which asyncio cannot half close, close."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            self.writer.close()

    def finish_without_notice(self) -> None:
        """End our direction of the TCP connection; over TLS without the close_notify that belongs before it."""
        with suppress(OSError):  # the consumer was quicker
            self.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close in good order, as far as what is unread allows it."""
        self.writer.close()

    def reset(self) -> None:
        """Break the connection: the consumer gets a reset."""
        linger_0_s = struct.pack("ii", 1, 0)
        with suppress(OSError):
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_0_s)
        self.writer.transport.abort()

    async def listen(self, hear: Callable[[Session, list[int]], None]) -> None:
        """Read acknowledgements until the consumer has left; each read's are given to `hear` as they come.

        Raises:
            MalformedFrame: the consumer sent something else.
        """
        rest = b""
        try:
            with suppress(ConnectionError, ssl.SSLError):
                while True:
                    await self.may_read.wait()
                    data = await self.reader.read(self.read_bytes)
                    if not data:
                        break
                    seqs, rest, stop = decode_acks(rest + data)
                    hear(self, seqs)
                    self.acks += seqs
                    self._news.set()
                    if stop is not None:
                        raise stop
                    await asyncio.sleep(self.read_pause_s)
        finally:
            self.has_left.set()
            self._news.set()
