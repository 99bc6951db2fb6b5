"""The contract's checkpoint and ledger as the store keeps them: what is read, judged and written for a batch of events.

Everything here happens inside a transaction that `transaction.py` has begun and will end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from consumer.core import points, verdict
from consumer.core.errors import Fenced, NotReady
from consumer.core.events import Event, Events
from consumer.core.outcome import State, checked_state
from consumer.core.points import Point
from consumer.core.verdict import Plan
from consumer.store.databases.base import Database
from consumer.store.statements import Statements


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


def no_store() -> NotReady:
    """Say that there is none."""
    return NotReady("there is no store in this database", needs_upgrade=True)
