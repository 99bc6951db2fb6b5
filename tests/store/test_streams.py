"""Runs of records: each record once, whatever came before; what belongs to a stream halts that stream alone."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from consumer.core.errors import BadRecord, Conflict, Gap, HandlerFailed, Retry
from consumer.core.outcome import Halt, RunsOutcome
from consumer.core.records import Record
from consumer.store import migrate
from consumer.store.moves import Move, pause
from consumer.store.retry import TRIES, Patience, patience
from consumer.store.transaction import Store

from .helpers import execute, is_sqlite, refuse, remove_trigger, rows
from .recording import (
    NOT_HALTED,
    A,
    B,
    C,
    Kept,
    claim,
    halted,
    handled,
    keep,
    numbers,
    of,
    picked,
    record,
    row,
    run,
    run_of,
    stands,
)

# --- each record once ----------------------------------------------------------------------------


def test_each_record_is_handled_once_and_its_stream_moves_on(store: Store, url: str) -> None:
    claim(store, A, B)
    handler = Kept()
    outcome = store.apply_runs([run(A, -1, [0, 1, 2]), run(B, -1, [0]), run(A, 2, [3])], handler)
    assert outcome == RunsOutcome({A: 3, B: 0}, new=5)
    assert handler.calls == [[*of(A, 0, 1, 2), *of(B, 0), *of(A, 3)]]  # one call, in the order in which they came
    assert stands(url, A, B) == [(3, 3, "running"), (0, 0, "running")]

    assert store.apply_runs([run(A, -1, [0, 1, 2, 3]), run(B, -1, [0])], handler) == RunsOutcome({A: 3, B: 0}, 0, 5)
    assert store.apply_runs([run(A, 1, [2, 3, 4]), run(B, 0, [1])], handler) == RunsOutcome({A: 4, B: 1}, 2, 2)
    assert len(handler.calls) == 2  # nothing was new in between
    assert handled(url) == [*of(A, 0, 1, 2), *of(B, 0), *of(A, 3, 4), *of(B, 1)]


def test_without_a_handler_records_are_counted_all_the_same(store: Store, url: str) -> None:
    claim(store, A)
    assert store.apply_runs([run(A, -1, [0, 1])]) == RunsOutcome({A: 1}, 2)
    assert picked(url, "last records") == (1, 2)


def test_nothing_at_all_is_no_transaction(store: Store) -> None:
    assert store.apply_runs([], keep) == RunsOutcome()


@pytest.mark.parametrize("number", [1000])
def test_a_batch_may_have_many_streams(store: Store, url: str, number: int) -> None:
    names = [f"mem/{i}" for i in range(number)]
    claim(store, *names)
    outcome = store.apply_runs([run(name, -1, [0, 1]) for name in names], keep)
    assert outcome == RunsOutcome(dict.fromkeys(names, 1), 2 * number)
    assert store.apply_runs([run(name, 0, [1]) for name in names], keep) == RunsOutcome(
        dict.fromkeys(names, 1), 0, number
    )
    assert {stream.name: stream.records for stream in store.streams()} == dict.fromkeys(names, 2)
    assert len(handled(url)) == 2 * number


NAMES = ["a'b", 'a"b', "100%", "%s", "%(name_)s", ":name_", "{a,b}", "\\x", "ü/中/🎉", "a b", "a\nb", "NULL", "[]"]


def test_a_name_may_have_any_characters(store: Store, url: str) -> None:
    claim(store, *NAMES)
    store.apply_runs([run(name, -1, [0], 3) for name in NAMES], keep)
    store.halt([Halt(name, 4, ValueError("no")) for name in NAMES], dict.fromkeys(NAMES, 0))
    assert stands(url, *NAMES) == [(0, 3, "halted")] * len(NAMES)
    store.move([Move(name, "skip", "why", "me", to=4) for name in NAMES])
    assert stands(url, *NAMES) == [(4, 4, "running")] * len(NAMES)
    assert sorted(handled(url)) == sorted((name, 0) for name in NAMES)
    assert sorted(override.stream for override in store.overrides()) == sorted(NAMES)


@pytest.fixture
def elsewhere(url: str) -> dict[str, str]:
    """Other names for the store's tables: a prefix, and on PostgreSQL a schema."""
    if is_sqlite(url):
        return {"prefix": "shop_"}
    execute(url, "DROP SCHEMA IF EXISTS depot CASCADE", "CREATE SCHEMA depot")
    return {"prefix": "shop_", "schema": "depot"}


