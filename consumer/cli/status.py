"""`consumer status` and `consumer history`: look at a store, and at what was done to its streams by hand."""

# ruff: noqa: PLC0415 - what a command works with is loaded when it runs

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.options import DEFAULT_DATABASE, AsJson, Database, Prefix, Schema


def status(
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
    as_json: AsJson = False,
    lag: Annotated[
        bool, typer.Option("--lag", help="Ask the source what it has, and show how far each stream is behind.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="CONSUMER_URL",
            metavar="URL",
            help="The source to ask. [the files that the streams are named after]",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_NAME", metavar="NAME", help="The name that its stream was given, if it was."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Draw it again every two seconds, on a terminal.")] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Exit code 1 where a stream is further behind, or halted."),
    ] = None,
    max_idle: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="The same where its last commit is longer ago."),
    ] = None,
) -> None:
    """Show where a store stands, with each of its streams.

    Exit code 16 where there is no store or it is not at this version.
    """
    from consumer.cli import looking
    from consumer.cli.place import Place

    asked = looking.Asked(lag=lag or max_lag is not None, url=url, name=name)
    place = Place(db, prefix, schema)
    if watch:
        looking.watch(place, asked)
    else:
        looking.show(place, asked, as_json=as_json, max_lag=max_lag, max_idle_s=max_idle)


def history(
    stream: Annotated[str | None, typer.Argument(metavar="STREAM", help="One stream only.")] = None,
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Show what was done to streams by hand: when, by whom and why."""
    from consumer.cli import looking
    from consumer.cli.place import Place

    looking.show_history(Place(db, prefix, schema), stream, as_json=as_json)
