"""A file that is no longer what it was is offered again, before anything that was read of it is handed out."""

# ruff: noqa: ASYNC110, ASYNC240 - files are small here, and what is waited for happens in a thread

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.core.errors import Conflict, ConnectFailed, CursorAhead, InvalidOption, SourceChanged, SourceUnusable
from consumer.core.records import Record, digest
from consumer.core.rule import Cursor, judge_run, place
from consumer.core.runs import Assigned, Failed
from consumer.sources.file import source as file_source
from consumer.sources.file.opened import IDENTITY_BYTES_MAX
from consumer.sources.file.source import FileSource

from .driver import BEGINNING, Reading, at, behind, contents

LINES = b"one\ntwo\nthree\n"


async def read_all_of(path: Path, source: Reading) -> None:
    """Read what is there, and have nothing left."""
    assert contents(await source.records(3)) == [(0, b"one"), (4, b"two"), (8, b"three")]
    assert path.stat().st_size == len(LINES)


def cursor_of(source: Reading) -> Cursor:
    """The cursor of a store that has committed all that `LINES` holds."""
    return Cursor(8, 13, digest(source_record(source)), identity=source.offer.identity)


def source_record(source: Reading) -> Record:
    return Record(source.stream, 8, b"three", subject=source.stream.removeprefix("file"))


def overwrite(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.write(data)


def truncate(path: Path, size: int) -> None:
    os.truncate(path, size)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def exchange(path: Path, data: bytes) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(data)
    other.rename(path)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda path: exchange(path, b"uno\ndos\ntres\ncuatro\n"), SourceChanged),  # rotated
        (lambda path: overwrite(path, b"ONE\n"), SourceChanged),
        (lambda path: overwrite(path, b"on\n\n"), SourceChanged),
        (lambda path: (truncate(path, 0), append(path, b"uno\ndos\ntres\ncuatro\n")), SourceChanged),  # copytruncate
        (lambda path: truncate(path, 13), CursorAhead),  # within the line at the cursor
        (lambda path: truncate(path, 8), CursorAhead),
        (lambda path: truncate(path, 2), CursorAhead),
        (lambda path: truncate(path, 0), CursorAhead),
        (lambda path: exchange(path, b""), CursorAhead),
        (lambda path: exchange(path, b"one\n"), CursorAhead),  # an older backup
    ],
)
async def test_another_file_or_a_shorter_one_is_offered_as_what_it_is(
    path: Path, reading, change: Callable[[Path], object], verdict: type[Exception]
) -> None:
    path.write_bytes(LINES)
    async with reading(path) as source:
        await read_all_of(path, source)
        change(path)
        offer = await source.offered()
        with pytest.raises(verdict):
            place(cursor_of(source), offer)


async def test_a_file_that_has_become_shorter_than_its_position_is_offered_as_what_it_is(path: Path, reading) -> None:
    """No line of it was read, so that only its size can show that."""
    path.write_bytes(LINES)
    async with reading(path, behind(13)) as source:
        truncate(path, 8)
        assert (await source.offered()).head == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (overwrite(path, LINES[:8] + b"THREE\n"), append(path, b"four\n")),
        lambda path: exchange(path, LINES[:8] + b"THREE\nfour\n"),
        lambda path: (truncate(path, 8), append(path, b"threefour\n")),
        lambda path: exchange(path, LINES[:7] + b" three\nfour\n"),
    ],
)
async def test_where_the_last_line_is_another_one_it_comes_to_a_conflict(
    path: Path, reading, change: Callable[[Path], object]
) -> None:
    path.write_bytes(LINES)
    async with reading(path) as source:
        await read_all_of(path, source)
        change(path)
        offer = await source.offered()
        await source.place(place(cursor_of(source), offer).position)
        (happened,) = await source.read()
        with pytest.raises(Conflict):
            if isinstance(happened, Failed):  # no line begins there any more
                raise happened.error
            judge_run(cursor_of(source), happened)


