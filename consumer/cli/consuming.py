"""What `consumer run` does: it loads the handler, makes the store ready, and consumes until it is stopped."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from consumer.cli import stops
from consumer.cli.live import Shown
from consumer.cli.locks import wait_for_lock
from consumer.cli.place import Place
from consumer.core.errors import InvalidOption, StoppedByForce
from consumer.observe.observations import logger
from consumer.runtime.consumer import Consumer
from consumer.sources.tcp.tls import TLS
from consumer.store import migrate
from consumer.store.databases.url import parse_url
from consumer.store.handlers import Handler
from consumer.store.transaction import Store

FORCE_S = 5.0
"""How long after the stop timeout the process leaves in any case."""


def consume(url: str, place: Place, handler: str | None, shown: Shown, *, stop_timeout: float, **options: Any) -> None:
    """Consume, until stopped or at an end.

    Args:
        url: the publisher.
        place: the store.
        handler: the name of one, `PACKAGE.MODULE:FUNCTION`.
        shown: what the user is shown.
        stop_timeout: as for `Consumer`.
        options: further ones, for `Consumer`.

    Raises:
        InvalidOption: something that was typed cannot be used.
        Exception: what `Consumer.run` and `migrate.upgrade` raise.
    """
    with Store(place.db, prefix=place.prefix, schema=place.schema) as store:
        function = None if handler is None else load_handler(handler)
        try:
            consumer = Consumer(url, store, function, stop_timeout=stop_timeout, observers=shown.observers, **options)
        except (TypeError, ValueError) as error:
            raise InvalidOption(str(error)) from error
        with place.named():
            if parse_url(place.db).get_backend_name() == "sqlite":
                upgrade = partial(migrate.upgrade, prefix=place.prefix, schema=place.schema)
                wait_for_lock(place.db, upgrade, logger.warning, for_ever=True)
            asyncio.run(_run_until_stopped(consumer, shown.leave, stop_timeout + FORCE_S))


async def _run_until_stopped(consumer: Consumer, leave: Callable[[Exception], int], force_s: float) -> None:
    with stops.asking(consumer.stop, consumer.stop, force_s):
        try:
            await consumer.run()
        except StoppedByForce as error:
            # The worker thread may never return: nothing may wait for it, or close the store under it.
            os._exit(leave(error))
    at = "before the cursor was known" if consumer.last is None else f"at event {consumer.last}"
    logger.info("ended %s", at, extra={"event": "ended", "fields": {"last": consumer.last}})


def load_handler(name: str) -> Handler:
    """Import a handler, from the working folder first.

    Raises:
        InvalidOption: that cannot be done.
    """
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Handler = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # a user's module raises what it likes, or leaves
        reason = f"{type(error).__name__}: {error}"
        raise InvalidOption(f"the handler {name!r} cannot be loaded: {reason}; give PACKAGE.MODULE:FUNCTION") from error
    return found


def tls_of(ca: str | None, cert: str | None, key: str | None, name: str | None) -> TLS:
    """Put together what was typed about TLS.

    Raises:
        InvalidOption: a certificate came without its key, or a key without its certificate.
    """
    if (cert is None and key is not None) or (cert is not None and key is None and not _holds_key(cert)):
        raise InvalidOption("--tls-cert and --tls-key belong together")
    return TLS(ca, cert, key, name)


def _holds_key(cert: str) -> bool:
    """Whether a certificate's file has its key in it too. One that cannot be read is for `TLS` to complain of."""
    try:
        return b"PRIVATE KEY-----" in Path(cert).read_bytes()
    except (OSError, ValueError):
        return True
