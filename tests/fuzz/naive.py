"""The protocol once more, one line after the other and without a pattern: what the fast readers are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.core.events import DELTA_MAX, SEQ_MAX, Event
from consumer.sources.tcp.wire import Ahead, Control, Snapshot, Truncated

LINE_BYTES_MAX = 64
TOTAL_DIGITS = 13


def integer(text: bytes, low: int, high: int) -> int | None:
    """An integer as Python itself would print it, within a range."""
    if len(text) > TOTAL_DIGITS + 1 or not text.removeprefix(b"-").isdigit() or text != b"%d" % int(text):
        return None
    return int(text) if low <= int(text) <= high else None


def numbers(line: bytes, word: bytes, *ranges: tuple[int, int]) -> list[int] | None:
    """The integers of a line that is a word and integers, with one space before each and LF at the end."""
    first, *texts = line[:-1].split(b" ")
    if not line.endswith(b"\n") or len(line) > LINE_BYTES_MAX or first != word or len(texts) != len(ranges):
        return None
    found = [integer(text, *range_) for text, range_ in zip(texts, ranges, strict=True)]
    return [value for value in found if value is not None] if None not in found else None


def event(line: bytes) -> Event | None:
    found = numbers(line, b"EVENT", (0, SEQ_MAX), (-DELTA_MAX, DELTA_MAX))
    return (found[0], found[1]) if found else None


def ack(line: bytes) -> int | None:
    found = numbers(line, b"ACK", (0, SEQ_MAX))
    return found[0] if found else None


def resume(line: bytes) -> int | None:
    found = numbers(line, b"RESUME", (-1, SEQ_MAX))
    return found[0] if found else None


def control(line: bytes) -> Control | None:
    for kind, word, ranges in (
        (Snapshot, b"SNAPSHOT", ((-1, SEQ_MAX), (1 - 10**TOTAL_DIGITS, 10**TOTAL_DIGITS - 1))),
        (Truncated, b"TRUNCATED", ((0, SEQ_MAX),)),
        (Ahead, b"AHEAD", ((-1, SEQ_MAX),)),
    ):
        found = numbers(line, word, *ranges)
        if found:
            made: Control = kind(*found)
            return made
    return None


def lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Whole lines, and what stands unfinished behind them."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole], rest


@dataclass
class Read:
    """What a journal holds.

    Attributes:
        snapshot: its first line, where that is one.
        events: its events, consecutive.
        start: where the first of them begins.
        end: where the last of them ends.
        all_counts: nothing stands behind them but the beginning of a line.
    """

    snapshot: Snapshot | None = None
    events: list[Event] = field(default_factory=list)
    start: int = 0
    end: int = 0
    all_counts: bool = True

    @property
    def due(self) -> int | None:
        """The number of the next event, None where it may be any."""
        if self.events:
            return self.events[-1][0] + 1
        return self.snapshot.last + 1 if self.snapshot else None


def journal(data: bytes) -> Read:
    """Read a journal from its beginning."""
    read = Read()
    whole, rest = lines(data)
    first = control(whole[0]) if whole else None
    if isinstance(first, Snapshot):
        read.snapshot = first
        read.start = read.end = len(whole.pop(0))
    for line in whole:
        found = event(line)
        if found is None or found[0] != (found[0] if read.due is None else read.due):
            read.all_counts = False
            return read
        read.events.append(found)
        read.end += len(line)
    read.all_counts = len(rest) < LINE_BYTES_MAX
    return read
