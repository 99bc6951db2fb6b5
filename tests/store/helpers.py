"""What the store's tests share: events, handlers, plain looks into a database, and the line-by-line shim as an oracle.

The looks go through SQLAlchemy's own engine, not through `consumer.store.databases`: what is under test does not check itself.
"""

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    insert,
    make_url,
    pool,
)

import consumer
from consumer.core import points
from consumer.core.events import Event
from consumer.core.points import Point
from consumer.lab import shim
from consumer.store.transaction import Store

ROOT = Path(consumer.__file__).resolve().parent.parent

SEQ_MAX = 2147483647

POINTS = [point for point in Point if not point.endswith("_ack")]
"""Those that the store passes by."""

# --- events and handlers -------------------------------------------------------------------------

users = MetaData()
seen = Table("seen", users, Column("seq", Integer, primary_key=True, autoincrement=False), Column("delta", Integer))
"""A user's own table: with the handler below it must always equal the ledger."""

kept = Table(
    "kept",
    users,
    Column("stream", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("place", Integer),
    Column("data", LargeBinary),
)
"""The same for records, each with its place in the order of all; `recording.py` fills it."""


def record(connection: Connection, events: list[Event]) -> None:
    """A good handler."""
    connection.execute(insert(seen), [{"seq": seq, "delta": delta} for seq, delta in events])


def stream(count: int, first: int = 0) -> list[Event]:
    """Events as a publisher would number them."""
    return [(seq, seq * 7 % 2001 - 1000) for seq in range(first, first + count)]


# --- looks into a database -----------------------------------------------------------------------


def is_sqlite(url: str) -> bool:
    return make_url(url).get_backend_name() == "sqlite"


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection on which every statement is a transaction of its own."""
    engine = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


def execute(url: str, *statements: str) -> None:
    with connected(url) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with connected(url) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


@dataclass(frozen=True)
class Stored:
    """All that a store holds, and the user's table beside it."""

    last: int
    total: int
    ledger: list[Event] = field(repr=False)
    seen: list[Event] = field(repr=False, default_factory=list)


def stored(url: str) -> Stored:
    with connected(url) as connection:
        [[last, total]] = connection.exec_driver_sql("SELECT last, total FROM checkpoint WHERE id = 1").all()
        ledger, copy = (
            [tuple(row) for row in connection.exec_driver_sql(f"SELECT seq, delta FROM {table} ORDER BY seq")]
            for table in ("ledger", "seen")
        )
    return Stored(last, total, ledger, copy)


def holding(events: Sequence[Event], *, handled: bool = False) -> Stored:
    """What a store must hold that has applied these and nothing else."""
    events = list(events)
    last = events[-1][0] if events else -1
    return Stored(last, sum(delta for _, delta in events), events, events if handled else [])


def waiting_for(patience_s: float) -> Iterator[None]:
    """Look again and again for what must come; that it does not is a failure, how soon it does is no matter."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)
    pytest.fail(f"it did not happen within {patience_s} s")


# --- the definition ------------------------------------------------------------------------------


class LineByLine:
    """The contract's step 3, one event after the other: what a batch must be equal to."""

    def __init__(self) -> None:
        self._con = shim.open_store(":memory:")

    def apply(self, events: Sequence[Any]) -> tuple[int, int, Exception | None]:
        """How many are acknowledged, how many of them were new, and the first error."""
        new = 0
        for position, (seq, delta) in enumerate(events):
            try:
                new += shim.apply_event(self._con, seq, delta)
            except (ValueError, consumer.Gap, consumer.Conflict) as error:
                return position, new, error
        return len(events), new, None

    def state(self) -> tuple[int, int]:
        return shim.state(self._con)

    def stored(self, *, handled: bool) -> Stored:
        ledger = self._con.execute("SELECT seq, delta FROM ledger ORDER BY seq").fetchall()
        return Stored(*self.state(), ledger, ledger if handled else [])

    def close(self) -> None:
        self._con.close()


def facts(error: Exception | None) -> tuple[object, ...]:
    """What two equal errors have in common."""
    return type(error), getattr(error, "args", None), vars(error) if error is not None else None, str(error)


# --- disturbances --------------------------------------------------------------------------------


@contextmanager
def at(point: Point, action: Callable[[], object], *, after: int = 0) -> Iterator[list[Point]]:
    """Do something where a point is reached, for the first time or after some times. Gives the points reached."""
    reached: list[Point] = []

    def reach(here: Point) -> None:
        reached.append(here)
        if here is point and reached.count(point) == after + 1:
            action()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "reach", reach)
        yield reached


