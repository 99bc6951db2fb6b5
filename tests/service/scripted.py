"""A scripted publisher: whatever a test wants a consumer to meet, on a real socket.

A script is a coroutine function that gets one `Session` for each connection, after its RESUME was read. The
acknowledgements are read beside it. What a script raises comes out of the `async with`, a broken connection excepted.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self

from consumer.events import Event
from consumer.wire import decode_acks, encode_event, parse_resume

Script = Callable[["Session"], Awaitable[None]]


def lines(events: Iterable[Event]) -> bytes:
    return b"".join(encode_event(seq, delta) for seq, delta in events)


def history(count: int, first: int = 0) -> list[Event]:
    """Events whose deltas differ, so that one in the place of another is noticed."""
    return [(seq, seq * 7 % 2001 - 1000) for seq in range(first, first + count)]


class Session:
    """One connection, as the publisher sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.last = -2
        """What RESUME said."""
        self.acks: list[int] = []
        self.has_left = asyncio.Event()
        """Set when the consumer has closed, or the connection is broken."""
        self._news = asyncio.Event()

    async def send(self, what: bytes | Sequence[Event]) -> None:
        """Send lines, as bytes or as events, and wait while the consumer takes none."""
        if self.has_left.is_set():
            raise ConnectionResetError("the consumer has left")
        self.writer.write(what if isinstance(what, bytes) else lines(what))
        await self.writer.drain()
        await asyncio.sleep(0)  # `drain` alone gives nobody else a turn while the consumer takes everything

    async def acked(self, seq: int) -> None:
        """Wait for an ACK."""
        while not self.acks or max(self.acks[-1], self.acks[0]) < seq:
            if self.has_left.is_set():
                raise AssertionError(f"the consumer left after ACK {self.acks[-1:]}, before {seq}")
            self._news.clear()
            await self._news.wait()

    def finish(self) -> None:
        """Send nothing more, and go on reading acknowledgements where that is possible: on TLS it is not."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            self.writer.close()

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        """Break the connection: the consumer gets a reset."""
        linger_0_s = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_0_s)
        self.writer.transport.abort()

    async def listen(self, on_ack: Callable[[int], None]) -> None:
        """Read acknowledgements until the consumer has left."""
        with suppress(ConnectionError, ssl.SSLError):
            rest = b""
            while data := await self.reader.read(1 << 16):
                seqs, rest, stop = decode_acks(rest + data)
                assert stop is None, stop
                for seq in seqs:
                    on_ack(seq)
                self.acks += seqs
                self._news.set()
        self.has_left.set()
        self._news.set()


class Publisher:
    """Runs a script for each connection. An async context manager."""

    def __init__(
        self,
        script: Script,
        *,
        context: ssl.SSLContext | None = None,
        on_ack: Callable[[int], None] = lambda _: None,
        reads_acks: bool = True,
        port: int = 0,
        receive_bytes: int | None = None,
    ) -> None:
        """Say what to do.

        Args:
            script: called for each connection.
            context: for TLS.
            on_ack: called with each acknowledgement as it arrives.
            reads_acks: whether they are read at all.
            port: where to listen, 0 for anywhere.
            receive_bytes: how much the system takes in for a script that does not read.
        """
        self.sessions: list[Session] = []
        self._script = script
        self._context = context
        self._on_ack = on_ack
        self._reads_acks = reads_acks
        self._port = port
        self._receive_bytes = receive_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        listener = socket.create_server(("127.0.0.1", self._port))
        if self._receive_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        self._server = await asyncio.start_server(self._accept, sock=listener, ssl=self._context)
        self.port: int = listener.getsockname()[1]
        self.url = f"{'tcp' if self._context is None else 'tls'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()
        for result in results:
            if kind is None and isinstance(result, Exception):
                raise result

    async def session(self, number: int) -> Session:
        """Wait for a connection, counted from 0, that has said RESUME."""
        while len(self.sessions) <= number:
            self._news.clear()
            await self._news.wait()
        return self.sessions[number]

    @property
    def resumes(self) -> list[int]:
        """What each connection has said."""
        return [session.last for session in self.sessions]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.add(asyncio.create_task(self._serve(Session(reader, writer))))

    async def _serve(self, session: Session) -> None:
        try:
            line = await session.reader.readline()
        except (ConnectionError, ssl.SSLError):
            line = b""
        if not line:  # it left without a word, as after a certificate that it does not take
            session.close()
            return
        session.last = parse_resume(line)
        self.sessions.append(session)
        self._news.set()
        listening = asyncio.create_task(session.listen(self._on_ack)) if self._reads_acks else None
        try:
            with suppress(ConnectionError, ssl.SSLError):
                await self._script(session)
            if listening is not None:
                await listening
        finally:
            session.close()
            if listening is not None:
                listening.cancel()
                await asyncio.wait({listening})
                if not listening.cancelled():
                    listening.result()


def serving(events: Sequence[Event], *, close: bool = False) -> Script:
    """A script that behaves: it sends what comes after the cursor; `close`: and closes once that is acknowledged."""

    async def script(session: Session) -> None:
        rest = [event for event in events if event[0] > session.last]
        await session.send(rest)
        if close:
            if rest:
                await session.acked(rest[-1][0])
            session.close()

    return script


def sending(what: bytes, *, close: bool = True) -> Script:
    """A script that sends the same bytes whatever RESUME says; `close`: and nothing after them."""

    async def script(session: Session) -> None:
        await session.send(what)
        if close:
            session.finish()

    return script


def in_turn(*scripts: Script) -> Script:
    """A script that does one thing on the first connection, another on the second; the last one stays."""
    rest = list(scripts)

    async def script(session: Session) -> None:
        await (rest.pop(0) if len(rest) > 1 else rest[0])(session)

    return script


async def silence(session: Session) -> None:
    """Say nothing and keep the connection."""
    await session.has_left.wait()
