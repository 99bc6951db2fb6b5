"""Step 5: consume_line, where an ACK exists only after the commit."""

import sqlite3

import pytest

from consumer import Conflict, Gap, consume_line, open_store, state

from .helpers import (
    EMPTY,
    Falsy,
    Odd,
    another,
    contents,
    holding,
    is_closed,
    raises_exactly,
    stored,
    traced,
)


def test_a_new_event_gives_its_ack_line(con) -> None:
    ack = consume_line(con, b"EVENT 0 5\n")
    assert ack == b"ACK 0\n"
    assert type(ack) is bytes
    assert contents(con) == holding((0, 5))


def test_the_ack_carries_the_seq_of_the_line(con) -> None:
    for seq in range(12):
        assert consume_line(con, b"EVENT %d -3\n" % seq) == b"ACK %d\n" % seq


def test_the_largest_seq_is_acknowledged_in_full(con) -> None:
    con.execute("UPDATE checkpoint SET last=2147483646")
    assert consume_line(con, b"EVENT 2147483647 -1000\n") == b"ACK 2147483647\n"


def test_a_duplicate_with_the_same_content_is_acknowledged_and_not_counted(con) -> None:
    for _ in range(3):
        assert consume_line(con, b"EVENT 0 5\n") == b"ACK 0\n"
    assert contents(con) == holding((0, 5))


def test_an_old_duplicate_is_acknowledged_with_its_own_seq(con) -> None:
    for seq in range(4):
        consume_line(con, b"EVENT %d 1\n" % seq)
    assert consume_line(con, b"EVENT 1 1\n") == b"ACK 1\n"


def test_when_the_ack_exists_another_connection_sees_the_result(con, path) -> None:
    with another(path) as other:
        assert consume_line(con, b"EVENT 0 5\n") == b"ACK 0\n"
        assert contents(other) == holding((0, 5))
        assert not con.in_transaction


@pytest.mark.parametrize("line", [b"EVENT 0 5", b"EVENT 0 5\r\n", b"EVENT 0 1001\n", b"", b"\n", "EVENT 0 5\n", None])
def test_a_line_that_does_not_parse_raises_and_touches_nothing(con, path, line) -> None:
    seen = traced(con)
    with pytest.raises(ValueError):
        consume_line(con, line)
    assert seen == []
    assert stored(path) == EMPTY


def test_a_line_is_parsed_before_the_connection_is_looked_at() -> None:
    with pytest.raises(ValueError):
        consume_line(None, b"EVENT 0 5")  # type: ignore[arg-type]


def test_a_gap_raises(con, path) -> None:
    with pytest.raises(Gap):
        consume_line(con, b"EVENT 1 5\n")
    assert stored(path) == EMPTY


def test_a_conflict_raises(con, path) -> None:
    consume_line(con, b"EVENT 0 5\n")
    with pytest.raises(Conflict):
        consume_line(con, b"EVENT 0 6\n")
    assert stored(path) == holding((0, 5))


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt("no"), Odd("no")])
def test_an_error_of_fault_passes_and_nothing_stays(con, path, error) -> None:
    def fault() -> None:
        raise error

    with raises_exactly(error):
        consume_line(con, b"EVENT 0 5\n", fault)
    assert not con.in_transaction
    assert stored(path) == EMPTY
    assert consume_line(con, b"EVENT 0 5\n") == b"ACK 0\n"


def test_fault_is_passed_on_and_its_result_ignored(con, path) -> None:
    seen = []

    def fault() -> bool:
        with another(path) as other:
            seen.append((contents(con), contents(other)))
        return False

    assert consume_line(con, b"EVENT 0 5\n", fault) == b"ACK 0\n"
    assert seen == [(([(1, -1, 5)], [(0, 5)]), EMPTY)]


def test_a_fault_that_is_false_is_called(con) -> None:
    fault = Falsy()
    assert consume_line(con, b"EVENT 0 5\n", fault=fault) == b"ACK 0\n"
    assert fault.calls == [()]


def test_fault_is_not_called_for_a_duplicate(con) -> None:
    consume_line(con, b"EVENT 0 5\n")
    fault = Falsy()
    assert consume_line(con, b"EVENT 0 5\n", fault) == b"ACK 0\n"
    assert fault.calls == []


def test_a_commit_that_fails_gives_no_ack(con, path) -> None:
    con.execute("PRAGMA busy_timeout=20")
    with another(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM ledger").fetchall()
        with pytest.raises(sqlite3.OperationalError):
            consume_line(con, b"EVENT 0 5\n")
    assert stored(path) == EMPTY
    assert consume_line(con, b"EVENT 0 5\n") == b"ACK 0\n"


def test_a_callers_transaction_is_refused(con) -> None:
    con.execute("BEGIN")
    with pytest.raises(sqlite3.Error):
        consume_line(con, b"EVENT 0 5\n")
    assert con.in_transaction
    con.execute("ROLLBACK")


def test_it_holds_under_a_callers_row_factory(con) -> None:
    con.row_factory = lambda cursor, row: {"no": "tuple"}
    assert consume_line(con, b"EVENT 0 5\n") == b"ACK 0\n"
    assert consume_line(con, b"EVENT 0 5\n") == b"ACK 0\n"


def test_the_connection_stays_open(con, path) -> None:
    with pytest.raises(Gap):
        consume_line(con, b"EVENT 7 5\n")
    assert not is_closed(con)
    assert state(con) == (-1, 0)


def test_it_carries_on_in_a_store_that_was_closed(path) -> None:
    for seq in range(3):
        con = open_store(path)
        assert consume_line(con, b"EVENT %d 2\n" % seq) == b"ACK %d\n" % seq
        con.close()
    assert stored(path) == holding((0, 2), (1, 2), (2, 2))
