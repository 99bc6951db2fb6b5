"""wire.decode, the bulk reader: on any cut of any stream it says what the line parser says."""

import random
from typing import Any

import pytest

from consumer import parse_line
from consumer.core.errors import MalformedFrame
from consumer.sources.tcp.wire import decode

from .helpers import DELTA_MAX, SEQ_MAX

EVENT = tuple[int, int]

# As many events as there are seqs, each with the largest delta.
TOTAL_MAX = (SEQ_MAX + 1) * DELTA_MAX


def is_number(text: bytes, low: int, high: int) -> bool:
    """Canonical: what Python itself would print for an int within the range."""
    try:
        value = int(text)
    except ValueError:
        return False
    return low <= value <= high and text == b"%d" % value


def is_control(line: bytes) -> bool:
    """Whether a whole line is one of the three frames that are no events, told without a pattern."""
    if len(line) > 64 or not line.endswith(b"\n") or not line.isascii():
        return False
    word, *numbers = line[:-1].split(b" ")
    if word == b"SNAPSHOT" and len(numbers) == 2:
        return is_number(numbers[0], -1, SEQ_MAX) and is_number(numbers[1], -TOTAL_MAX, TOTAL_MAX)
    if word == b"TRUNCATED" and len(numbers) == 1:
        return is_number(numbers[0], 0, SEQ_MAX)
    return word == b"AHEAD" and len(numbers) == 1 and is_number(numbers[0], -1, SEQ_MAX)


def kind(stop: Any) -> str | None:
    """How a reading ended; a malformed frame is an object, an error of its own kind, not raised."""
    if stop is None:
        return None
    if isinstance(stop, BaseException):
        assert type(stop) is MalformedFrame
        assert isinstance(stop, ValueError)
        return "malformed"
    return "control"


def line_by_line(stream: bytes) -> tuple[list[EVENT], bytes, str | None]:
    """The same verdict by way of parse_line; the rest is what stood unfinished at the end."""
    events: list[EVENT] = []
    while b"\n" in stream:
        head, _, rest = stream.partition(b"\n")
        try:
            events.append(parse_line(head + b"\n"))
        except ValueError:
            return events, b"", "control" if is_control(head + b"\n") else "malformed"
        stream = rest
    return events, stream, "malformed" if len(stream) >= 64 else None


def in_pieces(stream: bytes, cuts: list[int]) -> tuple[list[EVENT], bytes, str | None]:
    """What a reader has after feeding the stream piece by piece, each with the rest before it."""
    events: list[EVENT] = []
    rest = b""
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        some, rest, stop = decode(rest + stream[begin:end])
        assert type(some) is list
        assert all(type(event) is tuple for event in some)
        assert all(type(value) is int for event in some for value in event)
        assert type(rest) is bytes
        events += some
        if kind(stop) is not None:
            return events, b"", kind(stop)
    return events, rest, None


def agree(stream: bytes, cuts: list[int]) -> None:
    got, expected = in_pieces(stream, cuts), line_by_line(stream)
    if expected[2] is not None and len(expected[1]) >= 64:
        expected = (expected[0], b"", expected[2])
    assert got == expected, (stream, cuts)


# --- whole lines and rests -----------------------------------------------------------------------


def test_an_empty_buffer_holds_nothing() -> None:
    assert decode(b"") == ([], b"", None)


def test_whole_lines_become_plain_tuples() -> None:
    events, rest, stop = decode(b"EVENT 0 5\nEVENT 1 -5\nEVENT 2147483647 1000\n")
    assert events == [(0, 5), (1, -5), (2147483647, 1000)]
    assert type(events) is list
    assert [type(event) for event in events] == [tuple] * 3
    assert {type(value) for event in events for value in event} == {int}
    assert rest == b""
    assert type(rest) is bytes
    assert stop is None


def test_decoding_does_not_judge_the_order_of_seqs() -> None:
    assert decode(b"EVENT 7 1\nEVENT 3 1\nEVENT 3 2\n") == ([(7, 1), (3, 1), (3, 2)], b"", None)


@pytest.mark.parametrize("size", range(len(b"EVENT 10 -5\n")))
def test_an_unfinished_tail_is_handed_back(size) -> None:
    tail = b"EVENT 10 -5\n"[:size]
    assert decode(tail) == ([], tail, None)
    assert decode(b"EVENT 9 1\n" + tail) == ([(9, 1)], tail, None)