def test_the_tables_may_have_other_names(url: str, elsewhere: dict[str, str]) -> None:
    migrate.upgrade(url, **elsewhere)
    with Store(url, **elsewhere) as store:
        claim(store, A, B)
        assert store.apply_runs([run(A, -1, [0, 1]), run(B, -1, [0])], Kept([(B, 0)])).through == {A: 1}
        store.move([pause(A, "why", "me")])
        lease = store.take_lease("mem/", "me")
        store.give_back_lease("mem/", "me")
        assert [(stream.name, stream.state) for stream in store.streams()] == [(A, "paused"), (B, "halted")]
        assert (store.moves(), len(store.overrides()), lease.holder, len(store.leases())) == (1, 1, "me", 1)
    assert rows(url, "SELECT * FROM consumer_stream") == []
    assert handled(url) == of(A, 0, 1)


# --- holes ---------------------------------------------------------------------------------------


def test_a_run_without_records_carries_its_stream_over_a_hole(store: Store, url: str) -> None:
    claim(store, A)
    handler = Kept()
    assert store.apply_runs([run(A, -1, [3], 5), run(A, 5, [], 9)], handler) == RunsOutcome({A: 9}, 1)
    assert store.apply_runs([run(A, 9, [], 20)], handler) == RunsOutcome({A: 20})
    assert picked(url, "last through records") == (3, 20, 1)
    assert store.apply_runs([run(A, 20, [30])], handler) == RunsOutcome({A: 30}, 1)
    assert handler.calls == [of(A, 3), of(A, 30)]


def test_a_run_that_was_consumed_wholly_changes_nothing(store: Store, url: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [1, 4], 6)], keep)
    before = row(url)
    assert store.apply_runs([run(A, -1, [1], 3), run(A, 4, [], 5)], keep) == RunsOutcome({A: 6}, 0, 1)
    assert row(url) == before


# --- what halts a stream -------------------------------------------------------------------------


def test_another_record_at_the_cursor_halts_its_stream_and_no_other(store: Store, url: str) -> None:
    claim(store, A, B)
    store.apply_runs([run(A, -1, [0, 1]), run(B, -1, [0, 1])], keep)
    since = row(url)["committed_ms"]
    other = run_of([record(A, 1, b"other"), record(A, 2)])
    outcome = store.apply_runs([other, run(B, 1, [2]), run(A, 2, [3])], keep)
    assert (outcome.through, outcome.new, outcome.error) == ({B: 2}, 1, None)
    [halt] = outcome.halted
    assert (halt.stream, halt.at) == (A, 1)
    assert isinstance(halt.error, Conflict)
    assert stands(url, A, B) == [(1, 1, "halted"), (2, 2, "running")]
    state, at, error, since_ms = halted(url)
    assert (state, at, error) == ("halted", 1, str(halt.error))
    assert since_ms >= since
    assert handled(url) == [*of(A, 0, 1), *of(B, 0, 1), *of(B, 2)]


def test_what_precedes_a_conflict_in_the_same_batch_is_committed(store: Store, url: str) -> None:
    claim(store, A)
    outcome = store.apply_runs([run(A, -1, [0, 1], 5), run(A, 1, [4], 6), run(A, 6, [7])], keep)
    assert outcome.through == {A: 5}
    assert [(halt.at, type(halt.error)) for halt in outcome.halted] == [(4, Conflict)]
    assert stands(url, A) == [(1, 5, "halted")]


