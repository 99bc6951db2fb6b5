"""`consumer upgrade`: make a store ready."""

# ruff: noqa: PLC0415 - what a command works with is loaded when it runs

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from consumer.cli.options import DEFAULT_DATABASE, Database, Prefix, Schema
from consumer.core.words import last_event

if TYPE_CHECKING:
    from consumer.store.migrate import Status


def upgrade(
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead of running it.")] = False,
) -> None:
    """Create a store, or bring one to this version.

    A store that has no version recorded is adopted with its data. What was done is said.
    """
    from consumer.cli.locks import wait_for_lock
    from consumer.cli.output import complain
    from consumer.cli.place import Place
    from consumer.core.errors import NotReady
    from consumer.store import migrate

    if sql:
        typer.echo(migrate.upgrade_sql(db, prefix=prefix, schema=schema), nl=False)
        return

    def look_and_upgrade(url: str) -> tuple[migrate.Status | None, migrate.Status]:
        try:
            before = migrate.status(url, prefix=prefix, schema=schema)
        except NotReady:
            before = None
        migrate.upgrade(url, prefix=prefix, schema=schema)
        return before, migrate.status(url, prefix=prefix, schema=schema)

    with Place(db, prefix, schema).named():
        before, now = wait_for_lock(db, look_and_upgrade, complain, for_ever=False)
    typer.echo(f"the store is at revision {now.revision}: {_what_was_done(before, now)}")


def _what_was_done(before: Status | None, now: Status) -> str:
    """Say what an upgrade came to, from what was there before it and what is there now."""
    from consumer.store.schema import NOTHING_YET

    if before is None and (now.last, now.ledger_rows) == (NOTHING_YET, 0):
        return "it was created"
    if before is None or before.revision is None:  # half a store is none before, and something after
        return f"it was adopted with what it holds, {last_event(now.last)}"
    if before.revision != before.head:
        return f"it was upgraded from {before.revision}"
    return "it was there already"
