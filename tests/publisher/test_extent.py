"""What a journal holds, from its bytes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.publisher.journal.extent import (
    APPEND_BYTES_MAX,
    EMPTY,
    TAIL_BYTES,
    Damage,
    Extent,
    NoJournal,
    answer,
    cut_slice,
    extend,
    find_line,
    survey,
)
from consumer.sources.tcp.wire import SEQ_MAX, Ahead, Snapshot, Truncated, encode_event

from .helpers import lines

READS_MAX = 64

starts = st.sampled_from([0, 1, 9, 95, 99_990, SEQ_MAX - 400])
journals = st.builds(
    lambda first, deltas: (first, b"".join(encode_event(first + n, delta) for n, delta in enumerate(deltas))),
    starts,
    st.lists(st.sampled_from([0, 1, -1000, 77]), min_size=1, max_size=400),
)


def reader(data: bytes, counted: list[int] | None = None) -> Callable[[int, int], bytes]:
    def read(offset: int, size: int) -> bytes:
        if counted is not None:
            counted.append(size)
        return data[offset : offset + size]

    return read


@pytest.mark.parametrize(
    ("journal", "shown"),
    [
        (b"", "no event yet"),
        (lines(0, 1), "event 0"),
        (lines(7, 2), "events 7 to 8"),
        (b"SNAPSHOT 9 1\n", "no event after 9 yet"),
    ],
)
def test_what_it_holds_is_said_in_words(journal: bytes, shown: str) -> None:
    assert str(extended(journal)) == shown


def extended(data: bytes) -> Extent:
    extent, fault = extend(EMPTY, data)
    assert fault is None
    return extent


@given(journals)
def test_a_journal_of_good_lines_is_all_counted(journal: tuple[int, bytes]) -> None:
    first, data = journal
    extent = extended(data)
    assert (extent.start, extent.end, extent.first) == (0, len(data), first)
    assert extent.events == data.count(b"\n")


@given(journals, st.data())
def test_wherever_the_bytes_are_divided_the_same_is_counted(journal: tuple[int, bytes], data: st.DataObject) -> None:
    _, whole = journal
    whole = b"SNAPSHOT %d 5\n" % (journal[0] - 1) + whole
    at = data.draw(st.integers(0, len(whole)))
    first, fault = extend(EMPTY, whole[:at])
    assert fault is None
    assert extend(first, whole[first.end :]) == (extended(whole), None)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"EVENT 3 1\n", "event 3 came where 2 was due"),
        (b"EVENT 1 1\n", "event 1 came where 2 was due"),
        (b"EVENT 02 1\n", "b'EVENT 02 1\\n'"),
        (b"\0" * 64, "where an event was due"),
        (b"SNAPSHOT 1 1\n", "SNAPSHOT where an event was due"),
        (b"TRUNCATED 1\n", "TRUNCATED where an event was due"),
        (b"x" * 64, "where an event was due"),
    ],
)
def test_the_first_line_that_is_not_the_next_event_ends_the_journal(tail: bytes, reason: str) -> None:
    extent, fault = extend(EMPTY, lines(0, 2) + tail + lines(2, 1))
    assert (extent.end, extent.head) == (len(lines(0, 2)), 1)
    assert fault is not None
    assert reason in fault


@pytest.mark.parametrize("torn", [b"", b"E", b"EVENT 2", b"EVENT 2 1", b"anything that may still be mended"])
def test_a_torn_last_line_does_not_count_and_is_no_fault(torn: bytes) -> None:
    extent, fault = extend(EMPTY, lines(0, 2) + torn)
    assert (extent.head, fault) == (1, None)


def test_a_snapshot_line_says_where_the_numbers_begin() -> None:
    extent, fault = extend(EMPTY, b"SNAPSHOT 41 -7\n" + lines(42, 3))
    assert fault is None
    assert extent == Extent(15, 15 + len(lines(42, 3)), 42, 44, Snapshot(41, -7))
    assert extend(EMPTY, b"SNAPSHOT 41 -7\nEVENT 41 1\n")[1] == "event 41 came where 42 was due"


def test_a_snapshot_alone_is_a_journal_without_events() -> None:
    extent = extended(b"SNAPSHOT -1 0\n")
    assert (extent.first, extent.head, extent.events) == (0, -1, 0)


def test_no_event_follows_the_highest_number() -> None:
    extent = extended(encode_event(SEQ_MAX, 1))
    assert extend(extent, b"EVENT 2147483648 1\n")[0] == extent


# The survey of a whole file.


def test_a_large_file_is_known_from_its_first_line_and_its_last_mib() -> None:
    data = b"SNAPSHOT 9 1\n" + lines(10, 200_000)
    sizes: list[int] = []
    extent, fault = survey(reader(data, sizes), len(data))
    assert (extent, fault) == (extended(data), None)
    assert len(sizes) == 2
    assert sum(sizes) < TAIL_BYTES + 1000


@pytest.mark.parametrize("events", [79_000, 80_500])  # just below and above what is validated as a whole
def test_a_cut_where_the_last_append_began_is_found_whatever_the_append_was(events: int) -> None:
    sound = lines(0, events)
    append = lines(events, 70_000)[:APPEND_BYTES_MAX]
    damaged = sound + b"\0" * 4096 + append[4096:]
    extent, fault = survey(reader(damaged), len(damaged))
    assert extent == extended(sound)
    assert fault is not None


def test_damage_further_back_than_one_append_is_not_a_case_for_cutting() -> None:
    data = lines(0, 200_000)
    damaged = data[:-TAIL_BYTES] + b"\0" * 8192 + data[-TAIL_BYTES + 8192 :]
    with pytest.raises(Damage, match="where an event was due"):
        survey(reader(damaged), len(damaged))


@pytest.mark.parametrize(
    "other", [b"hello\n", b"EVENT LOG of 2024\nEVENT 0 1\n", b"#!/bin/sh", b"\n", b"\0\0\0\0x" * 9, b"\0", b"EVENT 0x"]
)
@pytest.mark.parametrize("size", [1, 200_000])
def test_a_file_that_never_was_a_journal_is_refused(other: bytes, size: int) -> None:
    with pytest.raises(NoJournal):
        survey(reader(other * size), len(other * size))


@pytest.mark.parametrize("blank", [b"", *(lines(9, 1)[:size] for size in range(1, 12)), b"SNAPSH", b"SNAPSHOT -1 -"])
def test_a_file_whose_first_line_is_torn_is_an_empty_journal(blank: bytes) -> None:
    assert survey(reader(blank), len(blank))[0] == EMPTY


# Finding and cutting.


@given(journals, st.data())
def test_every_event_is_found_at_its_line(journal: tuple[int, bytes], data: st.DataObject) -> None:
    first, whole = journal
    seq = data.draw(st.integers(first, first + whole.count(b"\n") - 1))
    assert whole[find_line(reader(whole), 0, len(whole), seq) :].startswith(b"EVENT %d " % seq)


def test_bisection_in_a_large_journal_needs_few_small_reads() -> None:
    data = lines(0, 300_000)
    for seq in (1, 77_777, 150_000, 299_999):
        sizes: list[int] = []
        assert data[find_line(reader(data, sizes), 0, len(data), seq) :].startswith(b"EVENT %d " % seq)
        assert len(sizes) <= READS_MAX
        assert max(sizes) <= 4096


def test_bisection_in_the_largest_journal_that_can_be() -> None:
    """2**31 events of 23 bytes: 49 GB, which are not written but made up when they are read."""
    sizes: list[int] = []

    def read(offset: int, size: int) -> bytes:
        sizes.append(size)
        first, skip = divmod(offset, 23)
        made = b"".join(b"EVENT %010d -1000\n" % seq for seq in range(first, first + size // 23 + 2))
        return made.replace(b"EVENT 0", b"EVENT 1")[skip : skip + size]  # no leading zeros: numbers from 10**9 on

    find_line(read, 0, 23 * 2**30, 1_000_000_000 + 123_456_789)
    assert len(sizes) <= READS_MAX


def test_an_event_that_is_not_where_it_must_be_is_damage() -> None:
    data = lines(0, 1000) + lines(1001, 1000)
    with pytest.raises(Damage):
        find_line(reader(data), 0, len(data), 1000)
    with pytest.raises(Damage):
        find_line(reader(b"\0" * 100_000), 0, 100_000, 7)


@given(journals, st.data())
def test_a_slice_is_of_whole_lines_and_ends_where_the_window_does(
    journal: tuple[int, bytes], data: st.DataObject
) -> None:
    first, whole = journal
    head = first + whole.count(b"\n") - 1
    due = data.draw(st.integers(first, head))
    last = data.draw(st.integers(due, head))
    low = find_line(reader(whole), 0, len(whole), due)
    high = min(len(whole), low + data.draw(st.integers(64, len(whole) + 64)))
    end, reached = cut_slice(reader(whole), low, high, due, last)
    piece = whole[low:end]
    assert piece.startswith(b"EVENT %d " % due)
    assert piece.endswith(b"\n")
    assert due <= reached <= last
    assert piece.count(b"\n") == reached - due + 1
    assert end <= high


@pytest.mark.parametrize("damaged", [b"\0" * 40, lines(0, 2) + b"x\n", lines(0, 1) + lines(900, 1), lines(5, 4)])
def test_a_slice_with_an_end_that_cannot_be_is_damage(damaged: bytes) -> None:
    with pytest.raises(Damage):
        cut_slice(reader(damaged), 0, len(damaged), 0, 10_000)


# Answers.


def test_what_answers_a_resume() -> None:
    from_ten = extended(lines(10, 5))
    assert [answer(from_ten, last) for last in (-1, 8, 9, 14, 15)] == [
        Truncated(10),
        Truncated(10),
        None,
        None,
        Ahead(14),
    ]
    snapshot = extended(b"SNAPSHOT 9 4\n" + lines(10, 5))
    assert [answer(snapshot, last) for last in (-1, 8, 9, 15)] == [Snapshot(9, 4), Snapshot(9, 4), None, Ahead(14)]
    assert [answer(EMPTY, last) for last in (-1, 0)] == [None, Ahead(-1)]


def test_a_slice_of_uneven_lines_ends_exactly_where_the_window_does() -> None:
    """Long lines, then short ones: where a line is cannot be told from their average length."""
    data = b"".join(encode_event(seq, -1000 if seq < 11_000 else 0) for seq in range(1000, 21_000))
    for last in (1001, 6000, 10_999, 11_000, 16_000, 20_998):
        end, reached = cut_slice(reader(data), 0, len(data), 1000, last)
        assert reached == last
        assert data[:end].count(b"\n") == last - 999
        assert data[end:].startswith(b"EVENT %d " % (last + 1))


def test_a_later_read_goes_on_with_the_next_number_alone() -> None:
    begun, _ = extend(EMPTY, lines(0, 3))
    assert extend(begun, b"EVENT 5 1\n") == (begun, "event 5 came where 3 was due")
    assert extend(begun, b"EVENT 2 1\n") == (begun, "event 2 came where 3 was due")
    assert extend(begun, lines(3, 1)) == (replace(begun, end=begun.end + len(lines(3, 1)), head=3), None)
