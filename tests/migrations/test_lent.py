"""A store on a connection that its user lends: in the user's transaction, and inside the user's own Alembic run."""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from alembic import command, context, op
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url, pool

from consumer.core import errors
from consumer.store import migrate
from consumer.store.databases import lent

from .helpers import MIGRATIONS, configure, execute, is_sqlite, picture, rows, start_python
from .test_upgrade import OURS

ENV = """
from alembic import context
from sqlalchemy import create_engine, pool
from consumer import migrate

URL = context.get_x_argument(as_dictionary=True)["url"]

if context.is_offline_mode():
    context.configure(url=URL)
    context.run_migrations()
else:
    with create_engine(URL, poolclass=pool.NullPool).{begin}() as connection:
        context.configure(connection=connection)
        {before}
        with context.begin_transaction():
            context.run_migrations()
"""

MIGRATION = """
import sqlalchemy as sa
from alembic import context, op
from consumer import migrate

revision, down_revision = "{revision}", {down!r}


def upgrade():
    op.create_table("before_{revision}", sa.Column("id", sa.Integer, primary_key=True))
    {upgrade}
    op.create_table("after_{revision}", sa.Column("id", sa.Integer, primary_key=True))
    assert context.get_context() is op.get_context()


def downgrade():
    op.drop_table("after_{revision}")
    {downgrade}
    op.drop_table("before_{revision}")
"""

LEND = "migrate.upgrade(op.get_bind())"


@pytest.fixture
def project(url: str, tmp_path: Path) -> Callable[..., Config]:
    """A user's own Alembic with two migrations, of which the second calls us."""

    def make(upgrade: str = "", downgrade: str = "", *, before: str = "", begin: str = "connect") -> Config:
        folder = tmp_path / "theirs"
        (folder / "versions").mkdir(parents=True)
        (folder / "env.py").write_text(ENV.format(before=before, begin=begin))
        (folder / "script.py.mako").write_text((MIGRATIONS / "script.py.mako").read_text())
        for revision, down, up, back in (("a1", None, "", ""), ("a2", "a1", upgrade, downgrade)):
            text = MIGRATION.format(revision=revision, down=down, upgrade=up, downgrade=back)
            (folder / "versions" / f"{revision}.py").write_text(text)
        return configure(url, scripts=folder)

    return make


@pytest.fixture
def engine(url: str) -> Engine:
    """As a user makes one: the driver itself begins SQLite's transactions."""
    return create_engine(url, poolclass=pool.NullPool)


THEIRS = {"alembic_version", "before_a1", "after_a1", "before_a2", "after_a2"}


# --- inside the user's own Alembic run -----------------------------------------------------------


def test_a_users_migration_makes_the_store_and_goes_on(url: str, project: Callable[..., Config]) -> None:
    config = project(LEND, "migrate.downgrade(op.get_bind())")
    command.upgrade(config, "head")
    assert set(picture(url)) == THEIRS | OURS
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "0002", "0002")
    assert rows(url, "SELECT version_num FROM alembic_version") == [("a2",)]
    command.downgrade(config, "base")
    assert set(picture(url)) == {"alembic_version"}


def test_it_adopts_there_what_was_made_by_hand(url: str, project: Callable[..., Config]) -> None:
    make = "op.execute('CREATE TABLE {}')"
    tables = (
        "checkpoint(id INTEGER PRIMARY KEY, last BIGINT, total BIGINT)",
        "ledger(seq BIGINT PRIMARY KEY, delta INTEGER)",
    )
    command.upgrade(
        project("; ".join([*map(make.format, tables), "op.execute('INSERT INTO checkpoint VALUES (1, 7, 9)')", LEND])),
        "head",
    )
    assert migrate.status(url) == migrate.Status(7, 9, 0, "0002", "0002")


def test_what_fails_later_in_the_users_migration_takes_the_store_back(url: str, project: Callable[..., Config]) -> None:
    config = project(f"{LEND}; raise ArithmeticError")
    with pytest.raises(ArithmeticError):
        command.upgrade(config, "head")
    left = set(picture(url))
    assert not left & OURS
    assert "after_a2" not in left
    # Alembic itself leaves SQLite's DDL outside of transactions, until something is written.
    assert left == ({"alembic_version", "before_a1", "after_a1", "before_a2"} if is_sqlite(url) else set())


def test_a_users_env_may_make_the_store_in_its_own_transaction(url: str, project: Callable[..., Config]) -> None:
    config = project(before="migrate.upgrade(connection)", begin="begin")
    command.upgrade(config, "head")
    assert set(picture(url)) == THEIRS | OURS
    command.upgrade(config, "head")  # there is nothing to do the second time, for either
    assert migrate.status(url) == migrate.Status(-1, 0, 0, "0002", "0002")


REFUSED_BY_URL = {
    "upgrade": "migrate.upgrade({url!r})",
    "downgrade": "migrate.downgrade({url!r})",
    "a script": "migrate.upgrade_sql({url!r})",
}