def test_a_gap_halts_its_stream_at_what_is_missing(store: Store, url: str) -> None:
    claim(store, A, B)
    outcome = store.apply_runs([run(A, -1, [0], 2), run(A, 5, [6]), run(B, -1, [0])], keep)
    assert outcome.through == {A: 2, B: 0}
    [halt] = outcome.halted
    assert isinstance(halt.error, Gap)
    assert (halt.stream, halt.at) == (A, 3)
    assert halted(url)[:3] == ("halted", 3, str(halt.error))


def test_since_when_a_stream_is_halted_is_kept_until_something_of_it_is_committed(store: Store, url: str) -> None:
    claim(store, A)
    gap = run(A, 5, [6])
    store.apply_runs([gap])
    execute(url, "UPDATE consumer_stream SET halted_since_ms = 5")
    store.apply_runs([run(A, 8, [9])])
    assert halted(url) == ("halted", 0, str(Gap(0, 9, stream=A)), 5)
    claim(store, A)
    assert picked(url, "state halted_since_ms") == ("halted", 5)

    store.apply_runs([run(A, -1, [0])])
    assert halted(url) == NOT_HALTED
    store.apply_runs([gap])
    assert row(url)["halted_since_ms"] > 5


def test_a_commit_of_another_stream_leaves_a_halted_one_as_it_is(store: Store, url: str) -> None:
    claim(store, A, B)
    store.apply_runs([run(A, 5, [6])])
    before = row(url)
    store.apply_runs([run(B, -1, [0])])
    assert row(url) == before


def test_a_stream_that_was_moved_meanwhile_is_not_halted(store: Store, url: str) -> None:
    claim(store, A, B)
    store.move([replace_cursor(A)])
    store.halt([Halt(A, 3, ValueError("no")), Halt(B, 4, ValueError("no"))], {A: 0, B: 0})
    assert [halted(url, name)[:2] for name in (A, B)] == [("running", None), ("halted", 4)]
    store.halt([Halt(A, 3, ValueError("no"))], {})
    assert halted(url) == NOT_HALTED
    store.halt([Halt(A, 3, ValueError("no")), Halt("mem/unknown", 3, ValueError("no"))], {A: 1, "mem/unknown": 0})
    assert halted(url)[:3] == ("halted", 3, "no")


def test_a_paused_stream_is_not_halted(store: Store, url: str) -> None:
    claim(store, A)
    store.move([pause(A, "why", "me")])
    store.halt([Halt(A, 3, ValueError("no"))], {A: 1})
    assert halted(url) == ("paused", None, None, None)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\0b", "a\\x00b"),
        ("a\ud800b", "a\\ud800b"),
        ("a\nb\r\n  c", "a b c"),
        ("100% 'quoted' \"so\" ü 🎉", "100% 'quoted' \"so\" ü 🎉"),
    ],
)
def test_an_error_may_have_any_characters(store: Store, url: str, text: str, stored: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [0])], Kept([(A, 0)], lambda _: ValueError(text)))
    assert halted(url)[:2] == ("halted", 0)
    assert f"ValueError: {stored}; fix it" in halted(url)[2]


# --- what is dropped -----------------------------------------------------------------------------


def replace_cursor(stream: str, to: int = -1) -> Move:
    return Move(stream, "replay", "why", "me", to=to)


