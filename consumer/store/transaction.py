"""The store: every change to the database, one transaction for a batch of events.

A batch is judged, applied, given to the user's handler and committed under one lock, or not at all. By definition that
equals applying its events one by one: the same tables, the same acknowledgements, the same error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Self

import stamina
from sqlalchemy import URL, Connection, event, inspect
from sqlalchemy.exc import DBAPIError

from consumer.core import points, verdict
from consumer.core.errors import Fenced, NotReady, StoppedByForce
from consumer.core.events import Event, Events
from consumer.core.outcome import Outcome, State, checked_state
from consumer.core.points import Point
from consumer.store import schema, statements
from consumer.store.databases.backend import backend_for
from consumer.store.databases.engine import READ_ONLY, make_engine
from consumer.store.handlers import (
    Handler,
    HandlerRaised,
    call_inside_savepoint,
    check_handler,
    may_pass,
    refuse_to_commit,
)
from consumer.store.retry import TRIES, is_busy, is_refused_content

BEGIN_TRIES = 30
"""SQLite: how often the beginning of a transaction waits for another writer, a second each, before that is an error."""

HANDLER_WAIT_S, HANDLER_WAIT_MAX_S = 0.1, 1.0
"""The first and the longest wait between the tries of an event whose handler fails."""


class Store:
    """A checkpoint and a ledger in a database. For one thread at a time, `interrupt` excepted."""

    def __init__(self, url: str | URL) -> None:
        """Name a store. Nothing is connected yet.

        Args:
            url: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`; see `consumer.store.databases.engine.parse_url`.

        Raises:
            InvalidURL: the URL cannot be used.
        """
        self._engine = make_engine(url)
        self._backend = backend_for(self._engine)
        self._connection: Connection | None = None
        self._interrupted = threading.Event()
        self._durable: int | None = None  # the cursor that is known to be on disk, once there is one
        compiled = self._backend.compile
        self._lock_state = compiled(statements.READ_STATE.with_for_update())
        self._read_deltas = compiled(statements.READ_DELTAS)
        self._add_to_total = compiled(statements.ADD_TO_TOTAL)
        self._move_cursor = compiled(statements.MOVE_CURSOR_FROM)
        event.listen(self._engine, "commit", refuse_to_commit)

    def __enter__(self) -> Self:
        """Give the store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close all connections. The store can be used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._durable = None
        self._engine.dispose()

    def state(self) -> State:
        """Read the cursor and the total.

        Raises:
            NotReady: there is no store in the database, or it is not at this version.
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        with self._reading() as connection:
            return _read_state(connection)

    def check_durability(self) -> None:
        """Make sure that what this database has committed survives a power cut.

        Raises:
            UnsafeDurability: it might not.
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        with self._engine.connect().execution_options(**READ_ONLY) as connection:
            self._backend.check_durability(connection)

    def resume(self) -> int:
        """Make sure that events may be consumed into this store, and give the cursor to go on from.

        Returns:
            The cursor. It is durable, even where a process was killed in the middle of its commit.

        Raises:
            NotReady, UnsafeDurability, sqlalchemy.exc.DBAPIError: as for `state` and `check_durability`.
            SyncFailed: the cursor cannot be made durable.
            StoppedByForce: after `interrupt`.
        """
        self._interrupted.clear()
        self.check_durability()
        with self._reading() as connection:
            last = _read_state(connection).last
        return last if last == self._durable else self._make_durable()

    def interrupt(self) -> None:
        """Make the `apply` or `resume` of another thread fail soon. The next `resume` makes the store usable again."""
        self._interrupted.set()
        connection = self._connection
        if connection is not None:
            with suppress(Exception):  # it may be closed at this very moment, by SQLAlchemy or by its driver
                self._backend.interrupt(connection.connection.driver_connection)

    def apply(self, events: Sequence[Event], handler: Handler | None = None) -> Outcome:
        """Apply a batch of events, each exactly once.

        Args:
            events: `(seq, delta)` tuples in the order in which they arrived, duplicates and all.
            handler: called in the transaction with its SQLAlchemy connection and a list of the new events. It must not
                end the transaction, and returns None. A batch that it fails on is cut in halves until the failing
                event stands alone, so its effect must not depend on where batches are cut.

        Returns:
            What became of the batch. `Outcome.error` is what the contract's `apply_event` raises on the first event
            that cannot be applied, or `HandlerFailed`; what came before that is committed.

        Raises:
            TypeError: the handler is a coroutine function.
            Exception: what kept all of the batch from being committed, so far as is known: the database's error,
                `Fenced`, `NotReady`, `StoppedByForce` after `interrupt`, or `Retry` from the handler.
        """
        if handler is not None:
            check_handler(handler)
        done: Outcome | None = None
        size = whole = max(1, len(events))
        suspect = 0  # up to where the failing event must be that the batch is being cut for
        while done is None or done.acked < len(events):
            start = done.acked if done else 0
            if start >= suspect:  # it has passed meanwhile
                size = whole
            part = events[start : start + size]
            try:
                outcome = self._apply_part(part, handler)
            except HandlerRaised as failure:
                # Where it has ended the transaction nobody knows what of it stays, and trying again would hide that.
                if len(part) > 1 and not failure.ended:
                    size, suspect = len(part) // 2, start + len(part)
                    continue
                outcome = Outcome(0, 0, failure.before.last, failure.as_result(), failure.before.total)
            except Exception as error:
                if done is None:
                    raise
                outcome = replace(done, acked=0, new=0, error=error)
            if done is not None:
                outcome = replace(outcome, acked=done.acked + outcome.acked, new=done.new + outcome.new)
            if outcome.error is not None:
                return outcome
            done = outcome
        return done

    def _make_durable(self) -> int:
        """Make durable what others have committed, or we in a commit that has failed, and give the cursor."""
        with self._discarding():
            connection = self._begin()
            last = _read_state(connection).last
            self._backend.make_durable(connection)
            connection.rollback()
        self._durable = last
        return last

    def _apply_part(self, events: Sequence[Event], handler: Handler | None) -> Outcome:
        if handler is not None and len(events) == 1:
            return self._insist(events, handler)
        return self._transact(events, handler)

    @stamina.retry(
        on=may_pass,
        attempts=TRIES,
        timeout=None,
        wait_initial=HANDLER_WAIT_S,
        wait_max=HANDLER_WAIT_MAX_S,
    )
    def _insist(self, events: Sequence[Event], handler: Handler) -> Outcome:
        """Apply a single event; try again where its handler fails, since that may pass by itself."""
        return self._transact(events, handler)

    def _transact(self, events: Sequence[Event], handler: Handler | None) -> Outcome:
        """Judge and apply events in one transaction. Whatever goes wrong, none of it stays and the connection goes."""
        with self._discarding():
            connection = self._begin()
            driver = connection.connection.driver_connection
            state = before = self._lock(driver)
            plan = verdict.plan(before.last, events, partial(self._read, driver))
            if plan.acked and before.last != self._durable:  # by somebody who may have died of a failed sync
                self._backend.make_durable(connection)
                self._durable = before.last
            if plan.new:
                state = self._write(driver, before, plan.new)
                if handler is not None:
                    points.reach(Point.BEFORE_HANDLER)
                    call_inside_savepoint(handler, connection, before, plan.new)
                    self._backend.settle(connection)
                    points.reach(Point.AFTER_HANDLER)
                points.reach(Point.BEFORE_COMMIT)
                self._commit(connection, before, plan.new)
                points.reach(Point.AFTER_COMMIT)
                self._durable = state.last
            else:
                connection.rollback()
        return Outcome(plan.acked, len(plan.new), state.last, plan.error, state.total)

    def _begin(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        for remaining in reversed(range(BEGIN_TRIES)):
            if self._interrupted.is_set():
                raise StoppedByForce
            try:
                self._connection.begin()
                break
            except DBAPIError as error:
                if not is_busy(error) or not remaining:
                    raise
        return self._connection

    # The store's own statements go to the driver: at one event a transaction SQLAlchemy's part would be a third of it.

    def _lock(self, driver: Any) -> State:
        """Read where the store stands, and keep every other consumer from moving it."""
        row = driver.execute(self._lock_state, {}).fetchone()
        if row is None:
            raise _no_store()
        return checked_state(*row)

    def _read(self, driver: Any, seqs: set[int]) -> dict[int, int]:
        """Read what the ledger holds of some numbers: a query for each run of consecutive ones."""
        found: dict[int, int] = {}
        for _, group in groupby(enumerate(sorted(seqs)), lambda pair: pair[1] - pair[0]):
            run = [seq for _, seq in group]
            found.update(driver.execute(self._read_deltas, {"low": run[0], "high": run[-1]}).fetchall())
        return found

    def _write(self, driver: Any, before: State, new: Events) -> State:
        last, added = new[-1][0], sum(new.deltas)
        inserted = self._backend.insert(driver, new)
        points.reach(Point.AFTER_LEDGER)
        counted = driver.execute(self._add_to_total, {"delta": added}).rowcount
        points.reach(Point.AFTER_TOTAL)
        moved = driver.execute(self._move_cursor, {"seq": last, "from_seq": before.last}).rowcount
        if (inserted, counted, moved) != (len(new), 1, 1):  # or a trigger has ignored a write, without an error
            raise Fenced(before.last)
        points.reach(Point.AFTER_CURSOR)
        return State(last, before.total + added)

    def _commit(self, connection: Connection, before: State, new: Events) -> None:
        try:
            self._backend.commit(connection)
        except DBAPIError as error:
            if not is_refused_content(error):
                raise
            raise HandlerRaised(before, new, error, ended=False) from error  # it is sure that nothing was committed

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        """Whatever goes wrong in a transaction, its connection is not used again."""
        try:
            yield
        except BaseException as error:
            self._discard()
            if self._interrupted.is_set() and isinstance(error, Exception):
                raise StoppedByForce from error
            raise

    def _discard(self) -> None:
        """Throw the connection away, its transaction with it. After a failed commit nobody knows what it is worth."""
        connection, self._connection = self._connection, None
        self._durable = None
        if connection is None:
            return
        with suppress(Exception):  # it may be broken in any way; what counts is that it is never used again
            connection.connection.driver_connection.rollback()  # type: ignore[union-attr]  # it is checked out
        with suppress(Exception):
            if not connection.connection.is_detached:  # otherwise the pool would forget it without closing it
                connection.invalidate()
        with suppress(Exception):
            connection.close()
        self._engine.dispose()  # those that wait in the pool are no better, or have been in a handler's hands

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(**READ_ONLY) as connection:
            if not inspect(connection).has_table(schema.version.name):
                raise _no_store()
            revision = connection.execute(statements.READ_REVISION).scalar_one_or_none()
            if revision != schema.HEAD:
                raise NotReady(
                    f"the store is at revision {revision}, this version needs {schema.HEAD}: run consumer upgrade"
                )
            yield connection


def _read_state(connection: Connection) -> State:
    row = connection.execute(statements.READ_STATE).one_or_none()
    if row is None:
        raise _no_store()
    return checked_state(row.last, row.total)


def _no_store() -> NotReady:
    return NotReady("there is no store in this database: run consumer upgrade with the same --db")
