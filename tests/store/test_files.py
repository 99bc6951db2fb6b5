"""SQLite's files: what is beside the main one is not written to, and the main one must stay where it is."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from consumer.core.errors import HandlerFailed, StoreReplaced
from consumer.store import migrate
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store

from .helpers import execute, holding, on_connect, record, rows, stored, stream

EVENTS = stream(10)


# --- a handler and another file --------------------------------------------------------------------


def attach(connection, events) -> None:
    record(connection, events)
    connection.exec_driver_sql("ATTACH ':memory:' AS other")


def detach(connection, events) -> None:
    record(connection, events)
    connection.exec_driver_sql("DETACH other")


def through_the_driver(connection, events) -> None:
    record(connection, events)
    connection.connection.driver_connection.execute("ATTACH ':memory:' AS other")


@pytest.mark.parametrize("handler", [attach, detach, through_the_driver])
def test_a_handler_attaches_no_other_file(sqlite_url, handler) -> None:
    with Store(sqlite_url) as store:
        outcome = store.apply(EVENTS, handler)
    assert isinstance(outcome.error, HandlerFailed)
    assert outcome.error.seq == 0
    assert "must not attach or detach a database" in str(outcome.error)
    assert stored(sqlite_url) == holding([])


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO other.notes VALUES (7)",
        "UPDATE other.notes SET id = 8",
        "DELETE FROM other.notes",
        "CREATE TABLE other.more(id)",
        "CREATE TABLE other.more AS SELECT 1 AS id",
        "CREATE INDEX other.by_id ON notes(id)",
        "CREATE VIEW other.seen AS SELECT 1",
        "DROP TABLE other.notes",
        "ALTER TABLE other.notes RENAME TO papers",
        "ALTER TABLE other.notes ADD COLUMN words",
        "REINDEX other.notes_id",
        "REPLACE INTO notes VALUES (9)",
    ],
)
def test_a_handler_writes_to_no_file_that_was_attached_before(sqlite_url, tmp_path, statement) -> None:
    other = tmp_path / "other.db"
    con = sqlite3.connect(other)
    con.execute("CREATE TABLE notes(id)")
    con.execute("CREATE INDEX notes_id ON notes(id)")
    con.execute("INSERT INTO notes VALUES (1)")
    con.commit()
    before = list(con.iterdump())

    def handler(connection, events) -> None:
        record(connection, events)
        assert connection.execute(text("SELECT id FROM other.notes")).scalar_one() == 1  # to read is no harm
        connection.exec_driver_sql(statement)

    with Store(sqlite_url) as store:
        on_connect(store, f"ATTACH '{other}' AS other")
        outcome = store.apply(EVENTS[:1], handler)
    assert isinstance(outcome.error, HandlerFailed)
    assert "must not write to the attached database other" in str(outcome.error)
    assert stored(sqlite_url) == holding([])
    assert list(con.iterdump()) == before
    con.close()


def test_a_handler_may_write_to_a_temporary_table(store, url) -> None:
    def handler(connection, events) -> None:
        connection.exec_driver_sql("CREATE TEMP TABLE these(seq INTEGER)")
        for seq, _ in events:
            connection.exec_driver_sql(f"INSERT INTO these VALUES ({seq})")
        record(connection, events)

    assert store.apply(EVENTS[:5], handler).error is None
    assert store.apply(EVENTS[5:], handler).error is None  # it was gone with its connection
    assert stored(url) == holding(EVENTS, handled=True)


# --- the file goes away ----------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def delete_the_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def move_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.rename(file.with_name(f"old-{file.name}"))


def restore_a_backup(path: Path) -> None:
    copy = path.with_suffix(".backup")
    with sqlite3.connect(path) as here, sqlite3.connect(copy) as there:
        here.backup(there)
    there.close()
    here.close()
    copy.replace(path)


def replace_the_log(path: Path) -> None:
    log = Path(f"{path}-wal")
    Path(shutil.copy(log, f"{log}.copy")).replace(log)


CHANGES: list[Callable[[Path], None]] = [delete, delete_the_log, move, move_all, restore_a_backup, replace_the_log]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("again", [True, False], ids=["duplicates", "new"])
def test_nothing_is_acknowledged_into_a_file_that_has_no_name(sqlite_url, tmp_path, change, again) -> None:
    with Store(sqlite_url) as store:
        store.resume()
        assert store.apply(EVENTS[:5], record).acked == 5
        change(tmp_path / "store.db")
        with pytest.raises(StoreReplaced, match="deleted, moved or replaced") as raised:
            store.apply(EVENTS[:5] if again else EVENTS[5:], record)
        assert patience(raised.value) is Patience.NEVER
        assert raised.value.path.startswith(str(tmp_path / "store.db"))


@pytest.mark.parametrize("change", CHANGES)
def test_no_cursor_is_claimed_of_a_file_that_has_no_name(sqlite_url, tmp_path, change) -> None:
    with Store(sqlite_url) as store:
        store.resume()
        assert store.apply(EVENTS[:5], record).acked == 5
        change(tmp_path / "store.db")
        with pytest.raises(Exception) as raised:
            store.resume()
        assert isinstance(raised.value, StoreReplaced) or "no store" in str(raised.value)


def test_the_file_goes_away_inside_the_handler(sqlite_url, tmp_path) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        delete(tmp_path / "store.db")

    with Store(sqlite_url) as store:
        store.resume()
        with pytest.raises(StoreReplaced):
            store.apply(EVENTS, handler)


def test_a_link_that_leads_elsewhere_is_another_file(sqlite_url, tmp_path) -> None:
    link, other = tmp_path / "link.db", tmp_path / "other.db"
    link.symlink_to(tmp_path / "store.db")
    migrate.upgrade(f"sqlite:///{other}")
    with Store(f"sqlite:///{link}") as store:
        store.resume()
        assert store.apply(EVENTS[:5], record).acked == 5
        link.unlink()
        link.symlink_to(other)
        with pytest.raises(StoreReplaced):
            store.apply(EVENTS[5:], record)


def test_a_restored_backup_is_consumed_from_its_own_cursor_at_the_next_start(sqlite_url, tmp_path) -> None:
    path = tmp_path / "store.db"
    with Store(sqlite_url) as store:
        store.resume()
        store.apply(EVENTS[:3], record)
    shutil.copy(path, tmp_path / "backup.db")
    with Store(sqlite_url) as store:
        assert store.resume() == 2
        store.apply(EVENTS[3:7], record)
        (tmp_path / "backup.db").replace(path)
        with pytest.raises(StoreReplaced):
            store.apply(EVENTS[7:], record)
    for name in ("store.db-wal", "store.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with Store(sqlite_url) as store:
        assert store.resume() == 2
        assert store.apply(EVENTS[3:], record).acked == 7
    assert stored(sqlite_url) == holding(EVENTS, handled=True)


def test_the_same_store_can_be_used_again_where_the_file_is_back(sqlite_url, tmp_path) -> None:
    path = tmp_path / "store.db"
    with Store(sqlite_url) as store:
        store.resume()
        store.apply(EVENTS[:3], record)
        path.rename(tmp_path / "aside.db")
        with pytest.raises(StoreReplaced):
            store.apply(EVENTS[3:], record)
        (tmp_path / "aside.db").rename(path)
        last = store.resume()
        assert store.apply(EVENTS[last + 1 :], record).error is None
    assert stored(sqlite_url) == holding(EVENTS, handled=True)


def test_a_checkpoint_of_the_log_by_another_program_is_no_harm(sqlite_url, tmp_path) -> None:
    with Store(sqlite_url) as store:
        store.resume()
        store.apply(EVENTS[:5], record)
        execute(sqlite_url, "PRAGMA wal_checkpoint(TRUNCATE)")
        assert store.apply(EVENTS[5:], record).error is None
    assert stored(sqlite_url) == holding(EVENTS, handled=True)


# --- what a handler leaves on its connection -------------------------------------------------------


LEFT = [
    "PRAGMA query_only=ON",
    "PRAGMA ignore_check_constraints=ON",
    "PRAGMA writable_schema=ON",
    "CREATE TEMP TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER)",
    "CREATE TEMP TABLE checkpoint AS SELECT 1 AS id, 99 AS last, 0 AS total",
    "CREATE TEMP TRIGGER gone BEFORE INSERT ON main.ledger BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TEMP VIEW ledger AS SELECT 1 AS seq, 2 AS delta",
]


@pytest.mark.parametrize("statement", LEFT)
@pytest.mark.parametrize("raw", [False, True], ids=["SQLAlchemy", "driver"])
def test_what_a_handler_leaves_on_its_connection_does_not_reach_the_next_batch(sqlite_url, statement, raw) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        if events[0][0] == 0:
            if raw:
                connection.connection.driver_connection.execute(statement).close()
            else:
                connection.exec_driver_sql(statement)

    with Store(sqlite_url) as store:
        store.resume()
        for part in (EVENTS[:3], EVENTS[3:6], EVENTS[4:8], EVENTS[8:]):
            outcome = store.apply(part, handler)
            assert (outcome.error, outcome.acked) == (None, len(part))
    assert stored(sqlite_url) == holding(EVENTS, handled=True)
    assert rows(sqlite_url, "SELECT count(*) FROM ledger") == [(10,)]


def test_rows_that_a_handler_asks_for_in_another_shape_are_not_ours(sqlite_url) -> None:
    def handler(connection, events) -> None:
        record(connection, events)
        driver = connection.connection.driver_connection
        driver.row_factory = lambda cursor, row: {"what": row}
        driver.text_factory = bytes

    with Store(sqlite_url) as store:
        store.resume()
        for part in (EVENTS[:3], EVENTS[3:6], EVENTS[4:8], EVENTS[8:]):
            assert store.apply(part, handler).error is None
        assert store.state().last == 9
    assert stored(sqlite_url) == holding(EVENTS, handled=True)