def test_a_run_from_before_a_move_is_dropped(store: Store, url: str) -> None:
    claim(store, A, B)
    store.apply_runs([run(A, -1, [0, 1])], keep)
    store.move([replace_cursor(A, 5)])
    before = row(url)
    outcome = store.apply_runs([run(A, 1, [2, 3]), run(A, 5, [6]), run(B, -1, [0])], keep)
    assert outcome == RunsOutcome({B: 0}, 1, stale=frozenset({A}))
    assert row(url) == before
    assert store.apply_runs([run(A, 5, [6], generation=1)], keep) == RunsOutcome({A: 6}, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_old_and_new_placements_may_be_mixed(store: Store, url: str, order: int) -> None:
    claim(store, A)
    store.move([replace_cursor(A, 5)])
    old, new = run(A, -1, [0, 1]), run(A, 5, [6, 7], generation=1)
    outcome = store.apply_runs([old, new][::order], keep)
    assert outcome == RunsOutcome({A: 7}, 2)  # it need not be placed anew
    assert handled(url) == of(A, 6, 7)


@pytest.mark.parametrize("order", [1, -1])
def test_a_stream_that_fails_is_halted_whatever_came_of_older_placements(store: Store, url: str, order: int) -> None:
    claim(store, A)
    store.move([replace_cursor(A, 5)])
    old, new = run(A, -1, [0, 1]), run(A, 5, [6, 7], generation=1)
    outcome = store.apply_runs([old, new][::order], Kept([(A, 7)]))
    assert [(halt.stream, halt.at) for halt in outcome.halted] == [(A, 7)]
    assert halted(url)[:2] == ("halted", 7)


def test_a_paused_stream_takes_nothing(store: Store, url: str) -> None:
    claim(store, A)
    store.move([pause(A, "why", "me")])
    before = row(url)
    assert store.apply_runs([run(A, -1, [0], generation=1)], keep) == RunsOutcome(stale=frozenset({A}))
    assert (row(url), handled(url)) == (before, [])


def test_a_stream_whose_row_is_gone_is_to_be_placed_anew(store: Store, url: str) -> None:
    claim(store, A, B)
    execute(url, f"DELETE FROM consumer_stream WHERE name = '{A}'")
    outcome = store.apply_runs([run(A, -1, [0]), run(B, -1, [0])], keep)
    assert outcome == RunsOutcome({B: 0}, 1, stale=frozenset({A}))
    assert handled(url) == of(B, 0)


# --- a handler that fails ------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [(A, 0), (A, 7), (B, 0), (B, 3), (B, 9), (C, 5)])
def test_a_record_that_the_handler_fails_on_is_found_and_halts_its_stream_alone(
    store: Store, url: str, bad: tuple[str, int]
) -> None:
    names = [A, B, C]
    claim(store, *names)
    runs = [run(name, first - 1, range(first, first + 5)) for first in (0, 5) for name in names]
    handler = Kept([bad])
    outcome = store.apply_runs(runs, handler)
    stream, seq = bad
    [halt] = outcome.halted
    assert (halt.stream, halt.at) == bad
    assert isinstance(halt.error, HandlerFailed)
    assert (halt.error.seq, halt.error.stream, halt.error.reason) == (seq, stream, f"ValueError: {seq}")
    assert isinstance(halt.error.__cause__, ValueError)
    assert outcome.error is None
    assert outcome.new == 20 + seq
    for name in names:
        last = seq - 1 if name == stream else 9
        assert stands(url, name) == [(last, last, "halted" if name == stream else "running")]
        assert outcome.through.get(name, -1) == last
        assert handled(url, name) == of(name, *range(last + 1))
    assert halted(url, stream)[1:3] == (seq, str(halt.error))
    assert handler.calls.count([bad]) == TRIES
    assert len(handler.calls) < 20  # halving, not one by one


def test_each_of_several_bad_records_halts_its_stream(store: Store, url: str) -> None:
    claim(store, A, B, C)
    runs = [run(name, -1, range(8)) for name in (A, B, C)]
    outcome = store.apply_runs(runs, Kept([(A, 3), (A, 5), (C, 6)]))
    assert [(halt.stream, halt.at) for halt in outcome.halted] == [(A, 3), (C, 6)]
    assert stands(url, A, B, C) == [(2, 2, "halted"), (7, 7, "running"), (5, 5, "halted")]
    assert outcome.through == {A: 2, B: 7, C: 5}
    assert outcome.new == 3 + 8 + 6


def test_a_record_that_the_handler_fails_on_for_a_moment_is_tried_again(store: Store, url: str) -> None:
    claim(store, A)
    failures = [ValueError("not yet")] * (TRIES - 1)

    def handler(connection: Any, records: Sequence[Record]) -> None:
        keep(connection, records)
        if failures:
            raise failures.pop()

    assert store.apply_runs([run(A, -1, [0])], handler) == RunsOutcome({A: 0}, 1)
    assert handled(url) == of(A, 0)


def test_a_bad_record_that_is_named_is_not_looked_for(store: Store, url: str) -> None:
    claim(store, A, B)
    handler = Kept([(A, 5)], BadRecord)
    runs = [run(A, -1, range(4)), run(B, -1, range(50)), run(A, 3, range(4, 90)), run(B, 49, range(50, 60))]
    outcome = store.apply_runs(runs, handler)
    [halt] = outcome.halted
    assert (halt.stream, halt.at) == (A, 5)
    assert isinstance(halt.error, BadRecord)
    assert halt.error.record == record(A, 5)
    assert halted(url)[:3] == ("halted", 5, f"bad record 5 of stream {A}: the handler refused it")
    assert stands(url, A, B) == [(4, 4, "halted"), (59, 59, "running")]
    everything, others, from_it, alone = handler.calls
    assert others == [each for each in everything if each < (A, 5) or each[0] == B]
    assert from_it == of(A, *range(5, 90))
    assert alone == of(A, 5)  # once, since it will not be any better


def test_a_bad_record_at_the_beginning_of_a_run_behind_a_hole(store: Store, url: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [0])])
    outcome = store.apply_runs([run(A, 0, [4, 5])], Kept([(A, 4)], BadRecord))
    assert [(halt.at, type(halt.error)) for halt in outcome.halted] == [(4, BadRecord)]
    assert row(url)["halted_at"] == 4


