"""The command's parts: what can be typed, and which module does it.

Each command's module is quick to load: what a command needs beyond Typer is imported when it is called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli import database, demo_command, run, serve
from consumer.cli.version import say_version

app = typer.Typer(
    name="consumer",
    help="A durable, resumable consumer of one sequenced event stream: every event changes the database exactly once.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        raise typer.Exit(say_version())
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command()(demo_command.demo)
app.command()(database.upgrade)
app.command()(database.status)
app.command()(serve.serve)
app.add_typer(serve.journal_app, name="journal")
app.command()(run.run)
