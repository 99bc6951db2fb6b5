"""`consumer run`: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.logs import LogFormat
from consumer.cli.options import DEFAULT_DATABASE, Database
from consumer.runtime.defaults import BATCH_EVENTS, STOP_TIMEOUT_S, TIMEOUT_S


def run(
    url: Annotated[
        str, typer.Argument(envvar="CONSUMER_URL", metavar="URL", help="tcp://HOST:PORT or tls://HOST:PORT")
    ],
    db: Database = DEFAULT_DATABASE,
    handler: Annotated[
        str | None,
        typer.Option(
            envvar="CONSUMER_HANDLER", metavar="PKG.MOD:FUNC", help="Called with each batch, in its transaction."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(envvar="CONSUMER_TIMEOUT", metavar="S", help="The longest wait for the publisher.")
    ] = TIMEOUT_S,
    stop_timeout: Annotated[
        float, typer.Option(envvar="CONSUMER_STOP_TIMEOUT", metavar="S", help="How long a stop waits for the commit.")
    ] = STOP_TIMEOUT_S,
    batch: Annotated[
        int, typer.Option(envvar="CONSUMER_BATCH", min=1, help="The most events of one transaction.")
    ] = BATCH_EVENTS,
    once: Annotated[bool, typer.Option("--once", help="End when the publisher closes.")] = False,
    max_attempts: Annotated[
        int | None,
        typer.Option(envvar="CONSUMER_MAX_ATTEMPTS", min=1, help="How often in a row connecting may fail. [no limit]"),
    ] = None,
    tls_ca: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_TLS_CA", metavar="F", help="Certificates to trust, instead of the system's."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(envvar="CONSUMER_TLS_CERT", metavar="F", help="Our certificate.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option(envvar="CONSUMER_TLS_KEY", metavar="F", help="Its key.")] = None,
    tls_name: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_TLS_NAME", metavar="H", help="The name in the publisher's certificate."),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="CONSUMER_LOG_FORMAT", help="How log lines are written.")
    ] = LogFormat.TEXT,
) -> None:
    """Consume a publisher's events into a store, each exactly once, until stopped by SIGTERM or Ctrl-C."""
    from consumer.cli.working import consume  # noqa: PLC0415 - it loads all that is needed to consume
    from consumer.sources.tcp.tls import TLS  # noqa: PLC0415 - the same

    consume(
        url,
        db,
        handler,
        TLS(tls_ca, tls_cert, tls_key, tls_name),
        log_format,
        timeout=timeout,
        stop_timeout=stop_timeout,
        batch=batch,
        once=once,
        max_attempts=max_attempts,
    )
