"""The sink that writes log lines: an observer of each connection and failure, and of progress now and then."""

from __future__ import annotations

import dataclasses
import logging
import time

from consumer.core.words import one_line
from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    Observation,
    Retrying,
    Stalled,
    logger,
)

PROGRESS_INTERVAL_S = 10.0
"""How often the log sink writes a line about progress, at most."""


class LogSink:
    """An observer that writes log lines: each connection and failure, and progress now and then."""

    def __init__(self, log: logging.Logger = logger) -> None:
        self._log = log
        self._since = time.monotonic()
        self._new = 0

    def __call__(self, observation: Observation) -> None:
        """Write about one observation."""
        match observation:
            case Connected(address, last):
                self._write(logging.INFO, observation, "connected to %s, resuming after %d", address, last)
            case Disconnected(address, reason, is_doubtful):
                self._write(logging.WARNING if is_doubtful else logging.INFO, observation, "%s: %s", address, reason)
            case Retrying(error, wait_s):
                cause = getattr(error, "orig", None) or error  # SQLAlchemy adds its own words to the database's
                reason = one_line(cause) or type(error).__name__
                self._write(logging.WARNING, observation, "%s; trying again in %.1f s", reason, wait_s)
            case Stalled(seconds):
                text = "neither the database nor the handler has answered for %.0f s"
                self._write(logging.WARNING, observation, text, seconds)
            case Committed():
                self._progress(observation)

    def _progress(self, committed: Committed) -> None:
        self._new += committed.new
        elapsed_s = time.monotonic() - self._since
        if elapsed_s >= PROGRESS_INTERVAL_S:
            self._write(logging.INFO, committed, "at event %d, %.0f events/s", committed.last, self._new / elapsed_s)
            self._since, self._new = time.monotonic(), 0

    def _write(self, level: int, observation: Observation, text: str, *values: object) -> None:
        """Write a line. Its record carries the observation too, for formatters that write fields."""
        fields = {field.name: _plain(getattr(observation, field.name)) for field in dataclasses.fields(observation)}
        self._log.log(level, text, *values, extra={"event": type(observation).__name__.lower(), "fields": fields})


def _plain(value: object) -> object:
    return one_line(value) if isinstance(value, BaseException) else value
