"""A journal that something has happened to: it is read as a naive reader reads it, or refused; never wrong, never in full.

Sizes are made small, so that a file of some KB has what one of many MiB has: a beginning, a middle that nobody
validates, and an end of one append.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, target
from hypothesis import strategies as st

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.core.events import SEQ_MAX
from consumer.publisher.journal import append, extent
from consumer.publisher.journal import reader as journal
from consumer.publisher.journal.append import Appender
from consumer.publisher.journal.reader import JournalReader
from consumer.sources.tcp.wire import LINE_BYTES_MAX, Snapshot, encode_control, encode_event

from . import naive
from .mutations import CUTS, DELTAS, MUTATIONS, PLACES, examples, mutated, pieces

APPEND_BYTES = 512
TAIL_BYTES = APPEND_BYTES + 2 * LINE_BYTES_MAX
READ_BYTES_MAX = TAIL_BYTES
"""No single read of the file may be larger, whatever is in it."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (extent, append):
        monkeypatch.setattr(room, "APPEND_BYTES_MAX", APPEND_BYTES)
    monkeypatch.setattr(extent, "TAIL_BYTES", TAIL_BYTES)
    monkeypatch.setattr(extent, "PIECE_BYTES", 4 * LINE_BYTES_MAX)
    monkeypatch.setattr(journal, "LOOK_BYTES", APPEND_BYTES)
    for call in ("sync_file", "sync_folder"):  # no power is cut here, and a disk takes longer than all the rest
        monkeypatch.setattr(disk, call, lambda _: None)
    read = JournalReader.read

    def bounded(self: JournalReader, offset: int, size: int) -> bytes:
        assert size <= READ_BYTES_MAX
        return read(self, offset, size)

    monkeypatch.setattr(JournalReader, "read", bounded)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def lines(first: int, count: int) -> bytes:
    """Consecutive events of uneven lengths, up to the highest number."""
    seqs = range(first, min(first + count, SEQ_MAX + 1))
    return b"".join(encode_event(seq, seq * 7 % 2001 - 1000) for seq in seqs)


def good_journal(first: int, count: int, total: int | None) -> bytes:
    """Events behind a snapshot, or without one."""
    return (b"" if total is None else encode_control(Snapshot(first - 1, total))) + lines(first, count)


FIRSTS = st.one_of(st.just(0), st.integers(0, 1200), st.integers(SEQ_MAX - 60, SEQ_MAX))
JOURNALS = st.builds(good_journal, FIRSTS, st.integers(0, 12) | st.integers(40, 110), st.none() | DELTAS)
DAMAGED = st.builds(mutated, JOURNALS, MUTATIONS)


def opened(path: Path) -> JournalReader | None:
    """The journal, or None where it is refused with what is wrong."""
    try:
        return JournalReader(path)
    except JournalUnusable:
        return None


def check_read(data: bytes, found: JournalReader, expected: naive.Read) -> None:
    """All that a small file holds, and no more."""
    extent = found.extent
    assert extent.end == (expected.end if expected.events else expected.start)
    assert extent.snapshot == expected.snapshot
    assert extent.events == len(expected.events)
    if expected.due is not None:
        assert extent.head == expected.due - 1
    assert (found.fault is None) is expected.all_counts


def check_slice(data: bytes, found: JournalReader, due: int, last: int, size: int) -> bool:
    """What a consumer at `due - 1` would be sent begins and ends with the right lines, or the damage is said.

    Not so a line that is no event at all: damage that is older than the end which is validated is the consumer's to find.
    """
    try:
        offset = found.find(due)
        if due > found.extent.head:
            assert offset == found.extent.end
            return True
        end, head = found.cut(offset, due, last, size)
    except JournalUnusable:
        return False
    sent, rest = naive.lines(data[offset:end])
    assert rest == b""
    assert due <= head <= last
    assert end <= found.extent.end
    for line, seq in ((sent[0], due), (sent[-1], head)):
        event = naive.event(line)
        assert event is None or event[0] == seq
    return True