async def test_what_was_read_of_a_file_that_changes_meanwhile_is_not_handed_out(
    path: Path, reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes between the reading and the look that follows it."""
    path.write_bytes(LINES)
    async with reading(path) as source:
        await read_all_of(path, source)

        def replace_it(descriptor: int) -> None:
            monkeypatch.undo()
            exchange(path, b"uno\ndos\ntres\n")

        monkeypatch.setattr(os, "fdatasync", replace_it)
        append(path, b"four\n")
        offer = await source.offered()
    assert offer.identity != source.offer.identity


async def test_a_file_that_was_replaced_by_the_same_with_more_goes_on(path: Path, reading) -> None:
    path.write_bytes(LINES)
    async with reading(path) as source:
        await read_all_of(path, source)
        exchange(path, LINES + b"four\n")
        placement = place(cursor_of(source), await source.offered())
        await source.place(placement.position)
        assert contents((await source.run()).records) == [(8, b"three"), (14, b"four")]


async def test_a_link_is_followed_each_time(path: Path, reading) -> None:
    real = path.with_suffix(".real")
    real.write_bytes(LINES)
    path.symlink_to(real)
    async with reading(path) as source:
        assert source.stream == f"file{path}"
        await read_all_of(path, source)
        path.with_suffix(".other").write_bytes(b"uno\n")
        path.unlink()
        path.symlink_to(path.with_suffix(".other"))
        assert (await source.offered()).identity != source.offer.identity


# Identity.


@pytest.mark.parametrize("data", [b"", b"\n\n", b"on", b"\n\non", b"x" * (IDENTITY_BYTES_MAX - 1)])
async def test_what_has_no_complete_first_line_has_no_identity(path: Path, reading, data: bytes) -> None:
    path.write_bytes(data)
    async with reading(path, None) as source:
        assert (source.offer.identity, source.offer.first, source.offer.head) == (None, 0, len(data) - 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b"one\n", b"one\ntwo\nthr", True),
        (b"one\n", b"two\n", False),
        (b"\none\n", b"\n\none\n", False),
        (b"\none\n", b"\ntwo\n", False),
        (b"x" * IDENTITY_BYTES_MAX, b"x" * IDENTITY_BYTES_MAX + b"yyy\nz", True),
        (b"x" * IDENTITY_BYTES_MAX, b"y" + b"x" * IDENTITY_BYTES_MAX, False),
    ],
)
async def test_the_first_line_is_the_identity(path: Path, reading, one: bytes, other: bytes, same: bool) -> None:
    identities = []
    for data in (one, other):
        path.write_bytes(data)
        async with reading(path, None) as source:
            assert source.offer.head_is_firm
            identities.append(source.offer.identity)
    assert None not in identities
    assert (identities[0] == identities[1]) is same


async def test_an_identity_that_becomes_known_is_said_before_a_record_is_given(path: Path, reading) -> None:
    path.write_bytes(b"on")
    async with reading(path) as source:
        append(path, b"e\n")
        offer = await source.offered()
        assert offer.identity is not None
        await source.place(BEGINNING)
        assert contents((await source.run()).records) == [(0, b"one")]


async def test_asking_says_what_the_file_holds_now_and_changes_nothing(path: Path, reading) -> None:
    path.write_bytes(LINES)
    async with reading(path) as source:
        exchange(path, b"uno\n")
        (offer,) = await source.source.ask([source.stream, "file/other"])
        assert (offer.identity != source.offer.identity, offer.head) == (True, 3)
        assert await source.source.ask(["file/other"]) == ()
        exchange(path, LINES)
        path.unlink()
        assert await source.source.ask([source.stream]) == ()


# Files that are not there, or no files.


async def test_a_file_that_is_not_there_is_like_a_server_that_is_not_reached(path: Path) -> None:
    source = FileSource(str(path))
    with pytest.raises(ConnectFailed, match="No such file"):
        await source.open()
    await source.close()
    path.write_bytes(LINES)
    await source.open()
    assert isinstance((await source.read())[0], Assigned)
    await source.close()


async def test_a_file_that_goes_away_while_it_is_read_is_one_too(path: Path, reading) -> None:
    path.write_bytes(LINES)
    async with reading(path) as source:
        await read_all_of(path, source)
        path.unlink()
        with pytest.raises(ConnectFailed, match="No such file"):
            await source.read()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
async def test_what_is_no_file_cannot_be_used(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    source = FileSource(str(path))
    with pytest.raises(SourceUnusable, match="no regular file"):
        await source.open()
    await source.close()


async def test_a_file_that_may_not_be_read_cannot_be_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(LINES)

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    source = FileSource(str(path))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)  # root may read anything
        with pytest.raises(SourceUnusable, match="Permission denied"):
            await source.open()
    await source.close()


@pytest.mark.parametrize("options", [{"batch_bytes": 0}, {"record_max": 0}, {"name": ""}])
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        FileSource("x", **options)


async def test_a_stream_can_have_another_name(path: Path, reading) -> None:
    path.write_bytes(LINES)
    async with reading(path, name="orders") as source:
        assert source.stream == "orders"
        assert {record.stream for record in await source.records(3)} == {"orders"}


# What is on the disk.


async def test_what_is_handed_out_is_on_the_disk(path: Path, reading, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fdatasync", sync)
    path.write_bytes(LINES)
    async with reading(path, batch_bytes=2 * 256) as source:  # one record at a time
        assert len((await source.run()).records) == 1
        assert synced == [len(LINES)]
        await source.run()
        await source.run()
        assert synced == [len(LINES)]  # it was on the disk already
        append(path, b"four\n")
        await source.run()
        assert synced == [len(LINES), len(LINES) + 5]
        exchange(path, LINES)
        await source.offered()
        await source.place(at(4, 7))
        await source.run()
        assert synced == [len(LINES), len(LINES) + 5, len(LINES)]  # another file


@pytest.mark.parametrize(("code", "goes_on"), [(errno.EIO, False), (errno.EROFS, True), (errno.EINVAL, True)])
async def test_what_cannot_be_put_on_the_disk_is_not_handed_out(
    path: Path, reading, monkeypatch: pytest.MonkeyPatch, code: int, goes_on: bool
) -> None:
    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", fail)
    path.write_bytes(LINES)
    async with reading(path) as source:
        if goes_on:  # nothing can be written to a file system that is read-only, so it is on the disk
            assert len((await source.run()).records) == 3
        else:
            with pytest.raises(ConnectFailed, match="Input/output error"):
                await source.read()


# Waits.


async def test_placing_anew_ends_the_wait_for_more(path: Path, reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_source, "POLL_S", 3600.0)
    path.write_bytes(LINES)
    async with reading(path) as source:
        await read_all_of(path, source)
        waiting = asyncio.create_task(source.read())
        await asyncio.sleep(0.05)  # whether it waits by then or not, the result is the same
        await source.place(at(8, 13, generation=4))
        (run,) = await waiting
    assert (run.generation, contents(run.records)) == (4, [(8, b"three")])


async def test_a_placement_during_a_look_counts(
    path: Path, reading, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the look finds belongs to the placement before."""
    path.write_bytes(LINES)
    looking, go_on = threading.Event(), threading.Event()
    real = os.fdatasync

    def wait(descriptor: int) -> None:
        looking.set()
        go_on.wait(patience_s)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", wait)
    async with reading(path) as source:
        found = asyncio.create_task(source.run())
        while not looking.is_set():
            await asyncio.sleep(0)
        await source.place(at(8, 13, generation=3))
        go_on.set()
        run = await found
    assert (run.generation, contents(run.records)) == (3, [(8, b"three")])


async def test_nothing_is_given_while_it_is_not_to_be_fed(path: Path, reading) -> None:
    path.write_bytes(LINES)
    async with reading(path) as source:
        await source.place(None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.source.read(), 0.2)
        await source.place(at(4, 7, generation=1))
        run = await source.run()
    assert (run.generation, contents(run.records)) == (1, [(4, b"two"), (8, b"three")])


async def test_a_close_ends_while_the_file_system_hangs(
    path: Path, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(LINES)
    hanging, free = threading.Event(), threading.Event()
    real = os.pread

    def hang(descriptor: int, size: int, offset: int) -> bytes:
        hanging.set()
        free.wait(patience_s)
        return real(descriptor, size, offset)

    source = FileSource(str(path))
    await source.open()
    await source.read()
    monkeypatch.setattr(file_source, "CLOSE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(os, "pread", hang)
    await source.place({f"file{path}": BEGINNING})
    reading = asyncio.create_task(source.read())
    while not hanging.is_set():
        await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await source.close()
    assert not free.is_set()
    free.set()


async def test_a_source_that_is_not_open_says_so(path: Path) -> None:
    source = FileSource(str(path))
    with pytest.raises(RuntimeError, match="not open"):
        await source.read()
    await source.close()
    source.acknowledge({"file/x": 3})
