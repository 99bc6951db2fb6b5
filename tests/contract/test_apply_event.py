"""Step 3: apply_event, where total and cursor are saved together or not at all."""

import asyncio
import contextlib
import decimal
import fractions
import re
import sqlite3
from collections.abc import Callable

import pytest

from consumer import Conflict, Gap, apply_event, open_store, state

from .helpers import (
    EMPTY,
    HERE,
    NOT_AN_INT,
    SEQ_MAX,
    Falsy,
    Odd,
    another,
    contents,
    holding,
    is_closed,
    raises_exactly,
    run_python,
    stored,
    traced,
)


def filled(con: sqlite3.Connection, *deltas: int) -> None:
    for seq, delta in enumerate(deltas):
        assert apply_event(con, seq, delta) is True


def kinds(statements: list[str]) -> list[str]:
    """What each statement is; what only looks, and savepoints, are left out."""
    told = []
    for statement in statements:
        words = " ".join(statement.upper().replace('"', "").replace("MAIN.", "").split())
        if words.startswith("INSERT INTO LEDGER"):
            told.append("ledger")
        elif words.startswith("UPDATE CHECKPOINT"):
            columns = re.findall(r"(\w+) ?=", words.partition(" SET ")[2].partition(" WHERE ")[0])
            told.append("+".join(columns).lower())
        elif not words.startswith(("SELECT", "PRAGMA", "SAVEPOINT", "RELEASE")):
            told.append(words.lower())
    return told


# --- types and ranges ----------------------------------------------------------------------------


