"""What `consumer run` shows while it works: one live line on a terminal, log lines elsewhere."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from rich.console import Console
from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    LogSink,
    Observation,
    Observer,
    Retrying,
    Stalled,
)

REFRESH_PER_S = 4
"""How often the live line is drawn."""

RATE_WINDOW_S = 5.0
"""Over how long the rate is taken."""


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


class LiveLine:
    """An observer that keeps what the live line shows: state, cursor, total, rate and reconnects."""

    def __init__(self) -> None:
        self._state = "connecting"
        self._last: int | None = None
        self._total: int | None = None
        self._connections = 0
        self._recent: deque[tuple[float, int]] = deque()

    def __call__(self, observation: Observation) -> None:
        """Take in one observation."""
        match observation:
            case Connected(last=last):
                self._state, self._last = "connected", last
                self._connections += 1
            case Committed(new=new, last=last, total=total):
                self._state, self._last, self._total = "connected", last, total
                self._recent.append((time.monotonic(), new))
            case Disconnected():
                self._state = "reconnecting"
            case Retrying():
                self._state = "waiting"
            case Stalled():
                self._state = "stalled"

    def __rich__(self) -> Text:
        """Draw the line."""
        parts = [
            f"{self._state:<12}",
            f"last {'-' if self._last is None else self._last}",
            f"total {'-' if self._total is None else self._total}",
            f"{self._rate():,.0f} events/s",
            f"{max(0, self._connections - 1)} reconnects",
        ]
        return Text("  ".join(parts), no_wrap=True, overflow="ellipsis")

    def _rate(self) -> float:
        now = time.monotonic()
        while self._recent and now - self._recent[0][0] > RATE_WINDOW_S:
            self._recent.popleft()
        return sum(new for _, new in self._recent) / RATE_WINDOW_S


class _JSONLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one JSON object."""
        line = {"time": self.formatTime(record), "level": record.levelname, "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


@contextmanager
def shown(log_format: LogFormat) -> Iterator[list[Observer]]:
    """Show a consumer at work, on standard error. Gives the observers that do it."""
    console = Console(stderr=True)
    if console.is_terminal and log_format is LogFormat.TEXT:
        line = LiveLine()
        drawn = Live(line, console=console, refresh_per_second=REFRESH_PER_S)
        with drawn, _logging(RichHandler(console=console, show_path=False)):
            yield [line, LogSink()]
        return
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_JSONLines() if log_format is LogFormat.JSON else plain)
    with _logging(handler):
        yield [LogSink()]


@contextmanager
def _logging(handler: logging.Handler) -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("consumer")
    root.addHandler(handler)
    ours.setLevel(logging.INFO)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # every failure has a line of ours already
    try:
        yield
    finally:
        root.removeHandler(handler)
