"""The command: what is typed, what is printed, and the exit code.

An error is one line on standard error that says what to do, never a traceback. What each error means is in `exits.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from consumer.cli import exits, live
from consumer.cli.demo import run_demo
from consumer.cli.live import LogFormat
from consumer.cli.output import abandon, complain, watched_stdout, write_any_text
from consumer.cli.publisher import journal_app, serve
from consumer.core.errors import DatabaseUnusable, InvalidOption, NotReady, StoppedByForce
from consumer.core.words import counted, why
from consumer.observe.observations import logger
from consumer.runtime.consumer import BATCH_EVENTS, STOP_TIMEOUT_S, TIMEOUT_S, Consumer
from consumer.runtime.supervision import backoff
from consumer.sources.tcp.tls import TLS
from consumer.store import migrate
from consumer.store.databases.choice import is_busy, is_database_error
from consumer.store.databases.url import parse_url, show_url
from consumer.store.handlers import Handler
from consumer.store.transaction import Store

app = typer.Typer(
    name="consumer",
    help="A durable, resumable consumer of one sequenced event stream: every event changes the database exactly once.",
    add_completion=False,
    rich_markup_mode=None,
)

Database = Annotated[
    str,
    typer.Option("--db", envvar="CONSUMER_DB", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
]
FORCE_S = 5.0
"""How long after `--stop-timeout` the process leaves in any case."""

DEFAULT_DATABASE = "sqlite:///consumer.db"


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        typer.echo(f"consumer {metadata.version('resumable-consumer')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo() -> None:
    """Watch a consumer being killed between commit and ACK, and nothing counted twice."""
    if not run_demo(Console()):
        raise typer.Exit(exits.UNEXPECTED)


@app.command()
def upgrade(
    db: Database = DEFAULT_DATABASE,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead of running it.")] = False,
) -> None:
    """Create the store, or bring it to this version; a store that has no version recorded is adopted with its data."""
    if sql:
        typer.echo(migrate.upgrade_sql(db), nl=False)
    else:
        with _naming(db):
            migrate.upgrade(db)
        typer.echo(f"the store is at revision {migrate.head()}")


@app.command()
def status(
    db: Database = DEFAULT_DATABASE,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a store's cursor, total and version. Exit code 16 where there is none or it is not at this version."""
    with _naming(db):
        found = migrate.status(db)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"last {found.last}, total {found.total}, {counted(found.ledger_rows, 'ledger row')}")
        typer.echo(f"revision {found.revision or 'none recorded'}, head {found.head}")
    if found.revision != found.head:
        raise NotReady(
            "the store is not at this version: run consumer upgrade with the same --db, or the newer version"
        )


app.command()(serve)
app.add_typer(journal_app, name="journal")


@app.command()
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
    with Store(db) as store, ExitStack() as screen:
        observers = screen.enter_context(live.shown(log_format))
        try:
            consumer = Consumer(
                url,
                store,
                None if handler is None else _load_handler(handler),
                timeout=timeout,
                stop_timeout=stop_timeout,
                batch=batch,
                once=once,
                max_attempts=max_attempts,
                tls=TLS(tls_ca, tls_cert, tls_key, tls_name),
                observers=observers,
            )
        except (TypeError, ValueError) as error:
            raise InvalidOption(str(error)) from error
        with _naming(db):
            if parse_url(db).get_backend_name() == "sqlite":
                _upgrade_when_free(db)
            asyncio.run(_run_until_stopped(consumer, screen, stop_timeout + FORCE_S))


def _upgrade_when_free(db: str) -> None:
    """Bring a SQLite store to this version; another process's lock is waited for, as it is later on."""
    for wait_s in backoff():
        try:
            return migrate.upgrade(db)
        except Exception as error:
            if not is_busy(error):
                raise
            logger.warning("%s is locked by another process; trying again in %.1f s", show_url(parse_url(db)), wait_s)
            time.sleep(wait_s)
    return None


@contextmanager
def _naming(db: str) -> Iterator[None]:
    """Say in an error of the database which one it was."""
    try:
        yield
    except Exception as error:
        if not is_database_error(error):
            raise
        raise DatabaseUnusable(show_url(parse_url(db)), exits.reason(error)) from error


async def _run_until_stopped(consumer: Consumer, screen: ExitStack, force_s: float) -> None:
    def stop() -> None:
        consumer.stop()
        # Something outside of our reach may hold up the end, such as the system's look-up of a host's name.
        force = threading.Timer(force_s, os._exit, [exits.EXIT_CODES[StoppedByForce]])
        force.daemon = True
        force.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await consumer.run()
        logger.info("ended at event %s", consumer.last)
    except StoppedByForce as error:
        # The worker thread may never return: nothing may wait for it, or close the store under it.
        screen.close()
        complain(f"consumer: {exits.explain(error)}")
        os._exit(exits.exit_code(error))


def _load_handler(name: str) -> Handler:
    """Import a handler, from the working folder first."""
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Handler = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # a user's module raises what it likes, or leaves
        reason = f"{type(error).__name__}: {error}"
        raise InvalidOption(f"the handler {name!r} cannot be loaded: {reason}; give PACKAGE.MODULE:FUNCTION") from error
    return found


def main() -> NoReturn:
    """Run the command and leave with its exit code."""
    complaint: str | None = None
    write_any_text()
    with watched_stdout() as output:
        try:
            code = app(standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - whatever it was, it ends in one line and an exit code
            code, complaint = exits.exit_code(error), exits.explain(error)
    if output is not None and output.failure is not None:
        abandon(sys.stdout)
        if code in (0, None, exits.UNEXPECTED):
            code, complaint = exits.UNEXPECTED, f"standard output cannot be written: {why(output.failure)}"
    if complaint is not None:
        complain(f"consumer: {complaint}")
    sys.exit(code)
