"""The few things about files that both sides of a journal need: open a regular one, make it durable, replace none."""

from __future__ import annotations

import fcntl
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


def sync_file(descriptor: int) -> None:
    """Make durable what the file holds now, whoever wrote it. Raises `OSError`, after which nothing may be assumed."""
    full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        fcntl.fcntl(descriptor, full_sync)  # on macOS an fsync stops at the drive's cache
    else:
        os.fsync(descriptor)


def sync_folder(path: str) -> None:
    """Make the file's name durable: a file that was never synced into its folder is gone with the power."""
    folder = os.open(Path(path).resolve().parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_at(descriptor: int, path: str) -> bool:
    """Say whether the name still leads to the file that is open."""
    try:
        named = Path(path).stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def is_gone(path: str) -> bool:
    """Say whether nothing has this name."""
    return not os.path.lexists(path)