@examples(300)
@given(data=DAMAGED, due=PLACES, window=st.integers(1, 60), size=st.integers(extent.EVENT_BYTES_MAX, 700))
@example(data=b"SNAPSHOT 5 1\nSNAPSHOT 5 1\nEVENT 6 1\n", due=0, window=1, size=22)
@example(data=b"SNAPSHOT 2147483647 1\n", due=0, window=1, size=22)
@example(data=b"\0" * 100, due=0, window=1, size=22)
@example(data=b"EVENT 0 1\n" * 200, due=0, window=1, size=22)
@example(data=lines(0, 60) + lines(10, 60), due=15, window=60, size=700)
@example(data=lines(0, 68).replace(b"\nEVENT 23 ", b"\x0bEVENT 23 "), due=1, window=23, size=327)
def test_it_is_read_as_it_is_or_refused(path: Path, data: bytes, due: int, window: int, size: int) -> None:
    path.write_bytes(data)
    expected = naive.journal(data)
    target(float(len(expected.events)), label="events before the damage")
    found = opened(path)
    assert path.read_bytes() == data
    if found is None:
        assert not expected.all_counts or not (expected.events or expected.snapshot)
        return
    try:
        if len(data) <= TAIL_BYTES or expected.all_counts:
            check_read(data, found, expected)
        first, head = found.extent.first, found.extent.head
        seq = first + due % (head - first + 2)
        readable = check_slice(data, found, seq, min(head, seq + window - 1), size)
        assert readable or not (expected.events and expected.end == found.extent.end)
        if readable and seq <= head and expected.end == found.extent.end:
            offset = found.find(seq)
            end, reached = found.cut(offset, seq, min(head, seq + window - 1), size)
            wanted = expected.events[seq - first : reached - first + 1]
            assert data[offset:end] == b"".join(encode_event(*event) for event in wanted)
    finally:
        found.close()


@examples(250)
@given(data=DAMAGED)
@example(data=b"SNAPSHOT 5 1\nEVENT 6 1\nEVENT 6 1\n")
@example(data=b"SNAPSHOT 5 1\n" + b"EVENT")
@example(data=lines(0, 60)[:-1])
@example(data=lines(0, 60) + bytes(600))
@example(data=lines(0, 100)[:500] + bytes(600))
def test_a_repair_leaves_a_journal_and_cuts_no_good_event(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    expected = naive.journal(data)
    try:
        appender = Appender(path)
    except JournalUnusable:
        assert path.read_bytes() == data  # what is refused is left alone
        assert not expected.all_counts or not expected.events
        return
    with appender:
        repaired = path.read_bytes()
        assert data.startswith(repaired)
        assert len(data) - len(repaired) <= TAIL_BYTES
        assert appender.cut is None if repaired == data else appender.cut is not None
        if len(data) <= TAIL_BYTES or expected.all_counts:
            assert len(repaired) == expected.end
            assert naive.journal(repaired).all_counts
        behind = naive.event(data[len(repaired) :].partition(b"\n")[0] + b"\n")
        assert behind is None or behind[0] != appender.head + 1 or b"\n" not in data[len(repaired) :]
        if appender.head < SEQ_MAX and (appender.head >= 0 or appender.extent.end):
            assert appender.append([(appender.head + 1, 7)]) == appender.head
            assert path.read_bytes() == repaired + encode_event(appender.head, 7)
    if naive.journal(path.read_bytes()).all_counts:  # not so where the middle is damaged that nobody validates
        found = opened(path)
        assert found is not None
        assert found.extent.head == appender.head
        found.close()
    target(float(len(data) - len(repaired)), label="what was cut")


@examples(200)
@given(begun=JOURNALS, added=DAMAGED, cuts=CUTS)
def test_what_is_added_is_taken_in_up_to_the_first_bad_line(
    path: Path, begun: bytes, added: bytes, cuts: list[int]
) -> None:
    """As it grows in any pieces; and however it goes on, nothing is shown twice or taken back."""
    path.write_bytes(begun)
    found = opened(path)
    assert found is not None
    try:
        known, fresh = naive.journal(begun), lines(found.extent.head + 1, 3)
        assert found.extent.head + 1 == known.due or known.due is None
        for piece in pieces(fresh + added, cuts):
            with path.open("ab") as file:
                file.write(piece)
            before = found.extent.head
            while not (look := found.look()).complete:
                assert look.grew
            assert not look.replaced
            assert found.extent.head >= before
        check_read(path.read_bytes(), found, naive.journal(path.read_bytes()))
        target(float(found.extent.events), label="events taken in")
    finally:
        found.close()
