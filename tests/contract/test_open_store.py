"""Step 2: open_store and state, a store that a restart finds again."""

import sqlite3
import sys
from pathlib import Path

import pytest

from consumer import apply_event, open_store, state

from .helpers import (
    EMPTY,
    HERE,
    Connects,
    Odd,
    another,
    contents,
    is_closed,
    open_files,
    raises_exactly,
    run_python,
    stored,
)

CHECKPOINT = (
    "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), last INTEGER NOT NULL, total INTEGER NOT NULL)"
)
LEDGER = "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL)"

TABLES = {("table", "checkpoint"), ("table", "ledger")}


def made(path: object, *statements: str) -> None:
    """A file as someone else left it."""
    with another(path) as con:
        for statement in statements:
            con.execute(statement)


def objects(path: object) -> set[tuple[str, str]]:
    with another(path) as con:
        return set(con.execute("SELECT type, name FROM sqlite_master"))


def schema(path: object) -> list[tuple[str, str, str]]:
    with another(path) as con:
        return con.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


def pragma(con: sqlite3.Connection, name: str) -> object:
    return con.execute(f"PRAGMA {name}").fetchone()[0]


# --- the connection ------------------------------------------------------------------------------


class Elsewhere:
    """A path-like of one's own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


@pytest.mark.parametrize("kind", [str, Path, Elsewhere])
def test_connect_is_called_once_exactly_as_said_with_the_path_as_it_is(kind, path, connects) -> None:
    given = kind(path)
    con = open_store(given)
    ((args, kwargs),) = connects.calls
    assert len(args) == 1
    assert args[0] is given
    assert kwargs == {"timeout": 1, "isolation_level": None}
    assert con is connects.made[0]
    assert path.exists()


def test_a_relative_path_and_a_name_with_odd_characters_are_taken_as_they_are(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a store? with #odd%20 'names'.db"
    open_store(name).close()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_store_in_memory_is_a_store() -> None:
    con = open_store(":memory:")
    assert state(con) == (-1, 0)
    con.close()


def test_the_connection_is_a_sqlite_connection_for_explicit_transactions(con) -> None:
    assert isinstance(con, sqlite3.Connection)
    assert con.isolation_level is None
    assert not con.in_transaction


def test_the_busy_timeout_is_one_second(con) -> None:
    assert pragma(con, "busy_timeout") == 1000


def test_a_new_store_is_synchronous_extra(con) -> None:
    assert pragma(con, "synchronous") == 3


def test_on_macos_its_syncs_go_beyond_the_drives_cache(con) -> None:
    assert pragma(con, "fullfsync") == 1


def test_a_store_that_is_ready_is_opened_synchronous_extra(path) -> None:
    open_store(path).close()
    con = open_store(path)
    assert pragma(con, "synchronous") == 3
    con.close()


def test_a_new_file_keeps_the_default_journal_mode(con) -> None:
    assert pragma(con, "journal_mode") == "delete"


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_the_journal_mode_of_a_file_is_left_as_it_is(mode, path) -> None:
    made(path, f"PRAGMA journal_mode={mode}", "CREATE TABLE theirs(x)")
    for _ in range(2):
        con = open_store(path)
        assert pragma(con, "journal_mode") == mode
        assert pragma(con, "synchronous") == 3
        assert state(con) == (-1, 0)
        con.close()
    with another(path) as other:
        assert pragma(other, "journal_mode") == mode


def test_another_page_size_or_user_version_is_left_as_it_is(path) -> None:
    made(path, "PRAGMA page_size=1024", "PRAGMA user_version=7", "PRAGMA application_id=9")
    open_store(path).close()
    with another(path) as con:
        assert pragma(con, "page_size") == 1024
        assert pragma(con, "user_version") == 7
        assert pragma(con, "application_id") == 9


def test_a_new_file_has_no_marks_of_its_own(con) -> None:
    assert pragma(con, "user_version") == 0
    assert pragma(con, "application_id") == 0


# --- the tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["checkpoint", "ledger"])
def test_table_info_is_what_the_contracts_statements_give(table, con) -> None:
    with another(":memory:") as model:
        model.execute(CHECKPOINT)
        model.execute(LEDGER)
        expected = model.execute(f"PRAGMA table_info({table})").fetchall()
    assert con.execute(f"PRAGMA table_info({table})").fetchall() == expected


def test_table_info_to_the_letter(con) -> None:
    assert con.execute("PRAGMA table_info(checkpoint)").fetchall() == [
        (0, "id", "INTEGER", 0, None, 1),
        (1, "last", "INTEGER", 1, None, 0),
        (2, "total", "INTEGER", 1, None, 0),
    ]
    assert con.execute("PRAGMA table_info(ledger)").fetchall() == [
        (0, "seq", "INTEGER", 0, None, 1),
        (1, "delta", "INTEGER", 1, None, 0),
    ]


def test_a_new_file_gets_these_two_tables_and_no_other(con, path) -> None:
    assert objects(path) == TABLES


def test_a_new_file_has_the_one_row_and_an_empty_ledger(con, path) -> None:
    assert contents(con) == EMPTY == ([(1, -1, 0)], [])
    assert stored(path) == EMPTY


def test_the_checkpoint_takes_no_row_but_the_one(con) -> None:
    for id_ in [0, 2, -1]:
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            con.execute("INSERT INTO checkpoint VALUES(?, 5, 5)", (id_,))
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        con.execute("INSERT INTO checkpoint VALUES(1, 5, 5)")


@pytest.mark.parametrize("column", ["last", "total"])
def test_the_checkpoint_holds_no_null(column, con) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        con.execute(f"UPDATE checkpoint SET {column}=NULL")


def test_the_ledger_is_keyed_by_seq_and_holds_no_null(con) -> None:
    con.execute("INSERT INTO ledger VALUES(5, 1)")
    assert con.execute("SELECT rowid FROM ledger").fetchall() == [(5,)]
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        con.execute("INSERT INTO ledger VALUES(5, 2)")
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        con.execute("INSERT INTO ledger VALUES(6, NULL)")


# --- a store that is there -----------------------------------------------------------------------


def test_what_was_saved_is_found_again(path) -> None:
    con = open_store(path)
    for seq, delta in enumerate([5, -7, 100]):
        apply_event(con, seq, delta)
    con.close()
    before = path.read_bytes()
    for _ in range(3):
        con = open_store(path)
        assert state(con) == (2, 98)
        assert contents(con) == ([(1, 2, 98)], [(0, 5), (1, -7), (2, 100)])
        con.close()
    assert path.read_bytes() == before


def test_opening_a_ready_store_twice_at_once_works(path) -> None:
    one, two = open_store(path), open_store(path)
    apply_event(one, 0, 5)
    assert state(two) == (0, 5)
    one.close()
    two.close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "a write under way"])
def test_a_ready_store_opens_while_another_holds_the_write_lock(mode, lock, path) -> None:
    open_store(path).close()
    with another(path) as writer:
        writer.execute(f"PRAGMA journal_mode={mode}")
        writer.execute("BEGIN IMMEDIATE")
        if lock == "a write under way":
            writer.execute("UPDATE checkpoint SET last=5, total=6")
        con = open_store(path)
        assert state(con) == (-1, 0)
        assert pragma(con, "synchronous") == 3
        con.close()
        writer.execute("COMMIT")


def traced_opening(path: object, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Open a store; the statements that SQLite ran, in capitals."""
    seen: list[str] = []
    connects = Connects(lambda con: con.set_trace_callback(seen.append))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connects)
        open_store(path).close()
    return [" ".join(statement.upper().split()) for statement in seen]


