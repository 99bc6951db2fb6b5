"""What "on disk" means for every file of ours, and whether a name still leads to the file that is open.

A sync counts only when the drive itself has confirmed that the data is where a power cut cannot reach it. On Linux
`fsync` asks the drive. On macOS it stops at the drive's cache, and the call that goes further is F_FULLFSYNC.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TypeAlias

try:
    import fcntl
except ModuleNotFoundError:  # on Windows there is no such module, and what imports this one must work all the same
    _FULL_SYNC: int | None = None
else:
    _FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)

_NOT_SUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY}
"""What a file system answers that does not know F_FULLFSYNC. There `fsync` must do, as it does for SQLite, since it is
all that can be had. Any other error is one of the disk."""

_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES}
"""What the system says where a name leads to no file, or to none that we may reach."""

FileId: TypeAlias = tuple[int, int]
"""Device and inode: they tell a file from any other, whatever its name."""


def sync_file(descriptor: int) -> None:
    """Make durable what a file holds now, whoever wrote it.

    Args:
        descriptor: the open file, or folder.

    Raises:
        OSError: the system failed. What was written since the sync before may be lost, even if the next one succeeds.
    """
    _flush(descriptor)


def _flush(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_folder(path: str | Path) -> None:
    """Make a file's name durable: a file that was never synced into its folder is gone after a power cut.

    Args:
        path: the file; where it is a link, the folder of the file that it leads to is synced.

    Raises:
        OSError: as `sync_file`.
    """
    folder = os.open(Path(path).resolve().parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _flush(folder)
    finally:
        os.close(folder)


def file_id(file: str | int) -> FileId | None:
    """Say which file this is, by its name or its descriptor; None where the name leads to none. Links are followed."""
    try:
        found = os.stat(file)  # noqa: PTH116 - it is called for each acknowledgement, and `Path.stat` costs more
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return None
    return found.st_dev, found.st_ino


def is_at(descriptor: int, path: str) -> bool:
    """Say whether a name still leads to the very file that is open."""
    return file_id(path) == file_id(descriptor)
