"""The observer that writes log lines: each connection and failure, and progress now and then.

Each record carries, beside its line, the attributes `event`, the name of what has happened, and `fields`, a dict of its
facts, for whoever writes structured logs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from consumer.core.errors import HandlerFailed
from consumer.core.words import one_line
from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    Failed,
    FailedAtStop,
    Observation,
    Retrying,
    Stalled,
    logger,
)

PROGRESS_INTERVAL_S = 10.0
"""How often there is a line about progress, at most."""


class LogSink:
    """An observer for one consumer. It writes to the logger `consumer` unless it is given another."""

    def __init__(self, log: logging.Logger = logger) -> None:
        self._log = log
        self._since: float | None = None  # from when on it counts, None before the first commit
        self._acked = 0

    def __call__(self, observation: Observation) -> None:
        """Write about one observation."""
        facts: Mapping[str, object]
        match observation:
            case Connected(address, last):
                text = f"connected to {address}, resuming after {last}"
                self._write(logging.INFO, "connected", text, {"address": address, "last": last})
            case Disconnected(address, reason, is_doubtful):
                level = logging.WARNING if is_doubtful else logging.INFO
                facts = {"address": address, "reason": reason}
                self._write(level, "disconnected", f"{address} {reason}", facts)
            case Retrying(error, wait_s):
                reason = reason_of(error)
                text = f"{reason}; trying again in {wait_s:.1f} s"
                facts = {"error": type(error).__name__, "reason": reason, "wait_s": wait_s}
                is_debugging = self._log.isEnabledFor(logging.DEBUG)  # as a rule nobody's code is at fault
                self._write(logging.WARNING, "retrying", text, facts, error if is_debugging else None)
            case Failed(HandlerFailed() as error):
                facts = {"seq": error.seq, "reason": error.reason}
                self._write(logging.ERROR, "handler_failed", str(error), facts, error.__cause__)
            case Failed():
                pass  # `run` raises it, and whoever has called that reports it
            case FailedAtStop(error):
                reason = reason_of(error)
                text = f"what was under way at the stop failed: {reason}"
                facts = {"error": type(error).__name__, "reason": reason}
                self._write(logging.WARNING, "failed_at_stop", text, facts)
            case Stalled(seconds):
                text = f"neither the database nor the handler has answered for {seconds:.0f} s"
                self._write(logging.WARNING, "stalled", text, {"seconds": seconds})
            case Committed():
                self._count(observation)

    def _count(self, committed: Committed) -> None:
        """Count what was acknowledged, duplicates included: of two consumers of one store both are at work."""
        now = time.monotonic()
        if self._since is None:
            self._since = now - committed.seconds
        self._acked += committed.acked
        elapsed_s = now - self._since
        if elapsed_s < PROGRESS_INTERVAL_S:
            return
        rate = self._acked / elapsed_s
        text = f"at event {committed.last}, {rate:.0f} events/s"
        facts = {"last": committed.last, "total": committed.total, "events_per_s": round(rate, 1)}
        self._write(logging.INFO, "progress", text, facts)
        self._since, self._acked = now, 0

    def _write(
        self, level: int, event: str, text: str, fields: Mapping[str, object], cause: BaseException | None = None
    ) -> None:
        self._log.log(level, "%s", text, exc_info=cause, extra={"event": event, "fields": dict(fields)})


def reason_of(error: BaseException) -> str:
    """Say in one line what an error is about, of a database's error only its own words."""
    cause = getattr(error, "orig", None)  # SQLAlchemy's, which adds the statement and a link
    if cause is not None:
        return f"the database: {one_line(cause) or type(cause).__name__}"
    return one_line(error) or type(error).__name__
