"""The tables and the migrations say the same, and so do the contract and `open_store`. `make check` runs this too."""

from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy.exc import IntegrityError

from consumer import open_store
from consumer.store import migrate, schema

from .helpers import CONTRACT, configure, execute, is_sqlite, picture, rows

FOREIGN = (
    "CREATE TABLE alembic_version(version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('5ae1')",
    "CREATE TABLE notes(id INTEGER PRIMARY KEY, words VARCHAR(20))",
    "INSERT INTO notes VALUES (1, 'mine')",
    "CREATE TABLE consumer_notes(id INTEGER PRIMARY KEY)",
    "INSERT INTO consumer_notes VALUES (7)",
)
"""What somebody else keeps in the same database; one name even begins like ours."""


def test_there_is_one_head_and_the_running_consumer_knows_it():
    scripts = ScriptDirectory.from_config(configure("sqlite://"))
    assert scripts.get_heads() == [schema.HEAD]
    assert scripts.get_bases() == ["0001"]
    assert migrate.head() == schema.HEAD


def test_going_up_and_down_again_leaves_nothing_of_ours(url: str):
    execute(url, *FOREIGN)
    before = picture(url)
    for _ in range(2):
        migrate.upgrade(url)
        assert set(picture(url)) - set(before) == schema.CONTRACT.names()
        migrate.downgrade(url)
        assert picture(url) == before


def test_the_models_equal_the_migrations(url: str):
    migrate.upgrade(url)
    command.check(configure(url))


def test_what_else_is_in_the_database_is_no_difference(url: str):
    execute(url, *FOREIGN)
    migrate.upgrade(url)
    command.check(configure(url))


@pytest.mark.parametrize(
    ("statement", "change"),
    [
        ("ALTER TABLE ledger ADD COLUMN note VARCHAR(9)", "remove_column"),
        ("ALTER TABLE checkpoint DROP COLUMN total", "add_column"),
        ("DROP TABLE ledger", "add_table"),
    ],
)
def test_a_difference_would_be_seen(url: str, statement: str, change: str):
    migrate.upgrade(url)
    execute(url, statement)
    with pytest.raises(migrate.CommandError, match=change):
        command.check(configure(url))


def test_open_store_and_the_migration_make_what_the_contract_says(tmp_path: Path, sqlite_url: str):
    migrate.upgrade(sqlite_url)
    open_store(tmp_path / "opened.db").close()
    opened, by_hand = f"sqlite:///{tmp_path / 'opened.db'}", f"sqlite:///{tmp_path / 'by_hand.db'}"
    execute(by_hand, *CONTRACT)
    for table in ("checkpoint", "ledger"):
        wanted = rows(by_hand, f"PRAGMA table_info({table})")
        assert wanted
        assert rows(sqlite_url, f"PRAGMA table_info({table})") == wanted
        assert rows(opened, f"PRAGMA table_info({table})") == wanted
        assert picture(sqlite_url)[table] == picture(opened)[table]
    assert set(picture(opened)) == {"checkpoint", "ledger"}


def test_the_key_of_the_ledger_is_the_rowid_on_sqlite(sqlite_url: str):
    migrate.upgrade(sqlite_url)
    execute(sqlite_url, "INSERT INTO ledger VALUES (41, 1)", "INSERT INTO ledger (delta) VALUES (2)")
    assert rows(sqlite_url, "SELECT rowid, seq FROM ledger") == [(41, 41), (42, 42)]


def test_numbers_are_64_bits_wide_on_postgresql(postgres_url: str):
    migrate.upgrade(postgres_url)
    found = rows(
        postgres_url,
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_name IN ('checkpoint', 'ledger') ORDER BY table_name, ordinal_position",
    )
    assert found == [
        ("checkpoint", "id", "integer", "NO", None),
        ("checkpoint", "last", "bigint", "NO", None),
        ("checkpoint", "total", "bigint", "NO", None),
        ("ledger", "seq", "bigint", "NO", None),
        ("ledger", "delta", "integer", "NO", None),
    ]


def test_a_new_store_has_one_row_and_room_for_large_numbers(url: str):
    migrate.upgrade(url)
    assert rows(url, "SELECT id, last, total FROM checkpoint") == [(1, -1, 0)]
    assert rows(url, "SELECT * FROM ledger") == []
    execute(url, f"UPDATE checkpoint SET last = {2**40}, total = {2**62}", f"INSERT INTO ledger VALUES ({2**40}, 1)")
    assert rows(url, "SELECT last, total FROM checkpoint") == [(2**40, 2**62)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO checkpoint VALUES (2, 0, 0)",
        "INSERT INTO checkpoint VALUES (1, 0, 0)",
        "UPDATE checkpoint SET id = 2",
        "UPDATE checkpoint SET last = NULL",
        "UPDATE checkpoint SET total = NULL",
        "INSERT INTO ledger VALUES (0, NULL)",
        "INSERT INTO ledger VALUES (0, 1), (0, 1)",
    ],
)
def test_the_database_refuses_what_the_contract_excludes(url: str, statement: str):
    migrate.upgrade(url)
    with pytest.raises(IntegrityError):
        execute(url, statement)


def test_a_null_is_no_number_of_an_event(url: str):
    migrate.upgrade(url)
    if is_sqlite(url):  # where the key takes the next free number instead
        execute(url, "INSERT INTO ledger VALUES (NULL, 1)")
        assert rows(url, "SELECT seq FROM ledger WHERE seq IS NULL") == []
    else:
        with pytest.raises(IntegrityError):
            execute(url, "INSERT INTO ledger VALUES (NULL, 1)")


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("checkpoint", True),
        ("ledger", True),
        ("consumer_alembic_version", True),
        ("consumer_baseline", False),
        ("consumer_profiles", False),
        ("alembic_version", False),
        ("ledgers", False),
        ("my_consumer_notes", False),
    ],
)
def test_owns_table_knows_our_names(name: str, is_ours: bool):
    assert schema.owns_table(name) is is_ours


def test_every_table_of_ours_later_than_the_contract_is_prefixed():
    named = schema.CONTRACT.names()
    assert all(name.startswith("consumer_") for name in named - {"checkpoint", "ledger"})
    assert all(map(schema.owns_table, named))
