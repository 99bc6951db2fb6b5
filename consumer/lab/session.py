"""Steps 6 and 7 of the contract: one session over a socket, one event at a time.

Read a line, commit it, only then acknowledge it; every wait is bounded, and the socket is closed however it ends.
"""

from __future__ import annotations

import asyncio
import sqlite3
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from os import PathLike
from typing import TypeAlias

from consumer.lab.shim import consume_line, files_of, make_durable, open_store, state
from consumer.sources.tcp.streams import check_timeout, close_after_error, close_writer
from consumer.sources.tcp.wire import LINE_BYTES_MAX, encode_resume
from consumer.store.databases.durable import FilesInPlace

CLOSE_TIMEOUT_S = 1
"""How long a close may take where the caller's own timeout is invalid; the contract's number."""

BeforeAck: TypeAlias = Callable[[int], object]
"""What is called with the seq between commit and ACK, for tests; what it returns is ignored."""


async def consume_session(
    reader: StreamReader,
    writer: StreamWriter,
    con: sqlite3.Connection,
    timeout: float,
    before_ack: BeforeAck | None = None,
) -> tuple[int, int]:
    """Consume EVENT lines until the publisher closes.

    Args:
        reader: where the lines come from.
        writer: where the ACKs go. It is closed however this ends.
        con: the store. It stays open.
        timeout: the longest single wait, in seconds: for a line, for the ACK to drain, for the close.
        before_ack: called with the seq after the commit and before the ACK.

    Returns:
        `(last, total)` at the end of the stream.

    Raises:
        ValueError: `timeout` is no positive finite number, or a line is malformed.
        TimeoutError: a wait took too long.
        StoreReplaced: the store's file was deleted, moved or replaced; nothing more is acknowledged.
        Exception: whatever `consume_line`, `before_ack` and the stream raise. A cancellation passes on.
    """
    close_timeout: float = CLOSE_TIMEOUT_S
    try:
        check_timeout(timeout)
        close_timeout = timeout
        await _consume(reader, writer, con, timeout, before_ack, files_of(con))
        result = state(con)
    except BaseException:
        await close_after_error(writer, close_timeout)
        raise
    await close_writer(writer, close_timeout)
    return result


async def _consume(
    reader: StreamReader,
    writer: StreamWriter,
    con: sqlite3.Connection,
    timeout: float,
    before_ack: BeforeAck | None,
    files: FilesInPlace | None,
) -> None:
    while line := await _read_line(reader, timeout):
        ack = consume_line(con, line)
        if before_ack is not None:
            before_ack(int(ack.removeprefix(b"ACK ")))
        if files is not None:
            files.check()
        await _send(writer, ack, timeout)


async def _read_line(reader: StreamReader, timeout: float) -> bytes:
    async with asyncio.timeout(timeout):
        return await reader.readline()


async def _send(writer: StreamWriter, line: bytes, timeout: float) -> None:
    writer.write(line)
    async with asyncio.timeout(timeout):
        await writer.drain()


async def run_client(
    host: str,
    port: int,
    path: str | PathLike[str],
    timeout: float,
    before_ack: BeforeAck | None = None,
) -> tuple[int, int]:
    """Connect, say where the store is, and consume until the publisher closes.

    Args:
        host: the publisher's host.
        port: its port.
        path: the store's file; see `open_store`.
        timeout: as for `consume_session`, and for the connection and RESUME too.
        before_ack: as for `consume_session`.

    Returns:
        `(last, total)` at the end of the stream.

    Raises:
        ValueError: `timeout` is no positive finite number (no file and no connection was made), or a line is malformed.
        Exception: as for `open_store`, `asyncio.open_connection` and `consume_session`. The store is closed.
    """
    check_timeout(timeout)
    con = open_store(path)
    try:
        files = files_of(con)
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port, limit=LINE_BYTES_MAX)
        try:
            last, _ = state(con)
            make_durable(con)  # RESUME claims it
            if files is not None:
                files.check()
            await _send(writer, encode_resume(last), timeout)
        except BaseException:
            await close_after_error(writer, timeout)
            raise
        return await consume_session(reader, writer, con, timeout, before_ack)
    finally:
        con.close()
