"""What `consumer status` and `consumer history` show: a store's events and streams, as lines, JSON or a live table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from consumer.cli import lag as sources
from consumer.cli.locks import wait_for_lock
from consumer.cli.output import complain, printable
from consumer.cli.place import Place
from consumer.core.errors import Behind, InvalidOption, NotReady
from consumer.core.starts import written_time
from consumer.core.streams import Stream, StreamState
from consumer.core.words import counted
from consumer.store.overview import Overview, history, overview
from consumer.store.streams import written_checksum

Result = TypeVar("Result")

WATCH_S = 2.0
"""How often a live table is drawn anew."""

COLUMNS = ("STREAM", "STATE", "LAST", "THROUGH", "RECORDS", "HEAD", "LAG", "COMMITTED", "HELD BY")
NUMBERS = {"LAST", "THROUGH", "RECORDS", "HEAD", "LAG"}

SHOWN_FAILURES = 5
"""How many streams a message names at most."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether sources are to be asked for what they have, and which."""

    lag: bool = False
    url: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A store and, where they were asked, the last numbers that its sources have."""

    store: Overview
    heads: Mapping[str, int] = field(default_factory=dict)

    def lag(self, stream: Stream) -> int | None:
        """Give how far a stream is behind, None where that is not known."""
        head = self.heads.get(stream.name)
        return None if head is None else max(0, head - stream.cursor.through)

    def idle_s(self, stream: Stream) -> float | None:
        """Give how long ago the last commit of a stream was, in seconds; None where there was none."""
        return None if stream.committed_ms is None else max(0, self.store.seen_ms - stream.committed_ms) / 1000


def show(place: Place, asked: Asked, *, as_json: bool, max_lag: int | None, max_idle_s: float | None) -> None:
    """Print a store once.

    Raises:
        NotReady: there is none, or it is not at this version.
        Behind: a stream is halted, or further behind or longer idle than is allowed.
    """
    view = _look(place, asked)
    if as_json:
        typer.echo(json.dumps(_as_json(view)))
    else:
        for line in _lines(view):
            typer.echo(printable(line))
    status = view.store.status
    if status.revision != status.head:
        raise NotReady(
            f"the store is not at this version: run {place.command('upgrade')}, or use the version that made it"
        )
    if max_lag is not None or max_idle_s is not None:
        _check(view, max_lag, max_idle_s)


def watch(place: Place, asked: Asked) -> None:
    """Draw a store again and again, until a signal ends it.

    Raises:
        InvalidOption: there is no terminal to draw on.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        raise InvalidOption("--watch draws on a terminal, and standard output is none")
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            live.update(_table(_look(place, asked), console.height), refresh=True)
            time.sleep(WATCH_S)


def show_history(place: Place, stream: str | None, *, as_json: bool) -> None:
    """Print what was done by hand."""
    found = [one for one in _read(place, history) if stream in (None, one.stream)]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found]))
        return
    for one in found:
        moved = "" if one.from_through == one.to_through else f" from {one.from_through} to {one.to_through}"
        by = f"by {one.made_by}: {one.reason}"
        typer.echo(printable(f"{_time(one.made_ms)}  {one.stream}  #{one.number}  {one.what}{moved}  {by}"))


def _read(place: Place, read: Callable[..., Result]) -> Result:
    """Read from a store; a SQLite file that another process has locked is waited for."""
    with place.named():
        return wait_for_lock(
            place.db, partial(read, prefix=place.prefix, schema=place.schema), complain, for_ever=False
        )


def _look(place: Place, asked: Asked) -> View:
    found = _read(place, overview)
    if not asked.lag or not found.streams:
        return View(found)
    return View(found, sources.heads([stream.name for stream in found.streams], asked.url, asked.name))


def _check(view: View, max_lag: int | None, max_idle_s: float | None) -> None:
    failing = list(_failing(view, max_lag, max_idle_s))
    if failing:
        more = f" and {len(failing) - SHOWN_FAILURES} more" if len(failing) > SHOWN_FAILURES else ""
        raise Behind("; ".join(failing[:SHOWN_FAILURES]) + more)


