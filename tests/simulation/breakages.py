"""Our code, broken on purpose in one place: a simulation that finds none of these is worth nothing.

Each is a mistake that somebody could make, put in with pytest's monkeypatch; `test_breakages.py` has them found.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pytest
from sqlalchemy import Connection

from consumer.core import points
from consumer.core import verdict as rule
from consumer.core.events import Event, Events
from consumer.core.outcome import Outcome, State
from consumer.core.points import Point
from consumer.core.verdict import Verdict
from consumer.runtime import session, supervision
from consumer.runtime.inbox import Inbox
from consumer.runtime.session import Sessions
from consumer.sources.tcp.connection import PublisherConnection
from consumer.store import retry
from consumer.store import transaction as store
from consumer.store.databases.sqlite import SQLite
from consumer.store.pair import Pair, PairSheet
from consumer.store.transaction import Store

T = TypeVar("T")

Memory = WeakKeyDictionary[asyncio.AbstractEventLoop, T]
"""What a process remembers."""

Breakage = Callable[[pytest.MonkeyPatch], None]

ALL: dict[str, Breakage] = {}


def breakage(function: Breakage) -> Breakage:
    ALL[function.__name__] = function
    return function


@breakage
def ack_before_commit(patch: pytest.MonkeyPatch) -> None:
    apply = Sessions._apply

    async def early(self: Sessions, connection: PublisherConnection, events: Events) -> Outcome:
        connection.acknowledge(events.seqs)
        return await apply(self, connection, events)

    patch.setattr(Sessions, "_apply", early)


@breakage
def ack_all_of_a_batch_that_was_committed_in_part(patch: pytest.MonkeyPatch) -> None:
    apply = Store.apply

    def generous(self: Store, events: Sequence[Any], handler: Any = None) -> Outcome:
        outcome = apply(self, events, handler)
        return Outcome(len(events), outcome.new, outcome.last, outcome.error) if outcome.acked else outcome

    patch.setattr(Store, "apply", generous)


@breakage
def ack_to_a_connection_that_did_not_bring_the_event(patch: pytest.MonkeyPatch) -> None:
    acknowledge = PublisherConnection.acknowledge
    owed: Memory[list[int]] = WeakKeyDictionary()

    def late(self: PublisherConnection, seqs: Sequence[int]) -> None:
        mine = owed.setdefault(asyncio.get_running_loop(), [])
        mine.extend(seqs)
        if not self._writer.is_closing():
            acknowledge(self, mine)
            mine.clear()

    patch.setattr(PublisherConnection, "acknowledge", late)


@breakage
def inbox_kept_at_a_reconnect(patch: pytest.MonkeyPatch) -> None:
    kept: Memory[Inbox] = WeakKeyDictionary()
    close = Inbox.close

    def make(events_max: int) -> Inbox:
        inbox = kept.setdefault(asyncio.get_running_loop(), Inbox(events_max))
        inbox._ended, inbox.error = False, None
        return inbox

    patch.setattr(session, "Inbox", make)
    patch.setattr(Inbox, "close", lambda self, error=None, drop=False: close(self, error))


@breakage
def resume_from_memory(patch: pytest.MonkeyPatch) -> None:
    resume = Store.resume

    async def session(self: Sessions) -> bool:
        last = self._progress.last
        self._store.resume = lambda: resume(self._store) if last is None else resume(self._store) and last
        return await real(self)

    real = Sessions.run
    patch.setattr(Sessions, "run", session)


@breakage
def no_sync_before_resume_or_the_ack_of_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SQLite, "make_durable", lambda self, connection: None)


@breakage
def no_sync_before_the_ack_of_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    resume, make_durable = Store.resume, SQLite.make_durable

    def careful(self: Store) -> int:
        with pytest.MonkeyPatch.context() as here:
            here.setattr(SQLite, "make_durable", make_durable)
            return resume(self)

    patch.setattr(SQLite, "make_durable", lambda self, connection: None)
    patch.setattr(Store, "resume", careful)


@breakage
def no_sync_at_commit(patch: pytest.MonkeyPatch) -> None:
    begin = Store._begin

    def careless(self: Store) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._connection.connection.driver_connection.execute("PRAGMA synchronous=NORMAL")
        return begin(self)

    patch.setattr(Store, "_begin", careless)


@breakage
def cursor_not_moved(patch: pytest.MonkeyPatch) -> None:
    _write_without(patch, cursor=False)


@breakage
def cursor_in_a_transaction_of_its_own(patch: pytest.MonkeyPatch) -> None:
    _write_without(patch, cursor=False)
    commit = Store._commit

    def twice(self: Store, connection: Connection, sheet: PairSheet) -> None:
        before, new = sheet.before, sheet.new()
        commit(self, connection, sheet)
        points.reach(Point.AFTER_COMMIT)
        connection.begin()
        driver = connection.connection.driver_connection
        pair = self._pair_of(connection)
        driver.execute(pair._move_on, {"seq": new[-1][0], "delta": 0, "from_seq": before.last})
        points.reach(Point.BEFORE_COMMIT)
        connection.commit()

    patch.setattr(Store, "_commit", twice)


@breakage
def total_not_changed(patch: pytest.MonkeyPatch) -> None:
    _write_without(patch, total=False)


def _write_without(patch: pytest.MonkeyPatch, *, total: bool = True, cursor: bool = True) -> None:
    def write(self: Pair, driver: Any, before: State, new: Events) -> State:
        last, added = new[-1][0], sum(new.deltas)
        self._insert(driver, new)
        points.reach(Point.AFTER_LEDGER)
        to, delta = last if cursor else before.last, added if total else 0
        driver.execute(self._move_on, {"seq": to, "delta": delta, "from_seq": before.last})
        points.reach(Point.AFTER_CURSOR)
        return State(last, before.total + added)

    patch.setattr(Pair, "write", write)


@breakage
def duplicates_counted_again(patch: pytest.MonkeyPatch) -> None:
    read = Pair._read

    def counting(self: Pair, driver: Any, seqs: set[int]) -> dict[int, int]:
        found = read(self, driver, seqs)
        driver.execute("UPDATE checkpoint SET total = total + ?", (sum(found.values()),))
        return found

    patch.setattr(Pair, "_read", counting)


@breakage
def content_of_duplicates_not_compared(patch: pytest.MonkeyPatch) -> None:
    judge = rule.judge
    patch.setattr(
        rule,
        "judge",
        lambda last, seq, delta, recorded: Verdict.DUPLICATE if seq <= last else judge(last, seq, delta, recorded),
    )


@breakage
def gaps_let_through(patch: pytest.MonkeyPatch) -> None:
    judge = rule.judge
    patch.setattr(rule, "judge", lambda last, seq, delta, recorded: judge(max(last, seq - 1), seq, delta, recorded))


@breakage
def handler_after_the_transaction(patch: pytest.MonkeyPatch) -> None:
    transact = Store._transact

    def afterwards(self: Store, events: Sequence[Any], handler: Any) -> Outcome:
        before = self.state().last
        outcome = transact(self, events, None)
        if handler is not None and outcome.new:
            with self._engine.begin() as connection:
                handler(connection, [event for event in dict(events).items() if before < event[0] <= outcome.last])
        return outcome

    patch.setattr(Store, "_transact", afterwards)


@breakage
def handler_sees_duplicates(patch: pytest.MonkeyPatch) -> None:
    call = store.call_inside_savepoint
    last: Memory[list[Event]] = WeakKeyDictionary()

    def again(handler: Any, connection: Connection, sheet: PairSheet) -> None:
        loop = asyncio.get_running_loop()
        before = last.get(loop, [])
        call(lambda c, new: handler(c, [*before, *new]), connection, sheet)
        last[loop] = list(sheet.new())[-1:]

    patch.setattr(store, "call_inside_savepoint", again)


@breakage
def nobody_told_of_an_end(patch: pytest.MonkeyPatch) -> None:
    def close(self: Inbox, error: Exception | None = None, *, drop: bool = False) -> None:
        self.error = error
        self._ended = True

    patch.setattr(Inbox, "close", close)


@breakage
def not_cancelled_where_a_timeout_has_just_expired(patch: pytest.MonkeyPatch) -> None:
    async def cancel(task: asyncio.Task[Any]) -> None:
        if not task.cancelling():
            task.cancel()
        await asyncio.wait({task})

    patch.setattr(session, "cancel", cancel)


@breakage
def a_lost_connection_is_final(patch: pytest.MonkeyPatch) -> None:
    _is_final(patch, ConnectionError)


@breakage
def a_passing_database_failure_is_final(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry, "cause_of", lambda error: None)


@breakage
def silence_never_ends(patch: pytest.MonkeyPatch) -> None:
    receive = PublisherConnection._receive

    async def patient(self: PublisherConnection) -> bytes:
        self._timeout = 1e9
        return await receive(self)

    patch.setattr(PublisherConnection, "_receive", patient)


def _is_final(patch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    patience = supervision.patience
    patch.setattr(
        supervision, "patience", lambda error: retry.Patience.NEVER if isinstance(error, kind) else patience(error)
    )