def test_a_tail_that_cannot_become_a_frame_is_not_judged_before_it_is_whole() -> None:
    assert decode(b"EVENT 9 1\nnonsense") == ([(9, 1)], b"nonsense", None)


@pytest.mark.parametrize("size", [1, 12, 62, 63])
def test_an_unfinished_rest_of_less_than_64_bytes_is_waited_for(size) -> None:
    assert decode(b"7" * size) == ([], b"7" * size, None)


@pytest.mark.parametrize("size", [64, 65, 1000, 100_000])
def test_an_unfinished_rest_of_64_bytes_or_more_is_malformed(size) -> None:
    events, _, stop = decode(b"EVENT 0 1\n" + b"7" * size)
    assert events == [(0, 1)]
    assert kind(stop) == "malformed"


# --- stops ---------------------------------------------------------------------------------------

MALFORMED = [
    b"\n",
    b"EVENT 1\n",
    b"EVENT 1 2 3\n",
    b"EVENT 01 2\n",
    b"EVENT 1 -0\n",
    b"EVENT 1 +2\n",
    b"EVENT 1 2\r\n",
    b"EVENT 1  2\n",
    b"EVENT 1 2 \n",
    b"EVENT 2147483648 0\n",
    b"EVENT 9999999999 0\n",
    b"EVENT 1 1001\n",
    b"EVENT 1 -1001\n",
    b"EVENT 1 \xb2\n",
    b"EVENT 1,2\n",
    b"EVENT 1.0 2\n",
    b"EVENT [1] 2\n",
    b"EVENT 1 null\n",
    b"RESUME -1\n",
    b"ACK 1\n",
    b"event 1 2\n",
    b"\x00" * 63 + b"\n",
    b"EVENT 1 2" + b" " * 90 + b"\n",
]


@pytest.mark.parametrize("line", MALFORMED, ids=repr)
@pytest.mark.parametrize("behind", [b"", b"EVENT 2 2\n", b"EVENT 2", b"\n" * 99])
def test_the_first_line_that_the_parser_refuses_stops_the_reading(line, behind) -> None:
    events, rest, stop = decode(b"EVENT 0 5\nEVENT 1 6\n" + line + behind)
    assert events == [(0, 5), (1, 6)]
    assert kind(stop) == "malformed"
    assert type(rest) is bytes
    events, _, stop = decode(line + behind)
    assert events == []
    assert kind(stop) == "malformed"


CONTROL = {
    b"SNAPSHOT 5 -70\n": {"last": 5, "total": -70},
    b"SNAPSHOT -1 0\n": {"last": -1, "total": 0},
    b"SNAPSHOT 2147483647 2147483648000\n": {"last": 2147483647, "total": 2147483648000},
    b"SNAPSHOT 2147483647 -2147483648000\n": {"last": 2147483647, "total": -2147483648000},
    b"TRUNCATED 10\n": {"first": 10},
    b"TRUNCATED 2147483647\n": {"first": 2147483647},
    b"AHEAD 9\n": {"head": 9},
    b"AHEAD -1\n": {"head": -1},
}


@pytest.mark.parametrize("line", CONTROL, ids=repr)
@pytest.mark.parametrize("before", [b"", b"EVENT 0 5\n"])
def test_a_control_frame_stops_the_reading_with_its_numbers(line, before) -> None:
    events, rest, stop = decode(before + line + b"EVENT 6 1\nEVE")
    assert events == [(0, 5)] * bool(before)
    assert kind(stop) == "control"
    for name, value in CONTROL[line].items():
        assert getattr(stop, name) == value
    # Events may follow a SNAPSHOT: nothing of what came with it is lost.
    assert decode(rest) == ([(6, 1)], b"EVE", None)


NO_CONTROL = [
    b"SNAPSHOT 5\n",
    b"SNAPSHOT 5 6 7\n",
    b"SNAPSHOT -2 0\n",
    b"SNAPSHOT 05 0\n",
    b"SNAPSHOT 5 -0\n",
    b"SNAPSHOT 5 +1\n",
    b"SNAPSHOT  5 1\n",
    b"SNAPSHOT 5 1\r\n",
    b"SNAPSHOT 2147483648 0\n",
    b"TRUNCATED\n",
    b"TRUNCATED -1\n",
    b"TRUNCATED 010\n",
    b"TRUNCATED 10 \n",
    b"TRUNCATED 2147483648\n",
    b"AHEAD\n",
    b"AHEAD -2\n",
    b"AHEAD -0\n",
    b"AHEAD 9 9\n",
    b"AHEAD 2147483648\n",
    b"ahead 9\n",
    b"AHEADS 9\n",
]


