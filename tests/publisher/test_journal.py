"""The journal as its publisher sees it: followed as it grows, and on disk before anyone is shown it."""

import os
from pathlib import Path

import pytest

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.publisher.journal.extent import APPEND_BYTES_MAX
from consumer.publisher.journal.reader import JournalReader, Look

from .helpers import lines


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("faulty", [False, True])
@pytest.mark.parametrize("taken_in", [False, True])
@pytest.mark.parametrize("after", [b"EVENT 2 1\nEVENT 3 1\nEVENT 4 1\n", b"EVENT 2 0\n" * 9, b"EVENT 2 1000\n" * 9])
def test_a_file_that_was_cut_and_has_grown_again_between_two_looks_is_noticed(
    path: Path, after: bytes, *, taken_in: bool, faulty: bool
) -> None:
    path.write_bytes(lines(0, 2) + lines(2, 1) * (not taken_in))
    journal = JournalReader(path)
    if taken_in:
        add(path, lines(2, 1))
        assert journal.look().grew
    if faulty:
        add(path, b"no event\n")
        journal.look()
        assert journal.fault is not None
    path.write_bytes(lines(0, 2) + after)
    assert journal.look() == Look(replaced=True)
    journal.close()


def test_what_is_added_is_taken_in(path: Path) -> None:
    path.write_bytes(lines(0, 3))
    journal = JournalReader(path)
    assert journal.look() == Look()
    add(path, lines(3, 4)[:-1])
    assert journal.look() == Look(grew=True)
    assert journal.extent.head == 5
    assert journal.look() == Look()  # the last line is torn
    add(path, b"\n")
    assert journal.look() == Look(grew=True)
    assert journal.extent.head == 6
    journal.close()


def test_nothing_is_shown_that_is_not_on_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(lines(0, 3))
    synced: list[tuple[int, int]] = []
    journal = None

    def sync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, journal.extent.end if journal else 0))

    monkeypatch.setattr(disk, "sync_file", sync)
    journal = JournalReader(path)
    assert synced == [(len(lines(0, 3)), 0)]
    add(path, lines(3, 1))
    journal.look()
    assert synced[1:] == [(len(lines(0, 4)), len(lines(0, 3)))]  # synced before it was shown
    assert journal.extent.end == len(lines(0, 4))
    journal.look()
    assert len(synced) == 2  # nothing new, nothing to sync
    journal.close()


def test_a_sync_that_fails_is_final_and_shows_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(lines(0, 3))
    journal = JournalReader(path)
    add(path, lines(3, 1))

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "sync_file", fail)
    with pytest.raises(JournalUnusable, match="cannot be synced"):
        journal.look()
    assert journal.extent.head == 2
    journal.close()


def test_a_fast_journal_is_taken_in_piece_by_piece(path: Path) -> None:
    path.write_bytes(b"")
    journal = JournalReader(path)
    data = lines(0, 150_000)
    add(path, data)
    looks = [journal.look() for _ in range(3)]
    assert [look.complete for look in looks] == [False, False, True]
    assert journal.extent.end == len(data)
    assert 2 * APPEND_BYTES_MAX < len(data) < 3 * APPEND_BYTES_MAX
    journal.close()


def test_bytes_that_are_no_event_end_what_is_shown_until_they_are_mended(path: Path) -> None:
    path.write_bytes(lines(0, 3))
    journal = JournalReader(path)
    add(path, lines(4, 100_000))
    assert journal.look() == Look()
    assert journal.fault == "event 4 came where 3 was due"
    journal.reads = 0
    assert journal.look() == Look()
    assert journal.reads == 2  # small ones, however much lies behind the fault
    os.truncate(path, journal.extent.end)
    assert journal.look() == Look()
    assert journal.fault is None
    add(path, lines(3, 2))
    assert journal.look() == Look(grew=True)
    assert (journal.extent.head, journal.fault) == (4, None)
    journal.close()


def test_a_fault_that_is_mended_and_grown_over_between_two_looks_is_noticed(path: Path) -> None:
    path.write_bytes(lines(0, 3) + lines(9, 2))
    journal = JournalReader(path)
    assert journal.fault is not None
    path.write_bytes(lines(0, 5))
    assert journal.look() == Look(grew=True)
    assert journal.fault is None
    journal.close()


def test_a_file_that_took_its_place_is_noticed_and_the_old_one_stays_readable(path: Path, tmp_path: Path) -> None:
    path.write_bytes(lines(0, 3))
    journal = JournalReader(path)
    path.unlink()
    assert journal.look() == Look()  # not there yet
    other = tmp_path / "other"
    other.write_bytes(lines(0, 9))
    other.rename(path)
    assert journal.look().replaced
    assert journal.read(0, 100) == lines(0, 3)
    journal.close()


def test_a_file_that_lost_events_is_to_be_opened_anew(path: Path) -> None:
    path.write_bytes(lines(0, 3))
    journal = JournalReader(path)
    os.truncate(path, len(lines(0, 2)))
    assert journal.look().replaced
    journal.close()


def test_its_descriptor_is_closed_when_nobody_holds_it(path: Path) -> None:
    path.write_bytes(lines(0, 3))
    journal = JournalReader(path)
    descriptor = journal.descriptor
    del journal
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_an_event_is_found_and_cut_by_a_handful_of_reads(path: Path) -> None:
    path.write_bytes(b"SNAPSHOT 9 0\n" + lines(10, 300_000))
    journal = JournalReader(path)
    for seq in (10, 11, 200_000, 300_009, 300_010):
        journal.reads = 0
        offset = journal.find(seq)
        assert journal.reads <= 64
        if seq <= journal.extent.head:
            end, head = journal.cut(offset, seq, seq + 4, 65536)
            assert journal.read(offset, end - offset) == lines(seq, head - seq + 1)
    assert offset == journal.extent.end
    journal.close()


def test_damage_in_old_events_is_an_error_and_no_answer(path: Path) -> None:
    data = lines(0, 300_000)
    path.write_bytes(data[:1_000_000] + b"\0" * 8192 + data[1_008_192:])
    journal = JournalReader(path)
    with pytest.raises(JournalUnusable, match="restore it from a copy"):
        journal.find(data[:1_004_096].count(b"\n"))
    with pytest.raises(JournalUnusable, match="restore it from a copy"):
        journal.cut(0, 0, 2**31, 1_000_000 + 4096)
    journal.close()


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "text", "damaged"])
def test_what_is_no_journal_is_refused_with_what_to_do(path: Path, kind: str) -> None:
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "text":
            path.write_text("some text\n")
        case "damaged":
            path.write_bytes(lines(0, 100) + b"\0" * 3_000_000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(JournalUnusable) as caught:
        JournalReader(path)
    assert str(path) in str(caught.value)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_it_is_opened_for_reading_alone(path: Path) -> None:
    path.write_bytes(lines(0, 3))
    path.chmod(0o444)
    journal = JournalReader(path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(journal.descriptor, b"x")
    journal.close()
