"""What arrives from a peer: whatever it is and however it is cut, the decoder says what a reader of lines says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, target
from hypothesis import strategies as st

from consumer.core.errors import MalformedFrame
from consumer.sources.tcp.wire import (
    LINE_BYTES_MAX,
    decode,
    decode_acks,
    decode_events,
    encode_ack,
    encode_event,
    parse_line,
)
from consumer.sources.tcp.wire import parse_resume as parse

from . import naive
from .mutations import AWKWARD, CONTROLS, CURSORS, CUTS, LINES, MUTATIONS, SEQS, examples, mutated, pieces

Decode = Callable[[bytes], tuple[Any, bytes, Any]]

STREAMS = st.lists(LINES | LINES | LINES | CONTROLS, max_size=12).map(b"".join)
ACKS = st.lists(SEQS.map(encode_ack), max_size=12).map(b"".join)


def taken(decode: Decode, arriving: list[bytes]) -> tuple[list[Any], bytes, Any]:
    """What a feed makes of pieces: each is read with what was left of those before it, up to the first stop."""
    found: list[Any] = []
    rest = b""
    for piece in arriving:
        some, rest, stop = decode(rest + piece)
        found += some
        if stop is not None:
            return found, rest, stop
        assert len(rest) < LINE_BYTES_MAX
    return found, rest, None


def read_naively(data: bytes, read: Callable[[bytes], Any], control: Callable[[bytes], Any]) -> tuple[list[Any], Any]:
    """The good lines at the beginning; and the control frame or `MalformedFrame` that ends them, or None."""
    found = []
    whole, rest = naive.lines(data)
    for line in whole:
        value = read(line)
        if value is None:
            return found, control(line) or MalformedFrame
        found.append(value)
    return found, MalformedFrame if len(rest) >= LINE_BYTES_MAX else None


def check(data: bytes, cuts: list[int], decode: Decode, read: Any, encode: Any, control: Any) -> int:
    found, rest, stop = taken(decode, pieces(data, cuts))
    expected, end = read_naively(data, read, control)
    assert found == expected
    assert (
        end is (MalformedFrame if isinstance(stop, MalformedFrame) else None)
        if end in {None, MalformedFrame}
        else stop == end
    )
    # Nothing is lost and nothing is made up: what was read, as it must have stood, is followed by what was not.
    good = b"".join(encode(value) for value in found)
    assert data.startswith(good)
    behind = data[len(good) :]
    if stop is None:
        assert rest == behind
    elif isinstance(stop, MalformedFrame):
        assert behind.startswith(rest[: len(stop.line)])
        assert stop.line == rest[: len(stop.line)]
        assert len(stop.line) >= LINE_BYTES_MAX or stop.line.endswith(b"\n")
    else:
        assert behind[behind.index(b"\n") + 1 :].startswith(rest)
    target(float(len(found)), label="good lines")
    target(float(len(rest)), label="what is left")
    return len(found)


@examples(400)
@given(data=st.builds(mutated, STREAMS, MUTATIONS), cuts=CUTS)
@example(data=b"EVENT 2147483647 1\nEVENT 2147483648 1\nEVENT 1 1\n", cuts=[])
@example(data=b"EVENT 1 1\n" + b"7" * 63, cuts=[])
@example(data=b"EVENT 1 1\n" + b"7" * 64, cuts=[73])
@example(data=b"SNAPSHOT -1 9999999999999\nEVENT 0 1\n", cuts=[3])
@example(data=b"EVENT 1 1\n\r\nEVENT 2 1\n", cuts=[10])
@example(data=b"EVENT 1 1\r\n", cuts=[10])
@example(data=b"EVENT 9999999999 0\n\x0b\n", cuts=[])
@example(data=b"EVENT 1 1\x0bEVENT 2147483648 1\n", cuts=[])
def test_events_are_what_the_lines_say(data: bytes, cuts: list[int]) -> None:
    def encode(event: tuple[int, int]) -> bytes:
        return encode_event(*event)

    check(data, cuts, decode_events, naive.event, encode, naive.control)
    events, rest, stop = decode_events(data)
    again, rest_again, stop_again = decode(data)
    assert (list(events), rest, repr(stop)) == (again, rest_again, repr(stop_again))
    assert sum(events.deltas) == sum(delta for _, delta in again)


@examples(200)
@given(data=st.builds(mutated, ACKS, MUTATIONS), cuts=CUTS)
@example(data=b"ACK 2147483647\nACK 2147483648\n", cuts=[])
@example(data=b"ACK 1\nACK 9999999999\nACK 2\n", cuts=[7])
def test_acknowledgements_are_what_the_lines_say(data: bytes, cuts: list[int]) -> None:
    check(data, cuts, decode_acks, naive.ack, encode_ack, lambda line: None)


ONE_LINE = st.one_of(
    st.builds(mutated, LINES | CONTROLS | SEQS.map(encode_ack) | CURSORS.map(b"RESUME %d\n".__mod__), MUTATIONS),
    st.builds(lambda *parts: b"".join(parts), *[st.sampled_from(AWKWARD)] * 4),
)


@examples(400)
@given(line=ONE_LINE)
@example(line=b"RESUME -1\n")
@example(line=b"RESUME 2147483648\n")
@example(line=b"EVENT 2147483647 -1000\n")
def test_a_single_line_is_read_or_refused_and_nothing_else(line: bytes) -> None:
    for read, expected in ((parse_line, naive.event(line)), (parse, naive.resume(line))):
        if expected is None:
            with pytest.raises(MalformedFrame) as refused:
                read(line)
            assert refused.value.line == line
        else:
            assert read(line) == expected
    target(float(len(line)))
