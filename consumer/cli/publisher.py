"""The publisher's part of the command line: `consumer serve` and `consumer journal append`. `cli.py` mounts them."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from consumer.cli.output import complain
from consumer.cli.publisher_view import ConsoleHandler, draw
from consumer.core.errors import InvalidOption, JournalUnusable
from consumer.core.words import counted, last_event, why
from consumer.publisher.journal.append import Appender
from consumer.publisher.journal.extent import APPEND_BYTES_MAX
from consumer.publisher.journal.intake import append_all
from consumer.publisher.server.limits import WINDOW
from consumer.publisher.server.listen import server_tls
from consumer.publisher.server.publisher import Publisher

STOPPED_BY_FORCE = 21
"""The exit code where a stop did not come to an end."""

FORCE_S = 10.0
"""How long after a signal the process leaves in any case. A stop takes less than half of it unless the disk hangs, and
nothing is lost: whatever was not acknowledged is sent again."""

DRAW_S = 0.25
"""How often the table is drawn."""

journal_app = typer.Typer(help="Work on a journal, the file of events that `consumer serve` publishes.")

JournalPath = Annotated[str, typer.Argument(metavar="JOURNAL", help="The file of events.")]
_log = logging.getLogger("consumer.publisher")


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
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    console = Console(stderr=True, highlight=False)
    try:
        publisher = Publisher(journal, host, port, window=window, follow=not no_follow, tls=tls)
    except (OSError, UnicodeError) as error:  # what can be no host's name is the latter
        raise InvalidOption(f"cannot listen at {host!r} port {port}: {why(error)}") from error
    with publisher, _logging(console):
        asyncio.run(_serve(publisher, console))


def _tls(certificate: str | None, key: str | None, client_ca: str | None) -> ssl.SSLContext | None:
    if certificate is not None and key is not None:
        return server_tls(certificate, key, client_ca)
    if (certificate, key, client_ca) != (None, None, None):
        raise InvalidOption("--tls-cert and --tls-key belong together, and --tls-client-ca needs both")
    return None


@contextmanager
def _logging(console: Console) -> Iterator[None]:
    handler = ConsoleHandler(console)
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)


async def _serve(publisher: Publisher, console: Console) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if stop.is_set():
            os._exit(STOPPED_BY_FORCE)
        _log.info("stopping")
        stop.set()
        loop.call_later(FORCE_S, os._exit, STOPPED_BY_FORCE)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    _log.info("serving %s at %s", publisher.extent, ", ".join(publisher.addresses))
    if not console.is_terminal:
        await publisher.run(stop)
        return
    with Live(draw(publisher), console=console, auto_refresh=False, transient=True) as live:
        running = asyncio.create_task(publisher.run(stop))
        while not running.done():
            await asyncio.wait({running}, timeout=DRAW_S)
            live.update(draw(publisher), refresh=True)
        await running


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
    console = Console(stderr=True, highlight=False)
    if sys.stdin is None:
        raise InvalidOption("standard input is closed; the lines are read from there")
    given = _Input(sys.stdin.fileno())
    with Appender(journal) as appender:
        if appender.cut is not None:
            complain(f"repaired {journal}: {appender.cut}")
            if number and appender.cut.kept is not None:
                reason = "nothing was appended, since other events would get the numbers that were cut off; look first"
                raise JournalUnusable(journal, f"{reason}, then call this again")
        before = appender.extent.events
        with _progress(console) as show, given.until_signalled():
            append_all(
                appender,
                given.read,
                number=number,
                progress=lambda events: show(f"{counted(events, 'event')} appended"),
            )
        events, head = appender.extent.events - before, appender.head
    typer.echo(f"{counted(events, 'event')} appended, {last_event(head)}")


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show how far it is, on a terminal. Elsewhere nothing is written that could fail before what is done is said."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("waiting for lines") as status:
        yield status.update


class _Input:
    """Standard input, which SIGINT and SIGTERM end: while it is waited for, and never within an append."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = False
        self._ended = False

    @contextmanager
    def until_signalled(self) -> Iterator[None]:
        """Do something that reads, and be done with it when a signal comes."""
        before = {number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with suppress(KeyboardInterrupt):
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, *_: object) -> None:
        self._ended = True
        if self._waiting:
            raise KeyboardInterrupt

    def read(self) -> bytes:
        """Wait for input, then take what is there, up to a limit, so that one sync serves much of it."""
        try:
            return self._read()
        except OSError as error:
            raise InvalidOption(f"standard input cannot be read: {why(error)}") from error

    def _read(self) -> bytes:
        self._waiting = True
        try:
            if self._ended:
                raise KeyboardInterrupt
            select.select([self._descriptor], [], [])
        finally:
            self._waiting = False
        pieces = [os.read(self._descriptor, APPEND_BYTES_MAX)]
        size = len(pieces[0])
        while pieces[-1] and size < APPEND_BYTES_MAX and select.select([self._descriptor], [], [], 0)[0]:
            pieces.append(os.read(self._descriptor, APPEND_BYTES_MAX - size))
            size += len(pieces[-1])
        return b"".join(pieces)
