"""What a running consumer tells: hooks that get one frozen object, and the sink that writes log lines.

A hook is any callable that takes an `Observation`. It is called in the event loop, must be quick, and cannot disturb
the consumer: what it raises is logged and otherwise ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

logger = logging.getLogger("consumer")

PROGRESS_INTERVAL_S = 10.0
"""How often the log sink writes a line about progress, at most."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The publisher was reached and RESUME was said.

    Attributes:
        address: the publisher's.
        last: the cursor that was said.
    """

    address: str
    last: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch was committed, and its acknowledgements were handed to the connection.

    Attributes:
        new: how many of its events were new.
        acked: how many were acknowledged, duplicates included.
        last: the cursor afterwards.
        total: the total afterwards.
        seconds: how long the database took.
    """

    new: int
    acked: int
    last: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection ended without an error: the publisher closed it, or was silent and is asked anew.

    Attributes:
        address: the publisher's.
        reason: which of the two.
        is_doubtful: the publisher has said nothing at all, so that something else may listen there.
    """

    address: str
    reason: str
    is_doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Retrying:
    """Something failed that passes, or may.

    Attributes:
        error: what failed.
        wait_s: how long until the next try, in seconds.
    """

    error: Exception
    wait_s: float


@dataclass(frozen=True, slots=True)
class Stalled:
    """A call to the database, or the handler in it, does not return. It is waited for all the same.

    Attributes:
        seconds: for how long, at least.
    """

    seconds: float


Observation: TypeAlias = Connected | Committed | Disconnected | Retrying | Stalled
Observer: TypeAlias = Callable[[Observation], None]
Observed = TypeVar("Observed")


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
                self._log.info("connected to %s, resuming after %d", address, last)
            case Disconnected(address, reason, is_doubtful):
                self._log.log(logging.WARNING if is_doubtful else logging.INFO, "%s: %s", address, reason)
            case Retrying(error, wait_s):
                cause = getattr(error, "orig", None) or error  # SQLAlchemy adds its own words to the database's
                reason = " ".join(str(cause).split()) or type(error).__name__
                self._log.warning("%s; trying again in %.1f s", reason, wait_s)
            case Stalled(seconds):
                self._log.warning("neither the database nor the handler has answered for %.0f s", seconds)
            case Committed():
                self._progress(observation)

    def _progress(self, committed: Committed) -> None:
        self._new += committed.new
        elapsed_s = time.monotonic() - self._since
        if elapsed_s >= PROGRESS_INTERVAL_S:
            self._log.info("at event %d, %.0f events/s", committed.last, self._new / elapsed_s)
            self._since, self._new = time.monotonic(), 0


def notify(observers: tuple[Callable[[Observed], None], ...], observation: Observed) -> None:
    """Tell every observer; none can disturb the others or who is observed."""
    for observer in observers:
        try:
            observer(observation)
        except Exception:
            logger.exception("an observer failed")
