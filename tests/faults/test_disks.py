"""Disks that fill up, turn read-only and lose their power under a consumer at work, for real where that can be had."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from runtime.databases import check_store, read_last
from runtime.scripted import history, playing, serving

from consumer import open_store
from consumer.store import migrate
from consumer.testing import ScriptedPublisher
from consumer.testing.script.conversation import Session

from .disks import Disk, mounted, run
from .traced import LINE_CLIENT

COUNT = 2_000
CUTS = 3
"""How often the power is cut, each time at another moment."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room on it."""
    folder = tmp_path / "small"
    with mounted(folder, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        yield folder


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_a_full_disk_is_waited_for(small_disk, serve, start):
    """What does not fit is not acknowledged; once there is room it goes on by itself."""
    url = f"sqlite:///{small_disk / 'store.db'}"
    migrate.upgrade(url)
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):  # until nothing more fits
        while True:
            file.write(bytes(4096))

    async with (
        serve(serving(history(COUNT))) as publisher,
        start(publisher.url, "--db", url) as command,
    ):
        await command.says("trying again", 2)
        assert any("full" in line or "disk I/O" in line for line in command.lines), command.lines
        assert not any(session.acks for session in publisher.sessions)
        ballast.unlink()
        await acknowledged(publisher, COUNT - 1)
        command.send(signal.SIGTERM)
        assert await command.end() == 0
    check_store(url, history(COUNT))


async def acknowledged(publisher: ScriptedPublisher, seq: int) -> None:
    """Wait for an ACK on whatever connection it comes."""
    number = 0
    while not (session := await publisher.session(number)).acks or session.acks[-1] < seq:
        if session.has_left.is_set():
            number += 1
            continue
        with suppress(AssertionError):
            await session.acked(seq)


async def test_a_disk_that_fills_up_takes_nothing_back_and_goes_on_when_there_is_room(small_disk, serve, start):
    """A handler needs a lot of room, so that it is full before the end."""
    url = f"sqlite:///{small_disk / 'store.db'}"
    migrate.upgrade(url)
    async with (
        serve(serving(history(20))) as publisher,
        start(publisher.url, "--db", url, "--batch", "1", "--handler", "handlers:filling") as command,
    ):
        await command.says("trying again", 2)
        acks = [seq for session in publisher.sessions for seq in session.acks]
        assert acks, command.lines  # some did fit
        assert max(acks) <= read_last(url) < 19
        run("mount", "-o", "remount,size=32m", small_disk)
        await acknowledged(publisher, 19)
        command.send(signal.SIGTERM)
        assert await command.end() == 0
    check_store(url, history(20))


async def one_by_one(session: Session) -> None:
    for event in history(COUNT)[session.last + 1 :]:
        await session.send_events([event])


async def test_a_disk_that_turns_read_only_takes_nothing_back_and_is_waited_for(disk, serve, start):
    """The log names file and reason. Mounted anew, it has what was acknowledged before that moment."""
    url = f"sqlite:///{disk.path / 'store.db'}"
    with disk.mounted():
        migrate.upgrade(url)
        async with serve(one_by_one) as publisher, start(publisher.url, "--db", url, "--batch", "1") as command:
            await (await publisher.session(0)).acked(20)
            disk.turn_read_only()
            assert "store.db-wal cannot be synced: Read-only file system" in await command.says("look at the disk", 2)
            await command.kill()
        acks = [seq for session in publisher.sessions for seq in session.acks]
    with disk.mounted():
        last = read_last(url)
        assert last >= max(acks) - 1  # ext4 may confirm the sync of that very moment, and lose it: docs/guarantee.md
        check_store(url, history(last + 1))


async def test_to_start_on_a_disk_that_is_read_only_ends_in_one_line(tmp_path, serve, start):
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        url = f"sqlite:///{tmp_path / 'small' / 'store.db'}"
        migrate.upgrade(url)
        run("mount", "-o", "remount,ro", tmp_path / "small")
        async with serve(one_by_one) as publisher, start(publisher.url, "--db", url) as command:
            assert await command.end() == 19
            assert "readonly" in command.error
        assert publisher.sessions == []


async def hold_still(pid: int) -> None:
    """Stop a process between two system calls: an ext4 that is shut down may confirm the sync under way, and lose it."""
    os.kill(pid, signal.SIGSTOP)
    while not _is_still(pid):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.001)


def _is_still(pid: int) -> bool:
    """Say whether all of its threads are stopped."""
    states = (task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat"))
    return all(state == "T" for state in states)


@pytest.mark.parametrize("mode", ["line", "batch"])
async def test_what_was_acknowledged_survives_a_cut_of_the_power(mode, disk, tmp_path, patience_s):
    """For real: what was not synced is gone. The file system recovers, and the next consumer goes on."""
    database = disk.path / "store.db"
    url = f"sqlite:///{database}"
    luck = random.Random(mode)
    acknowledged_last = -1
    for cut in range(CUTS):
        with disk.mounted():
            if cut == 0:
                open_store(database).close() if mode == "line" else migrate.upgrade(url)
                run("sync", "-f", disk.path)
            assert read_last(url) >= acknowledged_last
            async with asyncio.timeout(patience_s), playing(one_by_one) as publisher:
                command = (
                    [str(LINE_CLIENT), str(publisher.port), str(database)]
                    if mode == "line"
                    else ["-m", "consumer", "run", publisher.url, "--db", url, "--batch", "7"]
                )
                process = await asyncio.create_subprocess_exec(
                    sys.executable, *command, stderr=asyncio.subprocess.DEVNULL
                )
                session = await publisher.session(0)
                assert session.last >= acknowledged_last
                await session.acked(session.last + luck.randint(20, 120))
                await hold_still(process.pid)
                disk.cut_power()
                process.kill()
                await process.wait()
                await session.has_left.wait()
                acknowledged_last = max(session.acks)
    with disk.mounted():
        last = read_last(url)
        assert last >= acknowledged_last
        check_store(url, history(last + 1))
