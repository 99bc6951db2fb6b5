"""Files of SQLite's that somebody else has written to, or we in vain: make durable what they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from consumer.core.errors import SyncFailed, UnsafeDurability
from consumer.core.words import why

COPY_BYTES = 1024 * 1024
"""How much of a file is held in memory while it is written again. A log seldom has more than 4 MiB in all."""


MAIN_FILE = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'"
"""Gives the file of a connection's database: a name need not be UTF-8, and a handler may have added other databases."""


def main_file(found: bytes) -> Path:
    """Give the path that `MAIN_FILE` has found."""
    return Path(os.fsdecode(found))


def write_again(path: Path) -> None:
    """Write what a log holds once more, where it is, and sync it. For whoever has the database's write lock.

    A sync alone may tell a lie: if one has failed, the kernel may have reported that to a process that is dead by now,
    and keep the pages, which are not on disk, as if they were clean.

    Args:
        path: the log. Where there is none, nothing need be done: another journal mode has none.

    Raises:
        SyncFailed: the system failed.
    """
    with _telling(path), path.open("r+b", buffering=0) as file:
        offset = 0
        while data := os.pread(file.fileno(), COPY_BYTES, offset):
            offset += os.pwrite(file.fileno(), data, offset)
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Sync a folder, or a file as far as that can be done without writing. None that is not there.

    Raises:
        SyncFailed: the system failed.
        UnsafeDurability: it may not be opened, and that does not pass.
    """
    with _telling(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass
    except PermissionError as error:
        raise UnsafeDurability(f"{path} cannot be synced: {why(error)}; let this user read it") from error
    except OSError as error:
        raise SyncFailed(str(path), why(error)) from error
