"""The store's file goes away while the client has it open: nothing more is claimed or acknowledged."""

import sqlite3
from pathlib import Path

import pytest

from consumer import open_store, run_client
from consumer.core.errors import StoreReplaced


async def serve(handle):
    import asyncio

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("how", ["deleted", "replaced", "without its log"])
async def test_no_ack_into_a_file_without_a_name(tmp_path: Path, patience_s: float, mode: str, how: str) -> None:
    if how == "without its log" and mode != "wal":
        return
    path = tmp_path / "store.db"
    con = open_store(path)
    con.execute(f"PRAGMA journal_mode={mode}")
    con.close()
    acks: list[bytes] = []

    def go_away(seq: int) -> None:
        if seq != 1:
            return
        if how == "deleted":
            path.unlink()
        elif how == "replaced":
            other = tmp_path / "other.db"
            open_store(other).close()
            other.replace(path)
        else:
            Path(f"{path}-wal").unlink()

    async def publish(reader, writer) -> None:
        acks.append(await reader.readline())
        writer.write(b"EVENT 0 5\nEVENT 1 6\nEVENT 2 7\n")
        acks.append(await reader.read())
        writer.close()

    server, port = await serve(publish)
    async with server:
        with pytest.raises((StoreReplaced, sqlite3.Error)) as raised:
            await run_client("127.0.0.1", port, path, patience_s, go_away)
    assert isinstance(raised.value, StoreReplaced)
    assert acks[0] == b"RESUME -1\n"
    assert b"ACK 1" not in b"".join(acks)


async def test_a_client_whose_file_stays_is_not_disturbed(tmp_path: Path, patience_s: float) -> None:
    path = tmp_path / "store.db"

    async def publish(reader, writer) -> None:
        await reader.readline()
        writer.write(b"EVENT 0 5\nEVENT 1 6\n")
        writer.write_eof()
        await reader.read()
        writer.close()

    server, port = await serve(publish)
    async with server:
        assert await run_client("127.0.0.1", port, path, patience_s) == (1, 11)
