"""What is read from standard input, in whatever pieces it comes."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.errors import BadInput
from consumer.publisher import Appender
from consumer.publisher.journal.intake import append_all, number_deltas
from consumer.sources.tcp.wire import SEQ_MAX

from .helpers import lines


def feed(path: Path, pieces: list[bytes], *, number: bool) -> list[int]:
    """Append what comes in pieces, and give the progress that was told."""
    told: list[int] = []
    left = [*pieces, b""]
    with Appender(path) as appender:
        append_all(appender, lambda: left.pop(0), number=number, progress=told.append)
    return told


@settings(max_examples=40)
@given(st.lists(st.integers(-1000, 1000), max_size=60), st.lists(st.integers(0, 300), max_size=6), st.booleans())
def test_the_pieces_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, deltas: list[int], cuts: list[int], number: bool
) -> None:
    path = tmp_path_factory.mktemp("intake") / "journal"
    wanted = b"".join(b"EVENT %d %d\n" % event for event in enumerate(deltas))
    data = b"".join(b"%d\n" % delta for delta in deltas) if number else wanted
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[low:high] for low, high in pairwise(ends) if low < high]
    told = feed(path, pieces, number=number)
    assert path.read_bytes() == wanted
    assert told[-1:] in ([], [len(deltas)])


def test_bare_deltas_go_on_with_the_next_number(path: Path) -> None:
    path.write_bytes(lines(0, 3))
    assert feed(path, [b"5\n-7\n", b"0\n"], number=True) == [2, 3]
    assert path.read_bytes() == lines(0, 3) + b"EVENT 3 5\nEVENT 4 -7\nEVENT 5 0\n"


def test_a_journal_can_be_copied(path: Path) -> None:
    data = b"SNAPSHOT 9 4\n" + lines(10, 3)
    assert feed(path, [data], number=False) == [3]
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("given", "number", "message"),
    [
        (
            lines(3, 2) + b"EVENT 6 1\n" + lines(5, 9),
            False,
            "line 3: event 6 came where 5 was due; 2 events appended before it",
        ),
        (
            lines(3, 1) + b"EVENT 4\n" + lines(4, 9),
            False,
            "line 2: there is b'EVENT 4\\n' where an event was due; 1 event appended before it",
        ),
        (
            b"EVENT 3 1\r\nEVENT 4 1\r\n",
            False,
            "line 1: there is b'EVENT 3 1\\r\\n' where an event was due; it ends in CRLF, and a journal's lines end in LF",
        ),
        (b"5\n", False, "line 1: there is b'5\\n' where an event was due; a delta alone has no number; 0 events"),
        (b"\n", False, "line 1: there is b'\\n' where an event was due; 0 events"),
        (b"SNAPSHOT 3 4\n", False, "line 1: there is SNAPSHOT where an event was due; 0 events"),
        (lines(3, 1) + b"EVENT 4 1", False, "line 2: there is no newline after b'EVENT 4 1'"),
        (b"1\n1\n01\n1\n", True, "line 3: b'01\\n' is no delta"),
        (b"1\n1\n1001\n", True, "line 3: b'1001\\n' is no delta: a whole number from -1000 to 1000"),
        (
            b"1\n1\r\n1\n",
            True,
            "line 2: b'1\\r\\n' is no delta: a whole number from -1000 to 1000, alone on its line; it ends in CRLF",
        ),
        (b"1\n\n1\n", True, "line 2: b'\\n' is no delta"),
        (b"1\n" + b"1" * 70, True, "line 2: b'1111"),
        (b"1\n2", True, "line 2: there is no newline after b'2'"),
        (
            lines(3, 1),
            True,
            "line 1: b'EVENT 3 -997\\n' is no delta: a whole number from -1000 to 1000, alone on its line; an EVENT line",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_first_bad_line_is_named_and_nothing_after_it_is_written(
    path: Path, given: bytes, number: bool, message: str, size: int
) -> None:
    path.write_bytes(lines(0, 3))
    with pytest.raises(BadInput) as caught:
        feed(path, [given[at : at + size] for at in range(0, len(given), size)], number=number)
    text = str(caught.value)
    assert text.startswith(message)
    appended = int(re.search(r"([0-9]+) events? appended before it", text)[1])
    assert path.read_bytes().count(b"\n") == 3 + appended
    assert f"last event is {2 + appended}:" in text


def test_when_the_numbers_are_used_up_no_delta_is_taken() -> None:
    numbered, rest, fault = number_deltas(b"1\n2\n3\n", SEQ_MAX - 1)
    assert numbered == b"EVENT 2147483646 1\nEVENT 2147483647 2\n"
    assert (rest, fault) == (b"3\n", "no number is left for it, 2147483647 is the last")
