"""What a killed writer or a power cut has left at a journal's end: it is kept in a file aside, and then cut off.

The end of the file is validated, cut at the first line that is not the next event, and written once more. A power cut
damages only what was not synced, and no publisher has sent that. But a file does not say what has damaged it, and there
may be whole good lines behind a bad one. So nothing is cut, not even one byte, that is not on disk in another file.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.core.words import counted, why
from consumer.publisher.journal import files
from consumer.publisher.journal.extent import APPEND_BYTES_MAX, Extent, shown, survey

SHOWN_BYTES = 48
"""How much of what was cut a message shows."""

KEPT_MAX = 100
"""How many different contents are kept of one place of a journal. So many repairs of one place have a cause that a
person must find first, and without a limit they would fill the disk."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What opening a journal for append has cut off.

    Attributes:
        offset: where, in bytes; the file ends there now.
        size: how many bytes.
        reason: why they are no events of this journal.
        found: the first of them.
        kept: the file that holds them now.
        lines: how many whole lines they are. None means that they hold no event.
    """

    offset: int
    size: int
    reason: str
    found: bytes
    kept: str
    lines: int

    def __str__(self) -> str:
        what = f"cut {counted(self.size, 'byte')} at byte {self.offset} ({shown(self.found)}): {self.reason}"
        look = ": look there before other events get the numbers in it" if self.lines else ""
        return f"{what}; kept in {self.kept}{look}"


def repair(path: str, descriptor: int) -> tuple[Extent, Cut | None]:
    """Validate the end, cut off what is no event, and make durable what is left.

    A process that dies in between leaves the damage where it was, in the file aside, or in both.

    Args:
        path: the journal's file.
        descriptor: the same, open for reading and writing, and locked.

    Returns:
        What the journal holds, and what was cut off: None where the end was good.

    Raises:
        Damage: as `survey`; nothing was cut.
        JournalUnusable: what must be kept cannot be, or another program writes to the file; nothing was cut.
        OSError: the disk fails.
    """

    def read(offset: int, size: int) -> bytes:
        return os.pread(descriptor, size, offset)

    status = os.fstat(descriptor)
    extent, fault = survey(read, status.st_size)
    cut: Cut | None = None
    if status.st_size > extent.end:
        lost = read(extent.end, status.st_size - extent.end)
        kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))
        if os.fstat(descriptor).st_size != extent.end + len(lost):
            raise JournalUnusable(path, "it changes while its end is repaired: another program writes without the lock")
        reason = fault or "the last line is unfinished"
        cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b"\n"))
        os.ftruncate(descriptor, extent.end)
    _write_again(descriptor, extent.end)
    disk.sync_file(descriptor)
    disk.sync_folder(path)
    return extent, cut


def _write_again(descriptor: int, end: int) -> None:
    """Write once more what one failed sync may have lost.

    Such a failure may have been reported to a process that is dead by now. The kernel keeps the pages that are not on
    disk as if they were clean, and would say yes to the next sync.
    """
    offset = max(0, end - APPEND_BYTES_MAX)
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND)  # or Linux would write at the end
    try:
        left = memoryview(os.pread(descriptor, end - offset, offset))
        while left:
            written = os.pwrite(descriptor, left, offset)
            left, offset = left[written:], offset + written
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


def _keep(path: str, offset: int, lost: bytes, mode: int) -> str:
    """Put what is to be cut into a file beside the journal, durably. No file that is there is changed."""
    aside = f"{path}.cut-{offset}"
    try:
        for name in (aside, *(f"{aside}.{number}" for number in range(2, KEPT_MAX + 1))):
            if _holds(name, lost) or _write_new(name, lost, mode):
                disk.sync_folder(name)
                return name
    except OSError as error:
        raise JournalUnusable(
            path, f"its end is damaged, and what must be cut cannot be kept in {aside} ({why(error)}): nothing was cut"
        ) from error
    raise JournalUnusable(
        path, f"its end is damaged, and {aside} is there {KEPT_MAX} times with other content: nothing was cut"
    )


def _holds(name: str, lost: bytes) -> bool:
    """Say whether a file holds exactly this, for certain: who wrote it may have died before it was synced."""
    if not Path(name).is_file() or Path(name).stat().st_size != len(lost) or Path(name).read_bytes() != lost:
        return False
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.sync_file(descriptor)
    finally:
        os.close(descriptor)
    return True


def _write_new(name: str, lost: bytes, mode: int) -> bool:
    """Write a new file and sync it. False: the name is taken."""
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        return False
    try:
        files.write_all(descriptor, lost)
        disk.sync_file(descriptor)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()  # a part of it would be taken for all of it, and a full disk needs the room
        raise
    finally:
        os.close(descriptor)
    return True
