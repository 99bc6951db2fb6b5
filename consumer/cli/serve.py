"""`consumer serve` and `consumer journal append`: their options."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.publisher.server.limits import WINDOW

journal_app = typer.Typer(help="Work on a journal, the file of events that `consumer serve` publishes.")

JournalPath = Annotated[str, typer.Argument(metavar="JOURNAL", help="The file of events.")]


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
) -> None:
    """Serve a journal to any number of consumers, until SIGTERM or Ctrl-C.

    Nothing is sent that is not on disk; the journal is never written. On a terminal a table shows every consumer's
    cursor and lag. Exit codes: 19 journal that cannot be used, 22 address in use.
    """
    from consumer.cli.serving import serve_until_stopped  # noqa: PLC0415 - it loads the publisher and Rich

    serve_until_stopped(journal, host, port, window, (tls_cert, tls_key, tls_client_ca), follow=not no_follow)


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
    r"""Append EVENT lines from standard input, each time whatever has come; made if the file is not there.

    A line is `EVENT <seq> <delta>` with the next number, or with --number a delta alone. What is reported is on disk.
    The first bad line ends it, and nothing after it is written. Where lines were cut off a damaged end, --number
    appends nothing before it is called again. Exit codes: 2 bad line, 19 journal that cannot be used.
    """
    from consumer.cli.appending import append_input  # noqa: PLC0415 - it loads the journal and Rich

    append_input(journal, number=number)