WRITING = ("BEGIN", "CREATE", "INSERT", "UPDATE", "DELETE", "DROP", "ALTER", "REPLACE", "VACUUM")


def test_opening_a_ready_store_takes_no_write_lock(path, monkeypatch) -> None:
    open_store(path).close()
    seen = traced_opening(path, monkeypatch)
    assert [statement for statement in seen if statement.startswith(WRITING)] == []


def test_creation_happens_in_one_transaction_that_locks_at_once(path, monkeypatch) -> None:
    seen = traced_opening(path, monkeypatch)
    writing = [statement for statement in seen if statement.startswith((*WRITING, "COMMIT"))]
    assert writing[0] == "BEGIN IMMEDIATE"
    assert writing[-1] == "COMMIT"
    kinds = [statement.split()[0] for statement in writing[1:-1]]
    assert sorted(kinds) == ["CREATE", "CREATE", "INSERT"]


def test_a_new_store_waits_for_a_writer_and_then_gives_up_with_its_error(path) -> None:
    made(path, "CREATE TABLE theirs(x)")
    with another(path) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            open_store(path)
        writer.execute("ROLLBACK")
    assert open_files(path) == []
    open_store(path).close()
    assert objects(path) == TABLES | {("table", "theirs")}


def test_eight_processes_open_a_new_file_at_once(tmp_path) -> None:
    """Ten files, and each of the processes finds its store ready."""
    out = run_python(str(HERE / "racers.py"), "open", str(tmp_path), "8", "10")
    assert out.split("\n")[:-1] == ["(-1, 0)"] * 80
    for file in tmp_path.iterdir():
        assert objects(file) == TABLES
        assert stored(file) == EMPTY
    assert len(list(tmp_path.iterdir())) == 10


