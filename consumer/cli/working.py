"""`consumer run` at work: a handler is loaded, a store opened, a consumer run until it ends or is stopped."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from consumer.cli import exits, live
from consumer.cli.database import naming
from consumer.cli.logs import LogFormat
from consumer.cli.output import complain
from consumer.core.errors import InvalidOption, StoppedByForce
from consumer.observe.observations import logger
from consumer.runtime.consumer import Consumer
from consumer.runtime.supervision import backoff
from consumer.sources.tcp.tls import TLS
from consumer.store import migrate
from consumer.store.databases.choice import is_busy
from consumer.store.databases.url import parse_url, show_url
from consumer.store.handlers import Handler
from consumer.store.transaction import Store

FORCE_S = 5.0
"""How long after `--stop-timeout` the process leaves in any case."""


def consume(url: str, db: str, handler: str | None, tls: TLS, log_format: LogFormat, **options: Any) -> None:
    """Consume until the publisher closes, or a signal stops it."""
    with Store(db) as store, ExitStack() as screen:
        observers = screen.enter_context(live.shown(log_format))
        try:
            consumer = Consumer(
                url,
                store,
                None if handler is None else _load_handler(handler),
                tls=tls,
                observers=observers,
                **options,
            )
        except (TypeError, ValueError) as error:
            raise InvalidOption(str(error)) from error
        with naming(db):
            if parse_url(db).get_backend_name() == "sqlite":
                _upgrade_when_free(db)
            asyncio.run(_run_until_stopped(consumer, screen, options["stop_timeout"] + FORCE_S))


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


async def _run_until_stopped(consumer: Consumer, screen: ExitStack, force_s: float) -> None:
    def stop() -> None:
        consumer.stop()
        # Something outside of our reach may hold up the end, such as the system's look-up of a host's name.
        force = threading.Timer(force_s, os._exit, [exits.STOPPED_BY_FORCE])
        force.daemon = True
        force.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await consumer.run()
        if consumer.last is not None:
            logger.info("ended at event %d", consumer.last)
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
