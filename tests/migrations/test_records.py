"""Revision 0002, which adds what records need, to a store that is there already."""

from pathlib import Path

import pytest
from alembic import command

from consumer.core.errors import NotReady, SchemaMismatch
from consumer.core.runs import Offer
from consumer.store import migrate, schema
from consumer.store.transaction import Store

from .helpers import configure, execute, is_sqlite, picture, rows

NEW = {"consumer_store", "consumer_stream", "consumer_mark", "consumer_lease", "consumer_override"}
HELD = ("UPDATE checkpoint SET last = 0, total = 5", "INSERT INTO ledger VALUES (0, 5)")


@pytest.fixture
def at_0001(url: str) -> str:
    """A store as the version before made it, with an event in it."""
    command.upgrade(configure(url), "0001")
    execute(url, *HELD)
    return url


def test_it_adds_five_tables_and_leaves_the_others_alone(at_0001: str):
    before = picture(at_0001)
    version = schema.CONTRACT.version.name
    migrate.upgrade(at_0001)
    after = picture(at_0001)
    assert set(after) - set(before) == NEW
    assert {name: after[name] for name in before if name != version} == {
        name: before[name] for name in before if name != version
    }
    assert rows(at_0001, "SELECT id, compatible_from, moves FROM consumer_store") == [(1, "0002", 0)]


def test_each_store_has_an_id_of_its_own_that_stays(at_0001: str, tmp_path: Path):
    migrate.upgrade(at_0001)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    migrate.upgrade(other)
    with Store(at_0001) as first, Store(other) as second:
        known = first.store_id()
        assert len(known) == 32
        assert known != second.store_id()
        execute(at_0001, f"DELETE FROM {schema.CONTRACT.version.name}")
        migrate.upgrade(at_0001)  # as a store whose recorded version was lost
        assert first.store_id() == known


def test_a_store_at_0001_is_shown_and_says_what_to_run(at_0001: str):
    assert migrate.status(at_0001) == migrate.Status(0, 5, 1, "0001", "0002")
    with Store(at_0001) as store, pytest.raises(NotReady, match="revision 0001, this version needs 0002"):
        store.resume()


def test_going_down_to_0001_leaves_what_was_there(at_0001: str):
    before = picture(at_0001)
    migrate.upgrade(at_0001)
    migrate.downgrade(at_0001, "0001")
    assert picture(at_0001) == before


@pytest.mark.parametrize("revision", ["0001", "base"])
def test_streams_are_not_dropped_unless_somebody_insists(url: str, revision: str):
    migrate.upgrade(url)
    with Store(url) as store:
        store.claim([Offer("mem/a", None, 0, 4)])
    before = picture(url)
    with pytest.raises(migrate.MigrationRefused, match="this store holds streams of records"):
        migrate.downgrade(url, revision)
    assert picture(url) == before
    migrate.downgrade(url, revision, drop=True)
    assert not set(picture(url)) & NEW


@pytest.mark.parametrize("name", sorted(NEW))
def test_a_users_table_under_one_of_our_names_is_refused_and_nothing_is_changed(at_0001: str, name: str):
    execute(at_0001, f"CREATE TABLE {name}(id INTEGER PRIMARY KEY, amount INTEGER)")
    before = picture(at_0001)
    with pytest.raises(SchemaMismatch, match=f"a table {name} exists with other columns: .*amount"):
        migrate.upgrade(at_0001)
    assert picture(at_0001) == before


@pytest.mark.parametrize("type_", ["VARCHAR(9)", "TEXT"])
def test_types_are_compared_as_the_database_writes_them(at_0001: str, type_: str):
    big = "INTEGER" if is_sqlite(at_0001) else "BIGINT"
    execute(
        at_0001,
        f"CREATE TABLE consumer_mark(stream {type_}, through {big}, records {big}, checksum TEXT, "
        "PRIMARY KEY (stream, through))",
    )
    if type_ == "TEXT":
        migrate.upgrade(at_0001)
        assert migrate.status(at_0001).revision == "0002"
    else:
        with pytest.raises(SchemaMismatch, match=r"stream VARCHAR\(9\) PRIMARY KEY.*needed: stream TEXT PRIMARY KEY"):
            migrate.upgrade(at_0001)


def test_a_prefix_holds_for_all_of_them(url: str):
    migrate.upgrade(url, prefix="shop_")
    assert {f"shop_{name}" for name in NEW} < set(picture(url))
    with Store(url, prefix="shop_") as store:
        store.claim([Offer("mem/a", None, 0, 4)])
        assert [stream.name for stream in store.streams()] == ["mem/a"]


def test_a_schema_holds_for_all_of_them(postgres_url: str):
    execute(postgres_url, "CREATE SCHEMA shop")
    migrate.upgrade(postgres_url, schema="shop")
    with Store(postgres_url, schema="shop") as store:
        store.claim([Offer("mem/a", None, 0, 4)])
        assert rows(postgres_url, "SELECT name FROM shop.consumer_stream") == [("mem/a",)]


@pytest.mark.parametrize(("compatible_from", "may"), [("0001", True), ("0002", True), ("0003", False)])
def test_a_newer_revision_says_which_versions_may_go_on(url: str, compatible_from: str, may: bool):
    migrate.upgrade(url)
    execute(
        url,
        f"UPDATE consumer_store SET compatible_from = '{compatible_from}'",
        f"UPDATE {schema.CONTRACT.version.name} SET version_num = '0003'",
    )
    with Store(url) as store:
        if may:
            assert store.resume() == -1
        else:
            with pytest.raises(NotReady, match="revision 0003, this version needs 0002"):
                store.resume()
