"""The command: what is typed, what is printed, and the exit code.

An error is one line on standard error that says what to do, never a traceback. The table of exit codes is here.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from sqlalchemy.exc import DBAPIError

from consumer import migrate
from consumer.demo import run_demo
from consumer.errors import (
    Conflict,
    CursorAhead,
    Gap,
    InvalidURL,
    MalformedFrame,
    NotReady,
    ResyncRequired,
    SchemaMismatch,
)

UNEXPECTED, USAGE, NOT_READY, UNUSABLE = 1, 2, 16, 19

EXIT_CODES: dict[type[Exception], int] = {
    InvalidURL: USAGE,
    typer.TyperException: USAGE,
    Conflict: 10,
    Gap: 11,
    ResyncRequired: 12,
    CursorAhead: 13,
    MalformedFrame: 15,
    NotReady: NOT_READY,
    SchemaMismatch: UNUSABLE,
    DBAPIError: UNUSABLE,
}
"""What each error ends the command with; 0 is a good end and 1 anything unexpected."""

app = typer.Typer(
    name="consumer",
    help="A durable, resumable consumer of one sequenced event stream: every event changes the database exactly once.",
    add_completion=False,
    rich_markup_mode=None,
)

Database = Annotated[
    str,
    typer.Option("--db", envvar="CONSUMER_DB", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
]
DEFAULT_DATABASE = "sqlite:///consumer.db"


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo() -> None:
    """Watch a consumer being killed between commit and ACK, and nothing counted twice."""
    if not run_demo(Console()):
        raise typer.Exit(UNEXPECTED)


@app.command()
def upgrade(
    db: Database = DEFAULT_DATABASE,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead of running it.")] = False,
) -> None:
    """Create the store, or bring it to this version; a store that has no version recorded is adopted with its data."""
    if sql:
        typer.echo(migrate.upgrade_sql(db), nl=False)
    else:
        migrate.upgrade(db)
        typer.echo(f"the store is at revision {migrate.head()}")


@app.command()
def status(
    db: Database = DEFAULT_DATABASE,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a store's cursor, total and version. Exit code 16 where there is none or it is not at this version."""
    found = migrate.status(db)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"last {found.last}, total {found.total}, {found.ledger_rows} ledger rows")
        typer.echo(f"revision {found.revision or 'none recorded'}, head {found.head}")
    if found.revision != found.head:
        raise NotReady("the store is not at this version: run consumer upgrade with the same --db")


def main() -> NoReturn:
    """Run the command and leave with its exit code."""
    try:
        code = app(standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - whatever it was, it ends in one line and an exit code
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), UNEXPECTED)
        typer.echo(f"consumer: {_explain(error)}", err=True)
    sys.exit(code)


def _explain(error: Exception) -> str:
    """Put an error into one line."""
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, DBAPIError):
        return f"the database cannot be used: {' '.join(str(error.orig).split())}"
    return " ".join(str(error).split()) or type(error).__name__
