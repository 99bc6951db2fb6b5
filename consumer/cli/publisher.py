"""`consumer serve` and `consumer journal append`: the publisher's part of the command line."""

# ruff: noqa: PLC0415 - what a command works with is loaded when it runs

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from consumer.cli.options import JournalPath, LogFormat, LogFormatOption, LogLevel, LogLevelOption
from consumer.publisher.server.limits import WINDOW

journal_app = typer.Typer(help="Append to a journal, the file that is served.")


def serve(
    journal: JournalPath,
    host: Annotated[
        str, typer.Option(envvar="CONSUMER_SERVE_HOST", metavar="HOST", help="Where to listen, a name or an address.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(envvar="CONSUMER_SERVE_PORT", min=0, max=65535, metavar="PORT", help="The port; 0 for any."),
    ] = 7000,
    window: Annotated[
        int,
        typer.Option(envvar="CONSUMER_SERVE_WINDOW", min=1, metavar="N", help="How many events may be unacknowledged."),
    ] = WINDOW,
    no_follow: Annotated[
        bool,
        typer.Option(
            "--no-follow",
            envvar="CONSUMER_SERVE_NO_FOLLOW",
            help="Close a connection once all is acknowledged, instead of waiting for more events.",
        ),
    ] = False,
    tls_cert: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_SERVE_TLS_CERT", metavar="FILE", help="Serve TLS with this certificate chain."),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_SERVE_TLS_KEY", metavar="FILE", help="The private key of --tls-cert."),
    ] = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            envvar="CONSUMER_SERVE_TLS_CLIENT_CA",
            metavar="FILE",
            help="Serve only consumers whose certificate is from these authorities.",
        ),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Serve a journal to any number of consumers.

    Goes on until it is stopped by SIGTERM or Ctrl-C. Nothing is sent that is not on disk; the journal is never
    written. On a terminal a table shows every consumer's cursor and lag. Exit codes: 19 journal that cannot be used,
    22 address in use.
    """
    from consumer.cli import serving

    serving.serve_journal(
        journal,
        host,
        port,
        serving.tls_of(tls_cert, tls_key, tls_client_ca),
        log_format,
        log_level,
        window=window,
        follow=not no_follow,
    )


@journal_app.callback(invoke_without_command=True)
def _journal(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@journal_app.command()
def append(
    journal: JournalPath,
    number: Annotated[
        bool, typer.Option("--number", help="The lines are bare deltas; give them the next numbers.")
    ] = False,
) -> None:
    r"""Append EVENT lines from standard input to a journal.

    Each time whatever has come is appended; the file is made if it is not there. A line is `EVENT <seq> <delta>` with
    the next number, or with --number a delta alone. What is reported is on disk. The first bad line ends it, and
    nothing after it is written. Where lines were cut off a damaged end, --number appends nothing before it is called
    again. Exit codes: 2 bad line, 19 journal that cannot be used.
    """
    with _with_locks_of_files(journal):
        from consumer.cli import appending
    typer.echo(appending.append_input(journal, number=number))


@contextmanager
def _with_locks_of_files(journal: str) -> Iterator[None]:
    """Say in one line where the system does not have what a journal needs, as Windows does not."""
    from consumer.core.errors import JournalUnusable

    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "fcntl":
            raise
        raise JournalUnusable(
            journal, "this system has no file locks of POSIX (fcntl); use Linux or macOS, at least to append"
        ) from error
