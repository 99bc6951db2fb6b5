"""What `consumer run` shows while it works: one live line on a terminal, log lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from consumer.cli import logs
from consumer.cli.logs import LogFormat
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


@contextmanager
def shown(log_format: LogFormat) -> Iterator[list[Observer]]:
    """Show a consumer at work, on standard error. Gives the observers that do it."""
    console = Console(stderr=True)
    if console.is_terminal and log_format is LogFormat.TEXT:
        line = LiveLine()
        drawn = Live(line, console=console, refresh_per_second=REFRESH_PER_S)
        with drawn, logs.written_by(RichHandler(console=console, show_path=False)):
            yield [line, LogSink()]
        return
    with logs.written(log_format):
        yield [LogSink()]
