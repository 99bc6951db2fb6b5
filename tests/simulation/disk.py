"""The disk: what is committed, and what a power cut would leave of it.

A commit is durable once SQLite has returned from it with `synchronous` FULL or more, or once somebody has synced the log
and the folder. This is noted by what reaches the disk, never by what the consumer believes. The database is looked at
over a connection of its own, with plain sqlite3.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from consumer.store import migrate

FULL = 2
"""What PRAGMA synchronous says where a commit is synced."""

_FILES = ("", "-wal")


@dataclass(frozen=True)
class Found:
    """All that is in the database."""

    last: int
    total: int
    ledger: list[tuple[int, int]]
    seen: list[tuple[int, int]]


class Disk:
    """A folder with a store in it, new for each history."""

    def __init__(self, folder: Path) -> None:
        """Make the store once; `wipe` puts it back."""
        self.folder = folder
        self.path = folder / "store.db"
        self._made = folder / "made.db"
        migrate.upgrade(f"sqlite:///{self._made}")
        with sqlite3.connect(self._made) as connection:
            connection.execute("CREATE TABLE seen (seq INTEGER PRIMARY KEY, delta INTEGER)")
        connection.close()
        self._look: sqlite3.Connection | None = None
        self._found: tuple[int, Found] | None = None
        self._unsynced: dict[str, bytes] | None = None
        self._synced: set[int] = set()
        self.durable = -1

    def wipe(self) -> None:
        """Begin anew."""
        self._put({"": self._made.read_bytes()})
        self._unsynced = None
        self.durable = -1

    def close(self) -> None:
        if self._look is not None:
            self._look.close()
            self._look = None

    def last(self) -> int:
        """The cursor that anybody sees."""
        assert self._look is not None
        last: int = self._look.execute("SELECT last FROM checkpoint WHERE id = 1").fetchone()[0]
        return last

    def found(self) -> Found:
        look = self._look
        assert look is not None
        [version] = look.execute("PRAGMA data_version").fetchone()  # another one where somebody has committed
        if self._found is None or self._found[0] != version:
            last, total = look.execute("SELECT last, total FROM checkpoint WHERE id = 1").fetchone()
            ledger, seen = (
                look.execute(f"SELECT seq, delta FROM {table} ORDER BY seq").fetchall() for table in ("ledger", "seen")
            )
            self._found = (version, Found(last, total, ledger, seen))
        return self._found[1]

    # What becomes durable.

    def before_commit(self) -> None:
        """A commit begins that a process will not survive: what the disk surely has is what it has now."""
        if self._unsynced is None:
            self._unsynced = {suffix: self._file(suffix).read_bytes() for suffix in _FILES}
        self._synced = set()

    def committed(self, connection: sqlite3.Connection) -> None:
        """COMMIT has returned: SQLite has synced the whole log, if that is how it is set."""
        if connection.execute("PRAGMA synchronous").fetchone()[0] >= FULL:
            self._settle()

    def fsync(self, descriptor: int) -> None:
        """Stands for `os.fsync`."""
        self._synced.add(os.fstat(descriptor).st_ino)
        if {path.stat().st_ino for path in (self._file("-wal"), self.folder)} <= self._synced:
            self._settle()

    def cut_power(self) -> bool:
        """Take back what was not synced, and say whether there was anything. Nobody else has a connection by now."""
        before, self._unsynced = self._unsynced, None
        if before is not None:
            self._put(before)
        assert self.last() == self.durable
        return before is not None

    def _settle(self) -> None:
        self.durable = self.last()
        self._unsynced = None
        self._synced = set()

    def _put(self, files: dict[str, bytes]) -> None:
        self.close()
        for suffix in (*_FILES, "-shm"):
            self._file(suffix).unlink(missing_ok=True)
        for suffix, content in files.items():
            self._file(suffix).write_bytes(content)
        self._look = sqlite3.connect(self.path, isolation_level=None)
        self._found = None

    def _file(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)
