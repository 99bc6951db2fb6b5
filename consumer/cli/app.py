"""The commands, put together, and the options of `consumer` itself."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer import __version__
from consumer.cli.demo import demo
from consumer.cli.publisher import journal_app, serve
from consumer.cli.run import run
from consumer.cli.start import main
from consumer.cli.status import history, status
from consumer.cli.streams import pause, resume, skip, trust
from consumer.cli.upgrade import upgrade

__all__ = ["app", "main"]

app = typer.Typer(
    name="consumer",
    help="A durable, resumable consumer of numbered events and records: each changes the database exactly once.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        typer.echo(f"consumer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command()(run)
app.command()(upgrade)
app.command()(status)
app.command()(pause)
app.command()(resume)
app.command()(skip)
app.command()(trust)
app.command()(history)
app.command()(serve)
app.add_typer(journal_app, name="journal")
app.command()(demo)