def _failing(view: View, max_lag: int | None, max_idle_s: float | None) -> Iterator[str]:
    for stream in view.store.streams:
        behind, idle_s = view.lag(stream), view.idle_s(stream)
        if stream.state is StreamState.HALTED:
            yield f"stream {stream.name} is halted: {stream.halted_error}"
        elif max_lag is not None and behind is None:
            yield f"stream {stream.name} is not at its source, so nobody knows how far it is behind"
        elif max_lag is not None and behind is not None and behind > max_lag:
            yield f"stream {stream.name} is {behind} behind, more than {max_lag}"
        elif max_idle_s is not None and (idle_s is None or idle_s > max_idle_s):
            ago = "never" if idle_s is None else f"{idle_s:.0f} s ago"
            yield f"stream {stream.name} was committed to {ago}, more than {max_idle_s:g} s"


def _as_json(view: View) -> dict[str, Any]:
    store = view.store
    return {**asdict(store.status), "store_id": store.store_id, "streams": [_entry(view, s) for s in store.streams]}


def _entry(view: View, stream: Stream) -> dict[str, Any]:
    holder = view.store.holder(stream.name)
    return {
        "name": stream.name,
        "state": str(stream.state),
        "identity": stream.cursor.identity,
        "last": stream.cursor.last,
        "through": stream.cursor.through,
        "records": stream.records,
        "checksum": written_checksum(stream.checksum),
        "generation": stream.cursor.generation,
        "handler": stream.handler,
        "committed_ms": stream.committed_ms,
        "idle_s": view.idle_s(stream),
        "halted_at": stream.halted_at,
        "halted_error": stream.halted_error,
        "halted_since_ms": stream.halted_since_ms,
        "head": view.heads.get(stream.name),
        "lag": view.lag(stream),
        "held_by": None if holder is None else holder.holder,
        "held_since_ms": None if holder is None else holder.since_ms,
    }


def _lines(view: View) -> Iterator[str]:
    status = view.store.status
    yield f"last {status.last}, total {status.total}, {counted(status.ledger_rows, 'ledger row')}"
    yield f"revision {status.revision or 'none recorded'}, head {status.head}"
    if not view.store.streams:
        return
    rows = [COLUMNS, *(_cells(view, stream) for stream in view.store.streams)]
    shown = [index for index in range(len(COLUMNS)) if any(row[index] for row in rows[1:])]
    widths = {index: max(len(row[index]) for row in rows) for index in shown}
    yield ""
    for number, row in enumerate(rows):
        cells = [
            row[index].rjust(widths[index]) if COLUMNS[index] in NUMBERS else row[index].ljust(widths[index])
            for index in shown
        ]
        yield "  ".join(cells).rstrip()
        stream = view.store.streams[number - 1] if number else None
        if stream is not None and stream.state is StreamState.HALTED:
            yield f"  {_halted(view, stream)}"


def _cells(view: View, stream: Stream) -> tuple[str, ...]:
    idle_s, behind, head = view.idle_s(stream), view.lag(stream), view.heads.get(stream.name)
    holder = view.store.holder(stream.name)
    return (
        stream.name,
        str(stream.state),
        str(stream.cursor.last),
        str(stream.cursor.through),
        str(stream.records),
        "" if head is None else str(head),
        "" if behind is None else str(behind),
        "never" if idle_s is None else f"{_ago(idle_s)} ago",
        "" if holder is None else f"{holder.holder} for {_ago((view.store.seen_ms - holder.since_ms) / 1000)}",
    )


def _halted(view: View, stream: Stream) -> str:
    since_s = (view.store.seen_ms - (stream.halted_since_ms or view.store.seen_ms)) / 1000
    at = "" if stream.halted_at is None else f" at {stream.halted_at}"
    return f"halted{at} for {_ago(since_s)}: {stream.halted_error}"


def _table(view: View, height: int) -> Table:
    """Draw as many streams as there is room for, those first that need somebody."""
    status = view.store.status
    table = Table(
        title=f"last {status.last}, total {status.total}, {counted(len(view.store.streams), 'stream')}",
        caption=_time(view.store.seen_ms),
        box=None,
    )
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in NUMBERS else "left", no_wrap=column != "STREAM")
    room = max(1, height - 4)
    for stream in _by_need(view)[:room]:
        style = {StreamState.HALTED: "red", StreamState.PAUSED: "yellow"}.get(stream.state)
        table.add_row(*map(printable, _cells(view, stream)), style=style)
    return table


def _by_need(view: View) -> Sequence[Stream]:
    order = {StreamState.HALTED: 0, StreamState.PAUSED: 1, StreamState.RUNNING: 2}
    return sorted(view.store.streams, key=lambda one: (order[one.state], -(view.lag(one) or 0)))


def _ago(seconds: float) -> str:
    """Say how long something is, in its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _time(ms: int) -> str:
    return written_time(ms, sep=" ", timespec="seconds")