@pytest.mark.parametrize("line", NO_CONTROL, ids=repr)
def test_what_only_resembles_a_control_frame_is_malformed(line) -> None:
    events, _, stop = decode(b"EVENT 0 5\n" + line)
    assert events == [(0, 5)]
    assert kind(stop) == "malformed"


# --- against the line parser ---------------------------------------------------------------------

LINES = [
    *MALFORMED,
    *(line for line in CONTROL if len(line) < 20),  # far from where a total becomes impossible
    *NO_CONTROL,
    b"EVENT 2147483648 1\n",
    b"EVENT 2147483649 -1\n",
    b"EVENT 5 1\x0b\n",
    b"EVENT 5 1",
    b"EVENT ",
    b"E" * 70,
]


def stream_of(rng: random.Random) -> bytes:
    """Some good lines, most often one that is not, some behind it, a torn one at the last."""
    lines = [
        b"EVENT %d %d\n" % (rng.getrandbits(rng.randrange(1, 32)), rng.randrange(-1000, 1001))
        for _ in range(rng.randrange(40))
    ]
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(LINES))
    stream = b"".join(lines)
    if rng.random() < 0.4 and stream:
        at = rng.randrange(len(stream))
        stream = stream[:at] + bytes([rng.randrange(256)]) + stream[at + rng.randrange(3) :]
    return stream[: len(stream) - rng.choice((0, 0, 0, rng.randrange(1, 20)))]


def test_streams_cut_at_random_places_are_read_as_line_by_line() -> None:
    rng = random.Random(20240608)
    for _ in range(6000):
        stream = stream_of(rng)
        cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.choice((0, 1, 3, 10))))
        agree(stream, cuts)


def test_a_stream_may_come_a_byte_at_a_time() -> None:
    stream = b"".join(b"EVENT %d %d\n" % (seq, seq - 100) for seq in range(200)) + b"EVENT 200"
    agree(stream, list(range(1, len(stream))))


@pytest.mark.parametrize("line", LINES, ids=repr)
def test_every_single_cut_of_a_short_stream_is_the_same(line) -> None:
    stream = b"EVENT 0 5\n" + line + b"EVENT 1 -5\nEVENT"
    for cut in range(len(stream) + 1):
        agree(stream, [cut])


def test_a_bad_seq_deep_in_a_large_chunk_is_found() -> None:
    lines = [b"EVENT %d 1\n" % seq for seq in range(5000)]
    for at in [0, 1, 2500, 4999]:
        bad = [*lines[:at], b"EVENT 2147483648 1\n", *lines[at:]]
        events, _, stop = decode(b"".join(bad))
        assert events == [(seq, 1) for seq in range(at)]
        assert kind(stop) == "malformed"


def test_random_bytes_never_raise() -> None:
    rng = random.Random(5)
    alphabet = b"EVNT 0123456789-\n\n"
    for _ in range(5000):
        agree(rng.randbytes(rng.randrange(200)), [])
        agree(bytes(rng.choices(alphabet, k=rng.randrange(100))), [])
        agree(b"EVENT 0 1\n" + rng.randbytes(rng.randrange(100)), [])


def test_a_mebibyte_of_good_lines_is_read_in_one_piece() -> None:
    expected = [(seq, seq % 2001 - 1000) for seq in range(70_000)]
    stream = b"".join(b"EVENT %d %d\n" % event for event in expected)
    assert decode(stream) == (expected, b"", None)


def test_of_several_numbers_out_of_range_the_first_ends_what_is_read() -> None:
    good, bad, worse = b"EVENT 0 1\n", b"EVENT 2147483648 1\n", b"EVENT 2147483649 1\n"
    events, rest, stop = decode(good + bad + worse + good)
    assert (events, rest) == ([(0, 1)], bad + worse + good)
    assert isinstance(stop, MalformedFrame)
    assert stop.line == bad