@pytest.mark.parametrize("where", ["env.py", "a migration"])
@pytest.mark.parametrize("call", REFUSED_BY_URL)
def test_a_url_is_refused_there_before_anything_is_done(
    url: str, project: Callable[..., Config], where: str, call: str
) -> None:
    statement = REFUSED_BY_URL[call].format(url=url)
    config = project(before=statement) if where == "env.py" else project(statement)
    with pytest.raises(migrate.MigrationRefused, match=r"connection of that run, such as op\.get_bind\(\)"):
        command.upgrade(config, "head")
    assert not set(picture(url)) & OURS


def test_the_users_run_goes_on_after_a_refusal(url: str, project: Callable[..., Config]) -> None:
    command.upgrade(
        project(
            f"""
    try:
        migrate.upgrade({url!r})
    except migrate.MigrationRefused:
        pass
    """.strip()
        ),
        "head",
    )
    assert set(picture(url)) == THEIRS


def test_it_is_refused_there_although_the_store_is_ready(url: str, project: Callable[..., Config]) -> None:
    """Or it would work until the day of the next migration."""
    migrate.upgrade(url)
    with pytest.raises(migrate.MigrationRefused):
        command.upgrade(project(before=f"migrate.upgrade({url!r})"), "head")


def test_a_look_is_allowed_there(url: str, project: Callable[..., Config]) -> None:
    migrate.upgrade(url)
    command.upgrade(project(before=f"assert migrate.status({url!r}).revision == migrate.head()"), "head")
    assert set(picture(url)) >= THEIRS


def test_offline_there_is_no_connection_to_lend(url: str, project: Callable[..., Config]) -> None:
    with pytest.raises(migrate.MigrationRefused, match="upgrade_sql"):
        command.upgrade(project(LEND), "head", sql=True)


def test_a_failure_of_ours_leaves_alembic_to_the_user(url: str, project: Callable[..., Config], engine: Engine) -> None:
    execute(url, "CREATE TABLE ledger(seq TEXT)")
    with pytest.raises(errors.SchemaMismatch):
        command.upgrade(project(LEND), "head")
    before = dict(vars(context)), dict(vars(op))
    with engine.begin() as connection, pytest.raises(errors.SchemaMismatch):
        migrate.upgrade(connection)
    assert (vars(context), vars(op)) == before
    execute(url, "DROP TABLE ledger")
    migrate.upgrade(url)
    assert migrate.status(url).revision == "0002"


# --- without Alembic -----------------------------------------------------------------------------


def test_the_store_is_there_when_its_user_commits(url: str, engine: Engine) -> None:
    with engine.connect() as connection:
        with connection.begin():
            migrate.upgrade(connection)
            connection.exec_driver_sql("CREATE TABLE theirs(id INTEGER)")
        with connection.begin():
            migrate.upgrade(connection)  # nothing to do
    assert set(picture(url)) == OURS | {"theirs"}
    assert migrate.status(url).revision == "0002"


def test_nothing_of_it_stays_when_its_user_rolls_back(url: str, engine: Engine) -> None:
    with engine.connect() as connection:
        transaction = connection.begin()
        migrate.upgrade(connection)
        transaction.rollback()
    assert picture(url) == {}


def test_a_process_that_dies_before_its_commit_has_made_nothing(url: str) -> None:
    code = """
import os, signal, sys
from sqlalchemy import create_engine
from consumer import migrate
with create_engine(sys.argv[1]).begin() as connection:
    migrate.upgrade(connection)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    process = start_python(code, url)
    process.communicate()
    assert process.returncode == -9
    assert picture(url) == {}


def test_a_refusal_leaves_the_users_transaction_usable(url: str, engine: Engine) -> None:
    execute(url, "CREATE TABLE ledger(seq TEXT)")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE theirs(id INTEGER)")
        with pytest.raises(errors.SchemaMismatch, match="a table ledger exists with other columns"):
            migrate.upgrade(connection)
        connection.exec_driver_sql("INSERT INTO theirs VALUES (3)")
    assert rows(url, "SELECT id FROM theirs") == [(3,)]
    assert set(picture(url)) == {"ledger", "theirs"}


def test_a_store_that_holds_something_is_dropped_only_on_demand(url: str, engine: Engine) -> None:
    migrate.upgrade(url)
    execute(url, "INSERT INTO ledger VALUES (0, 5)")
    with engine.begin() as connection, pytest.raises(migrate.MigrationRefused, match="drop=yes"):
        migrate.downgrade(connection)
    assert rows(url, "SELECT * FROM ledger") == [(0, 5)]
    with engine.begin() as connection:
        migrate.downgrade(connection, drop=True)
    assert picture(url) == {}


def test_a_prefix_and_a_store_that_has_lost_its_cursor(url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        migrate.upgrade(connection, prefix="shop_")
    assert set(picture(url)) == {f"shop_{name}" for name in OURS}
    execute(url, "DELETE FROM shop_checkpoint")
    with engine.begin() as connection, pytest.raises(errors.SchemaMismatch, match="has lost"):
        migrate.upgrade(connection, prefix="shop_")


def test_a_schema_of_postgresql_and_what_its_user_had_set(postgres_url: str) -> None:
    execute(postgres_url, 'CREATE SCHEMA "50%% off"', "CREATE SCHEMA other")
    settings = "SELECT name, setting FROM pg_settings ORDER BY name"
    with create_engine(postgres_url, poolclass=pool.NullPool).begin() as connection:
        connection.exec_driver_sql("SET search_path = other, public")
        before = connection.exec_driver_sql(settings).all(), connection.dialect.default_schema_name
        migrate.upgrade(connection, schema="50% off")
        with pytest.raises(errors.NotReady, match="no schema nowhere"):
            migrate.upgrade(connection, schema="nowhere")
        assert (connection.exec_driver_sql(settings).all(), connection.dialect.default_schema_name) == before
    assert migrate.status(postgres_url, schema="50% off").revision == "0002"
    assert picture(postgres_url) == {}


def test_sqlite_has_no_schemas(sqlite_url: str) -> None:
    with create_engine(sqlite_url).begin() as connection, pytest.raises(errors.InvalidOption, match="no schemas"):
        migrate.upgrade(connection, schema="app")


def test_two_upgrades_on_lent_connections_wait_for_each_other(postgres_url: str, patience_s: float) -> None:
    code = """
