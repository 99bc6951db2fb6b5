"""Upgrading what is there: adoption, refusal, other people's tables, failure half-way, many at once."""

import asyncio
import io
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError

from consumer import apply_event, open_store, state
from consumer.core import errors
from consumer.store import migrate, schema

from .helpers import (
    CONTRACT,
    MIGRATIONS,
    STORE,
    configure,
    connected,
    ended,
    execute,
    is_sqlite,
    picture,
    rows,
    start_python,
)
from .test_models import FOREIGN

EVENTS = [(0, 12), (1, -3), (2, 7)]
CHECKPOINT, LEDGER = STORE
OURS = schema.CONTRACT.names()


def without_ours(found: dict) -> dict:
    """What was there before: the contract's tables, whoever made them."""
    added = OURS - {"checkpoint", "ledger"}
    return {name: table for name, table in found.items() if name not in added}


# --- adoption ------------------------------------------------------------------------------------


def test_a_store_made_by_open_store_is_adopted_with_its_data(tmp_path: Path, sqlite_url: str):
    con = open_store(tmp_path / "store.db")
    for event in EVENTS:
        apply_event(con, *event)
    before = picture(sqlite_url)
    migrate.upgrade(sqlite_url)
    assert without_ours(picture(sqlite_url)) == before
    assert migrate.status(sqlite_url) == migrate.Status(2, 16, 3, "0002", "0002")
    assert state(con) == (2, 16)  # the connection that was open goes on
    assert apply_event(con, 3, 1)
    con.close()
    command.check(configure(sqlite_url))


def test_a_store_made_by_the_migration_is_taken_by_open_store_without_a_write(tmp_path: Path, sqlite_url: str):
    migrate.upgrade(sqlite_url)
    before = picture(sqlite_url)
    with connected(sqlite_url) as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        con = open_store(tmp_path / "store.db")
        assert state(con) == (-1, 0)
        con.close()
        connection.exec_driver_sql("ROLLBACK")
    assert picture(sqlite_url) == before


def test_somebody_elses_store_is_adopted_as_it_is(url: str):
    execute(url, *STORE, "INSERT INTO checkpoint VALUES (1, 1, 9)", "INSERT INTO ledger VALUES (0, 12), (1, -3)")
    before = picture(url)
    migrate.upgrade(url)
    assert without_ours(picture(url)) == before
    assert migrate.status(url) == migrate.Status(1, 9, 2, "0002", "0002")


@pytest.mark.parametrize(
    "statements",
    [
        (
            "create table CHECKPOINT(ID int not null primary key, Last int, TOTAL bigint)",
            "create table Ledger(SEQ integer primary key, DELTA int)",
        ),
        (
            "create table checkpoint(id integer, last integer, total integer, primary key(id)) without rowid",
            CONTRACT[1],
        ),
        (CONTRACT[0].lower(), CONTRACT[1].lower()),
    ],
    ids=["other case and types", "without rowid", "lower-case"],
)
def test_sqlite_spells_the_same_store_in_many_ways(sqlite_url: str, statements: tuple[str, ...]):
    execute(sqlite_url, *statements, "INSERT INTO checkpoint VALUES (1, 0, 5)", "INSERT INTO ledger VALUES (0, 5)")
    before = picture(sqlite_url)
    migrate.upgrade(sqlite_url)
    assert without_ours(picture(sqlite_url)) == before
    assert migrate.status(sqlite_url) == migrate.Status(0, 5, 1, "0002", "0002")


def test_a_store_without_the_checkpoints_row_gets_it(url: str):
    execute(url, *STORE)
    migrate.upgrade(url)
    assert rows(url, "SELECT id, last, total FROM checkpoint") == [(1, -1, 0)]


@pytest.mark.parametrize("statement", STORE, ids=["checkpoint", "ledger"])
def test_half_a_store_is_completed(url: str, statement: str):
    execute(url, statement)
    before = picture(url)
    migrate.upgrade(url)
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "0002", "0002")
    [(name, (definition, _))] = before.items()
    assert picture(url)[name][0] == definition


