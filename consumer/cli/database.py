"""`consumer upgrade` and `consumer status`: the store in its database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from consumer.cli import exits
from consumer.cli.options import DEFAULT_DATABASE, Database
from consumer.core.errors import DatabaseUnusable, NotReady
from consumer.core.words import counted


def upgrade(
    db: Database = DEFAULT_DATABASE,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead of running it.")] = False,
) -> None:
    """Create the store, or bring it to this version; a store that has no version recorded is adopted with its data."""
    from consumer.store import migrate  # noqa: PLC0415 - it loads SQLAlchemy and Alembic

    if sql:
        typer.echo(migrate.upgrade_sql(db), nl=False)
    else:
        with naming(db):
            migrate.upgrade(db)
        typer.echo(f"the store is at revision {migrate.head()}")


def status(
    db: Database = DEFAULT_DATABASE,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a store's cursor, total and version. Exit code 16 where there is none or it is not at this version."""
    from consumer.store import migrate  # noqa: PLC0415 - it loads SQLAlchemy and Alembic

    with naming(db):
        found = migrate.status(db)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"last {found.last}, total {found.total}, {counted(found.ledger_rows, 'ledger row')}")
        typer.echo(f"revision {found.revision or 'none recorded'}, head {found.head}")
    if found.revision != found.head:
        raise NotReady(
            "the store is not at this version: run consumer upgrade with the same --db, or the newer version"
        )


@contextmanager
def naming(db: str) -> Iterator[None]:
    """Say in an error of the database which one it was."""
    from consumer.store.databases.choice import is_database_error  # noqa: PLC0415 - it loads SQLAlchemy
    from consumer.store.databases.url import parse_url, show_url  # noqa: PLC0415 - the same

    try:
        yield
    except Exception as error:
        if not is_database_error(error):
            raise
        raise DatabaseUnusable(show_url(parse_url(db)), exits.reason(error)) from error
