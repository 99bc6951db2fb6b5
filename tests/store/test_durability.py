"""Nothing is acknowledged, and no cursor said, that a power cut could take back."""

import fcntl
import importlib
import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url

from consumer.core import disk
from consumer.core.errors import SyncFailed, UnsafeDurability
from consumer.core.outcome import Halt, Outcome
from consumer.core.points import Point
from consumer.store.databases.sqlite import SQLite
from consumer.store.moves import Move
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store

from .helpers import at, execute, holding, on_connect, record, rows, stored, stream, waiting_for, workers
from .recording import A, B, claim, row, run

# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [Store.check_durability, Store.resume])
@pytest.mark.parametrize(
    ("mode", "synchronous", "is_safe"),
    [
        ("WAL", "EXTRA", True),
        ("WAL", "FULL", True),
        ("WAL", "NORMAL", False),
        ("WAL", "OFF", False),
        ("DELETE", "EXTRA", True),
        ("DELETE", "FULL", False),
        ("DELETE", "OFF", False),
        ("TRUNCATE", "EXTRA", True),
        ("TRUNCATE", "FULL", False),
        ("PERSIST", "EXTRA", True),
        ("PERSIST", "NORMAL", False),
        ("MEMORY", "EXTRA", False),
        ("OFF", "EXTRA", False),
    ],
)
def test_sqlite_must_sync_the_log_and_without_one_the_directory_too(
    sqlite_url, mode, synchronous, is_safe, call
) -> None:
    with Store(sqlite_url) as store:
        on_connect(store, f"PRAGMA journal_mode={mode}", f"PRAGMA synchronous={synchronous}")
        if is_safe:
            call(store)
            return
        with pytest.raises(UnsafeDurability, match=rf"{mode.lower()}.*synchronous=\d") as raised:
            call(store)
    assert patience(raised.value) is Patience.NEVER
    assert str(Path(make_url(sqlite_url).database)) in str(raised.value)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_database_in_memory_is_refused(url) -> None:
    with Store(url) as store, pytest.raises(UnsafeDurability, match="file on a local disk"):
        store.resume()


def test_a_store_runs_sqlite_with_a_log_that_is_synced_at_every_commit(sqlite_url) -> None:
    looks: list[tuple[object, object]] = []

    def look(connection, events) -> None:
        looks.append(
            tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "synchronous"))
        )

    with Store(sqlite_url) as store:
        store.resume()
        store.apply(stream(1), look)
    assert looks == [("wal", 3)]


@pytest.mark.parametrize(
    "statement", ["PRAGMA synchronous=OFF", "PRAGMA journal_mode=OFF", "PRAGMA journal_mode=MEMORY"]
)
def test_a_handler_cannot_make_sqlite_less_durable(sqlite_url, statement) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        try:
            connection.exec_driver_sql(statement)
        except Exception:  # noqa: BLE001 - refused or without effect, both are well
            return

    settings: list[object] = []
    with Store(sqlite_url) as store:
        for last in range(2):
            with at(
                Point.BEFORE_COMMIT,
                lambda: settings.extend(
                    store._connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                    for name in ("journal_mode", "synchronous")
                ),
            ):
                assert store.apply(stream(1, last), handler) == Outcome(1, 1, last, None)
        store.check_durability()
    assert settings == ["wal", 3] * 2
    assert stored(sqlite_url) == holding(stream(2), handled=True)


@pytest.fixture(scope="module")
def server(own_postgres) -> str:
    """A PostgreSQL of our own, whose settings may be spoilt."""
    return own_postgres.get_uri(driver="psycopg")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_postgresql_that_does_not_sync_is_refused(server, setting, patience_s) -> None:
    with Store(server) as store:
        store.check_durability()
        for value in ("off", "on"):
            execute(server, f"ALTER SYSTEM SET {setting} = {value}", "SELECT pg_reload_conf()")
            for _ in waiting_for(patience_s):
                if rows(server, f"SHOW {setting}") == [(value,)]:
                    break
            store.close()
            if value == "off":
                with pytest.raises(UnsafeDurability, match=f"{setting}=off"):
                    store.check_durability()
        store.check_durability()


@pytest.mark.parametrize("table", ["ledger", "checkpoint"])
def test_a_table_that_is_not_logged_is_refused(postgres_url, table) -> None:
    with Store(postgres_url) as store:
        store.resume()
        execute(postgres_url, f"ALTER TABLE {table} SET UNLOGGED")
        try:
            with pytest.raises(UnsafeDurability, match=f"{table} is not logged"):
                store.resume()
        finally:
            execute(postgres_url, f"ALTER TABLE {table} SET LOGGED")
        store.resume()