@pytest.mark.parametrize("number", [7, 5, 0, 99])
@pytest.mark.parametrize("name", [A, B])
def test_a_bad_record_that_is_not_in_the_batch_is_looked_for_as_any_other(
    store: Store, url: str, name: str, number: int
) -> None:
    claim(store, A, B)
    handler = Kept([(A, 12)], lambda _: BadRecord(record(name, number)))
    outcome = store.apply_runs([run(A, -1, [], 10), run(A, 10, [11, 12, 13])], handler)
    [halt] = outcome.halted
    assert (halt.stream, halt.at) == (A, 12)
    assert isinstance(halt.error, HandlerFailed)
    assert halt.error.reason == f"BadRecord: bad record {number} of stream {name}: the handler refused it"
    assert stands(url, A) == [(11, 11, "halted")]


def test_a_bad_record_that_is_none_is_the_handlers_mistake(store: Store, url: str) -> None:
    claim(store, A)
    outcome = store.apply_runs([run(A, -1, [0, 1, 2])], Kept([(A, 1)], lambda _: BadRecord("no record")))  # type: ignore[arg-type]
    [halt] = outcome.halted
    assert (halt.at, type(halt.error)) == (1, HandlerFailed)
    assert stands(url, A) == [(0, 0, "halted")]


@pytest.mark.parametrize("error", [ValueError, BadRecord])
@pytest.mark.parametrize("others", [[], [1]])
@pytest.mark.parametrize("order", [1, -1])
def test_holes_of_other_streams_are_passed_where_a_record_fails(
    store: Store, url: str, error: Any, others: list[int], order: int
) -> None:
    claim(store, A, B)
    outcome = store.apply_runs([run(B, -1, [], 10), run(A, -1, [0, *others])][::order], Kept([(A, 0)], error))
    assert outcome.through == {B: 10}
    assert [halt.stream for halt in outcome.halted] == [A]
    assert stands(url, A, B) == [(-1, -1, "halted"), (-1, 10, "running")]
    assert store.apply_runs([run(B, 10, [11])]) == RunsOutcome({B: 11}, 1)  # and no gap


