"""A disk that is full, and a process that is killed at every place where it could hurt, on SQLite."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from service.databases import check_store, execute
from service.scripted import history, serving

from consumer import migrate
from consumer.testing.session import Session


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    if mounted:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
        )
        mounted = done.returncode == 0
    if not mounted:
        pytest.skip("a file system of a certain size can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_is_waited_for(small_disk, serve, start):
    """What does not fit is not acknowledged; once there is room it goes on by itself."""
    url = f"sqlite:///{small_disk / 'store.db'}"
    migrate.upgrade(url)
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):  # until nothing more fits
        while True:
            file.write(bytes(4096))

    async with (
        serve(serving(history(2_000))) as publisher,
        start(publisher.url, "--db", url) as command,
    ):
        await command.says("trying again", 2)
        assert any("full" in line or "disk I/O" in line for line in command.lines), command.lines
        assert not any(session.acks for session in publisher.sessions)
        ballast.unlink()
        session_number = 0
        while not (session := await publisher.session(session_number)).acks:
            if session.has_left.is_set():
                session_number += 1
                continue
            await session.acked(1_999)
        command.send(signal.SIGTERM)
        assert await command.end() == 0
    check_store(url, history(2_000))


async def test_a_consumer_that_is_killed_in_mid_stream_goes_on_where_it_was(store_url, serve, start):
    """SIGKILL at no chosen moment, several times: each next one says what the database holds."""
    count = 3_000

    async def stream(session: Session) -> None:
        for first in range(session.last + 1, count, 10):
            await session.send_events(history(count)[first : first + 10])

    async with serve(stream) as publisher:
        for number in range(4):
            async with start(publisher.url, "--db", store_url, "--batch", "50") as command:
                session = await publisher.session(number)
                await session.acked(min(session.last + 300, count - 1))
                command.send(signal.SIGKILL)
                await command.process.wait()
                await session.has_left.wait()
        async with start(publisher.url, "--db", store_url) as command:
            session = await publisher.session(4)
            await session.acked(count - 1)
            command.send(signal.SIGTERM)
            assert await command.end() == 0
    check_store(store_url, history(count))
    for earlier, later in zip(publisher.sessions, publisher.sessions[1:], strict=False):
        assert later.last >= earlier.acks[-1]
    assert execute(store_url, "SELECT count(*) FROM ledger") == [(count,)]
