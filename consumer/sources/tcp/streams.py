"""What every use of asyncio's streams needs: a timeout that can be one, keepalive, a close that comes to an end."""

from __future__ import annotations

import asyncio
import math
import socket
from asyncio import StreamWriter
from contextlib import suppress

from consumer.core.keepalive import KeepAlive


def check_timeout(timeout: object) -> None:
    """Raise `ValueError` unless `timeout` is a positive finite `int` or `float` (and no `bool`), in seconds."""
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        with suppress(OverflowError):  # an int beyond what a clock can hold
            if math.isfinite(timeout) and timeout > 0:
                return
    raise ValueError(f"timeout must be a positive finite number of seconds, not {timeout!r}")


def keep_alive(sock: socket.socket, how: KeepAlive) -> None:
    """Have the system find out whether a silent peer is still there."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", how.idle_s),
        ("TCP_KEEPINTVL", how.interval_s),
        ("TCP_KEEPCNT", how.count),
    ):
        if hasattr(socket, name):  # not on every platform
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def close_writer(writer: StreamWriter, timeout: float) -> None:
    """Close a stream for certain: wait for the peer's part for at most `timeout` seconds, then abort the transport.

    A peer that is slow or gone is not an error here. Any other error passes on, and so does a cancellation, after the
    transport was aborted.
    """
    try:
        writer.close()
        async with asyncio.timeout(timeout):
            await writer.wait_closed()
    except (TimeoutError, ConnectionError):
        _abort(writer)
    except BaseException:
        _abort(writer)
        raise


def _abort(writer: StreamWriter) -> None:
    with suppress(Exception):  # nothing is left to be done for a transport that cannot even be aborted
        writer.transport.abort()


async def close_after_error(writer: StreamWriter, timeout: float) -> None:
    """Close a stream while an error is on its way to the caller, which no other error may replace."""
    with suppress(Exception):
        await close_writer(writer, timeout)