def test_a_stream_is_not_stale_whose_newer_runs_were_taken_by_another_half(store: Store) -> None:
    claim(store, A, B)
    store.move([replace_cursor(A, 5)])
    runs = [run(A, -1, [0, 1, 2, 3]), run(A, 5, [6], generation=1), run(B, -1, [0])]
    outcome = store.apply_runs(runs, Kept([(B, 0)]))
    assert (outcome.through, outcome.stale) == ({A: 6}, frozenset())


def test_a_handler_that_ends_the_transaction_halts_nothing_and_is_not_called_again(store: Store, url: str) -> None:
    claim(store, A)
    calls: list[list[tuple[str, int]]] = []

    def ending(connection: Any, records: Sequence[Record]) -> None:
        if is_sqlite(url):
            keep(connection, records)
            with suppress(DBAPIError):
                connection.exec_driver_sql("INSERT OR ROLLBACK INTO kept SELECT * FROM kept")
        else:
            connection.rollback()
        calls.append(numbers(records))
        raise BadRecord(records[1])

    outcome = store.apply_runs([run(A, -1, [0, 1, 2])], ending)
    assert (outcome.through, outcome.halted, outcome.new) == ({}, (), 0)
    assert isinstance(outcome.error, HandlerFailed)
    assert (outcome.error.stream, outcome.error.seq) == (A, 0)
    assert patience(outcome.error) is Patience.NEVER
    assert calls == [of(A, 0, 1, 2)]
    assert (handled(url), stands(url, A)) == ([], [(-1, -1, "running")])


@pytest.mark.parametrize(
    "error",
    [Retry("not now"), ConnectionError("gone"), TimeoutError("late")],
    ids=repr,
)
def test_what_passes_by_itself_halts_nothing(store: Store, url: str, error: Exception) -> None:
    claim(store, A)
    handler = Kept([(A, 1)], lambda _: error)
    with pytest.raises(type(error)):
        store.apply_runs([run(A, -1, [0, 1, 2])], handler)
    assert len(handler.calls) == 1
    assert (handled(url), halted(url)) == ([], NOT_HALTED)


def test_what_passes_by_itself_after_something_was_committed_is_the_outcomes_error(store: Store, url: str) -> None:
    claim(store, A, B)

    def handler(connection: Any, records: Sequence[Record]) -> None:
        keep(connection, records)
        if len(records) > 2:
            raise ValueError("too many")
        if len(records) == 2 and record(A, 2) in records:
            raise Retry("not now")

    outcome = store.apply_runs([run(A, -1, [0, 1, 2, 3])], handler)
    assert (outcome.through, outcome.halted, type(outcome.error)) == ({A: 1}, (), Retry)
    assert (handled(url), halted(url)) == (of(A, 0, 1), NOT_HALTED)


def test_a_database_that_fails_halts_nothing(store: Store, url: str) -> None:
    claim(store, A)
    refuse(url, "consumer_stream", "NEW.last >= 0")
    try:
        with pytest.raises(Exception, match="not here"):
            store.apply_runs([run(A, -1, [0, 1, 2])], keep)
    finally:
        remove_trigger(url, "consumer_stream")
    assert (handled(url), halted(url)) == ([], NOT_HALTED)


def test_a_halt_that_cannot_be_noted_is_the_outcomes_error(store: Store, url: str) -> None:
    claim(store, A, B)
    refuse(url, "consumer_stream", "NEW.halted_at IS NOT NULL")
    try:
        outcome = store.apply_runs([run(A, -1, [0, 1]), run(B, -1, [0])], Kept([(A, 1)]))
    finally:
        remove_trigger(url, "consumer_stream")
    assert outcome.through == {A: 0, B: 0}
    assert "not here" in str(outcome.error)
    assert halted(url) == NOT_HALTED