# --- a store of someone else ---------------------------------------------------------------------

ROW = "INSERT INTO checkpoint VALUES(1, 1, 12)"
ROWS = "INSERT INTO ledger VALUES(0, 5), (1, 7)"
FULL = ([(1, 1, 12)], [(0, 5), (1, 7)])

FOREIGN = {
    "to the letter": (CHECKPOINT, LEDGER),
    "lower case": (CHECKPOINT.lower(), LEDGER.lower()),
    "names in capitals": (
        "CREATE TABLE CHECKPOINT(ID INTEGER PRIMARY KEY, LAST INTEGER, TOTAL INTEGER)",
        "CREATE TABLE Ledger(Seq Integer Primary Key, Delta Integer Not Null)",
    ),
    "no CHECK": (
        "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last INTEGER NOT NULL, total INTEGER NOT NULL)",
        LEDGER,
    ),
    "another CHECK": (
        (
            "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id IN (1, 2)), "
            "last INTEGER NOT NULL CHECK(last >= -1), total INTEGER NOT NULL)"
        ),
        "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL CHECK(delta < 5000))",
    ),
    "no NOT NULL": (
        "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), last INTEGER, total INTEGER)",
        "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER)",
    ),
    "NOT NULL on the keys": (
        (
            "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY NOT NULL CHECK(id=1), "
            "last INTEGER NOT NULL, total INTEGER NOT NULL)"
        ),
        "CREATE TABLE ledger(seq INTEGER NOT NULL PRIMARY KEY, delta INTEGER NOT NULL)",
    ),
    "with defaults": (
        "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last INTEGER DEFAULT -1, total INTEGER DEFAULT 0)",
        "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL DEFAULT 0)",
    ),
    "without rowid": (
        CHECKPOINT + " WITHOUT ROWID",
        LEDGER + " WITHOUT ROWID",
    ),
    "quoted": (
        (
            'CREATE TABLE "checkpoint"("id" INTEGER PRIMARY KEY CHECK("id"=1), '
            '"last" INTEGER NOT NULL, "total" INTEGER NOT NULL)'
        ),
        "CREATE TABLE [ledger]([seq] INTEGER PRIMARY KEY, [delta] INTEGER NOT NULL)",
    ),
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
class TestForeign:
    """Stores that other solutions made: taken, completed where something lacks, never reset."""

    def test_a_full_one_is_taken_as_it_is(self, statements, path) -> None:
        made(path, *statements, ROW, ROWS)
        before = schema(path)
        con = open_store(path)
        assert state(con) == (1, 12)
        assert contents(con) == FULL
        assert apply_event(con, 1, 7) is False
        assert apply_event(con, 2, -2) is True
        assert contents(con) == ([(1, 2, 10)], [(0, 5), (1, 7), (2, -2)])
        con.close()
        assert schema(path) == before

    def test_a_full_one_is_ready_and_opens_beside_a_writer(self, statements, path) -> None:
        made(path, *statements, ROW, ROWS)
        with another(path) as writer:
            writer.execute("BEGIN IMMEDIATE")
            con = open_store(path)
            assert state(con) == (1, 12)
            con.close()

    def test_one_without_the_row_gets_it(self, statements, path) -> None:
        made(path, *statements)
        con = open_store(path)
        assert contents(con) == EMPTY
        assert apply_event(con, 0, 5) is True
        con.close()
        con = open_store(path)
        assert state(con) == (0, 5)
        con.close()

    def test_one_without_the_ledger_gets_it_and_keeps_its_row(self, statements, path) -> None:
        made(path, statements[0], ROW)
        con = open_store(path)
        assert contents(con) == ([(1, 1, 12)], [])
        con.close()

    def test_one_without_the_checkpoint_gets_it_and_keeps_its_ledger(self, statements, path) -> None:
        made(path, statements[1], ROWS)
        con = open_store(path)
        assert contents(con) == ([(1, -1, 0)], [(0, 5), (1, 7)])
        con.close()


def test_the_row_is_inserted_only_if_absent_whatever_it_holds(path) -> None:
    made(path, CHECKPOINT, "INSERT INTO checkpoint VALUES(1, -1, 500)")
    con = open_store(path)
    assert state(con) == (-1, 500)
    con.close()


def test_other_tables_in_the_file_are_left_alone(path) -> None:
    made(path, "CREATE TABLE theirs(x)", "INSERT INTO theirs VALUES(5)")
    open_store(path).close()
    assert objects(path) == TABLES | {("table", "theirs")}
    with another(path) as con:
        assert con.execute("SELECT x FROM theirs").fetchall() == [(5,)]


OTHER = {
    "a column more in the checkpoint": (
        "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last INTEGER, total INTEGER, stamp TEXT)",
        ["checkpoint", "stamp"],
    ),
    "a column less in the checkpoint": (
        "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last INTEGER)",
        ["checkpoint", "last"],
    ),
    "a column of another name in the checkpoint": (
        "CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last INTEGER, balance INTEGER)",
        ["checkpoint", "balance"],
    ),
    "a column more in the ledger": (
        "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL, received TEXT)",
        ["ledger", "received"],
    ),
    "a column less in the ledger": (
        "CREATE TABLE ledger(seq INTEGER PRIMARY KEY)",
        ["ledger", "seq"],
    ),
    "a column of another name in the ledger": (
        "CREATE TABLE ledger(seq INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",
        ["ledger", "amount"],
    ),
    "nothing in common": (
        "CREATE TABLE ledger(debit REAL, credit REAL)",
        ["ledger", "debit", "credit"],
    ),
}


@pytest.mark.parametrize("beside", [(), (CHECKPOINT, ROW), (LEDGER, ROWS)], ids=["", "row", "rows"])
@pytest.mark.parametrize(("statement", "names"), OTHER.values(), ids=OTHER)
def test_a_table_with_other_columns_is_an_error_that_names_them(statement, names, beside, path, connects) -> None:
    if beside and beside[0].split("(")[0] == statement.split("(")[0]:
        beside = ()
    made(path, statement, *beside)
    before = schema(path)
    connects.made.clear()
    with pytest.raises(sqlite3.Error) as caught:
        open_store(path)
    for name in names:
        assert name in str(caught.value)
    assert connects.all_closed
    assert schema(path) == before
    assert open_files(path) == []


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("only", [True, False], ids=["one statement fails", "all from there fail"])
@pytest.mark.parametrize(
    "error",
    [sqlite3.OperationalError("no"), RuntimeError("no"), KeyboardInterrupt("no"), Odd("no")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("there", [False, True], ids=["new", "ready"])
def test_whatever_statement_fails_the_connection_is_closed_and_that_error_raised(
    error, only, there, path, monkeypatch
) -> None:
    if there:
        open_store(path).close()
    for nth in range(50):
        connects = Connects(lambda con, nth=nth: con.arm(nth, error, only=only))
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", connects)
            try:
                con = open_store(path)
            except type(error) as caught:
                assert caught is error  # noqa: PT017 - the loop ends where nothing fails
                assert connects.all_closed
                assert open_files(path) == []
            else:
                con.close()
                break
    assert nth >= (1 if there else 5)  # what has to be said before a store is ready
    assert stored(path) == EMPTY
    assert objects(path) == TABLES


def test_a_close_that_fails_too_does_not_hide_the_original_error(path, monkeypatch) -> None:
    error = sqlite3.OperationalError("the original")

    class Stubborn(sqlite3.Connection):
        def cursor(self, *args: object) -> sqlite3.Cursor:
            raise error

        def execute(self, *args: object) -> sqlite3.Cursor:
            raise error

        def close(self) -> None:
            super().close()
            raise sqlite3.OperationalError("closing")

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, factory=Stubborn, **k))
    with raises_exactly(error):
        open_store(path)
    assert open_files(path) == []


REFUSED = [
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_PRAGMA,
]


@pytest.mark.parametrize("action", REFUSED)
def test_what_sqlite_itself_refuses_closes_too(action, path, monkeypatch) -> None:
    def prepare(con: sqlite3.Connection) -> None:
        con.set_authorizer(lambda what, *rest: sqlite3.SQLITE_DENY if what == action else 0)

    connects = Connects(prepare)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connects)
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            open_store(path)
    assert connects.all_closed
    assert open_files(path) == []
    open_store(path).close()
    assert stored(path) == EMPTY


