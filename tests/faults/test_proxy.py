"""The proxy does what it says, each fault for itself; without one it passes on every byte."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from .proxy import TINY_BYTES_MAX, Fault, Proxy

SAID = b"ACK 1\n" * 40


@pytest.fixture
async def target() -> AsyncIterator[int]:
    """Somebody who says the same back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def heard_back(proxy: Proxy, size: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(SAID)
        return await reader.readexactly(size)
    finally:
        writer.transport.abort()


async def test_without_a_fault_every_byte_and_the_end_are_passed_on(target, patience_s):
    heard: list[bytes] = []
    async with (
        asyncio.timeout(patience_s),
        Proxy(target, 1, bytes_between=10**9, hear=lambda: heard.append) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(SAID)
        writer.write_eof()
        assert await reader.read() == SAID
        writer.close()
    assert b"".join(heard) == SAID
    assert not proxy.happened


async def test_a_reset_is_one(target, patience_s):
    async with asyncio.timeout(patience_s), Proxy(target, 1, bytes_between=1, faults=[Fault.RESET]) as proxy:
        with pytest.raises(ConnectionResetError):
            await heard_back(proxy, len(SAID))
        assert proxy.happened == {Fault.RESET: 1}


async def test_a_split_passes_everything_on_in_tiny_pieces(target, patience_s, monkeypatch):
    pieces: list[bytes] = []
    write = asyncio.StreamWriter.write
    monkeypatch.setattr(asyncio.StreamWriter, "write", lambda self, data: (pieces.append(data), write(self, data)))
    async with asyncio.timeout(patience_s), Proxy(target, 1, bytes_between=1, faults=[Fault.SPLIT]) as proxy:
        assert await heard_back(proxy, len(SAID)) == SAID
    assert sum(len(piece) <= TINY_BYTES_MAX for piece in pieces) > len(SAID) / TINY_BYTES_MAX


async def test_a_stall_ends(target, patience_s):
    async with asyncio.timeout(patience_s), Proxy(target, 1, bytes_between=1, faults=[Fault.STALL]) as proxy:
        assert await heard_back(proxy, len(SAID)) == SAID
        assert proxy.happened[Fault.STALL] >= 1


async def test_a_half_open_connection_is_held_and_passes_nothing_on_until_it_is_let_go(target, patience_s):
    async with asyncio.timeout(patience_s), Proxy(target, 1, bytes_between=1, faults=[Fault.HALF_OPEN]) as proxy:
        waiting = asyncio.create_task(heard_back(proxy, 1))
        while not proxy.happened[Fault.HALF_OPEN]:  # noqa: ASYNC110 - the proxy does not tell
            await asyncio.sleep(0.001)
        assert not waiting.done()
        proxy.calm()
        with pytest.raises(ConnectionError):
            await waiting


def test_a_seed_decides_what_happens_and_when():
    draws = [[Proxy(1, seed).draw() for _ in range(3)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
