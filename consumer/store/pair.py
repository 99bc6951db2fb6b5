"""The contract's checkpoint and ledger: what is read, judged and written for a batch of events.

Everything here happens inside a transaction that `transaction.py` has begun and will end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from consumer.core import points, verdict
from consumer.core.errors import Fenced, HandlerFailed, NotReady
from consumer.core.events import Event, Events
from consumer.core.outcome import Outcome, State, checked_state
from consumer.core.points import Point
from consumer.core.verdict import Plan
from consumer.store.databases.base import Database
from consumer.store.sheet import Batch, HandlerRaised, Sheet
from consumer.store.statements import Statements

PAIR = ""
"""The name that stands for the contract's numbering among those of streams, none of which is empty."""


class Pair:
    """The two tables of one store. Its statements go to a cursor of the driver's.

    At one event a transaction, SQLAlchemy's part in them would be a third of the work.

    Args:
        database: which kind it is.
        statements: over the store's tables.
        schema: where the tables are.
    """

    def __init__(self, database: Database, statements: Statements, schema: str) -> None:
        def compiled(statement: Any) -> str:
            return database.compile(statement, schema)

        self._database = database
        self._lock_state = compiled(statements.read_state.with_for_update())
        self._read_deltas = compiled(statements.read_deltas)
        self._move_on = compiled(statements.move_on_from)
        self._insert = database.insertion(statements, schema)

    def lock(self, cursor: Any) -> State:
        """Read where the store stands, and keep every other consumer from moving it."""
        row = self._database.lock(cursor, self._lock_state)
        if row is None:
            raise no_store()
        return checked_state(*row)

    def plan(self, cursor: Any, before: State, events: Sequence[Event]) -> Plan:
        """Judge a batch."""
        return verdict.plan(before.last, events, partial(self._read, cursor))

    def write(self, cursor: Any, before: State, new: Events) -> State:
        """Write ledger rows, total and cursor, and give where the store stands then.

        Raises:
            Fenced: the cursor was moved although it was locked, or a trigger has ignored a write without an error.
        """
        last, added = new[-1][0], sum(new.deltas)
        inserted = self._insert(cursor, new)
        points.reach(Point.AFTER_LEDGER)
        moved = cursor.execute(self._move_on, {"seq": last, "delta": added, "from_seq": before.last}).rowcount
        if (inserted, moved) != (len(new), 1):
            raise Fenced(before.last)
        points.reach(Point.AFTER_CURSOR)
        return State(last, before.total + added)

    def _read(self, cursor: Any, seqs: set[int]) -> dict[int, int]:
        """Read what the ledger holds of some numbers: a query for each run of consecutive ones."""
        found: dict[int, int] = {}
        for _, group in groupby(enumerate(sorted(seqs)), lambda pair: pair[1] - pair[0]):
            run = [seq for _, seq in group]
            found.update(cursor.execute(self._read_deltas, {"low": run[0], "high": run[-1]}).fetchall())
        return found


class EventsBatch(Batch[Outcome]):
    """Events in the order in which they arrived, duplicates and all."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events

    def __len__(self) -> int:
        return len(self.events)

    def halves(self, failure: HandlerRaised) -> tuple[EventsBatch, EventsBatch]:
        middle = len(self.events) // 2
        return EventsBatch(self.events[:middle]), EventsBatch(self.events[middle:])

    def after(self, outcome: Outcome) -> EventsBatch:
        return self

    def failed(self, failure: HandlerRaised) -> Outcome:
        sheet = failure.sheet
        assert isinstance(sheet, PairSheet)
        error = HandlerFailed(sheet.new()[0][0], failure.reason())
        error.__cause__ = failure.cause
        return Outcome(0, 0, sheet.before.last, error, sheet.before.total)


class PairSheet(Sheet[Outcome]):
    """One transaction's work on events.

    Attributes:
        before: where the store stood, once that is read.
    """

    before: State
    _plan: Plan

    def __init__(self, pair: Pair, events: Sequence[Event]) -> None:
        self._pair = pair
        self._events = events
        self._after: State | None = None

    def judge(self, cursor: Any) -> None:
        self.before = self._pair.lock(cursor)
        self._plan = self._pair.plan(cursor, self.before, self._events)

    def claimed(self) -> Mapping[str, object]:
        return {PAIR: self.before.last} if self._plan.acked else {}

    def changes(self) -> bool:
        return bool(self._plan.new)

    def new(self) -> Events:
        return self._plan.new

    def write(self, cursor: Any) -> Mapping[str, object]:
        self._after = self._pair.write(cursor, self.before, self._plan.new)
        return {PAIR: self._after.last}

    def outcome(self) -> Outcome:
        plan, after = self._plan, self._after or self.before
        return Outcome(plan.acked, len(plan.new), after.last, plan.error, after.total)


def no_store() -> NotReady:
    """Say that there is none."""
    return NotReady("there is no store in this database", needs_upgrade=True)
