"""What a soak tells: progress while it goes on, a table in the end."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from consumer.core.points import Point
from consumer.testing import Moment

SAY_S = 10.0
"""Without a terminal: how often a line is written."""

SHOWN_MAX = 20
"""How many differences are shown; one is enough to look for its reason."""

_ORDER = list(Point)
_IN_TRANSACTION = range(_ORDER.index(Point.AFTER_LEDGER), _ORDER.index(Point.AFTER_COMMIT))
_BEFORE_ACK = range(_ORDER.index(Point.AFTER_COMMIT), _ORDER.index(Point.AFTER_ACK))


class Where(StrEnum):
    """Where the consumer was when somebody was killed."""

    TRANSACTION = "in a transaction"
    BEFORE_ACK = "commit, no ACK"
    ELSEWHERE = "elsewhere"

    @classmethod
    def of(cls, place: int) -> Self:
        """Tell by the last point that it has passed."""
        if place in _IN_TRANSACTION:
            return cls.TRANSACTION
        return cls.BEFORE_ACK if place in _BEFORE_ACK else cls.ELSEWHERE


@dataclass
class Result:
    """What has happened.

    Attributes:
        kills: who or at which crash point, and where the consumer was.
        starts: how many processes were started.
        faults: what the proxy did.
        events: how many there are in the journal.
        advances: how many RESUMEs said more than any before.
        seconds: how long it took.
        differences: what should not be.
    """

    kills: Counter[tuple[str, Where]] = field(default_factory=Counter)
    starts: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    events: int = 0
    advances: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


class Watch:
    """Shows how far it is: a bar on a terminal, lines elsewhere."""

    def __init__(self, console: Console, title: str, kills: int) -> None:
        self._console = console
        self._title = title
        self._kills = kills
        self._said = time.monotonic()
        columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, auto_refresh=False)
        self._task = self._progress.add_task(title, total=kills, now="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def show(self, done: int, event: int, now: str) -> None:
        """Tell what has just happened."""
        if self._console.is_terminal:  # never from a thread of Rich's own: this process forks
            self._progress.update(self._task, completed=done, now=f"event {event}, {now}", refresh=True)
        elif time.monotonic() - self._said >= SAY_S or done == self._kills:
            self._console.print(f"{self._title}: {done} of {self._kills} kills, event {event}", highlight=False)
            self._said = time.monotonic()


def show(console: Console, title: str, seed: int, result: Result) -> None:
    """Draw the final tables, and what is different."""
    table = Table(title=f"{title}, seed {seed}")
    columns = tuple(Where)
    for name in ("killed", *columns, "kills"):
        table.add_column(name, justify="left" if name == "killed" else "right")
    kinds = sorted({kind for kind, _ in result.kills}, key=_rank)
    for kind in kinds:
        counts = [result.kills[kind, where] for where in columns]
        table.add_row(kind, *map(str, [*counts, sum(counts)]))
    sums = [sum(result.kills[kind, where] for kind in kinds) for where in columns]
    table.add_section()
    table.add_row("all", *map(str, [*sums, sum(sums)]))
    console.print(table)
    faults = ", ".join(f"{count} {name}" for name, count in result.faults.items())
    console.print(
        f"{result.starts} starts; {faults}; {result.events} events, {result.advances} RESUMEs with new commits, "
        f"{result.events / max(result.seconds, 0.001):,.0f} events/s; {result.seconds:.0f} s; "
        f"differences: {len(result.differences)}",
        highlight=False,
    )
    for difference in result.differences[:SHOWN_MAX]:
        console.print(f"  {difference}", highlight=False, markup=False, soft_wrap=True)


def _rank(kind: str) -> tuple[int, str]:
    order = [str(point) for point in (*Point, *Moment)]
    return (order.index(kind) if kind in order else len(order), kind)