def test_upgrading_again_changes_nothing(url: str):
    migrate.upgrade(url)
    execute(url, "UPDATE checkpoint SET last = 0, total = 5", "INSERT INTO ledger VALUES (0, 5)")
    before = picture(url)
    migrate.upgrade(url)
    assert picture(url) == before


# --- refusal -------------------------------------------------------------------------------------

OTHER_SHAPES = {
    "missing column": ("checkpoint", "id INTEGER PRIMARY KEY, last BIGINT", "last BIGINT"),
    "extra column": ("ledger", "seq BIGINT PRIMARY KEY, delta INTEGER, note TEXT", "note TEXT"),
    "text": ("ledger", "seq BIGINT PRIMARY KEY, delta TEXT", "delta TEXT"),
    "numeric": ("checkpoint", "id INTEGER PRIMARY KEY, last BIGINT, total NUMERIC", "total NUMERIC"),
    "no key": ("ledger", "seq BIGINT, delta INTEGER", "seq BIGINT, delta INTEGER"),
    "another key": ("ledger", "seq BIGINT, delta INTEGER PRIMARY KEY", "delta INTEGER PRIMARY KEY"),
    "a wider key": ("ledger", "seq BIGINT, delta INTEGER, PRIMARY KEY (seq, delta)", "delta INTEGER PRIMARY KEY"),
    "other names": ("ledger", "id BIGINT PRIMARY KEY, change INTEGER", "change"),
}

OTHER_WIDTHS = {
    "int4 total": ("checkpoint", "id INTEGER PRIMARY KEY, last BIGINT, total INTEGER", "total INTEGER"),
    "int4 last": ("checkpoint", "id INTEGER PRIMARY KEY, last INTEGER, total BIGINT", "last INTEGER"),
    "int4 seq": ("ledger", "seq INTEGER PRIMARY KEY, delta INTEGER", "seq INTEGER"),
    "int2 delta": ("ledger", "seq BIGINT PRIMARY KEY, delta SMALLINT", "delta SMALLINT"),
}


def check_that_it_is_refused(url: str, statements: list[str], table: str, shown: str) -> None:
    execute(url, *FOREIGN, *statements)
    before = picture(url)
    for act in (migrate.upgrade, migrate.status):
        with pytest.raises(errors.SchemaMismatch) as refusal:
            act(url)
        message = str(refusal.value)
        assert f"table {table} exists with other columns" in message
        assert shown in message.partition("; needed: ")[0]
        assert f"; needed: {'seq' if table == 'ledger' else 'id'}" in message
        assert picture(url) == before


@pytest.mark.parametrize("shape", OTHER_SHAPES)
def test_a_table_of_another_shape_is_refused_by_name_and_nothing_changes(url: str, shape: str):
    table, columns, shown = OTHER_SHAPES[shape]
    other = LEDGER if table == "checkpoint" else CHECKPOINT
    check_that_it_is_refused(url, [other, f"CREATE TABLE {table}({columns})"], table, shown)


@pytest.mark.parametrize("shape", OTHER_WIDTHS)
def test_a_column_of_another_width_is_refused_on_postgresql(postgres_url: str, shape: str):
    table, columns, shown = OTHER_WIDTHS[shape]
    check_that_it_is_refused(postgres_url, [f"CREATE TABLE {table}({columns})"], table, shown)


def test_a_view_is_no_table(url: str):
    statements = [CHECKPOINT, LEDGER.replace("ledger", "book"), "CREATE VIEW ledger AS SELECT seq, delta FROM book"]
    check_that_it_is_refused(url, statements, "ledger", "seq BIGINT, delta INTEGER")


@pytest.mark.parametrize("what", ["upgrade", "downgrade"])
def test_a_database_at_a_revision_that_is_not_known_is_left_alone(url: str, what: str):
    migrate.upgrade(url)
    execute(url, f"UPDATE {schema.CONTRACT.version.name} SET version_num = '9999'")
    before = picture(url)
    with pytest.raises(errors.NotReady, match=r"9999.*another version"):
        getattr(migrate, what)(url)
    assert picture(url) == before
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "9999", "0002")


# --- other people's tables -----------------------------------------------------------------------