def synchronous_commit(store: Store) -> str:
    return store._connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()


@pytest.mark.parametrize("setting", [None, "SET synchronous_commit TO off", "SET LOCAL synchronous_commit TO off"])
def test_a_commit_is_synchronous_whatever_the_database_or_a_handler_has_set(postgres_of_its_own, setting) -> None:
    url = postgres_of_its_own
    database = make_url(url).database
    execute(url, f"ALTER DATABASE {database} SET synchronous_commit TO off")
    assert rows(url, "SHOW synchronous_commit") == [("off",)]

    def handler(connection, events) -> None:
        record(connection, events)
        if setting is not None:
            connection.exec_driver_sql(setting)
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "off"

    settings: list[str] = []
    with Store(url) as store:
        store.check_durability()
        for last in range(2):
            with at(Point.BEFORE_COMMIT, lambda: settings.append(synchronous_commit(store))):
                assert store.apply(stream(1, last), handler) == Outcome(1, 1, last, None)
    assert settings == ["on"] * 2


@pytest.mark.parametrize("value", ["local", "remote_write", "on", "remote_apply"])
def test_a_level_that_syncs_here_is_left_as_it_is(postgres_of_its_own, value) -> None:
    url = postgres_of_its_own
    execute(url, f"ALTER DATABASE {make_url(url).database} SET synchronous_commit TO {value}")
    with Store(url) as store:
        store.resume()
        store.apply(stream(1), record)
        assert synchronous_commit(store) == value
        store._connection.rollback()


# --- what a killed process has left unsynced -----------------------------------------------------


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """What Python has synced, by name. SQLite's own syncs do not pass here."""
    names: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def log_and_folder(url: str) -> list[str]:
    path = Path(make_url(url).database).resolve()
    return [f"{path}-wal", str(path.parent)]


def test_the_log_and_the_folder_are_synced_before_the_cursor_is_said(sqlite_url, synced, patience_s) -> None:
    with workers((sqlite_url, 10, 5, Point.AFTER_COMMIT, 1)) as [process]:
        process.communicate("\n", timeout=patience_s)
    with Store(sqlite_url) as store:
        assert store.resume() == 4
        assert synced == log_and_folder(sqlite_url)


def test_where_fsync_stops_at_the_drives_cache_the_store_goes_beyond_it(sqlite_url, monkeypatch) -> None:
    """As on macOS: what is synced here and what SQLite syncs means the same there."""
    full, asked = 51, []
    with Store(sqlite_url) as store:
        with monkeypatch.context() as patch:
            synced: list[str] = []
            patch.setattr(fcntl, "F_FULLFSYNC", full, raising=False)
            patch.setattr(
                fcntl, "fcntl", lambda file, call: synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
            )
            importlib.reload(disk)
            store.resume()
        importlib.reload(disk)
        assert synced == log_and_folder(sqlite_url)
        store.apply(stream(1), lambda connection, *_: asked.append(pragmas(connection)))
    assert asked == [(1, 1)]


def pragmas(connection: Connection) -> tuple[int, int]:
    one = connection.exec_driver_sql
    return one("PRAGMA fullfsync").scalar_one(), one("PRAGMA checkpoint_fullfsync").scalar_one()


@pytest.mark.parametrize("call", ["fsync", "pwrite"])
@pytest.mark.parametrize("error", [OSError(5, "the disk is gone"), OSError(28, "no space is left")])
def test_a_sync_that_fails_keeps_the_cursor_from_being_said(sqlite_url, monkeypatch, call, error) -> None:
    """It is tried again for ever: each time all is written again, so a later success is one."""

    def fail(*_: object) -> None:
        raise error

    with Store(sqlite_url) as other, Store(sqlite_url) as store:
        other.apply(stream(2))
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(SyncFailed, match=f"store.db-wal cannot be synced: {error.strerror}") as raised:
            store.resume()
        assert patience(raised.value) is Patience.FOREVER
        monkeypatch.undo()
        assert store.resume() == 1
        other.apply(stream(1, 1))  # the lock is free


