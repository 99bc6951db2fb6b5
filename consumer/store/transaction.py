"""The store: every change to the database, one transaction for a batch of events.

A batch is judged, applied, given to the user's handler and committed under one lock, or not at all. By definition that
equals applying its events one by one: the same tables, the same acknowledgements, the same error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Self

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, event, inspect
from sqlalchemy.exc import DBAPIError

from consumer.core import points
from consumer.core.errors import InvalidOption, NotReady, StoppedByForce, StoreReplaced
from consumer.core.events import Event, Events
from consumer.core.outcome import Outcome, State, checked_state
from consumer.core.points import Point
from consumer.store.bisection import apply_in_halves
from consumer.store.databases.base import READ_ONLY, Cause
from consumer.store.databases.choice import cause_of, database_of, is_busy, make_engine, make_engine_like
from consumer.store.handlers import Handler, HandlerRaised, call_inside_savepoint, check_handler, refuse_to_commit
from consumer.store.pair import Pair, no_store
from consumer.store.retry import TRIES
from consumer.store.schema import HEAD, Tables
from consumer.store.statements import Statements

BEGIN_TRIES = 30
"""SQLite: how often the beginning of a transaction waits for another writer, a second each, before that is an error."""

HANDLER_WAIT_S = 0.1
"""The wait before the second try of an event whose handler fails. It doubles before each further one."""


class Store:
    """A checkpoint and a ledger in a database. For one thread at a time, `interrupt` excepted."""

    def __init__(
        self, url: str | URL | None = None, *, engine: Engine | None = None, prefix: str = "", schema: str | None = None
    ) -> None:
        """Name a store. Nothing is connected yet.

        Args:
            url: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`; see `consumer.store.databases.url.parse_url`.
            engine: in the place of a URL, an engine of yours. The store makes its connections as that one does, and
                leaves the engine and its pool alone.
            prefix: what the names of the store's tables begin with.
            schema: where they are, on PostgreSQL; where it is not given, in the first schema of the session's
                `search_path` that exists.

        Raises:
            InvalidURL: the URL cannot be used.
            InvalidOption: the engine, the prefix or the schema cannot be used.
        """
        self._tables = Tables(prefix)
        self._statements = Statements(self._tables)
        if engine is not None and url is None:
            self._engine = make_engine_like(engine)
        elif url is not None and engine is None:
            self._engine = make_engine(url)
        else:
            raise InvalidOption("a store takes a URL or an engine, and not both")
        self._database = database_of(self._engine)
        self._schema = schema  # where the tables are, once that is known
        self._pair: Pair | None = None  # the statements over them, once it is
        self._connection: Connection | None = None
        self._interrupted = threading.Event()
        self._durable: int | None = None  # the cursor that is known to be on disk, once there is one
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
            return self._read_state(connection)

    def check_durability(self) -> None:
        """Make sure that what this database has committed survives a power cut.

        Raises:
            UnsafeDurability: it might not.
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        with self._engine.connect().execution_options(**READ_ONLY) as connection:
            self._database.check_durability(connection, self._tables, self._find(connection))

    def resume(self) -> int:
        """Make sure that events may be consumed into this store, and give the cursor to go on from.

        Returns:
            The cursor. It is durable, even where a process was killed in the middle of its commit.

        Raises:
            NotReady, UnsafeDurability, sqlalchemy.exc.DBAPIError: as for `state` and `check_durability`.
            SyncFailed: the cursor cannot be made durable.
            StoreReplaced: the database's file is not the one that is open.
            StoppedByForce: after `interrupt`.
        """
        self._interrupted.clear()
        with self._discarding():
            self.check_durability()
            with self._reading() as connection:
                last = self._read_state(connection).last
                self._database.check_place(connection)
            if self._connection is None or last != self._durable:
                return self._make_durable()
            self._database.check_place(self._connection)
        return last

    def interrupt(self) -> None:
        """Make the `apply` or `resume` of another thread fail soon. The next `resume` makes the store usable again."""
        self._interrupted.set()
        connection = self._connection
        if connection is not None:
            with suppress(Exception):  # it may be closed at this very moment, by SQLAlchemy or by its driver
                self._database.interrupt(connection.connection.driver_connection)

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
        return apply_in_halves(events, lambda part: self._apply_part(part, handler))

    def _make_durable(self) -> int:
        """Make durable what others have committed, or we in a commit that has failed, and give the cursor."""
        with self._discarding():
            connection = self._begin()
            last = self._read_state(connection).last
            self._database.make_durable(connection)
            connection.rollback()
            self._database.check_place(connection)
        self._durable = last
        return last

    def _apply_part(self, events: Sequence[Event], handler: Handler | None) -> Outcome:
        """Apply events. A single one is tried again where its handler fails, since that may pass by itself."""
        wait_s = HANDLER_WAIT_S
        for _ in range(TRIES - 1 if len(events) == 1 else 0):
            try:
                return self._transact(events, handler)
            except HandlerRaised as failure:
                if failure.ended:  # to try again would hide that
                    raise
            self._interrupted.wait(wait_s)
            wait_s *= 2
        return self._transact(events, handler)

    def _transact(self, events: Sequence[Event], handler: Handler | None) -> Outcome:
        """Judge and apply events in one transaction. Whatever goes wrong, none of it stays and the connection goes."""
        with self._discarding():
            connection = self._begin()
            pair = self._pair_of(connection)
            # One that is left open would keep the connection, and its lock, for as long as an error refers to it.
            with closing(self._database.own_cursor(connection.connection.driver_connection)) as cursor:
                state = before = pair.lock(cursor)
                plan = pair.plan(cursor, before, events)
                if plan.acked and before.last != self._durable:
                    # Somebody else has committed this, and may have died of a sync that failed.
                    self._database.make_durable(connection)
                    self._durable = before.last
                if plan.new:
                    state = pair.write(cursor, before, plan.new)
            if plan.new:
                self._handle_and_commit(connection, before, plan.new, handler)
                self._durable = state.last
            else:
                connection.rollback()
            self._database.check_place(connection)
            if plan.new and handler is not None and self._database.was_changed(connection):
                self._discard()
        return Outcome(plan.acked, len(plan.new), state.last, plan.error, state.total)

    def _handle_and_commit(self, connection: Connection, before: State, new: Events, handler: Handler | None) -> None:
        if handler is not None:
            points.reach(Point.BEFORE_HANDLER)
            self._database.before_handler(connection)
            call_inside_savepoint(handler, connection, before, new)
            self._database.after_handler(connection)
            points.reach(Point.AFTER_HANDLER)
        points.reach(Point.BEFORE_COMMIT)
        self._commit(connection, before, new)
        points.reach(Point.AFTER_COMMIT)

    def _begin(self) -> Connection:
        is_new = self._connection is None
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
        if is_new:
            self._database.check_place(self._connection)
        return self._connection

    def _commit(self, connection: Connection, before: State, new: Events) -> None:
        try:
            self._database.commit(connection)
        except DBAPIError as error:
            if cause_of(error) is not Cause.CONTENT:
                raise
            raise HandlerRaised(before, new, error, ended=False) from error  # it is sure that nothing was committed

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        """Whatever goes wrong in a transaction, its connection is not used again."""
        try:
            yield
        except BaseException as error:
            replaced = self._find_replaced() if isinstance(error, Exception) else None
            self._discard()
            if replaced is not None:
                raise replaced from error
            if self._interrupted.is_set() and isinstance(error, Exception):
                raise StoppedByForce from error
            raise

    def _find_replaced(self) -> StoreReplaced | None:
        """Say whether a failure comes from files that are gone: SQLite itself then reports one of input or output."""
        try:
            if self._connection is not None and not self._connection.closed:
                self._database.check_place(self._connection)
        except StoreReplaced as replaced:
            return replaced
        except Exception:  # noqa: BLE001 - the connection is broken in another way, which the first failure tells
            return None
        return None

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

    def _find(self, connection: Connection) -> str:
        """Give the schema that the tables are in."""
        if self._schema is None:
            self._schema = self._database.current_schema(connection, self._tables)
        return self._schema

    def _pair_of(self, connection: Connection) -> Pair:
        if self._pair is None:
            self._pair = Pair(self._database, self._statements, self._find(connection))
        return self._pair

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(**READ_ONLY) as connection:
            self._database.bound_waits(connection)
            if not inspect(connection).has_table(self._tables.version.name, self._find(connection)):
                raise no_store()
            revision = self._execute(connection, self._statements.read_revision).scalar_one_or_none()
            if revision != HEAD:
                raise NotReady(f"the store is at revision {revision}, this version needs {HEAD}", needs_upgrade=True)
            yield connection

    def _read_state(self, connection: Connection) -> State:
        row = self._execute(connection, self._statements.read_state).one_or_none()
        if row is None:
            raise no_store()
        return checked_state(row.last, row.total)

    def _execute(self, connection: Connection, statement: Executable) -> CursorResult[Any]:
        """Execute a statement over our tables. The connection itself must not translate what a handler executes."""
        return connection.execute(statement, execution_options={"schema_translate_map": {None: self._find(connection)}})
