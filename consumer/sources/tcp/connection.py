"""Our side of the socket: connect, say RESUME, turn bytes into events, acknowledge, close.

One place decides what each frame from the publisher means. Every wait is bounded, and so is the memory that a peer can
claim, whatever it sends. Nothing here knows a database.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from consumer.core import points
from consumer.core.errors import (
    ConnectFailed,
    CursorAhead,
    MalformedFrame,
    ResyncRequired,
    StoppedByForce,
    TLSRefused,
)
from consumer.core.events import Events
from consumer.core.keepalive import OURS
from consumer.core.points import Point
from consumer.core.words import one_line, why
from consumer.sources.tcp import tls
from consumer.sources.tcp.address import Address
from consumer.sources.tcp.streams import close_after_error, close_writer, keep_alive
from consumer.sources.tcp.wire import Ahead, Control, Snapshot, Truncated, decode_events, encode_acks, encode_resume

CHUNK_BYTES = 256 * 1024
"""The most that is read at once: some ten thousand events. asyncio buffers twice as much at the most."""

UNSENT_BYTES_MAX = 1024 * 1024
"""How much may wait to be sent before `drain` waits: the acknowledgements of some 80,000 events."""

NEXT_ADDRESS_S = 0.25
"""How long after one address of a host the next one is tried too; the recommendation of RFC 8305. An address that
answers nothing must not take up the whole timeout, each time anew."""

CLOSE_TIMEOUT_S = 2.0
"""How long a close waits for the peer, whose part in it is a courtesy."""


class IdleError(TimeoutError):
    """The publisher was silent for a whole timeout. It may be gone, or have nothing to say: it is asked anew.

    Attributes:
        silent_s: for how long, in seconds.
    """

    def __init__(self, address: Address, silent_s: float) -> None:
        super().__init__(f"{address} was silent for {silent_s:g} s")
        self.silent_s = silent_s


class PublisherConnection:
    """One connection to a publisher, from RESUME on. An async context manager that closes it for certain."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address, last: int, timeout: float
    ) -> None:
        """Take over a connection; `connect` makes one."""
        self._reader = reader
        self._writer = writer
        self._address = address
        self._last = last
        self._timeout = timeout
        self._rest = b""
        self._stop: Control | MalformedFrame | None = None
        self._has_begun = False
        self._acknowledged_at = -math.inf  # by the event loop's clock

    @classmethod
    async def connect(
        cls, address: Address, last: int, timeout: float, context: ssl.SSLContext | None = None, name: str | None = None
    ) -> Self:
        """Connect and say RESUME.

        Args:
            address: the publisher's.
            last: the cursor.
            timeout: the longest single wait, in seconds.
            context: how TLS is used; for an address that uses it.
            name: the name that the certificate must carry, where that is not the host.

        Raises:
            ConnectFailed: the publisher was not reached.
            TLSRefused: one side refused the other's certificate.
        """
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(
                    address.host,
                    address.port,
                    limit=CHUNK_BYTES,
                    ssl=context if address.uses_tls else None,
                    server_hostname=(name or address.host) if address.uses_tls else None,
                    ssl_shutdown_timeout=CLOSE_TIMEOUT_S if address.uses_tls else None,
                    happy_eyeballs_delay=NEXT_ADDRESS_S if await _has_several_addresses(address) else None,
                )
        except (OSError, EOFError) as error:  # TimeoutError and ssl.SSLError are OSErrors
            raise _connect_failure(address, error, timeout) from error
        connection = cls(reader, writer, address, last, timeout)
        try:
            keep_alive(writer.get_extra_info("socket"), OURS)
            writer.transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
            writer.write(encode_resume(last))
            await connection.drain()
        except BaseException as error:
            await close_after_error(writer, CLOSE_TIMEOUT_S)
            if isinstance(error, OSError):
                raise _connect_failure(address, error, timeout) from error
            raise
        return connection

    async def __aenter__(self) -> Self:
        """Give the connection itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close: what was written is sent, within a bound."""
        try:
            if kind is None or not issubclass(kind, ConnectionError | TimeoutError | StoppedByForce):
                await self._take_leave()
        finally:
            if kind is None:
                await close_writer(self._writer, CLOSE_TIMEOUT_S)
            else:
                await close_after_error(self._writer, CLOSE_TIMEOUT_S)

    async def read(self) -> Events:
        """Give the next events, as many as have arrived.

        Returns:
            At least one event, or none where the publisher has closed.

        Raises:
            IdleError: nothing came for a whole timeout.
            MalformedFrame, ResyncRequired, CursorAhead: what came next; the events before it were given out.
            ConnectFailed: a TLS connection ended before anything came, as a refused certificate looks.
            TLSRefused: the publisher refused our certificate, and said so.
            ConnectionError: the connection broke, in the middle of a frame perhaps.
        """
        while self._stop is None:
            data = await self._receive()
            if not data:
                self._check_end()
                return Events([])
            events, self._rest, self._stop = decode_events(self._rest + data)
            self._has_begun = self._has_begun or bool(events) or self._stop is not None
            if events:
                return events
        raise self._meaning(self._stop)

    def acknowledge(self, seqs: Sequence[int]) -> None:
        """Hand over the acknowledgements of committed events, in one write. It does not wait; `drain` does."""
        if not seqs or self._writer.is_closing():  # or lost: asyncio would log a warning for each write
            return
        self._acknowledged_at = asyncio.get_running_loop().time()
        points.reach(Point.BEFORE_ACK)
        self._writer.write(encode_acks(seqs))
        points.reach(Point.AFTER_ACK)

    async def drain(self) -> None:
        """Wait while too much is unsent.

        Raises:
            TimeoutError: the publisher took nothing for a whole timeout.
        """
        if self._writer.transport.get_write_buffer_size() <= UNSENT_BYTES_MAX:
            return  # the usual case, and cheaper to see than to wait for
        try:
            async with asyncio.timeout(self._timeout):
                await self._writer.drain()
        except TimeoutError as error:
            raise TimeoutError(f"{self._address} took no acknowledgements for {self._timeout:g} s") from error
        except OSError as error:
            raise self._breakage(error) from error

    @property
    def has_begun(self) -> bool:
        """Whether the publisher has said anything."""
        return self._has_begun

    async def _take_leave(self) -> None:
        """End our side and read on until the publisher ends its own, within a bound.

        To close a socket while something unread is in it resets the connection, and acknowledgements that are under way
        are lost with it. TLS cannot be half closed in asyncio.
        """
        with suppress(Exception):  # the connection is going, one way or the other
            if self._writer.can_write_eof():
                self._writer.write_eof()
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    while await self._reader.read(CHUNK_BYTES):
                        pass

    async def _receive(self) -> bytes:
        wait_s = self._timeout
        while True:
            try:
                async with asyncio.timeout(wait_s) as limit:
                    return await self._reader.read(CHUNK_BYTES)
            except ConnectionError as error:
                if self._address.uses_tls and not self._has_begun:
                    raise self._early_end() from error
                raise self._breakage(error) from error
            except OSError as error:  # TimeoutError is one
                if not limit.expired():
                    raise self._breakage(error) from error
                # A publisher that has just been acknowledged has a whole timeout from then on.
                wait_s = self._acknowledged_at + self._timeout - asyncio.get_running_loop().time()
                if wait_s <= 0:
                    raise IdleError(self._address, self._timeout) from error

    def _breakage(self, error: OSError) -> Exception:
        """What an error of TLS or the system says about a connection: which one it was, and that it is broken."""
        if tls.is_refusal(error):
            return _refusal(self._address, error)
        return ConnectionResetError(f"{self._address} is gone: {why(error)}")

    def _check_end(self) -> None:
        if self._rest:
            how = "answers in TLS; give tls://" if tls.is_alert(self._rest) else "closed in the middle of a frame"
            raise ConnectionResetError(f"{self._address} {how}")
        ssl_object = self._writer.get_extra_info("ssl_object")
        if ssl_object is not None and not self._has_begun and not tls.was_closed_properly(ssl_object):
            raise self._early_end()

    def _early_end(self) -> ConnectFailed:
        """What the end of a TLS connection before its first frame means, where the publisher did not close it."""
        return ConnectFailed(f"{self._address} broke off before its first frame; it may want a client certificate")

    def _meaning(self, frame: Control | MalformedFrame) -> Exception:
        """What a frame that is no event says about this consumer."""
        match frame:
            case Snapshot(last, total):
                return ResyncRequired(self._last, last + 1, (last, total))
            case Truncated(first):
                return ResyncRequired(self._last, first)
            case Ahead(head):
                return CursorAhead(self._last, head)
            case MalformedFrame():
                return frame


async def _has_several_addresses(address: Address) -> bool:
    """Say whether a host has more than one address: asyncio's race between them can leak a socket if cancelled."""
    with suppress(ValueError):
        ipaddress.ip_address(address.host)
        return False
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return len(found) > 1


def _connect_failure(address: Address, error: BaseException, timeout: float) -> Exception:
    if tls.is_refusal(error):
        return _refusal(address, error)
    if isinstance(error, TimeoutError):
        return ConnectFailed(f"{address} did not answer within {timeout:g} s")
    hint = ""
    if address.uses_tls and (tls.is_plain(error) or isinstance(error, ConnectionResetError | EOFError)):
        hint = "; perhaps it does not speak TLS, and tcp:// is meant"
    return ConnectFailed(f"{address} cannot be reached: {one_line(error) or type(error).__name__}{hint}")


def _refusal(address: Address, error: BaseException) -> TLSRefused:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TLSRefused(
            f"the certificate of {address} is not accepted: {error.verify_message}; "
            "trust its authority, or give the name that it carries"
        )
    return TLSRefused(f"{address} does not accept our certificate: {error}; give one that it trusts, with its key")
