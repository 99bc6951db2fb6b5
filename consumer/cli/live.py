"""What `consumer run` shows while it works: one live line on a terminal, log lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.text import Text

from consumer.cli.logs import logged, write_end
from consumer.cli.options import LogFormat, LogLevel
from consumer.observe.log import LogSink
from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    Failed,
    Observation,
    Observer,
    Retrying,
    Stalled,
)

REFRESH_PER_S = 4
"""How often the live line is drawn."""

RATE_WINDOW_S = 5.0
"""Over how long the rate is taken, at most: over less where less time has passed since the first commit began."""


class LiveLine:
    """An observer that keeps what the live line shows: state, cursor, total, rate and reconnects."""

    def __init__(self) -> None:
        self._state = "connecting"
        self._last: int | None = None
        self._total: int | None = None
        self._connections = 0
        self._began: float | None = None  # when the first commit began
        self._recent: deque[tuple[float, int]] = deque()  # when how many events were acknowledged

    def __call__(self, observation: Observation) -> None:
        """Take in one observation."""
        match observation:
            case Connected(last=last):
                self._state, self._last = "connected", last
                self._connections += 1
            case Committed(acked=acked, last=last, total=total, seconds=seconds):
                self._state, self._last, self._total = "connected", last, total
                now = time.monotonic()
                self._began = now - seconds if self._began is None else self._began
                self._recent.append((now, acked))
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
        """Events acknowledged in a second, duplicates included: of two consumers of one store both are at work."""
        now = time.monotonic()
        while self._recent and now - self._recent[0][0] >= RATE_WINDOW_S:
            self._recent.popleft()
        if self._began is None or not self._recent:
            return 0.0
        return sum(acked for _, acked in self._recent) / min(max(now - self._began, 1 / REFRESH_PER_S), RATE_WINDOW_S)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a user is shown of a consumer at work.

    Attributes:
        observers: those that show it.
        leave: restores the terminal and writes why the command ends, where the process is about to leave by force.
            Gives the exit code.
    """

    observers: list[Observer]
    leave: Callable[[Exception], int]


def _all_but_the_end(sink: Observer) -> Observer:
    """Have an observer told of everything but the error that ends the consumer, which the command says by itself."""

    def observe(observation: Observation) -> None:
        if not isinstance(observation, Failed):
            sink(observation)

    return observe


@contextmanager
def shown(log_format: LogFormat, log_level: LogLevel) -> Iterator[Shown]:
    """Show a consumer at work, on standard error: log lines, and a live line below them on a terminal."""
    console = Console(stderr=True, highlight=False)
    drawn = console if console.is_terminal and log_format is LogFormat.TEXT else None
    with logged(drawn, log_format, log_level), ExitStack() as screen:

        def leave(error: Exception) -> int:
            screen.close()
            return write_end(error, log_format)

        observers: list[Observer] = [_all_but_the_end(LogSink())]
        if drawn is not None:
            line = LiveLine()
            observers.append(line)
            screen.enter_context(Live(line, console=drawn, refresh_per_second=REFRESH_PER_S))
        yield Shown(observers, leave)
