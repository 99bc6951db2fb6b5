"""What Alembic runs: one transaction, under a lock, over the tables of `consumer.store.schema` and no others.

The database is that of `-x url=…`, else of the environment variable CONSUMER_DB, else of `alembic.ini`; the names of
the tables go by `-x prefix=…` and `-x schema=…`, else by CONSUMER_PREFIX and CONSUMER_SCHEMA. The library and the
command line come through here too (`consumer/store/migrate.py`).
"""

import os
from logging.config import fileConfig

from alembic import context
from alembic.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import URL, Connection, MetaData, Table, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import DropTable

from consumer.core import points
from consumer.core.errors import ConsumerError
from consumer.core.points import MigrationPoint
from consumer.store import migrate
from consumer.store.databases.choice import make_short_engine
from consumer.store.databases.url import parse_url
from consumer.store.schema import Tables

GIVEN = context.config.attributes
"""What the library says: `names`, and as `database` a URL or a user's connection."""

X = context.get_x_argument(as_dictionary=True)
NAMES = GIVEN.get("names") or migrate.Names(
    X.get("prefix") or os.environ.get("CONSUMER_PREFIX", ""), X.get("schema") or os.environ.get("CONSUMER_SCHEMA")
)


def _database() -> URL | Connection:
    typed = X.get("url") or os.environ.get("CONSUMER_DB") or context.config.get_main_option("sqlalchemy.url")
    return GIVEN.get("database") or parse_url(typed)


def _is_ours(name: str, type_: str, _parents: object) -> bool:
    """Compare our tables alone: what else is in the database belongs to somebody else."""
    return type_ != "table" or name in TABLES.metadata.tables


def _drop_version_table_at_base(*, ctx: MigrationContext, heads: set[str], **_: object) -> None:
    """Leave nothing behind where the store is gone: Alembic itself would keep its table."""
    if not heads:
        ctx.execute(DropTable(Table(TABLES.version.name, MetaData())))


def _configure(dialect_name: str, **how: object) -> None:
    context.configure(
        target_metadata=TABLES.metadata if dialect_name == "sqlite" else TABLES.comparable_metadata(),
        version_table=TABLES.version.name,
        include_name=_is_ours,
        on_version_apply=_drop_version_table_at_base,
        transactional_ddl=True,
        **how,
    )


def _run_offline(url: URL) -> None:
    _configure(url.get_backend_name(), url=url, literal_binds=True, dialect_opts={"paramstyle": "named"})
    with context.begin_transaction():
        if NAMES.schema is not None:
            context.execute(migrate.search_path(NAMES.schema))
        context.run_migrations()


def _reach_statement(*_: object) -> None:
    points.reach(MigrationPoint.BEFORE_STATEMENT)


def _run_online(url: URL) -> None:
    with make_short_engine(url).begin() as connection:
        event.listen(connection, "before_cursor_execute", _reach_statement)
        migrate.lock(connection)
        migrate.enter_schema(connection, NAMES)
        _run_on(connection)
        points.reach(MigrationPoint.BEFORE_COMMIT)


def _run_on(connection: Connection) -> None:
    _configure(connection.dialect.name, connection=connection)
    context.run_migrations()


TABLES = Tables(NAMES.prefix)
GIVEN["names"] = NAMES

if context.config.config_file_name is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

try:
    database = _database()
    if isinstance(database, Connection):
        _run_on(database)  # in a transaction of its user's, where the library has prepared all
    elif context.is_offline_mode():
        _run_offline(database)
    else:
        _run_online(database)
except (ConsumerError, DBAPIError) as error:
    if context.config.config_file_name is None:
        raise  # a caller of the library handles the error itself
    # The `alembic` command shows this one kind in a line, and any other as a traceback.
    raise CommandError(" ".join(str(getattr(error, "orig", error)).split())) from error
