"""Which schema of PostgreSQL a store is in, where its user has named none, and what is said where that is not clear."""

import pytest
from sqlalchemy import create_engine, make_url, pool

from consumer.core import errors
from consumer.store import migrate
from consumer.store.transaction import Store

from .helpers import STORE, execute, picture, rows

IN_BOTH = r"begins with the schema app, which holds no store, and the schema public .*holds one.*public to .* or app"


@pytest.fixture
def ours(postgres_url: str) -> str:
    """A database with a second schema that comes first for those who connect by this URL."""
    execute(postgres_url, "CREATE SCHEMA app")
    return make_url(postgres_url).update_query_dict({"options": "-csearch_path=app,public"}).render_as_string(False)


def schemas(url: str) -> list[str]:
    found = rows(url, "SELECT table_schema FROM information_schema.tables WHERE table_name = 'ledger' ORDER BY 1")
    return [name for (name,) in found]


def test_a_new_store_is_made_in_the_first_schema(ours: str, postgres_url: str) -> None:
    migrate.upgrade(ours)
    assert migrate.status(ours).revision == "0002"
    with Store(ours) as store:
        assert store.resume() == -1
    assert schemas(postgres_url) == ["app"]


@pytest.mark.parametrize("how", ["upgraded", "made by hand", "upgraded, with the contract's tables gone"])
def test_a_store_further_on_is_named_and_neither_taken_nor_joined_by_another(
    ours: str, postgres_url: str, how: str
) -> None:
    if how == "made by hand":
        execute(postgres_url, *STORE)
    else:
        migrate.upgrade(postgres_url)
    if how.endswith("gone"):
        execute(postgres_url, "DROP TABLE checkpoint, ledger")
    before = picture(postgres_url)
    store = Store(ours)
    for act in (migrate.upgrade, migrate.downgrade, migrate.status):
        with pytest.raises(errors.NotReady, match=IN_BOTH):
            act(ours)
    engine = create_engine(ours, poolclass=pool.NullPool)
    with engine.begin() as connection, pytest.raises(errors.NotReady, match=IN_BOTH):
        migrate.upgrade(connection)
    for look in (store.resume, store.state, store.check_durability):
        with pytest.raises(errors.NotReady, match=IN_BOTH) as refusal:
            look()
        assert not refusal.value.needs_upgrade
    store.close()
    assert picture(postgres_url) == before
    assert "app" not in schemas(postgres_url)


def test_either_is_had_by_its_name(ours: str, postgres_url: str) -> None:
    migrate.upgrade(postgres_url)
    execute(postgres_url, "UPDATE checkpoint SET last = 4")
    assert migrate.status(ours, schema="public").last == 4
    migrate.upgrade(ours, schema="app")
    assert schemas(postgres_url) == ["app", "public"]
    assert migrate.status(ours).last == -1  # the first of two is the one that is meant
    with Store(ours) as first, Store(ours, schema="public") as named:
        assert (first.resume(), named.resume()) == (-1, 4)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE ledger(id INTEGER, amount NUMERIC)",
        "CREATE TABLE checkpoint(id INTEGER)",
        "CREATE TABLE shop_consumer_alembic_version(version_num TEXT)",
        "CREATE SCHEMA elsewhere CREATE TABLE ledger(seq BIGINT) CREATE TABLE checkpoint(id INTEGER)",
    ],
)
def test_what_is_no_store_does_not_matter(ours: str, postgres_url: str, statement: str) -> None:
    execute(postgres_url, statement)
    migrate.upgrade(ours)
    with Store(ours) as store:
        assert store.resume() == -1


def test_stores_of_different_prefixes_do_not_matter_to_each_other(ours: str, postgres_url: str) -> None:
    migrate.upgrade(postgres_url, prefix="shop_")
    migrate.upgrade(ours)
    with pytest.raises(errors.NotReady, match=IN_BOTH):
        migrate.upgrade(ours, prefix="shop_")


def test_a_search_path_of_nothing_is_no_place(postgres_url: str) -> None:
    url = make_url(postgres_url).update_query_dict({"options": "-csearch_path=nowhere"}).render_as_string(False)
    store = Store(url)
    for act in (lambda: migrate.upgrade(url), lambda: migrate.status(url), store.resume):
        with pytest.raises(errors.NotReady, match="no schema of this session's search_path exists"):
            act()
    store.close()


def test_what_a_program_says_goes_before_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables are those of the two commands; a store of a program would not look at them either."""
    monkeypatch.setenv("CONSUMER_PREFIX", "shop_")
    monkeypatch.setenv("CONSUMER_SCHEMA", "nowhere")
    monkeypatch.setenv("CONSUMER_DB", "sqlite:///other.db")
    migrate.upgrade(url)
    assert migrate.status(url).revision == "0002"
    assert "shop_" not in migrate.upgrade_sql(url) + repr(picture(url))
    migrate.downgrade(url)
    assert picture(url) == {}
