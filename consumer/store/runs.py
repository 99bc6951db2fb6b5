"""What one transaction does with runs of records: each is judged by the rule, and its stream moved on.

What belongs to a stream halts that stream and no other, so no run's error keeps the others from being committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consumer.core import points
from consumer.core.errors import BadRecord, Conflict, Gap, HandlerFailed
from consumer.core.outcome import Halt, RunsOutcome
from consumer.core.points import Point
from consumer.core.records import CHECKSUM_MODULUS, Record
from consumer.core.rule import judge_run
from consumer.core.runs import Run
from consumer.core.streams import Stream
from consumer.store.sheet import Batch, HandlerRaised, Sheet
from consumer.store.streams import Streams


class RunsBatch(Batch[RunsOutcome]):
    """Runs in the order in which they came, of as many streams as there are.

    Args:
        runs: the runs.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs

    def __len__(self) -> int:
        return sum(len(run.records) for run in self.runs)

    def halves(self, failure: HandlerRaised) -> tuple[RunsBatch, RunsBatch]:
        if isinstance(failure.cause, BadRecord):
            parted = _parted(self.runs, failure.cause.stream, failure.cause.seq)
            if parted is not None:
                return parted
        return _cut(self.runs, len(self) // 2)

    def after(self, outcome: RunsOutcome) -> RunsBatch:
        halted = {halt.stream for halt in outcome.halted}
        return RunsBatch([run for run in self.runs if run.stream not in halted]) if halted else self

    def failed(self, failure: HandlerRaised) -> RunsOutcome:
        record: Record = failure.sheet.new()[0]
        error: Exception = HandlerFailed(record.seq, failure.reason(), stream=record.stream)
        error.__cause__ = failure.cause
        if failure.ended:  # whatever it has done may be committed, for all records of the batch
            return RunsOutcome(error=error)
        cause = failure.cause
        if isinstance(cause, BadRecord) and (cause.stream, cause.seq) == (record.stream, record.seq):
            error = cause
        return RunsOutcome(halted=(Halt(record.stream, record.seq, error),))


def _parted(runs: Sequence[Run], stream: str, seq: int) -> tuple[RunsBatch, RunsBatch] | None:
    """Part a record, and what follows it in its stream, from all others; where there are no others, the record alone.

    Nothing where it is not here.
    """
    before: list[Run] = []
    behind: list[Run] = []
    for run in runs:
        if run.stream != stream or run.through < seq:
            before.append(run)
        elif run.after >= seq:
            behind.append(run)
        else:
            first, second = run.split(seq)
            before.append(first)
            behind.append(second)
    if next((record.seq for run in behind for record in run.records), None) != seq:
        return None
    others = RunsBatch(before)
    return (others, RunsBatch(behind)) if len(others) else _cut([*before, *behind], 1)


def _cut(runs: Sequence[Run], count: int) -> tuple[RunsBatch, RunsBatch]:
    """Cut behind a number of records, of which there are more."""
    index = 0
    while count >= len(runs[index].records):
        count -= len(runs[index].records)
        index += 1
    if not count:
        return RunsBatch(runs[:index]), RunsBatch(runs[index:])
    first, second = runs[index].split(runs[index].records[count].seq)
    return RunsBatch([*runs[:index], first]), RunsBatch([second, *runs[index + 1 :]])


@dataclass(slots=True)
class _Judged:
    """A stream in the course of a batch: how it was found, and how it stands."""

    found: Stream
    now: Stream


class RunsSheet(Sheet[RunsOutcome]):
    """One transaction's work on runs.

    Args:
        streams: the rows.
        runs: the runs.
    """

    def __init__(self, streams: Streams, runs: Sequence[Run]) -> None:
        self._streams = streams
        self._runs = runs
        self._judged: dict[str, _Judged] = {}
        self._new: list[Record] = []
        self._duplicates = 0
        self._halted: dict[str, Halt] = {}
        self._taken: set[str] = set()
        self._stale: set[str] = set()

    def judge(self, cursor: Any) -> None:
        found = self._streams.lock(cursor, {run.stream for run in self._runs})
        self._judged = {name: _Judged(stream, stream) for name, stream in found.items()}
        for run in self._runs:
            if run.stream not in self._judged:
                self._stale.add(run.stream)  # its row is gone, so it is to be claimed anew
            elif run.stream not in self._halted:
                try:
                    self._judge(self._judged[run.stream], run)
                except Conflict as error:
                    self._halted[run.stream] = Halt(run.stream, error.seq, error)
                except Gap as error:
                    self._halted[run.stream] = Halt(run.stream, error.expected, error)

    def _judge(self, judged: _Judged, run: Run) -> None:
        plan = judge_run(judged.now.cursor, run)
        if plan.is_stale:
            self._stale.add(run.stream)
            return
        self._taken.add(run.stream)
        self._new += plan.new
        self._duplicates += plan.duplicates
        if plan.cursor is not judged.now.cursor:
            judged.now = replace(
                judged.now,
                cursor=plan.cursor,
                records=judged.now.records + len(plan.new),
                checksum=(judged.now.checksum + plan.checksum) % CHECKSUM_MODULUS,
            )

    def claimed(self) -> Mapping[str, object]:
        return {name: self._judged[name].found.cursor.place for name in self._taken}

    def changes(self) -> bool:
        return any(judged.now is not judged.found for judged in self._judged.values())

    def new(self) -> Sequence[Record]:
        return self._new

    def write(self, cursor: Any) -> Mapping[str, object]:
        moved = [(one.found, one.now) for one in self._judged.values() if one.now is not one.found]
        self._streams.move_on(cursor, moved)
        points.reach(Point.AFTER_CURSOR)
        return {stream.name: stream.cursor.place for _, stream in moved}

    def outcome(self) -> RunsOutcome:
        through = {name: self._judged[name].now.cursor.through for name in self._taken}
        stale = frozenset(self._stale - self._taken)
        return RunsOutcome(through, len(self._new), self._duplicates, tuple(self._halted.values()), stale)