def test_a_creation_that_fails_half_way_leaves_no_table(path, monkeypatch) -> None:
    def refuse_the_ledger(what: int, first: str | None, *rest: object) -> int:
        late = what == sqlite3.SQLITE_CREATE_TABLE and first == "ledger"
        return sqlite3.SQLITE_DENY if late else sqlite3.SQLITE_OK

    connects = Connects(lambda con: con.set_authorizer(refuse_the_ledger))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connects)
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            open_store(path)
    assert connects.all_closed
    assert objects(path) == set()


def test_a_file_that_is_no_database_is_closed_and_left_alone(path, connects) -> None:
    path.write_bytes(b"EVENT 0 5\n" * 1000)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        open_store(path)
    assert connects.all_closed
    assert open_files(path) == []
    assert path.read_bytes() == b"EVENT 0 5\n" * 1000


def test_a_folder_that_is_not_there_is_the_error_of_sqlite(tmp_path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_store(tmp_path / "nowhere" / "store.db")


def test_a_connect_that_fails_passes_its_error_on(path, monkeypatch) -> None:
    error = sqlite3.OperationalError("no")

    def refuse(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with raises_exactly(error):
        open_store(path)


# --- state ---------------------------------------------------------------------------------------


def test_state_is_a_plain_tuple_of_last_and_total(con) -> None:
    assert state(con) == (-1, 0)
    con.execute("UPDATE checkpoint SET last=41, total=-7")
    assert state(con) == (41, -7)
    assert type(state(con)) is tuple
    assert [type(value) for value in state(con)] == [int, int]


def test_state_leaves_no_transaction_and_no_lock(con, path) -> None:
    state(con)
    assert not con.in_transaction
    with another(path) as other:
        other.execute("PRAGMA busy_timeout=0")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("ROLLBACK")


def test_state_sees_what_its_own_transaction_wrote(con) -> None:
    con.execute("BEGIN")
    con.execute("UPDATE checkpoint SET last=3, total=4")
    assert state(con) == (3, 4)
    con.execute("ROLLBACK")
    assert state(con) == (-1, 0)


def refuse_rows(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> object:
    raise AssertionError("a caller's row_factory got a row that was not for the caller")


def as_dict(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> dict[str, object]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


FACTORIES = {
    "Row": sqlite3.Row,
    "dict": as_dict,
    "nothing": lambda cursor, row: None,
    "refusing": refuse_rows,
}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES)
def test_state_holds_under_a_callers_row_factory(factory, con) -> None:
    con.row_factory = factory
    assert state(con) == (-1, 0)
    assert type(state(con)) is tuple
    assert con.row_factory is factory


def test_the_connection_comes_without_a_row_factory(con) -> None:
    assert con.row_factory is None
    assert con.execute("SELECT last, total FROM checkpoint").fetchone() == (-1, 0)


def test_closed_means_closed(con) -> None:
    """The look that other tests take: open now, and seen as closed after."""
    assert not is_closed(con)
    con.close()
    assert is_closed(con)
    assert sys.platform == "linux"
