"""The one who writes a journal: what it reports is on disk, and what it cuts was never an event."""

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.errors import JournalUnusable
from consumer.publish import Appender, files
from consumer.publish.extent import APPEND_BYTES_MAX
from consumer.publish.journal import Journal
from consumer.wire import SEQ_MAX

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
    monkeypatch.setattr(files, "sync_file", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    with Appender(path) as appender:
        appender.append(events(0, 150_000))
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) <= APPEND_BYTES_MAX
    assert sizes[-1] == len(lines(0, 150_000))
    assert len(grown) == 1 + 3


def test_a_new_file_is_synced_into_its_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    Appender(path).close()
    assert synced == [str(path)]


# The lock.


def test_a_second_writer_is_refused_and_a_reader_is_not(path: Path) -> None:
    with Appender(path) as appender:
        appender.append(events(0, 3))
        with pytest.raises(JournalUnusable, match="another program is appending"):
            Appender(path, lock_wait_s=0)
        Journal(path).close()
    Appender(path, lock_wait_s=0).close()


def test_a_writer_that_is_just_ending_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Appender(path)
    monkeypatch.setattr("consumer.publish.append.time.sleep", lambda _: first.close())
    Appender(path).close()


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


def test_a_full_disk_takes_back_nothing_that_may_have_been_sent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of an append is in the file when the disk is full: whole lines of it may be with consumers already."""
    real_write = os.write
    room = [30]

    def write(descriptor: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real_write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    with Appender(path) as appender:
        appender.append(events(0, 1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            with pytest.raises(JournalUnusable, match="No space left"):
                appender.append(events(1, 5))
        assert appender.head == 0  # what is known to be on disk
    shown = Journal(path)
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
            patch.setattr(files, "sync_file", fail)
            with pytest.raises(JournalUnusable, match="Input/output error"):
                appender.append(events(0, 1))
        assert appender.head == -1
        with pytest.raises(JournalUnusable, match="open it anew"):
            appender.append(events(0, 1))


@pytest.mark.parametrize("place", ["missing/journal", "."])
def test_a_place_where_there_can_be_no_journal(tmp_path: Path, place: str) -> None:
    with pytest.raises(JournalUnusable):
        Appender(tmp_path / place)


# What a power cut leaves: the last append is damaged, everything before it was synced.

PAGE = 4096
damages = st.one_of(
    st.tuples(st.just("cut short"), st.integers(0, 2**20), st.just(0)),
    st.tuples(st.just("zeros"), st.integers(0, 2**20), st.integers(1, 5)),
    st.tuples(st.just("garbage"), st.integers(0, 2**20), st.integers(1, 5)),
)


def damage(append: bytes, at_offset: int, kind: str, at: int, pages: int) -> bytes:
    at %= len(append) + 1
    if kind == "cut short":
        return append[:at]
    at = max((at_offset + at) // PAGE * PAGE - at_offset, 0)  # what is lost is lost by the page
    lost = append[at : at + pages * PAGE]
    return append[:at] + (bytes(len(lost)) if kind == "zeros" else os.urandom(len(lost))) + append[at + len(lost) :]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 70_000), st.sampled_from([1, 50, 3000, 45_000]), damages)
def test_after_a_power_cut_what_was_reported_is_there_and_the_rest_is_consecutive(
    tmp_path_factory: pytest.TempPathFactory, reported: int, unreported: int, harm: tuple[str, int, int]
) -> None:
    path = tmp_path_factory.mktemp("power") / "journal"
    sound = lines(0, reported)
    append = lines(reported, unreported)[:APPEND_BYTES_MAX]
    path.write_bytes(sound + damage(append, len(sound), *harm))
    shown = Journal(path)
    sent = shown.extent  # what a publisher that starts first may send
    with Appender(path) as appender:
        assert appender.extent == sent
        assert appender.head >= reported - 1
        assert path.read_bytes() == lines(0, appender.head + 1)
        if appender.cut is not None:
            assert appender.cut.offset == sent.end
            assert appender.cut.size > 0
            assert str(appender.cut.size) in str(appender.cut)
        appender.append(events(appender.head + 1, 2))
    assert shown.look().grew
    assert path.read_bytes() == lines(0, shown.extent.head + 1)
    shown.close()


def test_the_first_append_of_all_may_be_lost_altogether(path: Path) -> None:
    path.write_bytes(bytes(PAGE) + lines(0, 1000)[PAGE:])
    with Appender(path) as appender:
        assert appender.head == -1
        assert appender.cut is not None
        assert appender.append(events(0, 1)) == 0


def test_damage_that_no_append_explains_is_not_cut(path: Path) -> None:
    data = lines(0, 200_000)
    damaged = data[:500_000] + b"\0" * (len(data) - 500_000)
    path.write_bytes(damaged)
    with pytest.raises(JournalUnusable, match="nothing was cut"):
        Appender(path)
    assert path.read_bytes() == damaged


def test_a_text_that_is_no_journal_is_left_alone(path: Path) -> None:
    path.write_text("EVENT LOG of a birthday\n")
    with pytest.raises(JournalUnusable, match="nothing was cut"):
        Appender(path)
    assert path.read_text() == "EVENT LOG of a birthday\n"


def test_opening_writes_the_end_once_more_before_it_syncs_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that failed in a process that is dead may have lost it, and the next one may say yes all the same."""
    count = 2 * APPEND_BYTES_MAX // len(lines(100_000, 1)) + 1000
    data = lines(0, count)
    path.write_bytes(data + b"EVENT torn")
    done: list[tuple[int, int] | str] = []
    pwrite, sync_file = os.pwrite, files.sync_file

    def write(descriptor: int, left: bytes, offset: int) -> int:
        done.append((offset, pwrite(descriptor, left[:500_000], offset)))  # it may take less than it is given
        return done[-1][1]

    def sync(descriptor: int) -> None:
        done.append("synced")
        sync_file(descriptor)

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(files, "sync_file", sync)
    with Appender(path) as appender:
        assert appender.head == count - 1
        assert done.pop() == "synced"
        assert path.read_bytes() == data
        assert done[0][0] == len(data) - APPEND_BYTES_MAX
        assert sum(size for _, size in done) == APPEND_BYTES_MAX
        appender.append(events(count, 2))
    assert path.read_bytes() == lines(0, count + 2)
