"""`consumer run`: consume a publisher's events into a store."""

# ruff: noqa: PLC0415 - what a command works with is loaded when it runs

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.options import (
    DEFAULT_DATABASE,
    Database,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Prefix,
    Schema,
)
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
        float, typer.Option(envvar="CONSUMER_TIMEOUT", metavar="SECONDS", help="The longest wait for the publisher.")
    ] = TIMEOUT_S,
    stop_timeout: Annotated[
        float,
        typer.Option(envvar="CONSUMER_STOP_TIMEOUT", metavar="SECONDS", help="How long a stop waits for the commit."),
    ] = STOP_TIMEOUT_S,
    batch: Annotated[
        int, typer.Option(envvar="CONSUMER_BATCH", min=1, metavar="N", help="The most events of one transaction.")
    ] = BATCH_EVENTS,
    once: Annotated[bool, typer.Option("--once", help="End when the publisher closes.")] = False,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            envvar="CONSUMER_MAX_ATTEMPTS",
            min=1,
            metavar="N",
            help="How often in a row connecting may fail. [no limit]",
        ),
    ] = None,
    prefix: Prefix = "",
    schema: Schema = None,
    tls_ca: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_TLS_CA", metavar="FILE", help="Certificates to trust, instead of the system's."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(envvar="CONSUMER_TLS_CERT", metavar="FILE", help="Our certificate.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option(envvar="CONSUMER_TLS_KEY", metavar="FILE", help="Its key.")] = None,
    tls_name: Annotated[
        str | None,
        typer.Option(envvar="CONSUMER_TLS_NAME", metavar="HOST", help="The name in the publisher's certificate."),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Consume a publisher's events into a store, each once.

    Goes on until it is stopped by SIGTERM or Ctrl-C.
    """
    from consumer.cli import consuming, live
    from consumer.cli.place import Place

    with live.shown(log_format, log_level) as shown:
        consuming.consume(
            url,
            Place(db, prefix, schema),
            handler,
            shown,
            timeout=timeout,
            stop_timeout=stop_timeout,
            batch=batch,
            once=once,
            max_attempts=max_attempts,
            tls=consuming.tls_of(tls_ca, tls_cert, tls_key, tls_name),
        )
