"""What a journal holds, from its bytes: which lines count, where a number stands, what answers a RESUME.

A journal is an optional first line SNAPSHOT and then EVENT lines with consecutive numbers; the first line that is not
the next one ends it. Pure: whatever is read comes through a function `read(offset, size)`, which may give less at the
end of the file. `reader.py` and `repair.py` apply these rules to files, the one for the publisher and the other for the
writer. Both use the same functions, so the writer cuts off only what the publisher has never counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from consumer.core.errors import MalformedFrame
from consumer.core.events import Event
from consumer.sources.tcp.wire import EVENT_PARTS, LINE_BYTES_MAX, Ahead, Control, Snapshot, Truncated, decode

APPEND_BYTES_MAX = 1024 * 1024
"""The most that is written between two syncs, and so the most that a power cut can damage."""

TAIL_BYTES = APPEND_BYTES_MAX + 2 * LINE_BYTES_MAX
"""How much of the end is validated: all that can be damaged, and for certain one whole line before it."""

PROBE_BYTES = 2 * LINE_BYTES_MAX
"""How much one step of the bisection reads: from anywhere in a line, a whole line follows within it."""

PIECE_BYTES = 4096
"""The bisection stops dividing here and reads what is left, a page, at once."""

Read: TypeAlias = Callable[[int, int], bytes]
"""`read(offset, size)` gives at most `size` bytes."""

EVENT_BYTES_MIN, EVENT_BYTES_MAX = len(b"EVENT 0 0\n"), len(b"EVENT 2147483647 -1000\n")
"""The shortest and the longest EVENT line."""

_line = re.compile(EVENT_PARTS)
_next_line = re.compile(rb"\n" + EVENT_PARTS)
_words = (b"EVENT ", b"SNAPSHOT ")
_endings = (b"1 0\n", b" 0\n", b"1\n", b"\n")
"""What may follow in a first line that is torn behind its word: one of them makes a line of whatever began as one."""


class Damage(Exception):
    """The bytes at `offset` contradict what a journal may hold, where no cut of a single append explains it."""

    def __init__(self, offset: int, found: bytes) -> None:
        super().__init__(offset, found)
        self.offset = offset
        self.found = found

    def __str__(self) -> str:
        return f"at byte {self.offset} {misfit(self.found)}"


class NoJournal(Damage):
    """The file does not begin with a line of a journal, nor with a part of one: it may be anything."""

    def __init__(self, found: bytes) -> None:
        super().__init__(0, found)

    def __str__(self) -> str:
        return f"it does not begin with a line of a journal: {super().__str__()}"


def misfit(found: bytes) -> str:
    """Say what is there instead of an event's line, and what is wrong with it where one look tells."""
    line = found[: found.find(b"\n") + 1 or None][:LINE_BYTES_MAX]
    return f"there is {shown(line)} where an event was due{line_end(line)}"


def shown(found: bytes) -> str:
    """Put bytes as a message shows them. Zeros are what a power cut leaves of a page that was never written."""
    return repr(found) if found.strip(b"\0") else "nothing but zeros"


def line_end(line: bytes) -> str:
    """Say of a line that was written on another system that this is what is wrong with it."""
    return "; it ends in CRLF, and a journal's lines end in LF alone" if line.endswith(b"\r\n") else ""


@dataclass(frozen=True, slots=True)
class Extent:
    """Which bytes of a file are its journal, and which events they are.

    Attributes:
        start: the offset of the first EVENT line.
        end: the offset after the last one.
        first: the number of the first event, or of the one that is due first.
        head: the number of the last event; -1 where there was never one.
        snapshot: what the first line says, None where it is no SNAPSHOT.
    """

    start: int = 0
    end: int = 0
    first: int = 0
    head: int = -1
    snapshot: Snapshot | None = None

    @property
    def events(self) -> int:
        """How many events there are."""
        return self.head - self.first + 1

    def __str__(self) -> str:
        match self.events:
            case 0:
                return "no event yet" if self.head < 0 else f"no event after {self.head} yet"
            case 1:
                return f"event {self.head}"
        return f"events {self.first} to {self.head}"


EMPTY = Extent()
"""A journal in which nothing is yet."""


def extend(extent: Extent, buffer: bytes) -> tuple[Extent, str | None]:
    """Count in the lines that follow.

    Args:
        extent: what is known so far.
        buffer: the bytes from `extent.end` on, as far as they were read.

    Returns:
        The extent with all good lines at the beginning of the buffer, and why the next line does not count: None where
        there is none, or a beginning of one that may still become good.
    """
    if extent.end == 0 and buffer.startswith(b"SNAPSHOT "):
        extent, buffer = _begin(buffer)
    events, rest, stop = decode(buffer)
    size = len(buffer) - len(rest)
    fault: str | None = None
    if isinstance(stop, MalformedFrame):
        fault = misfit(stop.line)
    elif stop is not None:
        size = (
            buffer.rfind(b"\n", 0, size - 1) + 1
        )  # a control frame was taken from the buffer, but does not belong here
        fault = f"there is {type(stop).__name__.upper()} where an event was due"
    if not events:
        return extent, fault
    due = events[0][0] if extent.end == 0 else extent.head + 1
    good = _consecutive(events, due)
    if good < len(events):
        size = sum(map(len, buffer.splitlines(keepends=True)[:good]))
        fault = f"event {events[good][0]} came where {due + good} was due"
    if not good:
        return extent, fault
    first = due if extent.end == extent.start else extent.first
    return replace(extent, end=extent.end + size, first=first, head=due + good - 1), fault


