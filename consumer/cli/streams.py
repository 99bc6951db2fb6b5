"""`consumer pause`, `resume`, `skip` and `trust`: what is done to streams by hand, while they are consumed or not."""

# ruff: noqa: PLC0415 - what a command works with is loaded when it runs

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.options import DEFAULT_DATABASE, Database, Prefix, Schema

Streams = Annotated[list[str] | None, typer.Argument(metavar="STREAM", help="The streams, as status names them.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream, as status names it.")]
All = Annotated[bool, typer.Option("--all", help="All streams of the store.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why. It goes on record.")]
ExpectLast = Annotated[
    int, typer.Option(metavar="N", help="The last record that was consumed, -1 for none. Otherwise nothing is done.")
]

NOT_SAID = "not said"
"""The reason on record where none was given."""


def pause(
    streams: Streams = None,
    every: All = False,
    reason: Reason = NOT_SAID,
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
) -> None:
    """Stop consuming streams, until they are resumed.

    It holds at once for the processes that consume them, and for those that start later.
    """
    from consumer.cli import byhand
    from consumer.cli.place import Place

    byhand.pause(Place(db, prefix, schema), streams or [], every=every, reason=reason)


def resume(
    streams: Streams = None,
    every: All = False,
    reason: Reason = NOT_SAID,
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
) -> None:
    """Go on consuming streams that were paused or are halted.

    One that is halted need not wait for its next try then.
    """
    from consumer.cli import byhand
    from consumer.cli.place import Place

    byhand.resume(Place(db, prefix, schema), streams or [], every=every, reason=reason)


def skip(
    stream: Stream,
    record: Annotated[int, typer.Option(metavar="SEQ", help="The record to pass over, which must be the next one.")],
    expect_last: ExpectLast,
    reason: Reason,
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
) -> None:
    """Pass over one record of a stream, and go on behind it.

    Nothing of that record will be in the database.
    """
    from consumer.cli import byhand
    from consumer.cli.place import Place

    byhand.skip(Place(db, prefix, schema), stream, record, expect_last=expect_last, reason=reason)


def trust(
    stream: Stream,
    expect_last: ExpectLast,
    reason: Reason,
    at: Annotated[
        int | None,
        typer.Option(metavar="SEQ", help="The first record to consume of it. [the one after the last consumed]"),
    ] = None,
    db: Database = DEFAULT_DATABASE,
    prefix: Prefix = "",
    schema: Schema = None,
) -> None:
    """Go on with another stream that has the old one's name.

    Its numbers count as if those of the old one went on, unless --at says where to begin.
    """
    from consumer.cli import byhand
    from consumer.cli.place import Place

    byhand.trust(Place(db, prefix, schema), stream, at, expect_last=expect_last, reason=reason)
