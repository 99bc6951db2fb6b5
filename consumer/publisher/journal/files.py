"""What both sides of a journal do with its file: open it if it is a regular one, and write all of something."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from consumer.core.errors import JournalUnusable
from consumer.core.words import why


def open_file(path: str, flags: int) -> int:
    """Open a journal's file.

    Args:
        path: the file.
        flags: as for `os.open`.

    Returns:
        The descriptor.

    Raises:
        JournalUnusable: it is not there, may not be opened, or is no regular file.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)  # a FIFO must not block us here
    except OSError as error:
        folder = Path(path).resolve().parent
        if isinstance(error, FileNotFoundError) and not folder.exists():
            raise JournalUnusable(path, f"there is no folder {folder}; make it first") from None
        if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
            raise JournalUnusable(path, "it is not there; `consumer journal append` makes one") from None
        raise JournalUnusable(path, why(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise JournalUnusable(path, "it is no regular file")
    return descriptor


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it: the system may take a part at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
