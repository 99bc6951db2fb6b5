"""The frames on the wire: their grammar, a parser for one line, a decoder for a whole chunk, and the encoders.

A frame is one line of ASCII: words and canonical integers with single spaces between them and LF at the end, at most
`LINE_BYTES_MAX` bytes. The grammar stands here once, as named fragments; `docs/protocol.md` says who sends what when.
Pure: no clock, socket or database. Nothing here decides what a frame means for the cursor; that is `rule.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from consumer.core.errors import MalformedFrame
from consumer.core.events import SEQ_MAX, Event, Events

LINE_BYTES_MAX = 64
"""The longest line, its LF included."""

# The grammar. Integers are canonical: no sign but a minus before a number other than zero, no leading zero.

SEQ = rb"(?:[1-9][0-9]{0,9}+|0)"  # up to ten digits; what is above SEQ_MAX is found by value
DELTA = rb"(?:-?(?:[1-9][0-9]{0,2}|1000)|0)"
CURSOR = rb"(?:-1|" + SEQ + rb")"  # "nothing yet" is -1
TOTAL = rb"(?:0|-?[1-9][0-9]{0,12})"  # SEQ_MAX + 1 events of DELTA_MAX have thirteen digits

EVENT = rb"EVENT " + SEQ + rb" " + DELTA + rb"\n"
EVENT_PARTS = rb"EVENT (" + SEQ + rb") (" + DELTA + rb")\n"
SNAPSHOT = rb"SNAPSHOT (?P<last>" + CURSOR + rb") (?P<total>" + TOTAL + rb")\n"
TRUNCATED = rb"TRUNCATED (?P<first>" + SEQ + rb")\n"
AHEAD = rb"AHEAD (?P<head>" + CURSOR + rb")\n"
RESUME = rb"RESUME (" + CURSOR + rb")\n"
ACK = rb"ACK " + SEQ + rb"\n"

_event = re.compile(EVENT_PARTS)
_events = re.compile(rb"(?:" + EVENT + rb")*+")  # possessive: nothing is remembered for going back
_control = re.compile(SNAPSHOT + rb"|" + TRUNCATED + rb"|" + AHEAD)
_resume = re.compile(RESUME)
_SPACE_TO_COMMA = bytes.maketrans(b" ", b",")
_acks = re.compile(rb"(?:" + ACK + rb")*+")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The publisher can no longer serve the cursor; it offers a state as of `last`, and the events after it."""

    last: int
    total: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """The publisher can no longer serve the cursor; its oldest event is `first`."""

    first: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """The cursor is beyond the publisher's last event, `head` (-1 where it has none)."""

    head: int


Control: TypeAlias = Snapshot | Truncated | Ahead
"""What a publisher says in answer to a RESUME that it cannot serve."""


def parse_line(line: bytes) -> Event:
    r"""Read one EVENT line.

    Args:
        line: exactly ``EVENT <seq> <delta>\n`` in ASCII, at most 64 bytes.

    Returns:
        `(seq, delta)`.

    Raises:
        ValueError: for anything else; `MalformedFrame` where it was bytes.
    """
    if not isinstance(line, bytes):
        raise ValueError(f"a line must be bytes, not {type(line).__name__}")
    match = _event.fullmatch(line)
    if match is None or (seq := int(match[1])) > SEQ_MAX:
        raise MalformedFrame(line)
    return seq, int(match[2])


def decode(buffer: bytes) -> tuple[list[Event], bytes, Control | MalformedFrame | None]:
    """Read all that has arrived from a publisher.

    Line by line it equals `parse_line`.

    Args:
        buffer: bytes from the start of a line.

    Returns:
        `(events, rest, stop)`. The events of the good lines at the beginning; what is left of the buffer; and what
        ended the reading: None where `rest` is an unfinished line and more bytes are needed, a control frame (`rest`
        begins after it), or a `MalformedFrame`, not raised (`rest` begins with it). A rest of 64 bytes or more without
        LF is malformed, since no line is that long.
    """
    events, rest, stop = decode_events(buffer)
    return list(events), rest, stop


