"""The one who writes a journal: what it reports is on disk, and what it cuts was never an event."""

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.publisher import Appender
from consumer.publisher.journal.extent import APPEND_BYTES_MAX
from consumer.publisher.journal.reader import JournalReader
from consumer.sources.tcp.wire import SEQ_MAX

from .helpers import events, lines


def test_events_become_lines_and_the_last_number_is_given(path: Path) -> None:
    with Appender(path) as appender:
        assert appender.head == -1
        assert appender.append(events(0, 3)) == 2
        assert appender.append(events(3, 1)) == 3
        assert appender.append([]) == 3
    assert path.read_bytes() == lines(0, 4)
    with Appender(path) as appender:
        assert (appender.head, appender.extent.events, appender.cut) == (3, 4, None)


def test_an_empty_journal_takes_any_first_number_and_a_snapshot(path: Path, tmp_path: Path) -> None:
    with Appender(path) as appender:
        assert appender.append(events(7, 2)) == 8
        assert appender.extent.first == 7
    with Appender(tmp_path / "other") as appender:
        data = b"SNAPSHOT 41 5\n" + lines(42, 2)
        assert appender.append_lines(data) == (len(data), None)
        assert (appender.extent.first, appender.extent.events) == (42, 2)


@pytest.mark.parametrize(
    "bad",
    [[(4, 1)], [(2, 1)], [(3, 1), (5, 1)], [(3, 1001)], [(3, 1), (4, 1.5)], [(3, True)], [(-1, 0)], [(SEQ_MAX + 1, 0)]],
)
def test_events_that_are_not_the_next_are_refused_and_nothing_is_written(
    path: Path, bad: list[tuple[int, int]]
) -> None:
    with Appender(path) as appender:
        appender.append(events(0, 3))
        with pytest.raises(ValueError):
            appender.append(bad)
        assert path.read_bytes() == lines(0, 3)
        assert appender.append(events(3, 1)) == 3


def test_of_lines_the_good_ones_at_the_beginning_are_written(path: Path) -> None:
    with Appender(path) as appender:
        size, fault = appender.append_lines(lines(0, 3) + lines(4, 1))
        assert (size, fault) == (len(lines(0, 3)), "event 4 came where 3 was due")
        assert appender.append_lines(b"EVENT 3 ") == (0, None)
    assert path.read_bytes() == lines(0, 3)


def test_never_more_than_a_mib_is_written_between_two_syncs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [0]
    monkeypatch.setattr(disk, "sync_file", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    with Appender(path) as appender:
        appender.append(events(0, 150_000))
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) <= APPEND_BYTES_MAX
    assert sizes[-1] == len(lines(0, 150_000))
    assert len(grown) == 1 + 3


def test_a_new_file_is_synced_into_its_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_folder", synced.append)
    Appender(path).close()
    assert synced == [str(path)]


# The lock.


def test_a_second_writer_is_refused_and_a_reader_is_not(path: Path) -> None:
    with Appender(path) as appender:
        appender.append(events(0, 3))
        with pytest.raises(JournalUnusable, match="another program is appending"):
            Appender(path, lock_wait_s=0)
        JournalReader(path).close()
    Appender(path, lock_wait_s=0).close()


def test_a_writer_that_is_just_ending_is_waited_for(path: Path, patience_s: float) -> None:
    first = Appender(path)
    ending = threading.Timer(0.05, first.close)
    ending.start()
    Appender(path, lock_wait_s=patience_s).close()
    ending.join(patience_s)


def test_another_program_that_writes_without_the_lock_is_noticed(path: Path) -> None:
    with Appender(path) as appender:
        appender.append(events(0, 3))
        path.write_bytes(path.read_bytes() + lines(3, 1))
        with pytest.raises(JournalUnusable, match="without the lock"):
            appender.append(events(3, 1))
        with pytest.raises(JournalUnusable, match="open it anew"):
            appender.append(events(3, 1))
    with Appender(path) as appender:
        assert appender.append(events(4, 1)) == 4


@pytest.mark.parametrize("gone", [True, False])
def test_a_file_that_is_no_longer_the_journal_is_not_appended_to(path: Path, tmp_path: Path, *, gone: bool) -> None:
    with Appender(path) as appender:
        path.rename(tmp_path / "old")
        if not gone:
            path.write_bytes(b"")
        with pytest.raises(JournalUnusable, match="replaced"):
            appender.append(events(0, 1))
    assert (tmp_path / "old").read_bytes() == b""


# A disk that fails.


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may become larger: the system takes of a write what fits, and then refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_takes_back_nothing_that_may_have_been_sent(path: Path) -> None:
    """Half of an append is in the file when the disk is full: whole lines of it may be with consumers already."""
    with Appender(path) as appender:
        appender.append(events(0, 1))
        with room_for(len(lines(0, 3)) + 4), pytest.raises(JournalUnusable, match="an append failed: File too large"):
            appender.append(events(1, 5))
        assert appender.head == 0  # what is known to be on disk
    shown = JournalReader(path)
    with Appender(path) as appender:
        assert appender.head == shown.extent.head == 2
        assert appender.cut is not None
        assert appender.cut.reason == "the last line is unfinished"
        assert appender.append(events(3, 1)) == 3
    assert shown.look().grew
    shown.close()


def test_a_sync_that_fails_is_reported_and_ends_this_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Appender(path) as appender:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "sync_file", fail)
            with pytest.raises(JournalUnusable, match="Input/output error"):
                appender.append(events(0, 1))
        assert appender.head == -1
        with pytest.raises(JournalUnusable, match="open it anew"):
            appender.append(events(0, 1))


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing/journal", "there is no folder .*/missing; make it first"),
        ("lost link", "there is no folder .*/nowhere; make it first"),
        ("file/journal", "Not a directory"),
        (".", "Is a directory"),
    ],
)
def test_a_place_where_there_can_be_no_journal(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "lost link").symlink_to(tmp_path / "nowhere" / "journal")
    with pytest.raises(JournalUnusable, match=reason):
        Appender(tmp_path / place)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "lost link"]
