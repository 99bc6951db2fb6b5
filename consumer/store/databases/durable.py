"""The files of a SQLite database, which the system must be asked about: are they on disk, and still in their place?

Somebody else may have written to them, or we in vain: then what they hold is made durable. SQLite does not notice that
one of them was deleted or replaced while it was open, and goes on writing into a file without a name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from consumer.core import disk
from consumer.core.errors import StoreReplaced, SyncFailed, UnsafeDurability
from consumer.core.words import why

COPY_BYTES = 1024 * 1024
"""How much of a file is held in memory while it is written again. A log seldom has more than 4 MiB in all."""


MAIN_FILE = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'"
"""Gives the file of a connection's database: a name need not be UTF-8, and a handler may have added other databases."""


def main_file(found: bytes) -> Path:
    """Give the path that `MAIN_FILE` has found."""
    return Path(os.fsdecode(found))


class FilesInPlace:
    """The files of one open connection, and whether their names still lead to them.

    Args:
        path: the database's name, as it was given to SQLite.
        main: the file that SQLite has opened, by its own account.
        before: which file had that name before it was opened, None where that was not looked at. Where another one has
            it now, nobody knows which of them SQLite has opened.

    Raises:
        StoreReplaced: that is so.
    """

    def __init__(self, path: str, main: str, before: disk.FileId | None) -> None:
        given = os.path.abspath(path)  # noqa: PTH100 - links stay links
        self._expected: dict[str, disk.FileId | None] = {given: disk.file_id(path), main: disk.file_id(main)}
        self._log = f"{main}-wal"
        self.knows_log = False
        """Whether `note_log` was called."""
        if before is not None and before != self._expected[given]:
            raise StoreReplaced(path)

    def note_log(self, *, is_there: bool) -> None:
        """Say, in the first transaction, whether there must be a log. The one that is there now is the one to stay."""
        self.knows_log = True
        if is_there:
            self._expected[self._log] = disk.file_id(self._log)

    def check(self) -> None:
        """Make sure of it; one call takes a few microseconds.

        Raises:
            StoreReplaced: another file has the name of one of them, or none has.
        """
        for path, expected in self._expected.items():
            found = disk.file_id(path)
            if found is None or found != expected:
                raise StoreReplaced(path)


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
        disk.sync_file(file.fileno())


def sync(path: Path) -> None:
    """Sync a folder, or a file as far as that can be done without writing. None that is not there.

    Raises:
        SyncFailed: the system failed.
        UnsafeDurability: it may not be opened, and that does not pass.
    """
    with _telling(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            disk.sync_file(descriptor)
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
