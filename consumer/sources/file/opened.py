"""A file that is open: whether its name still leads to it, how it begins, and that what it holds is on the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from typing import NamedTuple

from consumer.core.errors import ConnectFailed, SourceUnusable
from consumer.core.words import why
from consumer.sources.file.address import FileAddress

IDENTITY_BYTES_MAX = 64 * 1024
"""How much of a first line tells the file from another."""

_LF = b"\n"


class State(NamedTuple):
    """What shows that something has happened to a file."""

    device: int
    inode: int
    size: int
    changed_ns: int


class OpenFile:
    """The file that has a name, at the moment when this is made.

    Args:
        address: the name.

    Raises:
        ConnectFailed: there is none, or it cannot be read just now.
        SourceUnusable: it is no file, or may not be read.

    Attributes:
        size: its size at that moment, in bytes.
        identity: what tells it from another file, None where it has no complete first line.
    """

    def __init__(self, address: FileAddress) -> None:
        self._address = address
        self._synced = 0
        try:
            self._descriptor = os.open(
                address.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            )  # a FIFO must not block
        except OSError as error:
            raise failure(address, error) from error
        try:
            found = os.fstat(self._descriptor)
            is_file = stat.S_ISREG(found.st_mode)
            self._begin = self._read_begin() if is_file else None
        except OSError as error:
            self.close()
            raise failure(address, error) from error
        if not is_file:
            self.close()
            raise SourceUnusable(address.text, "it is no regular file")
        self.size = found.st_size
        self.identity = None if self._begin is None else f"first line {hashlib.sha256(self._begin).hexdigest()[:32]}"

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def state(self) -> State | None:
        """Look at the file; None where the name leads to another one. Raises `OSError`."""
        named = os.stat(self._address.path)  # noqa: PTH116 - it is asked at each look, and `Path.stat` costs more
        opened = os.fstat(self._descriptor)
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            return None
        return State(opened.st_dev, opened.st_ino, opened.st_size, opened.st_mtime_ns)

    def pread(self, size: int, at: int) -> bytes:
        """Read some bytes, fewer at the end of the file. Raises `OSError`."""
        return os.pread(self._descriptor, size, at)

    def begins_as_before(self) -> bool:
        """Say whether its first line is what it was, or there still is none."""
        if self._begin is None:
            return self._read_begin() is None
        return self.pread(len(self._begin), 0) == self._begin

    def sync(self, end: int) -> None:
        """Make durable what it holds, at least up to a byte. Raises `OSError`."""
        if end > self._synced:
            size = os.fstat(self._descriptor).st_size
            _sync(self._descriptor)
            self._synced = size  # what is there is only added to, so up to here it is on the disk

    def _read_begin(self) -> bytes | None:
        """Read the first line that is not empty, with the empty ones before it, or the most of it that counts."""
        begin = self.pread(IDENTITY_BYTES_MAX, 0)
        filled = len(begin) - len(begin.lstrip(_LF))
        end = begin.find(_LF, filled) + 1
        if end:
            return begin[:end]
        return begin if len(begin) == IDENTITY_BYTES_MAX and filled < len(begin) else None


def failure(address: FileAddress, error: OSError) -> ConnectFailed | SourceUnusable:
    """Say what an error of the system means: who may not read the file now will not be allowed to later either."""
    if isinstance(error, PermissionError | IsADirectoryError):
        return SourceUnusable(address.text, why(error))
    return ConnectFailed(f"{address.text} cannot be read: {why(error)}")


if sys.platform == "darwin":
    import fcntl

    def _sync(descriptor: int) -> None:
        """Make durable what a file holds, whoever wrote it: on macOS an fsync stops at the drive's cache."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

else:

    def _sync(descriptor: int) -> None:
        """Make durable what a file holds, whoever wrote it."""
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EINVAL):  # where nothing can be written, nothing need be
                raise
