"""The lines that are new in a file, and whether it is still the same file. Blocking.

One thread uses it. Before anything that was read is handed out it is made durable, since a store must not be ahead of
its source after a power cut, and the file is looked at: the name must still lead to it, and its first line and the last
line that is known must be what they were. A file that was rotated, truncated, rewritten or replaced shows there. What
it comes to is not decided here: the file is offered again, and the rule for records judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, compress, repeat
from operator import add

from consumer.core.errors import Conflict, ConnectFailed, ConsumerError, RecordTooLarge, UnfinishedRecord
from consumer.core.records import RECORD_OVERHEAD_BYTES, rows
from consumer.core.runs import Failed, Offer, Position, Run
from consumer.sources.file.address import FileAddress
from consumer.sources.file.opened import OpenFile, State, failure

READ_BYTES = 256 * 1024
"""How much is read at once. With more than that the C library maps new memory for each piece, which costs as much as to
split it."""

GROWTH = 8
"""How many times as much is read for a line that was larger."""

RUN_RECORDS_MAX = 8192
"""How many records a run has at most, whatever is allowed in memory: as many as a batch has by default."""

_LF = b"\n"


class Nothing(Enum):
    """Why a look has given nothing."""

    NEW = "no complete line has been added"
    CHANGED = "it is no longer what it was, and must be offered again"
    LEFT = "all that was there when it was opened has been given"


@dataclass(slots=True)
class Placed:
    """A placement, and how far it has come. The reader moves it on.

    Attributes:
        position: what was asked for.
        after: the number that the next run follows.
        at: the byte to read from, None before it is known that a line begins there.
        known: the last line that was read, and the byte where it begins.
        quiet: what the file looked like when nothing was new in it, None where that is not known.
    """

    position: Position
    after: int
    at: int | None
    known: tuple[int, bytes] | None = None
    quiet: State | None = None

    @classmethod
    def start(cls, position: Position) -> Placed:
        """Begin where a position says."""
        return cls(position, position.start - 1, None if position.start > 0 else 0)


class Reader:
    """A file that is read while another process appends to it.

    Args:
        address: which.
        stream: the stream's name.
        once: whether to read no further than the end that is there when it is opened.
        batch_bytes: how much the records of a run may take up in memory.
        record_max: how many bytes a line may have, without its newline.

    Attributes:
        is_once: as `once`.
    """

    def __init__(self, address: FileAddress, stream: str, *, once: bool, batch_bytes: int, record_max: int) -> None:
        self.is_once = once
        self._address = address
        self._stream = stream
        self._record_max = record_max
        self._read_bytes = max(1, min(READ_BYTES, batch_bytes // 2))
        self._records_max = max(1, min(RUN_RECORDS_MAX, batch_bytes // 2 // RECORD_OVERHEAD_BYTES))
        self._end: int | None = None
        self._file: OpenFile | None = None

    def open(self) -> Offer:
        """Open the file that has the name now, and say what it holds.

        Raises:
            ConnectFailed: there is none, or it cannot be read just now.
            SourceUnusable: it is no file, or may not be read.
        """
        self.close()
        file = self._file = OpenFile(self._address)
        if self.is_once:  # a file that has become shorter ends there
            self._end = file.size if self._end is None else min(file.size, self._end)
        return self._offer(file)

    def ask(self) -> Offer | None:
        """Say what the file that has the name now holds, None where there is none, and leave the open one alone."""
        try:
            file = OpenFile(self._address)
        except ConnectFailed:
            return None
        try:
            return self._offer(file)
        finally:
            file.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def look(self, placed: Placed) -> Sequence[Run | Failed] | Nothing:
        """Read what comes next, and look whether the file is what it was.

        Raises:
            ConnectFailed: it is gone, or cannot be read just now.
            SourceUnusable: it may not be read any more.
        """
        try:
            return self._look(placed)
        except OSError as error:
            raise failure(self._address, error) from error

    # How it is done.

    def _offer(self, file: OpenFile) -> Offer:
        return Offer(self._stream, file.identity, 0, file.size - 1)

    @property
    def _opened(self) -> OpenFile:
        assert self._file is not None  # it is closed only when nobody looks any more
        return self._file

    def _look(self, placed: Placed) -> Sequence[Run | Failed] | Nothing:
        state = self._opened.state()
        if state is not None and state == placed.quiet:  # which is only asked again where more may come
            return Nothing.NEW
        if state is None or state.size <= placed.position.through or state.size < max(placed.at or 0, self._end or 0):
            return Nothing.CHANGED
        if placed.at is None:
            placed.at = self._line_after(placed.after)
            if placed.position.overlap and placed.at != placed.position.last:
                return [self._failed(placed, Conflict(placed.position.last, None, None, stream=self._stream))]
        data = b"" if placed.at is None else self._read(placed.at)
        if _LF in data or len(data) > self._record_max or (data and self._end is not None):
            return self._read_on(placed, data)
        return self._find_nothing(placed, state)

    def _find_nothing(self, placed: Placed, state: State) -> Sequence[Run | Failed] | Nothing:
        """Say that no complete line is left, and carry a cursor that was moved into a line to the end of that line."""
        end = placed.at if placed.at is not None and (self._end is None or placed.at <= self._end) else 0
        self._opened.sync(end)
        if not self._is_as_it_was(placed):
            return Nothing.CHANGED
        if placed.after < end - 1:
            run = Run(self._stream, placed.position.generation, placed.after, (), end - 1)
            placed.after = run.through
            return [run]
        placed.quiet = state
        return Nothing.NEW if self._end is None else Nothing.LEFT

    def _read_on(self, placed: Placed, data: bytes) -> Sequence[Run | Failed] | Nothing:
        """Go on by the complete lines in it; where there is none, the line that comes next cannot be read."""
        given, known, at = self._lines(placed, data)
        self._opened.sync(at)
        if not self._is_as_it_was(placed):
            return Nothing.CHANGED
        placed.at, placed.known = at, known
        if isinstance(given[-1], Run):
            placed.after = given[-1].through
        return given

    def _lines(self, placed: Placed, data: bytes) -> tuple[list[Run | Failed], tuple[int, bytes] | None, int]:
        """Make a run of complete lines. Gives also the last of them, and the byte behind it."""
        assert placed.at is not None
        lines = data.split(_LF, self._records_max)
        lines.pop()  # what is behind the last newline, or behind as many lines as a run may have
        sizes = [*map(len, lines)]
        starts = [*accumulate(map(add, sizes, repeat(1)), initial=placed.at)]
        error: ConsumerError | None = None
        if not lines:
            is_large = len(data) > self._record_max
            error = self._too_large(placed.at) if is_large else UnfinishedRecord(self._stream, placed.at)
        elif max(sizes) > self._record_max:
            bad = next(index for index, size in enumerate(sizes) if size > self._record_max)
            error = self._too_large(starts[bad])
            lines, starts = lines[:bad], starts[: bad + 1]
        at, known = starts[-1], placed.known
        given: list[Run | Failed] = []
        if lines:
            seqs = starts
            if b"" in lines:
                seqs, lines = [*compress(starts, lines)], [*filter(None, lines)]
            known = (seqs[len(lines) - 1], lines[-1]) if lines else known
            records = rows(self._stream, seqs, lines, subject=self._address.text)
            given.append(Run(self._stream, placed.position.generation, placed.after, records, at - 1))
        if error is not None:
            given.append(self._failed(placed, error))
        return given, known, at

    def _failed(self, placed: Placed, error: ConsumerError) -> Failed:
        return Failed(self._stream, placed.position.generation, error)

    def _read(self, at: int) -> bytes:
        """Read as much as is read at once or is there: at least one whole line, or more of one than is allowed.

        Where a line is larger than what is read at once, that one comes alone.
        """
        wanted = self._read_bytes
        while True:
            size = wanted if self._end is None else max(0, min(wanted, self._end - at))
            data = self._opened.pread(size, at)
            end = data.find(_LF) + 1
            if end or len(data) < wanted or wanted > self._record_max:
                return data[:end] if end and wanted > self._read_bytes else data
            wanted = min(GROWTH * wanted, self._record_max + 1)

    def _too_large(self, at: int) -> RecordTooLarge:
        return RecordTooLarge(self._stream, at, self._record_max)

    def _line_after(self, byte: int) -> int | None:
        """Find the first line behind a byte, which may lie within a line: a cursor may have been moved by hand."""
        at = byte
        while data := self._opened.pread(READ_BYTES, at):
            found = data.find(_LF)
            if found >= 0:
                return at + found + 1
            at += len(data)
        return None

    def _is_as_it_was(self, placed: Placed) -> bool:
        """Say whether the name still leads to this file, and the lines that are known are still there."""
        if self._opened.state() is None or not self._opened.begins_as_before():
            return False
        if placed.known is None:
            return True
        at, line = placed.known
        before = min(at, 1)  # the newline of the line before it: it might have become a part of it
        return self._opened.pread(before + len(line) + 1, at - before) == before * _LF + line + _LF
