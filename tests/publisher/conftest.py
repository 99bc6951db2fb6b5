"""Fixtures of the publisher's tests: a journal's path, a publisher in this loop, `serve` as a process, plain peers."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from consumer.publisher import Limits, Publisher

from .helpers import Peer, Serve


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal may be made; nothing is there yet."""
    return tmp_path / "journal"


@pytest.fixture
def limits(patience_s: float) -> Limits:
    """Limits that no test meets by accident."""
    return Limits(handshake_s=patience_s, silence_s=patience_s, linger_s=0.05, poll_s=0.005)


@pytest.fixture
def publishing(path: Path, limits: Limits, patience_s: float) -> Callable[..., Any]:
    """`async with publishing(…) as publisher`: serves the journal at `path`, and must end within the bound."""

    @asynccontextmanager
    async def publish(**options: Any) -> AsyncIterator[Publisher]:
        stop = asyncio.Event()
        with Publisher(path, **{"limits": limits, **options}) as publisher:
            running = asyncio.create_task(publisher.run(stop))
            try:
                yield publisher
            finally:
                stop.set()
                async with asyncio.timeout(patience_s):
                    await running

    return publish


@pytest.fixture
async def meet(patience_s: float) -> AsyncIterator[Callable[..., Awaitable[Peer]]]:
    """`await meet(port, b"RESUME -1\\n")`: a peer that has said that. All are closed in the end."""
    peers: list[Peer] = []

    async def make(port: int, said: bytes = b"", tls: ssl.SSLContext | None = None) -> Peer:
        async with asyncio.timeout(patience_s):
            name = "localhost" if tls else None
            streams = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
        peer = Peer(*streams, patience_s)
        peers.append(peer)
        peer.say(said)
        return peer

    yield make
    for peer in peers:
        await peer.close()


@pytest.fixture
def serving(path: Path, tmp_path: Path, patience_s: float) -> Iterator[Callable[..., Serve]]:
    """`serving("--no-follow")`: a real process that serves the journal at `path`."""
    made: list[Serve] = []

    def serve(*options: str, limits: dict[str, float] | None = None) -> Serve:
        log = tmp_path / f"serve-{len(made)}.log"
        made.append(Serve(path, *options, log=log, patience_s=patience_s, limits=limits))
        return made[-1]

    yield serve
    for one in made:
        one.kill()