def test_what_a_failed_sync_may_have_lost_is_written_again_before_it_is_claimed(
    sqlite_url, synced, monkeypatch
) -> None:
    """After a sync that failed the kernel may say yes to the next one, with nothing on disk."""
    log = Path(log_and_folder(sqlite_url)[0])
    written: list[tuple[str, int, bytes]] = []
    real = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        assert synced == []
        written.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), offset, data[:2000]))
        return real(descriptor, data[:2000], offset)  # it may take less than it is given

    with Store(sqlite_url) as other, Store(sqlite_url) as store:
        other.apply(stream(100))
        synced.clear()
        monkeypatch.setattr(os, "pwrite", pwrite)
        before = log.read_bytes()
        assert store.resume() == 99
        assert log.read_bytes() == before
    assert {name for name, _, _ in written} == {str(log)}
    assert b"".join(data for _, _, data in written) == before
    assert synced == log_and_folder(sqlite_url)


def test_its_own_commits_need_not_be_synced_again(sqlite_url, synced) -> None:
    with Store(sqlite_url) as store:
        assert store.resume() == -1
        assert synced == log_and_folder(sqlite_url)
        store.apply(stream(3))
        synced.clear()
        assert store.resume() == 2
        assert synced == []


def test_what_another_process_has_committed_meanwhile_is_synced_before_each_resume(sqlite_url, synced) -> None:
    """That the cursor was on disk once says nothing of one that somebody else has moved since."""
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        store.resume()
        other.apply(stream(3))
        synced.clear()
        assert store.resume() == 2
        assert synced == log_and_folder(sqlite_url)
        synced.clear()
        assert store.resume() == 2
        assert synced == []  # by now this one knows it


def test_a_duplicate_of_what_another_process_committed_is_synced_before_it_is_acknowledged(
    sqlite_url, synced, monkeypatch
) -> None:
    events = stream(6)
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        store.resume()
        other.apply(events[:3])
        synced.clear()

        gap = (9, 1)
        assert store.apply([gap]).acked == 0  # nothing is acknowledged, nothing need be synced
        assert synced == []
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.apply(events[:2])
        assert store.apply(events[:2]) == Outcome(2, 0, 2, None)
        assert synced == log_and_folder(sqlite_url)

        assert store.apply(events[1:3]) == Outcome(2, 0, 2, None)
        assert synced == log_and_folder(sqlite_url)  # it is known to be synced by now
        synced.clear()
        other.apply(events[3:4])
        assert store.apply(events[4:5]) == Outcome(1, 1, 4, None)  # what it builds on may be lost by a failed sync
        assert synced == log_and_folder(sqlite_url)
        assert store.apply(events[3:5]) == Outcome(2, 0, 4, None)
        assert synced == log_and_folder(sqlite_url)


def test_nobody_moves_the_cursor_between_its_sync_and_its_being_said(sqlite_url, monkeypatch) -> None:
    tried: list[str] = []
    real = SQLite.make_durable

    def make_durable(self: SQLite, connection: Connection) -> None:
        con = sqlite3.connect(make_url(sqlite_url).database, timeout=0, isolation_level=None)
        try:
            con.execute("UPDATE checkpoint SET last = last + 1")
        except sqlite3.OperationalError as error:
            tried.append(str(error))
        finally:
            con.close()
        real(self, connection)

    monkeypatch.setattr(SQLite, "make_durable", make_durable)
    with Store(sqlite_url) as other, Store(sqlite_url) as store:
        other.apply(stream(3))
        tried.clear()
        assert store.resume() == 2
        assert tried == ["database is locked"]


def test_a_folder_that_may_not_be_read_is_unsafe_and_not_waited_for(sqlite_url, monkeypatch) -> None:
    folder, real = log_and_folder(sqlite_url)[1], os.open

    def refuse(path, *arguments, **options) -> int:
        if str(path) == folder:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with Store(sqlite_url) as store, pytest.raises(UnsafeDurability, match="let this user read it") as raised:
        store.resume()
    assert patience(raised.value) is Patience.NEVER


def test_a_connection_that_has_failed_takes_all_others_with_it(sqlite_url) -> None:
    """They are no better, or have been in the handler's hands."""
    with Store(sqlite_url) as store:
        store.resume()
        before = store._engine.pool
        with pytest.raises(ZeroDivisionError), at(Point.BEFORE_COMMIT, lambda: 1 / 0):
            store.apply(stream(1))
        assert store._engine.pool is not before