def test_foreign_tables_and_a_foreign_version_are_not_touched(url: str):
    execute(url, *FOREIGN)
    before = picture(url)

    def foreign() -> dict:
        return {name: table for name, table in picture(url).items() if name not in OURS}

    migrate.upgrade(url)
    assert foreign() == before
    assert migrate.status(url).revision == "0002"
    command.check(configure(url))
    assert foreign() == before
    migrate.downgrade(url)
    assert foreign() == before


FOREIGN_ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, pool
from consumer import owns_table

metadata = MetaData()
Table("notes", metadata, Column("id", Integer, primary_key=True), Column("words", String(20)))


def include_name(name, type_, parent_names):
    return type_ != "table" or not {owns_table}(name)


with create_engine(context.get_x_argument(as_dictionary=True)["url"], poolclass=pool.NullPool).connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, include_name=include_name)
    with context.begin_transaction():
        context.run_migrations()
"""


def make_foreign_project(folder: Path, url: str, filter_: str) -> Config:
    """A user's own Alembic, as its documentation has it: its version table is `alembic_version`."""
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text(FOREIGN_ENV.format(owns_table=filter_))
    (folder / "script.py.mako").write_text((MIGRATIONS / "script.py.mako").read_text())
    return configure(url, scripts=folder)


@pytest.mark.parametrize("comes_first", ["theirs", "ours"])
def test_a_users_own_alembic_lives_in_the_same_database(url: str, tmp_path: Path, comes_first: str):
    config = make_foreign_project(tmp_path / "theirs", url, "owns_table")
    if comes_first == "ours":
        migrate.upgrade(url)
    ours = picture(url)
    script = command.revision(config, "notes", autogenerate=True)
    made = Path(script.path).read_text()
    assert "create_table('notes'" in made
    assert "drop_table('notes')" in made
    assert not any(name in made for name in OURS)
    command.upgrade(config, "head")
    migrate.upgrade(url)
    command.check(config)
    command.check(configure(url))
    if comes_first == "ours":
        assert {name: table for name, table in picture(url).items() if name in OURS} == ours
    assert rows(url, "SELECT version_num FROM alembic_version") == [(script.revision,)]
    command.downgrade(config, "base")
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "0002", "0002")


def test_without_the_filter_a_users_alembic_would_drop_the_store(url: str, tmp_path: Path):
    migrate.upgrade(url)
    config = make_foreign_project(tmp_path / "theirs", url, "(lambda name: False)")
    made = Path(command.revision(config, "notes", autogenerate=True).path).read_text()
    assert all(f"drop_table('{name}')" in made for name in OURS)


# --- downgrade -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO ledger VALUES (0, 5)",
        "UPDATE checkpoint SET last = 0",
        "UPDATE checkpoint SET last = 41, total = 3",
    ],
    ids=["a ledger row", "a cursor", "a cursor and a total"],
)
def test_a_store_that_holds_something_is_dropped_only_on_demand(url: str, statement: str):
    migrate.upgrade(url)
    execute(url, statement)
    before = picture(url)
    with pytest.raises(migrate.MigrationRefused, match="drop=yes"):
        migrate.downgrade(url)
    assert picture(url) == before
    migrate.downgrade(url, drop=True)
    assert picture(url) == {}


@pytest.mark.parametrize("said", ["drop=no", "drop=", "drop", "yes"])
def test_nothing_but_yes_is_a_demand(url: str, said: str):
    migrate.upgrade(url)
    execute(url, "INSERT INTO ledger VALUES (0, 5)")
    with pytest.raises(migrate.MigrationRefused):
        command.downgrade(configure(url, said), "base")
    assert rows(url, "SELECT * FROM ledger") == [(0, 5)]


def test_a_store_whose_checkpoint_has_lost_its_row_is_empty_only_with_an_empty_ledger(url: str):
    migrate.upgrade(url)
    execute(url, "DELETE FROM checkpoint", "INSERT INTO ledger VALUES (0, 5)")
    with pytest.raises(migrate.MigrationRefused):
        migrate.downgrade(url)
    execute(url, "DELETE FROM ledger")
    migrate.downgrade(url)
    assert picture(url) == {}


# --- failure half-way ----------------------------------------------------------------------------

EXTRA = 'op.execute("CREATE TABLE consumer_extra(id INTEGER PRIMARY KEY)")'

