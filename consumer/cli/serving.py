"""`consumer serve` at work: a journal is served until a signal comes, and shown meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from consumer.cli import exits
from consumer.cli.serve_view import ConsoleHandler, draw
from consumer.core.errors import InvalidOption
from consumer.core.words import why
from consumer.publisher.server.listen import server_tls
from consumer.publisher.server.publisher import Publisher

FORCE_S = 10.0
"""How long after a signal the process leaves in any case. A stop takes less than half of it unless the disk hangs, and
nothing is lost: whatever was not acknowledged is sent again."""

DRAW_S = 0.25
"""How often the table is drawn."""

_log = logging.getLogger("consumer.publisher")


def serve_until_stopped(
    journal: str, host: str, port: int, window: int, tls: tuple[str | None, str | None, str | None], *, follow: bool
) -> None:
    """Serve a journal until a signal comes.

    Args:
        journal: the file.
        host: where to listen.
        port: the port, 0 for any.
        window: how many events may be unacknowledged.
        tls: the files of certificate, key and the consumers' authorities.
        follow: whether to wait for more events at the journal's end.
    """
    context = _tls(*tls)
    console = Console(stderr=True, highlight=False)
    try:
        publisher = Publisher(journal, host, port, window=window, follow=follow, tls=context)
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
            os._exit(exits.STOPPED_BY_FORCE)
        _log.info("stopping")
        stop.set()
        loop.call_later(FORCE_S, os._exit, exits.STOPPED_BY_FORCE)

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