def decode_events(buffer: bytes) -> tuple[Events, bytes, Control | MalformedFrame | None]:
    """Do what `decode` does, with the events as `Events`: one match and one JSON read for a whole chunk."""
    numbers, rest = _read_numbers(_events, b"EVENT", buffer, per_line=2)
    if b"\n" not in rest:
        return Events(numbers), rest, _unfinished(rest)
    line = rest[: rest.index(b"\n") + 1]
    control = _read_control(line)
    if control is None:
        return Events(numbers), rest, MalformedFrame(line)
    return Events(numbers), rest[len(line) :], control


def decode_acks(buffer: bytes) -> tuple[list[int], bytes, MalformedFrame | None]:
    """Read all the ACK lines that have arrived from a consumer: `(seqs, rest, stop)`, as `decode` does for events."""
    seqs, rest = _read_numbers(_acks, b"ACK", buffer, per_line=1)
    if b"\n" not in rest:
        return seqs, rest, _unfinished(rest)
    return seqs, rest, MalformedFrame(rest[: rest.index(b"\n") + 1])


def parse_resume(line: bytes) -> int:
    """Read a RESUME line and give its cursor. Raises `MalformedFrame` for anything else."""
    match = _resume.fullmatch(line)
    if match is None or (last := int(match[1])) > SEQ_MAX:
        raise MalformedFrame(line)
    return last


def _read_numbers(lines: re.Pattern[bytes], word: bytes, buffer: bytes, *, per_line: int) -> tuple[list[int], bytes]:
    """Read the good lines at the beginning: all their numbers, the seq first in each line, and what is left.

    What the grammar lets through is also JSON once the words are gone, and no reader of integers is faster.
    """
    match = lines.match(buffer)
    assert match is not None  # the pattern matches the empty string too
    text = match[0].translate(_SPACE_TO_COMMA, word + b"\n").decode("ascii")
    numbers: list[int] = json.loads(f"[{text[1:]}]")
    if not numbers or max(numbers) <= SEQ_MAX:
        return numbers, buffer[match.end() :]
    good = next(place for place in range(0, len(numbers), per_line) if numbers[place] > SEQ_MAX)
    good_lines = buffer.splitlines(keepends=True)[: good // per_line]
    return numbers[:good], buffer[len(b"".join(good_lines)) :]


def _unfinished(rest: bytes) -> MalformedFrame | None:
    return MalformedFrame(rest) if len(rest) >= LINE_BYTES_MAX else None


def _read_control(line: bytes) -> Control | None:
    match = _control.fullmatch(line)
    if match is None:
        return None
    fields = {name: int(digits) for name, digits in match.groupdict().items() if digits is not None}
    if any(value > SEQ_MAX for name, value in fields.items() if name != "total"):
        return None
    if "total" in fields:
        return Snapshot(**fields)
    return Truncated(**fields) if "first" in fields else Ahead(**fields)


def encode_event(seq: int, delta: int) -> bytes:
    """Give the EVENT line."""
    return b"EVENT %d %d\n" % (seq, delta)


def encode_resume(last: int) -> bytes:
    """Give the RESUME line: the consumer has everything up to `last`, -1 for nothing."""
    return b"RESUME %d\n" % last


def encode_ack(seq: int) -> bytes:
    """Give the ACK line: the consumer has committed event `seq`."""
    return b"ACK %d\n" % seq


def encode_control(control: Control) -> bytes:
    """Give the line of a control frame."""
    match control:
        case Snapshot(last, total):
            return b"SNAPSHOT %d %d\n" % (last, total)
        case Truncated(first):
            return b"TRUNCATED %d\n" % first
        case Ahead(head):
            return b"AHEAD %d\n" % head


_LAST_DIGITS = [b"%03d\n" % number for number in range(1000)]


def encode_acks(seqs: Sequence[int]) -> bytes:
    """Give the ACK lines of many events, in order.

    A run of consecutive numbers, the usual case, is put together from ready-made ends of a thousand numbers each. What
    is not one may span the whole range of numbers, of which no list must be made.
    """
    if not seqs:
        return b""
    first, last = seqs[0], seqs[-1]
    is_run = last - first == len(seqs) - 1 and seqs == list(range(first, last + 1))
    if first < len(_LAST_DIGITS) or not is_run:
        return b"ACK %d\n" * len(seqs) % tuple(seqs)
    lines = []
    for thousand in range(first // 1000, last // 1000 + 1):
        head = b"ACK %d" % thousand
        lines += [head, head.join(_LAST_DIGITS[max(0, first - 1000 * thousand) : last + 1 - 1000 * thousand])]
    return b"".join(lines)
