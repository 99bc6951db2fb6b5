"""From a stream of text to a journal: EVENT lines as they are, or bare deltas that are given the next numbers.

What has come is appended at once and never waits for more, so that a program that runs for ever can feed a journal.
Lines are counted, and the first bad one ends it by its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from consumer.core.errors import BadInput
from consumer.core.events import DELTA_MAX, SEQ_MAX
from consumer.publisher.journal.append import Appender
from consumer.publisher.journal.extent import line_end
from consumer.sources.tcp.wire import DELTA, LINE_BYTES_MAX, encode_event

_delta = re.compile(DELTA + rb"\n")
_deltas = re.compile(rb"(?:" + DELTA + rb"\n)*+")


def append_all(appender: Appender, read: Callable[[], bytes], *, number: bool, progress: Callable[[int], None]) -> None:
    """Append a stream of lines.

    Args:
        appender: the journal.
        read: gives what has come, empty at the end.
        number: whether the lines are bare deltas, which get the next numbers; otherwise they are EVENT lines.
        progress: called with the number of events appended so far, all of them on disk.

    Raises:
        BadInput: a line is not what it should be. Those before it were appended, and nothing after it.
        JournalUnusable: as `Appender.append`.
    """
    before = appender.extent.events
    rest, lines = b"", 0
    fault: str | None = None
    is_other_kind = False
    while fault is None and (chunk := read()):
        buffer = rest + chunk
        if number:
            numbered, rest, fault = number_deltas(buffer, appender.head + 1)
            is_other_kind = rest.startswith(b"EVENT ")
            appender.append_lines(numbered)
        else:
            size, fault = appender.append_lines(buffer)
            rest = buffer[size:]
            if fault is not None and _delta.match(rest):
                fault += "; a delta alone has no number"
                is_other_kind = True
        lines += buffer.count(b"\n", 0, len(buffer) - len(rest))
        progress(appender.extent.events - before)
    if fault is None and rest:
        fault = f"there is no newline after {rest!r}, so it may have been cut short"
    if fault is not None:
        raise BadInput(lines + 1, fault, appender.extent.events - before, appender.head, is_other_kind)


def number_deltas(buffer: bytes, due: int) -> tuple[bytes, bytes, str | None]:
    """Give bare deltas the next numbers. Pure.

    Args:
        buffer: one delta a line.
        due: the number of the first.

    Returns:
        The EVENT lines, what is left of the buffer, and what is wrong there: None where it is an unfinished line.
    """
    match = _deltas.match(buffer)
    assert match is not None  # the pattern matches the empty string too
    deltas = match[0].split(b"\n")[:-1]
    numbers_left = max(SEQ_MAX + 1 - due, 0)
    fault = None
    if len(deltas) > numbers_left:
        deltas = deltas[:numbers_left]
        fault = f"no number is left for it, {SEQ_MAX} is the last"
    lines = b"".join([encode_event(seq, int(delta)) for seq, delta in enumerate(deltas, due)])
    rest = buffer[sum(map(len, deltas)) + len(deltas) :]
    if fault is None and (b"\n" in rest or len(rest) >= LINE_BYTES_MAX):
        shown = (rest.partition(b"\n")[0] + b"\n")[:LINE_BYTES_MAX]
        fault = f"{shown!r} is no delta: a whole number from {-DELTA_MAX} to {DELTA_MAX}, alone on its line"
        fault += line_end(shown) or ("; an EVENT line has its number already" if shown.startswith(b"EVENT ") else "")
    return lines, rest, fault