class Untouchable:
    """In place of a connection: any look at it is one too many."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the connection was asked for {name}")


NUMBERS = [decimal.Decimal(0), fractions.Fraction(0), -1, 10**40, -(10**40)]
BAD_SEQS = [*NOT_AN_INT, *NUMBERS, SEQ_MAX + 1, 2**63]
BAD_DELTAS = [*NOT_AN_INT, *NUMBERS[:2], *NUMBERS[3:], -1001, 1001]


@pytest.mark.parametrize("seq", BAD_SEQS, ids=repr)
def test_a_seq_of_a_wrong_type_or_range_is_a_value_error_before_anything_is_touched(seq, con, path) -> None:
    with pytest.raises(ValueError):
        apply_event(Untouchable(), seq, 0)  # type: ignore[arg-type]
    filled(con, 7, 7)
    seen = traced(con)
    with pytest.raises(ValueError):
        apply_event(con, seq, 7)
    assert seen == []
    assert not con.in_transaction
    assert stored(path) == holding((0, 7), (1, 7))


@pytest.mark.parametrize("delta", BAD_DELTAS, ids=repr)
@pytest.mark.parametrize("seq", [0, 1, 2, 9], ids=["duplicate", "last", "next", "gap"])
def test_a_delta_of_a_wrong_type_or_range_is_a_value_error_before_anything_is_touched(seq, delta, con, path) -> None:
    with pytest.raises(ValueError):
        apply_event(Untouchable(), seq, delta)  # type: ignore[arg-type]
    filled(con, 1, 1)
    seen = traced(con)
    with pytest.raises(ValueError):
        apply_event(con, seq, delta)
    assert seen == []
    assert not con.in_transaction
    assert stored(path) == holding((0, 1), (1, 1))


@pytest.mark.parametrize("delta", [0, 1, -1, 1000, -1000])
def test_every_delta_in_range_is_taken(delta, con, path) -> None:
    assert apply_event(con, 0, delta) is True
    assert stored(path) == holding((0, delta))


def test_the_largest_seq_is_the_last_that_fits(con, path) -> None:
    con.execute("UPDATE checkpoint SET last=2147483645")
    assert apply_event(con, SEQ_MAX - 1, 1) is True
    assert apply_event(con, SEQ_MAX, -1) is True
    assert apply_event(con, SEQ_MAX, -1) is False
    with pytest.raises(ValueError):
        apply_event(con, SEQ_MAX + 1, 1)
    assert state(con) == (SEQ_MAX, 0)


# --- the next event ------------------------------------------------------------------------------


def test_the_next_event_is_applied_and_true(con, path) -> None:
    expected = []
    for seq, delta in enumerate([5, -7, 0, 1000, -1000, 5]):
        assert apply_event(con, seq, delta) is True
        expected.append((seq, delta))
        assert state(con) == (seq, sum(delta for _, delta in expected))
        assert stored(path) == holding(*expected)
        assert not con.in_transaction


def test_the_total_goes_on_from_what_is_stored(con) -> None:
    con.execute("UPDATE checkpoint SET last=41, total=1000000")
    assert apply_event(con, 42, -1) is True
    assert state(con) == (42, 999999)


def test_the_statements_run_in_the_contracts_order_in_one_transaction(con) -> None:
    seen = traced(con)
    apply_event(con, 0, 5, lambda: seen.append("FAULT"))
    assert kinds(seen) == ["begin immediate", "ledger", "total", "fault", "last", "commit"]


def test_without_fault_total_and_last_are_two_statements_too(con) -> None:
    seen = traced(con)
    apply_event(con, 0, 5)
    assert kinds(seen) == ["begin immediate", "ledger", "total", "last", "commit"]


def test_fault_sees_ledger_row_and_new_total_beside_the_old_last(con, path) -> None:
    filled(con, 5, 6)
    seen = []

    def fault() -> None:
        assert con.in_transaction
        with another(path) as other:
            seen.append((contents(con), contents(other)))

    assert apply_event(con, 2, 7, fault) is True
    own = ([(1, 1, 18)], [(0, 5), (1, 6), (2, 7)])
    others = ([(1, 1, 11)], [(0, 5), (1, 6)])
    assert seen == [(own, others)]
    assert stored(path) == holding((0, 5), (1, 6), (2, 7))


def test_fault_is_called_once_without_arguments(con) -> None:
    calls = []
    apply_event(con, 0, 5, lambda *args, **kwargs: calls.append((args, kwargs)))
    assert calls == [((), {})]


def test_fault_can_be_given_by_name(con) -> None:
    calls = []
    assert apply_event(con=con, seq=0, delta=5, fault=lambda: calls.append(1)) is True
    assert calls == [1]


@pytest.mark.parametrize("result", [None, False, True, 0, "no", RuntimeError("no"), RuntimeError, Conflict], ids=repr)
def test_what_fault_returns_is_ignored(result, con, path) -> None:
    assert apply_event(con, 0, 5, lambda: result) is True
    assert stored(path) == holding((0, 5))


def test_a_fault_that_is_false_and_calls_itself_none_is_called(con, path) -> None:
    fault = Falsy()
    assert apply_event(con, 0, 5, fault) is True
    assert fault.calls == [()]
    assert stored(path) == holding((0, 5))


@pytest.mark.parametrize("fault", [0, False, "", (), []], ids=repr)
def test_none_alone_means_no_fault(fault, con, path) -> None:
    assert apply_event(con, 0, 5, None) is True
    with pytest.raises(TypeError):
        apply_event(con, 1, 5, fault)
    assert not con.in_transaction
    assert stored(path) == holding((0, 5))


def test_what_fault_writes_is_committed_with_the_event(con, path) -> None:
    con.execute("CREATE TABLE theirs(x)")
    apply_event(con, 0, 5, lambda: con.execute("INSERT INTO theirs VALUES(1)"))
    with another(path) as other:
        assert other.execute("SELECT x FROM theirs").fetchall() == [(1,)]


def test_fault_may_use_savepoints_of_its_own(con, path) -> None:
    con.execute("CREATE TABLE theirs(x)")

    def fault() -> None:
        con.execute("SAVEPOINT theirs")
        con.execute("INSERT INTO theirs VALUES(1)")
        con.execute("ROLLBACK TO theirs")
        con.execute("RELEASE theirs")
        con.execute("SAVEPOINT left_open")
        con.execute("INSERT INTO theirs VALUES(2)")

    assert apply_event(con, 0, 5, fault) is True
    assert not con.in_transaction
    assert stored(path) == holding((0, 5))
    with another(path) as other:
        assert other.execute("SELECT x FROM theirs").fetchall() == [(2,)]


def test_a_fault_that_tries_to_nest_is_refused_and_the_event_around_it_goes_on(con, path) -> None:
    def fault() -> None:
        with pytest.raises(sqlite3.Error):
            apply_event(con, 1, 6)

    assert apply_event(con, 0, 5, fault) is True
    assert stored(path) == holding((0, 5))


# --- an event at or below the cursor -------------------------------------------------------------


def test_a_duplicate_with_the_same_delta_is_false_and_changes_nothing(con, path) -> None:
    filled(con, 5, 6, 7)
    for seq, delta in [(2, 7), (0, 5), (1, 6), (2, 7)]:
        assert apply_event(con, seq, delta) is False
        assert not con.in_transaction
    assert stored(path) == holding((0, 5), (1, 6), (2, 7))


@pytest.mark.parametrize(("seq", "delta"), [(2, 6), (0, 6), (1, -6), (2, 0)])
def test_another_delta_under_a_known_seq_is_a_conflict(seq, delta, con, path) -> None:
    filled(con, 5, 6, 7)
    with pytest.raises(Conflict):
        apply_event(con, seq, delta)
    assert not con.in_transaction
    assert stored(path) == holding((0, 5), (1, 6), (2, 7))


@pytest.mark.parametrize("delta", [6, 0])
def test_a_missing_row_below_the_cursor_is_a_conflict(delta, con, path) -> None:
    filled(con, 5, 6, 7)
    con.execute("DELETE FROM ledger WHERE seq=1")
    before = stored(path)
    with pytest.raises(Conflict):
        apply_event(con, 1, delta)
    assert not con.in_transaction
    assert stored(path) == before


def test_a_missing_row_at_the_cursor_is_a_conflict(con) -> None:
    con.execute("UPDATE checkpoint SET last=5")
    with pytest.raises(Conflict):
        apply_event(con, 5, 0)
    assert not con.in_transaction


@pytest.mark.parametrize("value", [None, "six", b"6", 6.5])
def test_anything_else_in_the_ledger_is_a_conflict(value, path) -> None:
    with another(path) as con:
        con.execute("CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER)")
    con = open_store(path)
    con.execute("INSERT INTO ledger VALUES(0, ?)", (value,))
    con.execute("UPDATE checkpoint SET last=0")
    for delta in [0, 6]:
        with pytest.raises(Conflict):
            apply_event(con, 0, delta)
    assert not con.in_transaction
    con.close()


def test_fault_is_not_called_for_a_duplicate_a_conflict_or_a_gap(con) -> None:
    filled(con, 5, 6)
    fault = Falsy()
    assert apply_event(con, 1, 6, fault) is False
    with pytest.raises(Conflict):
        apply_event(con, 1, 7, fault)
    with pytest.raises(Gap):
        apply_event(con, 3, 7, fault)
    assert fault.calls == []


# --- an event beyond the next --------------------------------------------------------------------


@pytest.mark.parametrize("seq", [1, 2, 100, SEQ_MAX])
def test_on_an_empty_store_everything_but_0_is_a_gap(seq, con, path) -> None:
    with pytest.raises(Gap):
        apply_event(con, seq, 5)
    assert not con.in_transaction
    assert stored(path) == EMPTY


@pytest.mark.parametrize("seq", [3, 4, SEQ_MAX])
def test_an_event_beyond_the_next_is_a_gap_and_changes_nothing(seq, con, path) -> None:
    filled(con, 5, 6)
    with pytest.raises(Gap):
        apply_event(con, seq, 5)
    assert not con.in_transaction
    assert stored(path) == holding((0, 5), (1, 6))
    assert apply_event(con, 2, 5) is True


def test_a_gap_does_not_depend_on_what_the_ledger_holds(con) -> None:
    con.execute("INSERT INTO ledger VALUES(4, 5)")
    with pytest.raises(Gap):
        apply_event(con, 4, 5)


@pytest.mark.parametrize(("seq", "delta"), [(2, 1), (1, 6), (1, 7), (9, 1)], ids=["next", "same", "other", "gap"])
def test_every_decision_is_read_under_the_write_lock(seq, delta, con, path) -> None:
    filled(con, 5, 6)
    seen = traced(con)
    with contextlib.suppress(Gap, Conflict):
        apply_event(con, seq, delta)
    looking = [" ".join(s.upper().split()) for s in seen if not s.upper().startswith("PRAGMA")]
    assert looking[0] == "BEGIN IMMEDIATE"
    assert "SELECT" in " ".join(looking[1:])
    con.set_trace_callback(None)
    con.execute("PRAGMA busy_timeout=0")
    with another(path) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            apply_event(con, seq, delta)
        writer.execute("ROLLBACK")
    assert not con.in_transaction


def test_processes_on_one_store_apply_every_event_once_between_them(path) -> None:
    out = run_python(str(HERE / "racers.py"), "apply", str(path), "3", "25")
    new = [int(seq) for line in out.split() for seq in line.split(",")]
    assert sorted(new) == list(range(25))
    assert stored(path) == holding(*((seq, seq - 10) for seq in range(25)))


# --- failures ------------------------------------------------------------------------------------

ERRORS = [
    RuntimeError("no"),
    ValueError("no"),
    Gap(1, 2),
    Conflict(1, 2, 3),
    sqlite3.OperationalError("no"),
    sqlite3.IntegrityError("no"),
    StopIteration("no"),
    KeyboardInterrupt("no"),
    SystemExit(3),
    GeneratorExit("no"),
    asyncio.CancelledError("no"),
    BaseException("no"),
    Odd("no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_fault_rolls_everything_back_and_is_itself_raised(error, con, path) -> None:
    filled(con, 5, 6)
    con.execute("CREATE TABLE theirs(x)")

    def fault() -> None:
        con.execute("INSERT INTO theirs VALUES(1)")
        raise error

    with raises_exactly(error):
        apply_event(con, 2, 7, fault)
    assert not con.in_transaction
    assert contents(con) == stored(path) == holding((0, 5), (1, 6))
    assert con.execute("SELECT x FROM theirs").fetchall() == []
    assert apply_event(con, 2, 7) is True


@pytest.mark.parametrize("given", [False, True], ids=["no fault", "a fault"])
@pytest.mark.parametrize(
    "error",
    [sqlite3.OperationalError("no"), RuntimeError("no"), KeyboardInterrupt("no"), Odd("no")],
    ids=lambda error: type(error).__name__,
)
def test_whatever_statement_fails_everything_rolls_back(error, given, watched, path) -> None:
    fault = Falsy() if given else None
    for nth in range(50):
        watched.arm(nth, error)
        try:
            result = apply_event(watched, 0, 5, fault)
        except type(error) as caught:
            assert caught is error  # noqa: PT017 - the loop ends where nothing fails
            watched.arm(None)
            assert not watched.in_transaction
            assert contents(watched) == stored(path) == EMPTY
        else:
            assert result is True
            break
    assert nth >= 5  # begin, ledger, total, last, commit at the least
    assert stored(path) == holding((0, 5))


@pytest.mark.parametrize(("seq", "delta"), [(1, 6), (1, 7), (9, 1)], ids=["duplicate", "conflict", "gap"])
def test_whatever_statement_fails_of_another_decision_no_transaction_stays(seq, delta, watched, path) -> None:
    filled(watched, 5, 6)
    error = RuntimeError("no")
    for nth in range(50):
        watched.arm(nth, error)
        try:
            apply_event(watched, seq, delta)
        except RuntimeError as caught:
            assert caught is error  # noqa: PT017 - the loop ends where nothing fails
        except (Gap, Conflict):
            break
        else:
            break
        finally:
            assert not watched.in_transaction
    assert nth >= 2  # begin, and at least one look
    watched.arm(None)
    assert stored(path) == holding((0, 5), (1, 6))


def test_a_ledger_row_that_is_already_there_is_an_error_and_is_kept(con, path) -> None:
    con.execute("INSERT INTO ledger VALUES(0, 9)")
    before = stored(path)
    for delta in [9, 5]:
        with pytest.raises(sqlite3.IntegrityError):
            apply_event(con, 0, delta)
        assert not con.in_transaction
        assert stored(path) == before


PLACES = {
    "ledger": "BEFORE INSERT ON ledger",
    "ledger, afterwards": "AFTER INSERT ON ledger",
    "total": "BEFORE UPDATE OF total ON checkpoint",
    "total, afterwards": "AFTER UPDATE OF total ON checkpoint",
    "last": "BEFORE UPDATE OF last ON checkpoint",
    "last, afterwards": "AFTER UPDATE OF last ON checkpoint",
}


@pytest.mark.parametrize("given", [False, True], ids=["no fault", "a fault"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("how", ["ABORT", "FAIL", "ROLLBACK"])
def test_a_trigger_that_fails_rolls_everything_back_and_is_not_masked(how, place, given, con, path) -> None:
    filled(con, 5)
    con.execute(f"CREATE TRIGGER t {place} BEGIN SELECT RAISE({how}, 'by the trigger'); END")
    with pytest.raises(sqlite3.IntegrityError, match=r"^by the trigger$"):
        apply_event(con, 1, 6, Falsy() if given else None)
    assert not con.in_transaction
    assert contents(con) == stored(path) == holding((0, 5))
    con.execute("DROP TRIGGER t")
    assert apply_event(con, 1, 6) is True


@pytest.mark.parametrize("place", [place for place in PLACES.values() if place.startswith("BEFORE")])
def test_a_trigger_that_ignores_a_write_moves_nothing(place, con, path) -> None:
    """SQLite reports no error then, only that no row was changed."""
    filled(con, 5)
    con.execute(f"CREATE TRIGGER t {place} BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises(sqlite3.Error):
        apply_event(con, 1, 6)
    assert not con.in_transaction
    assert contents(con) == stored(path) == holding((0, 5))


# While another connection reads, SQLite in its default journal mode lets us write, but not commit.


@pytest.mark.parametrize("reading", ["transaction", "open cursor"])
def test_a_commit_that_a_reader_is_in_the_way_of_rolls_back_and_raises(reading, con, path) -> None:
    filled(con, 5, 6)
    con.execute("PRAGMA busy_timeout=20")
    with another(path) as reader:
        if reading == "transaction":
            reader.execute("BEGIN")
        cursor = reader.execute("SELECT * FROM ledger")
        assert cursor.fetchone() == (0, 5)
        fault = Falsy()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            apply_event(con, 2, 7, fault)
        assert fault.calls == [()]
        assert not con.in_transaction
        assert contents(con) == holding((0, 5), (1, 6))
        cursor.close()
    assert stored(path) == holding((0, 5), (1, 6))
    assert apply_event(con, 2, 7) is True


def test_a_commit_that_a_deferred_constraint_refuses_rolls_back_and_raises(con, path) -> None:
    con.execute("PRAGMA foreign_keys=ON")
    con.execute("CREATE TABLE parent(x INTEGER PRIMARY KEY)")
    con.execute("CREATE TABLE child(x REFERENCES parent(x) DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        apply_event(con, 0, 5, lambda: con.execute("INSERT INTO child VALUES(1)"))
    assert not con.in_transaction
    assert stored(path) == EMPTY
    assert con.execute("SELECT x FROM child").fetchall() == []


# --- faults that end the transaction -------------------------------------------------------------


def swallowed(con: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        con.execute("INSERT OR ROLLBACK INTO ledger VALUES(2, 7)")


Endings = dict[str, Callable[[sqlite3.Connection], object]]

ROLLING_BACK: Endings = {
    "ROLLBACK": lambda con: con.execute("ROLLBACK"),
    "rollback()": lambda con: con.rollback(),
    "an INSERT OR ROLLBACK that was swallowed": swallowed,
}
COMMITTING: Endings = {
    "COMMIT": lambda con: con.execute("COMMIT"),
    "END": lambda con: con.execute("END TRANSACTION"),
    "commit()": lambda con: con.commit(),
    "executescript()": lambda con: con.executescript("SELECT 1"),  # commits first, by its nature
}
BEGINNING: Endings = {
    "nothing": lambda con: None,
    "BEGIN": lambda con: con.execute("BEGIN"),
    "BEGIN IMMEDIATE": lambda con: con.execute("BEGIN IMMEDIATE"),
    "SAVEPOINT": lambda con: con.execute("SAVEPOINT theirs"),
}


# What a fault leaves behind that committed: not to be undone, and not to be added to.
HALF = ([(1, 1, 18)], [(0, 5), (1, 6), (2, 7)])


@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING)
@pytest.mark.parametrize("end", [*ROLLING_BACK.values(), *COMMITTING.values()], ids=[*ROLLING_BACK, *COMMITTING])
def test_a_fault_that_ended_the_transaction_and_raised_is_not_masked(end, begin, con, path) -> None:
    filled(con, 5, 6)
    error = RuntimeError("the original")

    def fault() -> None:
        end(con)
        begin(con)
        raise error

    with raises_exactly(error):
        apply_event(con, 2, 7, fault)
    assert not con.in_transaction
    kept = holding((0, 5), (1, 6)) if end in ROLLING_BACK.values() else HALF
    assert contents(con) == stored(path) == kept


@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING)
@pytest.mark.parametrize("end", ROLLING_BACK.values(), ids=ROLLING_BACK)
def test_a_fault_that_rolled_back_and_returned_is_an_error_and_nothing_more_is_written(end, begin, con, path) -> None:
    filled(con, 5, 6)

    def fault() -> None:
        end(con)
        begin(con)

    with pytest.raises(sqlite3.Error):
        apply_event(con, 2, 7, fault)
    assert not con.in_transaction
    assert contents(con) == stored(path) == holding((0, 5), (1, 6))
    assert apply_event(con, 2, 7) is True


@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING)
@pytest.mark.parametrize("end", COMMITTING.values(), ids=COMMITTING)
def test_a_fault_that_committed_and_returned_is_an_error_and_nothing_more_is_written(end, begin, con, path) -> None:
    filled(con, 5, 6)

    def fault() -> None:
        end(con)
        begin(con)

    with pytest.raises(sqlite3.Error):
        apply_event(con, 2, 7, fault)
    assert not con.in_transaction
    assert contents(con) == stored(path) == HALF


@pytest.mark.parametrize("end", ROLLING_BACK.values(), ids=ROLLING_BACK)
def test_a_fault_that_did_our_writing_anew_in_another_transaction_is_found_out(end, con, path) -> None:
    filled(con, 5, 6)

    def fault() -> None:
        end(con)
        con.execute("BEGIN IMMEDIATE")
        con.execute("INSERT INTO ledger VALUES(2, 7)")
        con.execute("UPDATE checkpoint SET total=total+7")

    with pytest.raises(sqlite3.Error):
        apply_event(con, 2, 7, fault)
    assert not con.in_transaction
    assert contents(con) == stored(path) == holding((0, 5), (1, 6))


def test_a_fault_that_ended_the_transaction_and_began_a_whole_one_is_found_out(con, path) -> None:
    filled(con, 5, 6)

    def fault() -> None:
        con.execute("ROLLBACK")
        assert apply_event(con, 2, 7) is True

    with pytest.raises(sqlite3.Error):
        apply_event(con, 2, 7, fault)
    assert not con.in_transaction
    assert contents(con) == stored(path) == holding((0, 5), (1, 6), (2, 7))


def test_a_fault_that_closed_the_connection_and_returned_is_an_error(con, path) -> None:
    with pytest.raises(sqlite3.Error):
        apply_event(con, 0, 5, con.close)
    assert is_closed(con)
    assert stored(path) == EMPTY


def test_a_fault_that_closed_the_connection_and_raised_is_not_masked(con, path) -> None:
    error = RuntimeError("the original")

    def fault() -> None:
        con.close()
        raise error

    with raises_exactly(error):
        apply_event(con, 0, 5, fault)
    assert stored(path) == EMPTY


# --- a caller's transaction ----------------------------------------------------------------------


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT theirs"])
@pytest.mark.parametrize(("seq", "delta"), [(2, 7), (1, 6), (1, 0), (9, 1)], ids=["next", "same", "other", "gap"])
def test_a_callers_transaction_is_refused_and_left_alone(begin, seq, delta, con, path) -> None:
    filled(con, 5, 6)
    con.execute("CREATE TABLE theirs(x)")
    con.execute(begin)
    con.execute("INSERT INTO theirs VALUES(1)")
    seen = traced(con)
    fault = Falsy()
    with pytest.raises(sqlite3.Error):
        apply_event(con, seq, delta, fault)
    assert seen == []
    con.set_trace_callback(None)
    assert fault.calls == []
    assert con.in_transaction
    assert contents(con) == holding((0, 5), (1, 6))
    con.execute("INSERT INTO theirs VALUES(2)")
    con.execute("COMMIT")
    assert stored(path) == holding((0, 5), (1, 6))
    with another(path) as other:
        assert other.execute("SELECT x FROM theirs").fetchall() == [(1,), (2,)]
    assert apply_event(con, 2, 7) is True


def test_a_value_error_comes_before_a_callers_transaction_is_looked_at(con) -> None:
    con.execute("BEGIN")
    with pytest.raises(ValueError):
        apply_event(con, -1, 5)
    assert con.in_transaction
    con.execute("ROLLBACK")


# --- the caller's ways ---------------------------------------------------------------------------

FACTORIES = {
    "Row": sqlite3.Row,
    "dict": lambda cursor, row: {"no": "tuple"},
    "nothing": lambda cursor, row: None,
    "one": lambda cursor, row: row[0],
}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES)
def test_it_holds_under_a_callers_row_factory_which_is_kept(factory, con, path) -> None:
    con.row_factory = factory
    expected = another_row(factory)
    seen = []

    def fault() -> None:
        seen.append(con.execute("SELECT 5 AS five, 6 AS six").fetchone())

    assert apply_event(con, 0, 5, fault) is True
    assert apply_event(con, 1, 6) is True
    assert apply_event(con, 0, 5) is False
    with pytest.raises(Conflict):
        apply_event(con, 0, 6)
    with pytest.raises(Gap):
        apply_event(con, 3, 6)
    assert con.row_factory is factory
    assert seen == [expected]
    assert state(con) == (1, 11)
    assert stored(path) == holding((0, 5), (1, 6))


def another_row(factory: object) -> object:
    """What the factory makes of the fault's own row."""
    with another(":memory:") as con:
        con.row_factory = factory  # type: ignore[assignment]
        return con.execute("SELECT 5 AS five, 6 AS six").fetchone()


def test_it_works_in_a_file_in_wal_mode(path) -> None:
    with another(path) as other:
        other.execute("PRAGMA journal_mode=wal")
    con = open_store(path)
    with another(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sqlite_master").fetchall()
        assert apply_event(con, 0, 5) is True
    assert stored(path) == holding((0, 5))
    con.close()