def on_connect(store: Store, *statements: str) -> None:
    """Have every connection of a store say something first, after all that the store itself says."""

    def say(connection: Any, _record: object) -> None:
        for statement in statements:
            connection.execute(statement)
        if not isinstance(connection, sqlite3.Connection):
            connection.commit()

    event.listen(store._engine, "connect", say)


def add_trigger(url: str, table: str, when: str, sqlite: str, postgres: str) -> None:
    """Have a database do something of its own where a table changes."""
    if is_sqlite(url):
        execute(url, f"CREATE TRIGGER meddle {when} ON {table} {sqlite}")
        return
    execute(
        url,
        f"CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {postgres} END $$",
        f"CREATE TRIGGER meddle {when} ON {table} FOR EACH ROW EXECUTE FUNCTION meddle()",
    )


def remove_trigger(url: str, table: str) -> None:
    execute(url, "DROP TRIGGER IF EXISTS meddle" + ("" if is_sqlite(url) else f" ON {table}"))


def refuse(url: str, table: str, when: str) -> None:
    """Have a database refuse the updates of a table for which a condition holds."""
    sqlite = f"WHEN {when} BEGIN SELECT RAISE(ABORT, 'not here'); END"
    add_trigger(url, table, "BEFORE UPDATE", sqlite, f"IF {when} THEN RAISE 'not here'; END IF; RETURN NEW;")


class Running:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 - given to whoever waits
            self.error = error

    def ended(self, patience_s: float) -> None:
        self._thread.join(patience_s)
        assert not self._thread.is_alive()


# --- what must not be left behind ----------------------------------------------------------------


def sessions(url: str) -> list[str]:
    """What the connections of the package to a PostgreSQL database are doing, other than this one."""
    query = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'consumer'"
    return [state for (state,) in rows(url, query)]


def open_files(url: str) -> list[str]:
    """The descriptors of this process on a SQLite database or on what stands beside it."""
    path = os.path.realpath(make_url(url).database or "")
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the one that listed the folder
            continue
        if target.startswith(path):
            found.append(target)
    return found


def check_nothing_is_left(url: str, patience_s: float) -> None:
    """No connection and no file: a server takes a moment to see that its client is gone."""
    if is_sqlite(url):
        if open_files(url):
            gc.collect()  # an error that a test still holds may hold the connection that it comes from
        assert open_files(url) == []
        return
    for _ in waiting_for(patience_s):
        if not sessions(url):
            return


# --- other processes -----------------------------------------------------------------------------


@contextmanager
def workers(*arguments: tuple[object, ...], program: str = "worker") -> Iterator[list[subprocess.Popen[str]]]:
    """A program of this folder, once for each set of arguments; all are ready, and begin when they are sent a line."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"tests.store.{program}", *map(str, given)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for given in arguments
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def run_worker(patience_s: float, *arguments: object) -> tuple[int, list[int]]:
    """How a worker ended, and how far it would have acknowledged after each batch."""
    with workers(arguments) as [process]:
        out, err = process.communicate("\n", timeout=patience_s)
        assert process.returncode in {0, -signal.SIGKILL}, err
        return process.returncode, [int(line) for line in out.split()]


CLOCK_MS = {
    True: "CAST(strftime('%s', 'now') || substr(strftime('%f', 'now'), 4) AS INTEGER)",
    False: "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}


def now_ms(url: str) -> int:
    """The time by the database's own clock."""
    [[now]] = rows(url, f"SELECT {CLOCK_MS[is_sqlite(url)]}")
    return now