def _begin(buffer: bytes) -> tuple[Extent, bytes]:
    """Take a first line SNAPSHOT from the buffer."""
    line = buffer[: buffer.find(b"\n") + 1]
    _, _, snapshot = decode(line)
    if not isinstance(snapshot, Snapshot):
        return EMPTY, buffer
    size = len(line)
    return Extent(size, size, snapshot.last + 1, snapshot.last, snapshot), buffer[size:]


def _consecutive(events: list[Event], due: int) -> int:
    """Say how many events at the beginning are numbered from `due` on without a gap."""
    seqs = [seq for seq, _ in events]
    wanted = range(due, due + len(seqs))
    if seqs == list(wanted):
        return len(seqs)
    return next(n for n, (seq, want) in enumerate(zip(seqs, wanted, strict=True)) if seq != want)


def survey(read: Read, size: int) -> tuple[Extent, str | None]:
    """Find out what a file holds, by its first line and a validation of its last `TAIL_BYTES`.

    Args:
        read: reads from the file.
        size: the file's size in bytes.

    Returns:
        As `extend`.

    Raises:
        NoJournal: nothing in it says that it is one.
        Damage: it is one, and it is damaged further back than the last append.
    """
    if size <= TAIL_BYTES:
        buffer = read(0, size)
        extent, fault = extend(EMPTY, buffer)
        if extent.end == 0 and not _may_become_line(buffer):
            raise NoJournal(buffer)
        return extent, fault
    beginning = read(0, PROBE_BYTES)
    known, fault = extend(EMPTY, beginning)
    if known.end == 0:
        raise NoJournal(beginning)
    if fault is not None or known.end == known.start:
        raise Damage(known.end, beginning[known.end :])
    offset = size - TAIL_BYTES
    tail = read(offset, TAIL_BYTES)
    line = _next_line.match(tail, max(tail.find(b"\n", 0, LINE_BYTES_MAX), 0))
    if line is None:
        raise Damage(offset, tail)
    skipped = line.start() + 1
    return extend(replace(known, end=offset + skipped, head=int(line[1]) - 1), tail[skipped:])


def _may_become_line(torn: bytes) -> bool:
    """Say whether bytes without any whole line are the beginning of a journal's first line.

    A writer that dies in the first append of all leaves that. Anything else may be somebody's other file.
    """
    beginnings = [torn + word[len(torn) :] for word in _words if word.startswith(torn)] or [torn]
    return any(extend(EMPTY, beginning + ending)[0].end for beginning in beginnings for ending in _endings)


def find_line(read: Read, low: int, high: int, seq: int) -> int:
    """Find an event by bisection, in a constant amount of memory.

    Args:
        read: reads from the file or buffer.
        low: the offset of a line whose number is `seq` or less.
        high: the offset after a line whose number is `seq` or more.
        seq: the number that is looked for.

    Returns:
        The offset of its line.

    Raises:
        Damage: it is not where it must be.
    """
    while high - low > PIECE_BYTES:
        middle = (low + high) // 2
        probe = read(middle, PROBE_BYTES)
        line = _next_line.search(probe)
        if line is None:
            raise Damage(middle, probe)
        if int(line[1]) <= seq:
            low = middle + line.start() + 1
        else:
            high = middle + line.start() + 1
    piece = read(low, high - low)
    found = (b"\n" + piece).find(b"\nEVENT %d " % seq)
    if found < 0:
        raise Damage(low, piece)
    return low + found


def cut_slice(read: Read, low: int, high: int, due: int, last: int) -> tuple[int, int]:
    """Find out how far a slice of whole lines goes, without looking at more than its end.

    A journal has no gaps, so the number of its last line says how many events a slice holds: to count the lines, or
    even to read them all, would cost more than to send them.

    Args:
        read: reads from the file.
        low: the offset of the line of `due`.
        high: the offset that must not be passed; a line may be unfinished there, but one must be whole.
        due: the number of the first line.
        last: the highest number that is wanted, `due` or more.

    Returns:
        The offset after the last line of the slice, and its number.

    Raises:
        Damage: the slice ends with a line that cannot be there.
    """
    start = max(low, high - PROBE_BYTES)
    tail = read(start, high - start)
    line = _line.fullmatch(tail, tail.rfind(b"\n", 0, max(tail.rfind(b"\n"), 0)) + 1, tail.rfind(b"\n") + 1)
    if line is None:
        raise Damage(start, tail)
    end, reached = start + line.end(), int(line[1])
    if not EVENT_BYTES_MIN <= (end - low) / max(reached - due + 1, 1) <= EVENT_BYTES_MAX:
        raise Damage(start + line.start(), line[0])
    if reached <= last:
        return end, reached
    return _find_near(read, low, end, last + 1, (end - low) * (last - due + 1) // (reached - due + 1)), last


def _find_near(read: Read, low: int, high: int, seq: int, distance: int) -> int:
    """As `find_line`, but look first where the line is if all are of one length: nearly always one read is enough."""
    start = max(low, low + distance - PIECE_BYTES // 2)
    found = read(start, min(PIECE_BYTES, high - start)).find(b"\nEVENT %d " % seq)
    return start + found + 1 if found >= 0 else find_line(read, low, high, seq)


def answer(extent: Extent, last: int) -> Control | None:
    """Say what answers a RESUME: None where the events after `last` are there or are still to come."""
    if last > extent.head:
        return Ahead(extent.head)
    if last < extent.first - 1:
        return extent.snapshot or Truncated(extent.first)
    return None
