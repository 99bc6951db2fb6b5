"""What `consumer serve` does: it serves a journal until it is stopped, and shows on a terminal who is being served."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from rich.console import Console
from rich.live import Live

from consumer.cli import stops
from consumer.cli.logs import logged
from consumer.cli.options import LogFormat, LogLevel
from consumer.cli.publisher_view import draw
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


def serve_journal(
    journal: str,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    log_format: LogFormat,
    log_level: LogLevel,
    **options: Any,
) -> None:
    """Serve, until stopped.

    Args:
        journal: the file.
        host: where to listen.
        port: the port.
        tls: for connections over TLS.
        log_format: how log lines are written.
        log_level: from which level on.
        options: further ones, for `Publisher`.

    Raises:
        InvalidOption: one cannot listen there.
        AddressInUse, JournalUnusable: as `Publisher` has it.
    """
    console = Console(stderr=True, highlight=False)
    drawn = console if console.is_terminal and log_format is LogFormat.TEXT else None
    with logged(drawn, log_format, log_level):
        try:
            publisher = Publisher(journal, host, port, tls=tls, **options)
        except (OSError, UnicodeError) as error:  # what can be no host's name is the latter
            raise InvalidOption(f"cannot listen at {host!r} port {port}: {why(error)}") from error
        with publisher:
            asyncio.run(_serve(publisher, drawn))


def tls_of(certificate: str | None, key: str | None, client_ca: str | None) -> ssl.SSLContext | None:
    """Put together what was typed about TLS.

    Raises:
        InvalidOption: something is missing, or cannot be used.
    """
    if certificate is not None and key is not None:
        return server_tls(certificate, key, client_ca)
    if (certificate, key, client_ca) != (None, None, None):
        raise InvalidOption("--tls-cert and --tls-key belong together, and --tls-client-ca needs both")
    return None


async def _serve(publisher: Publisher, console: Console | None) -> None:
    stop = asyncio.Event()

    def ask() -> None:
        _log.info("stopping")
        stop.set()

    with stops.asking(ask, None, FORCE_S):
        _log.info("serving %s at %s", publisher.extent, ", ".join(publisher.addresses))
        if console is None:
            await publisher.run(stop)
            return
        with Live(draw(publisher), console=console, auto_refresh=False, transient=True) as live:
            running = asyncio.create_task(publisher.run(stop))
            while not running.done():
                await asyncio.wait({running}, timeout=DRAW_S)
                live.update(draw(publisher), refresh=True)
            await running
