"""The only one who writes a journal: appends whole events under a lock, and reports none before it is on disk.

Opening repairs what a killed writer or a power cut has left (`repair.py`). An append that fails half-way leaves the
file as it is, since a publisher may have sent its whole lines already; the next opening decides what is there.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Self

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.core.events import Event, check_event
from consumer.core.words import why
from consumer.publisher.journal import files
from consumer.publisher.journal.extent import APPEND_BYTES_MAX, Damage, Extent, NoJournal, extend
from consumer.publisher.journal.repair import Cut, repair
from consumer.sources.tcp.wire import encode_event

LOCK_WAIT_S = 2.0
"""How long opening waits for another writer: long enough for one that is just ending."""

LOCK_RETRY_S = 0.02
"""How often it looks meanwhile; `flock` itself knows no bound."""

NO_JOURNAL_ADVICE = (
    "it was left as it is; give another name, or move it away if it is what a power cut has left of a first append"
)
"""What to do about a file that may be anything. One of zeros alone is of that kind too: they prove nothing."""


class Appender:
    """A journal that is open for append, and locked; made if it is not there. For one thread at a time.

    Args:
        path: the file.
        lock_wait_s: how long to wait for another writer, in seconds.

    Raises:
        JournalUnusable: another writer has it, it is no journal, it is damaged beyond its last append, or the disk
            fails. The file is as it was.

    Attributes:
        path: the file.
        cut: what opening has cut off, None where the end was good.
    """

    def __init__(self, path: str | PathLike[str], lock_wait_s: float = LOCK_WAIT_S) -> None:
        self.path = os.fspath(path)
        self.cut: Cut | None = None
        self._descriptor = _open_locked(self.path, lock_wait_s)
        self._failed = False
        try:
            self._extent, self.cut = repair(self.path, self._descriptor)
            self._size = self._extent.end
        except BaseException as error:
            self.close()
            if isinstance(error, NoJournal):
                raise JournalUnusable(self.path, f"{error}; {NO_JOURNAL_ADVICE}") from error
            if isinstance(error, Damage):
                advice = "that is more than a torn append, so nothing was cut; restore it from a copy"
                raise JournalUnusable(self.path, f"{error}; {advice}") from error
            if isinstance(error, OSError):
                raise JournalUnusable(self.path, why(error)) from error
            raise

    @property
    def extent(self) -> Extent:
        """What the journal holds, all of it on disk."""
        return self._extent

    @property
    def head(self) -> int:
        """The number of the last event, -1 where there was never one."""
        return self._extent.head

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, which releases its lock. Everything that was reported is on disk already."""
        with suppress(OSError):
            os.close(self._descriptor)

    def append(self, events: Iterable[Event]) -> int:
        """Append events.

        Args:
            events: the next ones, without a gap. An empty journal takes any first number.

        Returns:
            The number of the journal's last event. All of them are on disk.

        Raises:
            ValueError: an event is out of range or not the next one. What precedes it was not appended either.
            JournalUnusable: the disk failed, or somebody else has changed the file. How much was appended is known
                after opening it anew, and only then.
        """
        lines = []
        for seq, delta in events:
            check_event(seq, delta)
            lines.append(encode_event(seq, delta))
        buffer = b"".join(lines)
        extent, fault = extend(self._extent, buffer)
        if fault is not None:
            raise ValueError(fault)
        self._append(buffer, extent)
        return extent.head

    def append_lines(self, buffer: bytes) -> tuple[int, str | None]:
        """Append the good lines at the beginning of a buffer.

        Args:
            buffer: EVENT lines; in an empty journal the first may be a SNAPSHOT, and the numbers begin anywhere.

        Returns:
            How many bytes were appended, and why the next line is not the next of this journal: None where there is
            none, or an unfinished one.

        Raises:
            JournalUnusable: as `append`.
        """
        extent, fault = extend(self._extent, buffer)
        size = extent.end - self._extent.end
        self._append(buffer[:size], extent)
        return size, fault

    def _append(self, buffer: bytes, extent: Extent) -> None:
        """Write lines in pieces, each of which is on disk before the next one is written."""
        while buffer:
            end = len(buffer) if len(buffer) <= APPEND_BYTES_MAX else buffer.rfind(b"\n", 0, APPEND_BYTES_MAX) + 1
            self._write(buffer[:end])
            buffer = buffer[end:]
        self._extent = extent

    def _write(self, piece: bytes) -> None:
        if self._failed:
            raise JournalUnusable(self.path, "an append has failed; open it anew to see what is there")
        self._failed = True  # and stays so unless all of the following succeeds
        try:
            self._check_unchanged()
            files.write_all(self._descriptor, piece)
            disk.sync_file(self._descriptor)
            self._size += len(piece)
        except OSError as error:
            reason = f"an append failed: {why(error)}; fix that, and append again what comes after its last event"
            raise JournalUnusable(self.path, reason) from error
        self._failed = False

    def _check_unchanged(self) -> None:
        """Stop where another program writes without the lock: what we report must be in the file that has this name."""
        if not disk.is_at(self._descriptor, self.path):
            raise JournalUnusable(self.path, "it was replaced while it was open for append; open it anew")
        size = os.fstat(self._descriptor).st_size
        if size != self._size:
            reason = f"it was {self._size} bytes long and is {size}: another program writes to it without the lock"
            raise JournalUnusable(self.path, reason)


def _open_locked(path: str, wait_s: float) -> int:
    """Open the file and lock it. Whoever replaces a journal holds its lock, so the name is looked at after locking."""
    deadline = time.monotonic() + wait_s
    while True:
        descriptor = files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            if _lock(descriptor) and disk.is_at(descriptor, path):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            raise JournalUnusable(path, why(error)) from error
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise JournalUnusable(path, "another program is appending to it; wait for it to end")
        time.sleep(LOCK_RETRY_S)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