import sys
from sqlalchemy import create_engine
from consumer import migrate
with create_engine(sys.argv[1]).begin() as connection:
    migrate.upgrade(connection)
print("done")
"""
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with create_engine(postgres_url, poolclass=pool.NullPool).begin() as connection:
        migrate.upgrade(connection)
        process = start_python(code, postgres_url)
        while not rows(postgres_url, waiting):
            assert process.poll() is None
    assert process.communicate(timeout=patience_s) == ("done\n", "")


# --- what cannot be used -------------------------------------------------------------------------


def check_that_it_is_refused(connection: Connection, url: str, match: str) -> None:
    for act in (migrate.upgrade, migrate.downgrade):
        with pytest.raises(migrate.MigrationRefused, match=match):
            act(connection)
    assert not set(picture(url)) & OURS


def test_a_connection_without_a_transaction_is_refused(url: str, engine: Engine) -> None:
    with engine.connect() as connection:
        check_that_it_is_refused(connection, url, r"in no transaction.*engine\.begin\(\)")
        assert not connection.in_transaction()


def test_one_that_commits_by_itself_is_refused(url: str, engine: Engine) -> None:
    with engine.execution_options(isolation_level="AUTOCOMMIT").begin() as connection:
        check_that_it_is_refused(connection, url, "AUTOCOMMIT")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has the attribute since Python 3.12")
def test_one_whose_driver_commits_by_itself_is_refused(sqlite_url: str) -> None:
    with create_engine(sqlite_url, connect_args={"autocommit": True}).begin() as connection:
        check_that_it_is_refused(connection, sqlite_url, "AUTOCOMMIT")


def test_one_whose_transactions_the_user_begins_himself_is_taken(sqlite_url: str) -> None:
    """As SQLAlchemy's documentation has it."""
    engine = create_engine(sqlite_url, connect_args={"isolation_level": None}, poolclass=pool.NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with suppress(ArithmeticError), engine.begin() as connection:
        migrate.upgrade(connection)
        raise ArithmeticError
    assert picture(sqlite_url) == {}
    with engine.begin() as connection:
        migrate.upgrade(connection)
    assert migrate.status(sqlite_url).revision == "0002"


def test_one_that_translates_schemas_is_refused(url: str, engine: Engine) -> None:
    with engine.execution_options(schema_translate_map={None: "tenant"}).begin() as connection:
        check_that_it_is_refused(connection, url, "schema_translate_map")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMP TABLE ledger(seq BIGINT PRIMARY KEY, delta INTEGER)",
        "CREATE TEMP VIEW checkpoint AS SELECT 1 AS id",
    ],
)
def test_a_temporary_table_of_one_of_our_names_is_refused(url: str, engine: Engine, statement: str) -> None:
    name = re.search("ledger|checkpoint", statement)[0]
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
        check_that_it_is_refused(connection, url, f"temporary table {name}")


def test_another_database_or_driver_is_refused() -> None:
    """Seen from their dialects alone: the drivers need not be installed."""
    for url, name in (
        ("mysql+pymysql://h/d", "mysql"),
        ("postgresql+asyncpg://h/d", "asyncpg"),
        ("sqlite+aiosqlite://", "aiosqlite"),
    ):
        with pytest.raises(errors.InvalidOption, match=name):
            lent.check_dialect(make_url(url).get_dialect()())
