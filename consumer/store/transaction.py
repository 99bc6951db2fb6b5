"""The store: every change to the database, one transaction for a batch of events or records.

A batch is judged, applied, given to the user's handler and committed under one lock, or not at all. By definition that
equals applying what is in it one by one: the same tables, the same acknowledgements, the same error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Self, TypeAlias

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, event, inspect
from sqlalchemy.exc import DBAPIError

from consumer.core import points
from consumer.core.errors import (
    BadRecord,
    HandlerFailed,
    InvalidOption,
    NotReady,
    StoppedByForce,
    StoreForked,
    StoreReplaced,
)
from consumer.core.events import Event
from consumer.core.outcome import Halt, Outcome, RunsOutcome, State, checked_state
from consumer.core.points import Point
from consumer.core.runs import Offer, Run
from consumer.core.starts import Earliest, Start
from consumer.core.streams import Lease, Override, Stream
from consumer.store.bisection import apply_in_halves
from consumer.store.claims import Claim, ClaimSheet, HaltSheet
from consumer.store.databases.base import READ_ONLY, Cause
from consumer.store.databases.choice import cause_of, database_of, is_busy, make_engine, make_engine_like
from consumer.store.handlers import Handler, RecordHandler, call_inside_savepoint, check_handler, refuse_to_commit
from consumer.store.leases import GiveBackSheet, Leases, TakeSheet, read_lease
from consumer.store.moves import Move, MoveSheet
from consumer.store.pair import PAIR, EventsBatch, Pair, PairSheet, no_store
from consumer.store.retry import TRIES
from consumer.store.runs import RunsBatch, RunsSheet
from consumer.store.schema import HEAD, NOTHING_YET, Tables
from consumer.store.sheet import Batch, Done, HandlerRaised, Sheet
from consumer.store.statements import LeaseStatements, Statements, StreamStatements
from consumer.store.streams import Streams, read_stream

BEGIN_TRIES = 30
"""SQLite: how often the beginning of a transaction waits for another writer, a second each, before that is an error."""

HANDLER_WAIT_S = 0.1
"""The wait before the second try of an event whose handler fails. It doubles before each further one."""

SheetOf: TypeAlias = Callable[[Connection], Sheet[Done]]
"""Makes the work of one transaction, when that has begun."""


class Store:
    """Where a database stands, and what it is changed by. For one thread at a time, `interrupt` excepted."""

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
        self._records = StreamStatements(self._tables, self._database.CLOCK_MS)
        self._schema = schema  # where the tables are, once that is known
        self._pair: Pair | None = None  # the statements over them, once it is
        self._streams: Streams | None = None
        self._leases: Leases | None = None
        self._connection: Connection | None = None
        self._process: int | None = None  # the one that has connected
        self._interrupted = threading.Event()
        self._durable: dict[str, object] = {}  # the cursors that are known to be on disk
        event.listen(self._engine, "commit", refuse_to_commit)

    def __enter__(self) -> Self:
        """Give the store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close all connections; in a fork, leave them to its parent. The store can be used again."""
        if self._connection is not None and not self._is_forked():
            self._connection.close()
        self._connection = None
        self._durable.clear()
        self._engine.dispose(close=not self._is_forked())
        self._process = None

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
        with self._connect().execution_options(**READ_ONLY) as connection:
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
            if self._connection is None or last != self._durable.get(PAIR):
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

        def apply(batch: Batch[Outcome]) -> Outcome:
            assert isinstance(batch, EventsBatch)
            return self._apply_part(len(batch), lambda c: PairSheet(self._pair_of(c), batch.events), handler)

        return apply_in_halves(EventsBatch(events), apply)

    # Streams of records.

    def claim(
        self,
        offers: Sequence[Offer],
        start: Start = Earliest(),  # noqa: B008 - it is frozen
        *,
        handler: str | None = None,
        takes_over: bool = False,
    ) -> Claim:
        """Say where streams are to be started that a source offers, and note that they are about to be consumed.

        Args:
            offers: what the source says of each, which is judged before anything of it is consumed.
            start: where a stream begins that is offered for the first time. That is stored with it, and goes on to
                hold.
            handler: the name of the handler that is to consume them.
            takes_over: whether that may be another one than has consumed them so far.

        Returns:
            Where to start each, and which of them cannot be.

        Raises:
            HandlerChanged: another handler has consumed a stream so far.
            InvalidOption: a stream cannot begin at that start.
            NotReady, Exception: as for `resume` and `apply`.
        """
        return self._transact(lambda c: ClaimSheet(self._streams_of(c), offers, start, handler, takes_over=takes_over))

    def apply_runs(self, runs: Sequence[Run], handler: RecordHandler | None = None) -> RunsOutcome:
        """Apply runs of records, each record exactly once, all in one transaction.

        Args:
            runs: runs of as many streams as there are, in the order in which they came. Each stream was claimed.
            handler: called once in the transaction with its SQLAlchemy connection and a list of all new records. What
                holds for the handler of `apply` holds for it.

        Returns:
            What became of them. What belongs to a stream, such as a record that the handler fails on, halts that stream
            and no other: its row says so, and what precedes the record is committed.

        Raises:
            TypeError: the handler is a coroutine function.
            ValueError: a run contradicts itself, which is a mistake in its source.
            Exception: what kept all of it from being committed, so far as is known; as for `apply`.
        """
        if handler is not None:
            check_handler(handler)

        def apply(batch: Batch[RunsOutcome]) -> RunsOutcome:
            assert isinstance(batch, RunsBatch)
            if not batch.runs:
                return RunsOutcome()
            return self._apply_part(len(batch), lambda c: RunsSheet(self._streams_of(c), batch.runs), handler)

        outcome = apply_in_halves(RunsBatch(runs), apply)
        if outcome.halted:
            try:
                self.halt(outcome.halted, _newest_generations(runs))
            except Exception as error:  # noqa: BLE001 - what is committed must be acknowledged before it is raised
                return outcome if outcome.error is not None else outcome.ended_by(error)
        return outcome

    def halt(self, halted: Sequence[Halt], generations: Mapping[str, int]) -> None:
        """Note that streams cannot go on, and why; what had been noted before keeps its time.

        Args:
            halted: which, and why.
            generations: of each stream the generation that this was found in. One that was moved meanwhile is passed
                over.

        Raises:
            Exception: as for `apply`.
        """
        self._transact(lambda c: HaltSheet(self._streams_of(c), halted, generations))

    def move(
        self, moves: Sequence[Move], call: Callable[[Connection, list[str]], None] | None = None
    ) -> list[Override]:
        """Do something to streams by hand, in one transaction, on record. It holds for those who consume meanwhile.

        Args:
            moves: what is to be done, at most once for each stream.
            call: a function of the user's that is called in the same transaction, with its connection and the names of
                the streams: to bring the user's own tables in line.

        Returns:
            What stands on record.

        Raises:
            UnknownStream, NotAsExpected, NotNext: nothing was changed.
            ValueError: a stream is there twice.
            HandlerFailed: the function failed, and nothing was changed.
            Exception: as for `apply`.
        """
        try:
            return self._transact(lambda c: MoveSheet(self._streams_of(c), moves), call)
        except HandlerRaised as failure:
            raise HandlerFailed(NOTHING_YET, failure.reason(), stream=", ".join(failure.sheet.new())) from failure.cause

    def streams(self) -> list[Stream]:
        """Give all streams as they stand, by name.

        Raises:
            NotReady, sqlalchemy.exc.DBAPIError: as for `state`.
        """
        with self._reading() as connection:
            return [read_stream(row._asdict()) for row in self._execute(connection, self._records.read_streams)]

    def overrides(self) -> list[Override]:
        """Give all that was done to streams by hand, the oldest first.

        Raises:
            NotReady, sqlalchemy.exc.DBAPIError: as for `state`.
        """
        with self._reading() as connection:
            return [Override(**row._asdict()) for row in self._execute(connection, self._records.read_overrides)]

    def moves(self) -> int:
        """Give how often something was done to streams by hand: whoever consumes looks at this now and then.

        Raises:
            NotReady, sqlalchemy.exc.DBAPIError: as for `state`.
        """
        with self._reading() as connection:
            moves: int = self._execute(connection, self._records.read_store).one().moves
            return moves

    def store_id(self) -> str:
        """Give what tells this store from all others.

        Raises:
            NotReady, sqlalchemy.exc.DBAPIError: as for `state`.
        """
        with self._reading() as connection:
            store_id: str = self._execute(connection, self._records.read_store).one().store_id
            return store_id

    def leases(self) -> list[Lease]:
        """Give which processes consume from which sources, and did.

        Raises:
            NotReady, sqlalchemy.exc.DBAPIError: as for `state`.
        """
        with self._reading() as connection:
            statement = LeaseStatements(self._tables, self._database.CLOCK_MS).read
            return [read_lease(row) for row in self._execute(connection, statement)]

    def take_lease(self, source: str, holder: str, handler: str | None = None) -> Lease:
        """Take the lease of a source, or renew it, where no other process holds it.

        Args:
            source: the source's name.
            holder: this process.
            handler: the name of its handler.

        Returns:
            The lease as it is now: this process has it if it names this holder.

        Raises:
            Exception: as for `apply`.
        """
        return self._transact(lambda c: TakeSheet(self._leases_of(c), source, holder, handler))

    def give_back_lease(self, source: str, holder: str) -> None:
        """Let another process take the lease of a source at once.

        Raises:
            Exception: as for `apply`.
        """
        self._transact(lambda c: GiveBackSheet(self._leases_of(c), source, holder))

    # How that is done.

    def _make_durable(self) -> int:
        """Make durable what others have committed, or we in a commit that has failed, and give the cursor."""
        with self._discarding():
            connection = self._begin()
            last = self._read_state(connection).last
            self._database.make_durable(connection)
            connection.rollback()
            self._database.check_place(connection)
        self._durable[PAIR] = last
        return last

    def _apply_part(self, count: int, sheet_of: SheetOf[Done], handler: Callable[..., None] | None) -> Done:
        """Apply events or records. A single one is tried again where its handler fails: that may pass."""
        wait_s = HANDLER_WAIT_S
        for _ in range(TRIES - 1 if count == 1 else 0):
            try:
                return self._transact(sheet_of, handler)
            except HandlerRaised as failure:
                if failure.ended or isinstance(failure.cause, BadRecord):  # to try again hides that, or is in vain
                    raise
            self._interrupted.wait(wait_s)
            wait_s *= 2
        return self._transact(sheet_of, handler)

    def _transact(self, sheet_of: SheetOf[Done], handler: Callable[..., None] | None = None) -> Done:
        """Do one transaction's work. Whatever goes wrong, none of it stays and the connection goes."""
        with self._discarding():
            connection = self._begin()
            sheet = sheet_of(connection)
            # One that is left open would keep the connection, and its lock, for as long as an error refers to it.
            with closing(self._database.own_cursor(connection.connection.driver_connection)) as cursor:
                sheet.judge(cursor)
                claimed = sheet.claimed()
                if not claimed.items() <= self._durable.items():
                    # Somebody else has committed this, and may have died of a sync that failed.
                    self._database.make_durable(connection)
                    self._durable.update(claimed)
                changes = sheet.changes()
                reached = sheet.write(cursor) if changes else {}
            is_handled = handler is not None and bool(sheet.new())
            if changes:
                self._handle_and_commit(connection, sheet, handler if is_handled else None)
                self._durable.update(reached)
            else:
                connection.rollback()
            self._database.check_place(connection)
            if is_handled and self._database.was_changed(connection):
                self._discard()
        return sheet.outcome()

    def _handle_and_commit(
        self, connection: Connection, sheet: Sheet[Any], handler: Callable[..., None] | None
    ) -> None:
        if handler is not None:
            points.reach(Point.BEFORE_HANDLER)
            self._database.before_handler(connection)
            call_inside_savepoint(handler, connection, sheet)
            self._database.after_handler(connection)
            points.reach(Point.AFTER_HANDLER)
        points.reach(Point.BEFORE_COMMIT)
        self._commit(connection, sheet)
        points.reach(Point.AFTER_COMMIT)

    def _connect(self) -> Connection:
        self._check_process()
        self._process = os.getpid()
        return self._engine.connect()

    def _check_process(self) -> None:
        """Keep a fork of the process that has connected from its parent's connections."""
        if self._is_forked():
            raise StoreForked

    def _is_forked(self) -> bool:
        return self._process not in {None, os.getpid()}

    def _begin(self) -> Connection:
        self._check_process()
        is_new = self._connection is None
        if self._connection is None:
            self._connection = self._connect()
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

    def _commit(self, connection: Connection, sheet: Sheet[Any]) -> None:
        try:
            self._database.commit(connection)
        except DBAPIError as error:
            if cause_of(error) is not Cause.CONTENT or not sheet.new():
                raise  # where nothing is new, there is no record or event that it could be about
            raise HandlerRaised(sheet, error, ended=False) from error  # it is sure that nothing was committed

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
        self._durable.clear()
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

    def _streams_of(self, connection: Connection) -> Streams:
        if self._streams is None:
            self._streams = Streams(self._database, self._records, self._find(connection))
        return self._streams

    def _leases_of(self, connection: Connection) -> Leases:
        if self._leases is None:
            self._leases = Leases(self._database, self._tables, self._find(connection))
        return self._leases

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._connect().execution_options(**READ_ONLY) as connection:
            self._database.bound_waits(connection)
            if not inspect(connection).has_table(self._tables.version.name, self._find(connection)):
                raise no_store()
            revision = self._execute(connection, self._statements.read_revision).scalar_one_or_none()
            if revision != HEAD and not self._may_go_on(connection, revision):
                raise NotReady(f"the store is at revision {revision}, this version needs {HEAD}", needs_upgrade=True)
            yield connection

    def _may_go_on(self, connection: Connection, revision: str | None) -> bool:
        """Say whether a newer revision lets this version use the store: an upgrade need not stop what runs."""
        if revision is None or not revision.isdecimal() or revision < HEAD:  # or it is no revision of this package
            return False
        compatible_from: str = self._execute(connection, self._records.read_store).one().compatible_from
        return compatible_from <= HEAD

    def _read_state(self, connection: Connection) -> State:
        row = self._execute(connection, self._statements.read_state).one_or_none()
        if row is None:
            raise no_store()
        return checked_state(row.last, row.total)

    def _execute(self, connection: Connection, statement: Executable) -> CursorResult[Any]:
        """Execute a statement over our tables. The connection itself must not translate what a handler executes."""
        return connection.execute(statement, execution_options={"schema_translate_map": {None: self._find(connection)}})


def _newest_generations(runs: Sequence[Run]) -> dict[str, int]:
    """Give for each stream the generation of its newest placement: one of its runs may come of an older one."""
    return dict(sorted((run.stream, run.generation) for run in runs))