def test_the_log_of_a_store_behind_a_symbolic_link_is_synced_where_it_is(tmp_path, sqlite_url, synced) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(make_url(sqlite_url).database)
    with Store(sqlite_url) as other:
        other.apply(stream(1))
    synced.clear()
    with Store(f"sqlite:///{link}") as store:
        assert store.resume() == 0
        assert synced == log_and_folder(sqlite_url)


# --- streams of records --------------------------------------------------------------------------


def test_what_another_process_committed_of_a_stream_is_synced_before_it_is_claimed(sqlite_url, synced) -> None:
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        claim(other, A, B)
        other.apply_runs([run(A, -1, [0])])
        synced.clear()
        claim(store, A)
        assert synced == log_and_folder(sqlite_url)
        claim(store, A)
        assert synced == log_and_folder(sqlite_url)  # it is known to be synced by now
        claim(store, A, B)
        assert synced == log_and_folder(sqlite_url) * 2


def test_a_claim_that_cannot_be_made_durable_says_nothing(sqlite_url, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "the disk is gone")

    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        claim(other, A)
        before = row(sqlite_url)
        monkeypatch.setattr(os, "fsync", fail)
        for call in (lambda: claim(store, A), lambda: store.apply_runs([run(A, -1, [0])])):
            with pytest.raises(SyncFailed, match="-wal cannot be synced"):
                call()
        assert row(sqlite_url) == before


def test_runs_are_synced_before_they_are_acknowledged_or_built_on_where_others_committed_them(
    sqlite_url, synced
) -> None:
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        claim(store, A, B)
        synced.clear()
        assert store.apply_runs([run(A, -1, [0])]).new == 1
        assert store.apply_runs([run(A, -1, [0])]).duplicates == 1
        assert synced == []  # its own commits

        other.apply_runs([run(A, 0, [1]), run(B, -1, [0])])
        synced.clear()
        assert store.apply_runs([run(B, 5, [6])]).halted != ()  # a gap: nothing is acknowledged
        assert synced == []
        assert store.apply_runs([run(A, 0, [1])]).duplicates == 1
        assert synced == log_and_folder(sqlite_url)
        assert store.apply_runs([run(A, 1, [2])]).new == 1
        assert synced == log_and_folder(sqlite_url)


def test_a_number_that_others_have_reached_once_more_is_synced_again(sqlite_url, synced) -> None:
    """A cursor that was moved back stands where it stood: what was known to be on disk was another commit."""
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        claim(store, A)
        store.apply_runs([run(A, -1, [0, 1])])
        other.move([Move(A, "replay", "why", "me", to=-1)])
        other.apply_runs([run(A, -1, [0, 1], generation=1)])
        synced.clear()
        assert store.apply_runs([run(A, -1, [0, 1], generation=1)]).through == {A: 1}
        assert synced == log_and_folder(sqlite_url)


def test_a_move_syncs_what_it_goes_on_record_about(sqlite_url, synced) -> None:
    with Store(sqlite_url) as store, Store(sqlite_url) as other:
        claim(other, A)
        synced.clear()
        store.move([Move(A, "replay", "why", "me", to=3)])
        assert synced == log_and_folder(sqlite_url)
        synced.clear()
        claim(store, A)
        assert synced == []


@pytest.mark.parametrize("table", ["stream", "mark", "override", "lease", "store"])
def test_a_table_for_records_that_is_not_logged_is_refused(postgres_of_its_own, table) -> None:
    with Store(postgres_of_its_own) as store:
        store.check_durability()
        execute(postgres_of_its_own, f"ALTER TABLE consumer_{table} SET UNLOGGED")
        with pytest.raises(UnsafeDurability, match=f"consumer_{table} is not logged"):
            store.check_durability()


def test_a_commit_of_runs_is_synchronous_whatever_the_database_has_set(postgres_of_its_own) -> None:
    url = postgres_of_its_own
    execute(url, f"ALTER DATABASE {make_url(url).database} SET synchronous_commit TO off")
    settings: list[str] = []
    with Store(url) as store:
        for call in (
            lambda: claim(store, A),
            lambda: store.apply_runs([run(A, -1, [0])]),
            lambda: store.halt([Halt(A, 1, ValueError("no"))], {A: 0}),
            lambda: store.move([Move(A, "replay", "why", "me", to=3)]),
        ):
            with at(Point.BEFORE_COMMIT, lambda: settings.append(synchronous_commit(store))):
                call()
    assert settings == ["on"] * 4
