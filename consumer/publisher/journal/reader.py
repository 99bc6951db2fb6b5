"""A journal as its publisher reads it: never written to, and no event is counted in before it is on disk.

Any program may append to the file; `look` takes in what has been added. It validates every new line and then
syncs the file before it shows them in `extent`, so that no power cut can take back what is sent from within `extent`.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from os import PathLike

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.core.words import why
from consumer.publisher.journal import files
from consumer.publisher.journal.extent import (
    APPEND_BYTES_MAX,
    EVENT_BYTES_MAX,
    Damage,
    NoJournal,
    cut_slice,
    extend,
    find_line,
    survey,
)
from consumer.sources.tcp.wire import LINE_BYTES_MAX

LOOK_BYTES = APPEND_BYTES_MAX
"""How much one look takes in: one append at a time, so that a journal that grows fast is shown as it grows."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the file has found.

    Attributes:
        grew: there are new events.
        complete: everything that was in the file when the look began has been considered.
        replaced: the file is another one, or has lost events that were there: open it anew.
    """

    grew: bool = False
    complete: bool = True
    replaced: bool = False


class JournalReader:
    """A journal that is open for reading.

    Args:
        path: the file.

    Raises:
        JournalUnusable: the file is missing, no journal, damaged beyond its last append, or not to be synced.

    Attributes:
        path: the file.
        extent: what it holds and has on disk.
        fault: why the bytes after the last event do not count, None where there are none or they are unfinished.
        descriptor: the open file. It is closed when nobody holds the journal any longer, so that a slice that is on
            its way when the file is replaced comes from the file that it was cut from.
        reads: how often the file was read, for tests that count.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.reads = 0
        self.descriptor = files.open_file(self.path, os.O_RDONLY)
        self._closing = weakref.finalize(self, os.close, self.descriptor)
        try:
            size = os.fstat(self.descriptor).st_size
            self.extent, self.fault = survey(self.read, size)
            self._known_end = self._read_end()
            self._sync()
            disk.sync_folder(self.path)
        except BaseException as error:
            self.close()
            if isinstance(error, Damage):
                advice = "give another name" if isinstance(error, NoJournal) else "restore it from a copy"
                raise JournalUnusable(self.path, f"{error}; {advice}") from error
            if isinstance(error, OSError):
                raise JournalUnusable(self.path, why(error)) from error
            raise

    def close(self) -> None:
        """Close the file now."""
        self._closing()

    def look(self) -> Look:
        """Take in what was added to the file. May block for as long as the disk needs.

        Raises:
            JournalUnusable: the file cannot be read or synced.
        """
        try:
            size = os.fstat(self.descriptor).st_size
            if self._was_replaced():
                return Look(replaced=True)
            if size == self.extent.end:
                self.fault = None
                return Look()
            return self._take_in(size - self.extent.end)
        except OSError as error:
            raise JournalUnusable(self.path, why(error)) from error

    def _was_replaced(self) -> bool:
        """Say whether there is another file now. A name that leads nowhere is one that is just being replaced."""
        return disk.file_id(self.path) not in (None, disk.file_id(self.descriptor))

    def _take_in(self, added: int) -> Look:
        if self._lost_events():
            return Look(replaced=True)
        if self.fault is not None:  # one line is enough to see that the fault is still there, and nothing is new
            peeked, fault = extend(self.extent, self.read(self.extent.end, LINE_BYTES_MAX))
            if fault is not None and peeked.end == self.extent.end:
                return Look()
        buffer = self.read(self.extent.end, min(added, LOOK_BYTES))
        extent, self.fault = extend(self.extent, buffer)
        if extent.end == self.extent.end:
            return Look()
        self._sync()
        self._known_end = (self._known_end + buffer[: extent.end - self.extent.end])[-LINE_BYTES_MAX:]
        self.extent = extent
        return Look(grew=True, complete=added <= LOOK_BYTES or self.fault is not None)

    def _lost_events(self) -> bool:
        """Say whether the last lines are others than we know: the file was cut, and may have grown again since."""
        return self._read_end() != self._known_end

    def _read_end(self) -> bytes:
        start = max(self.extent.end - LINE_BYTES_MAX, 0)
        return self.read(start, self.extent.end - start)

    def _sync(self) -> None:
        """Sync the file. A failure is final: the kernel may report it once and forget what it could not write."""
        try:
            disk.sync_file(self.descriptor)
        except OSError as error:
            reason = (
                f"it cannot be synced ({why(error)}), so nothing of it may be sent: look at the disk, "
                "then let `consumer journal append` open it once, which writes its end anew"
            )
            raise JournalUnusable(self.path, reason) from error

    def find(self, seq: int) -> int:
        """Find an event, with a handful of small reads in a file of any size.

        Args:
            seq: from `extent.first` to `extent.head + 1`.

        Returns:
            The offset of its line; the journal's end for the event that is still to come.

        Raises:
            JournalUnusable: the file is damaged.
        """
        if seq > self.extent.head:
            return self.extent.end
        if seq == self.extent.first:
            return self.extent.start
        try:
            return find_line(self.read, self.extent.start, self.extent.end, seq)
        except Damage as damage:
            raise JournalUnusable(self.path, f"{damage}; restore it from a copy") from damage

    def cut(self, offset: int, due: int, last: int, size: int) -> tuple[int, int]:
        """Find out how far a slice of whole lines goes.

        Args:
            offset: where the line of `due` begins.
            due: the number of the first event, at most `extent.head`.
            last: the highest number that is wanted.
            size: how many bytes the slice may have; at least one line.

        Returns:
            The offset after the slice and the number of its last event.

        Raises:
            JournalUnusable: the file is damaged there.
        """
        high = min(self.extent.end, offset + min(size, (last - due + 1) * EVENT_BYTES_MAX))
        try:
            return cut_slice(self.read, offset, high, due, last)
        except Damage as damage:
            raise JournalUnusable(self.path, f"{damage}; restore it from a copy") from damage

    def read(self, offset: int, size: int) -> bytes:
        """Read from the file; less than `size` bytes where it ends."""
        self.reads += 1
        return os.pread(self.descriptor, size, offset)