FAILURES = {
    "after a table": [EXTRA, 'raise RuntimeError("half-way")'],
    "after several statements": [
        EXTRA,
        'op.execute("INSERT INTO consumer_extra VALUES (1)")',
        'op.execute("ALTER TABLE ledger ADD COLUMN note VARCHAR(9)")',
        'op.execute("INSERT INTO ledger (seq, delta) VALUES (9, 9)")',
        'op.execute("UPDATE checkpoint SET last = 9")',
        'op.execute("DROP TABLE ledger")',
        'op.execute("INSERT INTO nowhere VALUES (1)")',
    ],
    "by an interrupt": [EXTRA, "raise KeyboardInterrupt"],
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("there_before", ["nothing", "a store", "a store at 0001"])
def test_a_migration_that_fails_half_way_leaves_everything_as_it_was(
    url: str, add_migration: Callable[..., Path], failure: str, there_before: str
):
    if there_before == "a store":
        execute(url, *STORE, "INSERT INTO checkpoint VALUES (1, 0, 5)", "INSERT INTO ledger VALUES (0, 5)")
    if there_before == "a store at 0001":
        migrate.upgrade(url)
        execute(url, "UPDATE checkpoint SET last = 0, total = 5", "INSERT INTO ledger VALUES (0, 5)")
    before = picture(url)
    add_migration(*FAILURES[failure])
    with pytest.raises((RuntimeError, DBAPIError, KeyboardInterrupt)):
        migrate.upgrade(url)
    assert picture(url) == before

    add_migration(EXTRA)
    migrate.upgrade(url)
    assert set(picture(url)) == OURS | {"consumer_extra"}
    last, total, count = (-1, 0, 0) if there_before == "nothing" else (0, 5, 1)
    assert migrate.status(url) == migrate.Status(last, total, count, "9000", "9000")


UPGRADE_FROM = """
import sys
from pathlib import Path
from consumer.store import migrate
migrate._folder = lambda: Path(sys.argv[2])
migrate.upgrade(sys.argv[1])
"""

MEGABYTE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "


def test_a_process_killed_in_the_middle_of_a_migration_leaves_everything_as_it_was(
    url: str, add_migration: Callable[..., Path], tmp_path: Path
):
    migrate.upgrade(url)
    execute(url, "UPDATE checkpoint SET last = 0, total = 5", "INSERT INTO ledger VALUES (0, 5)")
    before = picture(url)
    size = (tmp_path / "store.db").stat().st_size if is_sqlite(url) else 0
    write = [
        f'op.execute("{MEGABYTE} INSERT INTO ledger SELECT i, 1 FROM n")',
        'op.execute("UPDATE checkpoint SET last = 9")',
    ]
    if is_sqlite(url):  # with more pages than the cache holds some are in the file before the commit
        write += ['op.execute("CREATE TABLE consumer_fill(b)")']
        write += [f'op.execute("{MEGABYTE} INSERT INTO consumer_fill SELECT randomblob(4000) FROM n")']
    folder = add_migration(EXTRA, *write, 'print("half-way", flush=True)', "sys.stdin.read()")

    process = start_python(UPGRADE_FROM, url, str(folder))
    with ended([process]):
        assert process.stdout.readline() == "half-way\n", process.stderr.read()
        if is_sqlite(url):
            assert (tmp_path / "store.db").stat().st_size > size
        process.kill()
        process.wait()

    assert picture(url) == before
    add_migration(EXTRA)
    migrate.upgrade(url)
    assert migrate.status(url) == migrate.Status(0, 5, 1, "9000", "9000")


# --- many at once --------------------------------------------------------------------------------

UPGRADE_AT_ONCE = """
import sys
from consumer.store import migrate
print("ready", flush=True)
sys.stdin.readline()
migrate.upgrade(sys.argv[1])
print(migrate.status(sys.argv[1]))
"""


def test_ten_processes_upgrade_at_once(url: str, patience_s: float):
    processes = [start_python(UPGRADE_AT_ONCE, url) for _ in range(10)]
    with ended(processes):
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            said, complained = process.communicate(timeout=patience_s)
            assert (process.returncode, complained) == (0, "")
            assert said == f"{migrate.Status(-1, 0, 0, '0002', '0002')}\n"
    assert set(picture(url)) == OURS
    assert rows(url, f"SELECT version_num FROM {schema.CONTRACT.version.name}") == [("0002",)]


def wait_for_the_lock(url: str, patience_s: float) -> None:
    """Until a migration waits for another one. SQLite tells nobody who waits."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
    deadline = time.monotonic() + patience_s
    while not is_sqlite(url) and not rows(url, waits):
        assert time.monotonic() < deadline, "nobody waits for the lock"
        time.sleep(0.01)


def test_an_upgrade_waits_for_the_one_that_is_running(url: str, add_migration: Callable[..., Path], patience_s: float):
    folder = add_migration(EXTRA, 'print("half-way", flush=True)', "sys.stdin.read()")
    process = start_python(UPGRADE_FROM, url, str(folder))
    with ended([process]), ThreadPoolExecutor() as pool:
        assert process.stdout.readline() == "half-way\n", process.stderr.read()
        second = pool.submit(migrate.upgrade, url)
        wait_for_the_lock(url, patience_s)
        _, complained = process.communicate(timeout=patience_s)  # and the end of its input lets it go on
        assert (process.returncode, complained) == (0, "")
        second.result(patience_s)
    assert migrate.status(url).revision == "9000"


def test_eight_threads_upgrade_eight_databases(tmp_path: Path, make_postgres: Callable[[], str], patience_s: float):
    urls = [f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(4)] + [make_postgres() for _ in range(4)]
    together = threading.Barrier(len(urls), timeout=patience_s)

    def work(url: str) -> migrate.Status:
        together.wait()
        assert migrate.head() == "0002"
        migrate.upgrade(url)
        assert url.partition(":")[0] in ("sqlite", "postgresql+psycopg")
        assert ("BIGINT" in migrate.upgrade_sql(url)) is (not is_sqlite(url))
        migrate.status(url)
        migrate.downgrade(url)
        migrate.upgrade(url)
        return migrate.status(url)

    with ThreadPoolExecutor(len(urls)) as pool:
        for found in pool.map(work, urls, timeout=patience_s):
            assert found == migrate.Status(-1, 0, 0, "0002", "0002")


async def test_it_is_usable_while_an_asyncio_loop_runs(url: str):
    migrate.upgrade(url)
    assert migrate.status(url).revision == "0002"
    await asyncio.to_thread(migrate.downgrade, url)
    assert picture(url) == {}
    await asyncio.gather(*(asyncio.to_thread(migrate.upgrade, url) for _ in range(4)))
    assert migrate.status(url).revision == "0002"


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["100% of it", "a b", "%(here)s", "a:b,c;d"])
def test_folders_and_files_may_have_any_name(
    name: str, tmp_path: Path, add_migration: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    folder = add_migration(EXTRA).rename(tmp_path / name)
    monkeypatch.setattr(migrate, "_folder", lambda: folder)
    url = f"sqlite:///{tmp_path / name.replace('%', '%25')}.db"
    migrate.upgrade(url)
    assert (tmp_path / f"{name}.db").is_file()
    assert migrate.status(url).revision == "9000"


def test_the_library_says_nothing_on_its_own(url: str, capfd: pytest.CaptureFixture[str]):
    migrate.upgrade(url)
    migrate.status(url)
    migrate.upgrade_sql(url)
    migrate.downgrade(url)
    assert capfd.readouterr() == ("", "")


def test_a_look_creates_nothing(tmp_path: Path, url: str):
    before = picture(url) if not is_sqlite(url) else {}
    with pytest.raises(errors.NotReady, match="there is no store"):
        migrate.status(url)
    assert not list(tmp_path.iterdir())
    assert is_sqlite(url) or picture(url) == before


def test_the_script_of_a_migration_needs_no_database():
    output = io.StringIO()
    command.upgrade(configure("postgresql://nobody:secret@nowhere.invalid/x", output=output), "head", sql=True)
    assert output.getvalue() == migrate.upgrade_sql("postgres://nobody@nowhere.invalid/x")
    assert "CREATE TABLE ledger" in output.getvalue()
