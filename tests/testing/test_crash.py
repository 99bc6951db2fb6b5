"""Crash points by name, as an exception in this process or as the death of another one."""

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import insert

from consumer.core import points
from consumer.core.errors import NotReady
from consumer.core.points import MigrationPoint, Point
from consumer.runtime.consumer import Consumer
from consumer.store import migrate
from consumer.store.transaction import Store
from consumer.testing import Moment, ScriptedPublisher, Serve, crash_at
from consumer.testing.proof.syscalls import can_die_in_calls, die_in_next

from .handlers import sales

EVENTS = [(seq, seq - 3) for seq in range(6)]
LIMIT_S = 60
VICTIM = Path(__file__).with_name("victim.py")
needs_seccomp = pytest.mark.skipif(not can_die_in_calls(), reason="to die inside a system call needs Linux")


def noop(connection, events) -> None:
    pass


def test_unused_they_are_the_plain_function_and_afterwards_again(sqlite_store) -> None:
    plain = points.reach
    assert plain.__module__ == "consumer.core.points"
    with crash_at(Point.AFTER_LEDGER, OSError), crash_at("before_commit", OSError):
        assert points.reach is not plain
    assert points.reach is plain


@pytest.mark.parametrize("point", [point for point in Point if not point.endswith("_ack")])
def test_a_point_of_the_store_raises_what_it_is_told_when_it_is_told(sqlite_store: Store, point: Point) -> None:
    error = OSError("gone")
    with crash_at(str(point), error, times=2) as crash:
        sqlite_store.apply(EVENTS[:2], noop)
        assert (crash.passed, crash.has_happened) == (1, False)
        with pytest.raises(OSError, match="gone") as raised:
            sqlite_store.apply(EVENTS[2:4], noop)
        assert raised.value is error
        assert (crash.passed, crash.has_happened) == (2, True)
        sqlite_store.apply(EVENTS[2:], noop)  # once, and then no more
    assert sqlite_store.state().last == 5


@pytest.mark.parametrize("point", [Point.BEFORE_ACK, Point.AFTER_ACK])
async def test_a_point_of_the_feed_raises_too(sqlite_store: Store, point: Point) -> None:
    async with asyncio.timeout(LIMIT_S), ScriptedPublisher([Serve(EVENTS)]) as publisher:
        with crash_at(point, LookupError("gone")), pytest.raises(LookupError, match="gone"):
            await Consumer(publisher.url, sqlite_store).run()
        session = await publisher.session(0)
        await session.has_left.wait()
    assert publisher.acks == ([] if point is Point.BEFORE_ACK else [seq for seq, _ in EVENTS])
    assert sqlite_store.state().last == 5


def test_a_statement_of_the_handler_can_fail_and_savepoints_are_none(sqlite_store: Store) -> None:
    def handler(connection, events) -> None:
        with connection.begin_nested():
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS sales (seq INTEGER, pieces INTEGER)")
        connection.execute(insert(sales), [{"seq": seq} for seq, _ in events])

    with crash_at(Moment.HANDLER_STATEMENT, ValueError("no"), times=2) as crash:
        assert sqlite_store.apply(EVENTS, handler).acked == 6  # the store tries again, in halves, and then it passes
    assert crash.passed == 2 + 2 * 2
    with crash_at(Moment.HANDLER_STATEMENT, ValueError("no")) as crash:
        sqlite_store.apply(EVENTS, handler)  # duplicates: no handler, no statement
    assert not crash.has_happened


@pytest.mark.parametrize("point", MigrationPoint)
def test_a_migration_that_dies_at_any_statement_leaves_nothing(url: str, point: MigrationPoint) -> None:
    times = 0
    while True:
        times += 1
        with crash_at(point, LookupError("gone"), times=times) as crash:
            try:
                migrate.upgrade(url)
            except LookupError:
                assert crash.passed == times
            else:
                break
        with pytest.raises(NotReady):
            migrate.status(url)
    assert migrate.status(url).last == -1
    assert times == 2 if point is MigrationPoint.BEFORE_COMMIT else times > 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("after_lunch", OSError), "after_lunch.*after_ledger.*before_migration_commit.*in_commit"),
        ((Point.AFTER_LEDGER, signal.SIGTERM), "SIGKILL"),
        ((Moment.IN_COMMIT, OSError), "only be killed"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words) -> None:
    with pytest.raises(ValueError, match=words), crash_at(*arguments):
        pass
    with pytest.raises(ValueError, match="counted from 1"), crash_at(Point.AFTER_LEDGER, OSError, times=0):
        pass


def victim(url: str, point: str, *before: str) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, str(VICTIM), url, point]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.parametrize("point", [Point.BEFORE_COMMIT, Moment.HANDLER_STATEMENT, MigrationPoint.BEFORE_COMMIT])
def test_with_sigkill_the_process_dies_there(sqlite_url: str, point: str) -> None:
    done = victim(sqlite_url, point)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "begins\n"), done.stderr
    if isinstance(point, MigrationPoint):
        with pytest.raises(NotReady):
            migrate.status(sqlite_url)
    else:
        assert migrate.status(sqlite_url).last == 2


@needs_seccomp
def test_inside_commit_the_process_dies_with_its_outcome_open(url: str) -> None:
    """SQLite: all is written, and the next process can read it although nothing was synced. PostgreSQL: it was sent."""
    done = victim(url, Moment.IN_COMMIT)
    assert (done.returncode, done.stdout) == (-signal.SIGSYS, "begins\n"), done.stderr
    with Store(url) as store:
        last = store.resume()
        assert last == 5 if url.startswith("sqlite") else last in {2, 5}
        store.apply(EVENTS)
        assert (store.state().last, store.state().total) == (5, sum(delta for _, delta in EVENTS))


@needs_seccomp
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace shows which call it is")
def test_inside_commit_on_sqlite_is_inside_its_sync(sqlite_url: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    victim(sqlite_url, Moment.IN_COMMIT, "strace", "-f", "-y", "-o", str(trace), "-e", "trace=pwrite64,fsync,fdatasync")
    lines = trace.read_text().splitlines()
    if not any("killed by SIGSYS" in line for line in lines):
        pytest.skip("strace may not look into processes here")
    calls = [line for line in lines if re.search(r"pwrite64|sync\(", line)]
    assert re.search(r"f(data)?sync\(\d+<.*store\.db-wal>", calls[-1])
    assert "= 0" not in calls[-1]
    assert "store.db-wal" in calls[-2]


def test_where_the_system_has_no_such_thing_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    assert not can_die_in_calls()
    with pytest.raises(OSError, match="needs Linux"):
        die_in_next(("fsync",))
