"""Step 6: consume_session, on fakes that have nothing but what the contract names.

Most tests run on a clock that jumps (`virtual`): what is said of waits is checked to the second and takes no time.
"""

import asyncio
import decimal
import fractions
import sqlite3
import sys
from typing import Any

import pytest

from consumer import Conflict, Gap, consume_session, state

from .helpers import (
    ABORTED,
    CLOSED,
    EMPTY,
    SHORT_S,
    FakeReader,
    FakeWriter,
    Falsy,
    Gate,
    Odd,
    after,
    another,
    clock,
    closing,
    contents,
    forever,
    holding,
    is_closed,
    outcome,
    raises_exactly,
    stored,
    streams,
    virtual,
)

LINES = [b"EVENT 0 5\n", b"EVENT 1 -7\n", b"EVENT 2 100\n"]
EVENTS = [(0, 5), (1, -7), (2, 100)]

# What ends the wait for closing without being worth an error.
QUIET = [
    TimeoutError("by itself"),
    ConnectionError("no"),
    ConnectionResetError("no"),
    ConnectionAbortedError("no"),
    BrokenPipeError("no"),
]
LOUD = [OSError("no"), RuntimeError("no"), ValueError("no"), sqlite3.OperationalError("no")]


def by_type(error: BaseException) -> str:
    return type(error).__name__


# --- the timeout ---------------------------------------------------------------------------------

INVALID = [
    0,
    0.0,
    -0.0,
    -1,
    -0.5,
    -(10**400),
    True,
    False,
    None,
    float("nan"),
    float("inf"),
    float("-inf"),
    "1",
    "inf",
    b"1",
    "",
    1j,
    [],
    [1],
    (1,),
    decimal.Decimal(1),
    decimal.Decimal("0.5"),
    fractions.Fraction(1),
    fractions.Fraction(1, 2),
]


@pytest.mark.parametrize("timeout", INVALID, ids=lambda t: repr(t)[:20])
@virtual
async def test_an_invalid_timeout_is_a_value_error_before_anything_is_read(timeout, con) -> None:
    reader, writer, log = streams(*LINES)
    with pytest.raises(ValueError):
        await consume_session(reader, writer, con, timeout)
    assert log == CLOSED
    assert contents(con) == EMPTY


@pytest.mark.parametrize("timeout", INVALID, ids=lambda t: repr(t)[:20])
@virtual
async def test_with_an_invalid_timeout_closing_takes_one_second_at_most(timeout, con) -> None:
    begin = clock()
    reader, writer, log = streams(*LINES, wait_closed=forever)
    with pytest.raises(ValueError):
        await consume_session(reader, writer, con, timeout)
    assert log == ABORTED
    assert clock() - begin == pytest.approx(1)


@virtual
async def test_with_an_invalid_timeout_closing_is_given_its_second(con) -> None:
    reader, writer, log = streams(*LINES, wait_closed=after(0.99))
    with pytest.raises(ValueError):
        await consume_session(reader, writer, con, 0)
    assert log == CLOSED


VALID = [1, 0.001, 1.5, 86400, 10**9, 1e300, sys.float_info.max, 10**18, 2**63, 10**300]


@pytest.mark.parametrize("timeout", VALID, ids=lambda t: repr(t)[:20])
@virtual
async def test_every_positive_finite_int_or_float_is_a_timeout(timeout, con) -> None:
    reader, writer, log = streams(*LINES)
    assert await consume_session(reader, writer, con, timeout) == (2, 98)
    assert closing(log) == CLOSED


@pytest.mark.parametrize("exponent", [20, 100, 308, 309, 310, 400, 5000])
@virtual
async def test_an_int_too_large_for_a_clock_works_or_is_a_value_error(exponent, con) -> None:
    reader, writer, log = streams(*LINES)
    try:
        result = await consume_session(reader, writer, con, 10**exponent)
    except ValueError as error:
        assert "readline" not in log, error  # noqa: PT017 - the type is only one of two ways
    else:
        assert result == (2, 98)
    assert closing(log) == CLOSED


@pytest.mark.parametrize("timeout", [5e-324, sys.float_info.min, 1e-9])
async def test_the_smallest_timeouts_are_timeouts_too(timeout, con) -> None:
    reader, writer, log = streams()
    result = await outcome(consume_session(reader, writer, con, timeout))
    assert result == (-1, 0) or isinstance(result, TimeoutError)
    assert log[:2] == ["readline", "close"]


# --- a session that goes well --------------------------------------------------------------------


@virtual
async def test_events_are_committed_acknowledged_and_counted(con, path) -> None:
    reader, writer, log = streams(*LINES)
    result = await consume_session(reader, writer, con, 1)
    assert result == (2, 98)
    assert type(result) is tuple
    assert stored(path) == holding(*EVENTS)
    assert log == [
        *("readline", b"ACK 0\n", "drain"),
        *("readline", b"ACK 1\n", "drain"),
        *("readline", b"ACK 2\n", "drain"),
        *("readline", "close", "wait_closed"),
    ]


@virtual
async def test_at_the_end_of_the_stream_the_state_is_returned(con) -> None:
    con.execute("UPDATE checkpoint SET last=7, total=70")
    reader, writer, log = streams()
    assert await consume_session(reader, writer, con, 1) == (7, 70)
    assert log == ["readline", *CLOSED]


@virtual
async def test_the_state_is_a_plain_tuple_under_a_callers_row_factory(con) -> None:
    con.row_factory = sqlite3.Row
    reader, writer, _ = streams(*LINES)
    result = await consume_session(reader, writer, con, 1)
    assert result == (2, 98)
    assert type(result) is tuple


@virtual
async def test_duplicates_are_acknowledged_and_not_counted(con, path) -> None:
    reader, writer, log = streams(LINES[0], LINES[0], LINES[1], LINES[0], LINES[1])
    assert await consume_session(reader, writer, con, 1) == (1, -2)
    acks = [entry for entry in log if isinstance(entry, bytes)]
    assert acks == [b"ACK 0\n", b"ACK 0\n", b"ACK 1\n", b"ACK 0\n", b"ACK 1\n"]
    assert stored(path) == holding(*EVENTS[:2])


@virtual
async def test_an_ack_is_written_when_another_connection_sees_the_event(con, path) -> None:
    seen = []
    reader, writer, _ = streams(*LINES)
    write = writer.write
    with another(path) as other:
        writer.write = lambda data: (seen.append((data, state(other))), write(data))
        await consume_session(reader, writer, con, 1)
    assert seen == [(b"ACK 0\n", (0, 5)), (b"ACK 1\n", (1, -2)), (b"ACK 2\n", (2, 98))]


@virtual
async def test_the_database_connection_stays_open_after_a_success(con) -> None:
    reader, writer, _ = streams(*LINES)
    await consume_session(reader, writer, con, 1)
    assert not is_closed(con)
    assert state(con) == (2, 98)


# --- before_ack ----------------------------------------------------------------------------------


@virtual
async def test_before_ack_comes_after_the_commit_and_before_the_write(con, path) -> None:
    reader, writer, log = streams(*LINES)
    with another(path) as other:

        def before_ack(seq: int) -> None:
            log.append(("before_ack", seq, state(other), con.in_transaction))

        await consume_session(reader, writer, con, 1, before_ack)
    assert log[:8] == [
        *("readline", ("before_ack", 0, (0, 5), False), b"ACK 0\n", "drain"),
        *("readline", ("before_ack", 1, (1, -2), False), b"ACK 1\n", "drain"),
    ]


@virtual
async def test_before_ack_gets_the_seq_alone_and_as_an_int(con) -> None:
    calls = []
    reader, writer, _ = streams(*LINES)
    await consume_session(reader, writer, con, 1, lambda *args, **kw: calls.append((args, kw)))
    assert calls == [((0,), {}), ((1,), {}), ((2,), {})]
    assert {type(args[0]) for args, _ in calls} == {int}


@virtual
async def test_before_ack_is_called_for_a_duplicate_that_is_acknowledged(con) -> None:
    calls = []
    reader, writer, _ = streams(LINES[0], LINES[0])
    await consume_session(reader, writer, con, 1, calls.append)
    assert calls == [0, 0]


@virtual
async def test_before_ack_is_not_called_without_an_ack(con) -> None:
    calls = []
    reader, writer, _ = streams(LINES[0], b"EVENT 0 6\n")
    with pytest.raises(Conflict):
        await consume_session(reader, writer, con, 1, calls.append)
    assert calls == [0]


@pytest.mark.parametrize("result", [False, None, 0, RuntimeError("no"), b"NAK\n"], ids=repr)
@virtual
async def test_what_before_ack_returns_is_ignored(result, con) -> None:
    reader, writer, log = streams(*LINES)
    assert await consume_session(reader, writer, con, 1, lambda seq: result) == (2, 98)
    assert [entry for entry in log if isinstance(entry, bytes)] == [
        b"ACK 0\n",
        b"ACK 1\n",
        b"ACK 2\n",
    ]


@virtual
async def test_a_before_ack_that_is_false_and_calls_itself_none_is_called(con) -> None:
    before_ack = Falsy()
    reader, writer, _ = streams(*LINES)
    assert await consume_session(reader, writer, con, 1, before_ack) == (2, 98)
    assert before_ack.calls == [(0,), (1,), (2,)]


@pytest.mark.parametrize("before_ack", [0, False, "", ()], ids=repr)
@virtual
async def test_none_alone_means_no_before_ack(before_ack, con, path) -> None:
    reader, writer, log = streams(*LINES)
    with pytest.raises(TypeError):
        await consume_session(reader, writer, con, 1, before_ack)
    assert log == ["readline", *CLOSED]
    assert stored(path) == holding(EVENTS[0])


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), ConnectionResetError("no"), TimeoutError("no"), Odd("no")], ids=by_type
)
@virtual
async def test_an_error_of_before_ack_passes_the_event_stays_and_no_ack_is_written(error, con, path) -> None:
    def before_ack(seq: int) -> None:
        raise error

    reader, writer, log = streams(*LINES)
    with raises_exactly(error):
        await consume_session(reader, writer, con, 1, before_ack)
    assert log == ["readline", *CLOSED]
    assert stored(path) == holding(EVENTS[0])
    reader, writer, log = streams(*LINES)
    assert await consume_session(reader, writer, con, 1) == (2, 98)
    assert log[1] == b"ACK 0\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt("no"), SystemExit(3)], ids=by_type)
def test_an_interrupt_in_before_ack_passes_and_closes(error, con, path) -> None:
    log: list[Any] = []

    def before_ack(seq: int) -> None:
        raise error

    async def session() -> None:
        reader, writer = FakeReader(log, *LINES), FakeWriter(log)
        await consume_session(reader, writer, con, 1, before_ack)

    with raises_exactly(error):
        asyncio.run(session())
    assert log == ["readline", *CLOSED]
    assert stored(path) == holding(EVENTS[0])


# --- every wait is bounded -----------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.25, 7, 3600])
@virtual
async def test_a_silent_publisher_is_a_timeout_error_after_timeout(timeout, con, path) -> None:
    begin = clock()
    reader, writer, log = streams(LINES[0], forever)
    with pytest.raises(TimeoutError):
        await consume_session(reader, writer, con, timeout)
    assert clock() - begin == pytest.approx(timeout)
    assert log == ["readline", b"ACK 0\n", "drain", "readline", *CLOSED]
    assert stored(path) == holding(EVENTS[0])


@virtual
async def test_each_wait_for_a_line_has_the_timeout_to_itself(con) -> None:
    begin = clock()
    steps = [after(9.5, line) for line in LINES]
    reader, writer, _ = streams(*steps, after(9.5, b""))
    assert await consume_session(reader, writer, con, 10) == (2, 98)
    assert clock() - begin == pytest.approx(38)


@virtual
async def test_each_drain_has_the_timeout_to_itself(con) -> None:
    begin = clock()
    steps = [after(9.5, line) for line in LINES]
    reader, writer, _ = streams(*steps, drain=after(9.5), wait_closed=after(9.5))
    assert await consume_session(reader, writer, con, 10) == (2, 98)
    assert clock() - begin == pytest.approx(28.5 + 28.5 + 9.5)


@virtual
async def test_a_line_just_too_late_is_a_timeout_error(con) -> None:
    reader, writer, _ = streams(LINES[0], after(10.5, LINES[1]))
    with pytest.raises(TimeoutError):
        await consume_session(reader, writer, con, 10)
    assert state(con) == (0, 5)


@pytest.mark.parametrize("timeout", [0.25, 7])
@virtual
async def test_a_drain_that_hangs_is_a_timeout_error_after_timeout(timeout, con, path) -> None:
    begin = clock()
    reader, writer, log = streams(*LINES, drain=forever)
    with pytest.raises(TimeoutError):
        await consume_session(reader, writer, con, timeout)
    assert clock() - begin == pytest.approx(timeout)
    assert log == ["readline", b"ACK 0\n", "drain", *CLOSED]
    assert stored(path) == holding(EVENTS[0])


@pytest.mark.parametrize("timeout", [0.25, 7])
@virtual
async def test_a_close_that_hangs_is_aborted_after_timeout_and_the_success_stays(timeout, con) -> None:
    begin = clock()
    reader, writer, log = streams(*LINES, wait_closed=forever)
    assert await consume_session(reader, writer, con, timeout) == (2, 98)
    assert clock() - begin == pytest.approx(timeout)
    assert closing(log) == ABORTED


@virtual
async def test_a_silent_publisher_that_does_not_close_either_takes_two_timeouts(con) -> None:
    begin = clock()
    reader, writer, log = streams(forever, wait_closed=forever)
    with pytest.raises(TimeoutError):
        await consume_session(reader, writer, con, 7)
    assert clock() - begin == pytest.approx(14)
    assert log == ["readline", *ABORTED]


@virtual
async def test_a_close_within_the_timeout_is_waited_for(con) -> None:
    reader, writer, log = streams(*LINES, wait_closed=after(6.5))
    await consume_session(reader, writer, con, 7)
    assert closing(log) == CLOSED


async def test_the_bounds_hold_on_the_real_clock_too(con) -> None:
    for writer_steps in [{}, {"drain": forever}, {"drain": forever, "wait_closed": forever}]:
        reader, writer, log = streams(LINES[0], forever, **writer_steps)
        assert isinstance(await outcome(consume_session(reader, writer, con, SHORT_S)), TimeoutError)
        assert "close" in log


# --- errors pass through, and close --------------------------------------------------------------

BAD_LINES = [
    (b"EVENT 0 5", ValueError),  # torn at the end of the stream
    (b"EVENT 0", ValueError),
    (b"\n", ValueError),
    (b"EVENT 0 5\r\n", ValueError),
    (b"EVENT 0 1001\n", ValueError),
    (b"EVENT 1 5\n", Gap),
    (b"x" * 65, ValueError),
    (bytearray(b"EVENT 0 5\n"), ValueError),
    ("EVENT 0 5\n", ValueError),
]


@pytest.mark.parametrize(("line", "error"), BAD_LINES, ids=repr)
@virtual
async def test_a_line_that_cannot_be_consumed_raises_without_an_ack(line, error, con, path) -> None:
    reader, writer, log = streams(line, *LINES)
    with pytest.raises(error):
        await consume_session(reader, writer, con, 1)
    assert log == ["readline", *CLOSED]
    assert stored(path) == EMPTY
    assert not is_closed(con)


@virtual
async def test_what_was_acknowledged_before_a_bad_line_stays(con, path) -> None:
    reader, writer, log = streams(*LINES, b"EVENT 1 8\n", b"EVENT 3 1\n")
    with pytest.raises(Conflict):
        await consume_session(reader, writer, con, 1)
    assert stored(path) == holding(*EVENTS)
    assert [entry for entry in log if isinstance(entry, bytes)][-1] == b"ACK 2\n"
    assert closing(log) == CLOSED


PASSING = [
    ConnectionResetError("no"),
    BrokenPipeError("no"),
    TimeoutError("of its own"),
    asyncio.IncompleteReadError(b"EVE", 64),
    asyncio.LimitOverrunError("no", 65),
    ValueError("Separator is found, but chunk is longer than limit"),
    OSError("no"),
    RuntimeError("no"),
    Odd("no"),
]


@pytest.mark.parametrize("error", PASSING, ids=by_type)
@virtual
async def test_an_error_of_readline_passes_and_closes(error, con, path) -> None:
    reader, writer, log = streams(LINES[0], error, LINES[1])
    with raises_exactly(error):
        await consume_session(reader, writer, con, 1)
    assert log == ["readline", b"ACK 0\n", "drain", "readline", *CLOSED]
    assert stored(path) == holding(EVENTS[0])
    assert not is_closed(con)


@pytest.mark.parametrize("where", ["write", "drain"])
@pytest.mark.parametrize("error", PASSING, ids=by_type)
@virtual
async def test_an_error_of_write_or_drain_passes_and_closes_and_the_event_stays(error, where, con, path) -> None:
    reader, writer, log = streams(*LINES, **{where: error})
    with raises_exactly(error):
        await consume_session(reader, writer, con, 1)
    assert log == ["readline", b"ACK 0\n", *["drain"] * (where == "drain"), *CLOSED]
    assert stored(path) == holding(EVENTS[0])


@virtual
async def test_a_database_that_fails_gives_no_ack_and_closes(con, path) -> None:
    con.execute("CREATE TRIGGER t BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'no'); END")
    reader, writer, log = streams(*LINES)
    with pytest.raises(sqlite3.IntegrityError, match=r"^no$"):
        await consume_session(reader, writer, con, 1)
    assert log == ["readline", *CLOSED]
    assert stored(path) == EMPTY


@virtual
async def test_a_state_that_cannot_be_read_at_the_end_raises_and_closes(con) -> None:
    con.execute("DROP TABLE checkpoint")
    reader, writer, log = streams()
    with pytest.raises(sqlite3.Error):
        await consume_session(reader, writer, con, 1)
    assert log == ["readline", *CLOSED]


@virtual
async def test_a_callers_transaction_is_refused_and_closes(con) -> None:
    con.execute("BEGIN")
    reader, writer, log = streams(*LINES)
    with pytest.raises(sqlite3.Error):
        await consume_session(reader, writer, con, 1)
    assert log == ["readline", *CLOSED]
    assert con.in_transaction
    con.execute("ROLLBACK")


# --- errors while closing ------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["close", "wait_closed"])
@pytest.mark.parametrize("error", QUIET, ids=by_type)
@virtual
async def test_a_timeout_or_connection_error_while_closing_aborts_and_the_success_stays(error, where, con) -> None:
    reader, writer, log = streams(*LINES, **{where: error})
    assert await consume_session(reader, writer, con, 1) == (2, 98)
    assert closing(log)[0] == "close"
    assert closing(log)[-1] == "abort"
    assert closing(log).count("abort") == 1
    assert not is_closed(con)


@pytest.mark.parametrize("where", ["close", "wait_closed"])
@pytest.mark.parametrize("error", QUIET, ids=by_type)
@pytest.mark.parametrize(
    "original", [RuntimeError("original"), ConnectionResetError("original"), Odd("original")], ids=by_type
)
@virtual
async def test_a_timeout_or_connection_error_while_closing_aborts_and_hides_no_error(
    original, error, where, con
) -> None:
    reader, writer, log = streams(original, **{where: error})
    with raises_exactly(original):
        await consume_session(reader, writer, con, 1)
    assert closing(log)[-1] == "abort"


@pytest.mark.parametrize("where", ["close", "wait_closed"])
@pytest.mark.parametrize("error", [*LOUD, Odd("no")], ids=by_type)
@virtual
async def test_another_error_while_closing_passes_on_after_a_success(error, where, con) -> None:
    reader, writer, log = streams(*LINES, **{where: error})
    with raises_exactly(error):
        await consume_session(reader, writer, con, 1)
    assert closing(log)[0] == "close"
    assert state(con) == (2, 98)


@pytest.mark.parametrize("where", ["close", "wait_closed"])
@pytest.mark.parametrize("error", LOUD, ids=by_type)
@pytest.mark.parametrize(
    "original", [RuntimeError("original"), ConnectionResetError("original"), Odd("original")], ids=by_type
)
@virtual
async def test_another_error_while_closing_never_replaces_an_original_error(original, error, where, con) -> None:
    reader, writer, log = streams(original, **{where: error})
    with raises_exactly(original):
        await consume_session(reader, writer, con, 1)
    assert closing(log)[0] == "close"


@pytest.mark.parametrize("error", [*QUIET, *LOUD], ids=by_type)
@virtual
async def test_no_error_while_closing_hides_that_the_timeout_was_invalid(error, con) -> None:
    reader, writer, log = streams(wait_closed=error)
    with pytest.raises(ValueError) as caught:
        await consume_session(reader, writer, con, -1)
    assert caught.value is not error
    assert closing(log)[:2] == CLOSED


@pytest.mark.parametrize("error", [*QUIET, *LOUD], ids=by_type)
@virtual
async def test_no_error_while_closing_hides_a_gap_or_a_timeout(error, con) -> None:
    for steps, expected in [((LINES[1],), Gap), ((forever,), TimeoutError)]:
        reader, writer, log = streams(*steps, wait_closed=error)
        with pytest.raises(expected) as caught:
            await consume_session(reader, writer, con, 1)
        assert caught.value is not error
        assert closing(log)[:2] == CLOSED


# --- cancellation --------------------------------------------------------------------------------


@virtual
async def test_a_cancellation_before_the_start_touches_nothing_it_was_not_given(con, path) -> None:
    reader, writer, log = streams(*LINES)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 1))
    task.cancel()
    assert isinstance(await outcome(task), asyncio.CancelledError)
    assert stored(path) == EMPTY
    assert [entry for entry in log if isinstance(entry, bytes)] == []


@virtual
async def test_a_cancellation_while_reading_passes_and_closes(con, path) -> None:
    gate = Gate()
    reader, writer, log = streams(LINES[0], gate)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert log == ["readline", b"ACK 0\n", "drain", "readline", *CLOSED]
    assert stored(path) == holding(EVENTS[0])
    assert not is_closed(con)


@virtual
async def test_a_cancellation_while_draining_passes_and_closes(con, path) -> None:
    gate = Gate()
    reader, writer, log = streams(*LINES, drain=gate)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert log == ["readline", b"ACK 0\n", "drain", *CLOSED]
    assert stored(path) == holding(EVENTS[0])


@virtual
async def test_a_cancellation_while_closing_aborts_and_passes(con) -> None:
    gate = Gate()
    reader, writer, log = streams(*LINES, wait_closed=gate)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(log) == ABORTED
    assert state(con) == (2, 98)
    assert not is_closed(con)


@pytest.mark.parametrize("original", [RuntimeError("original"), LINES[2]], ids=["error", "gap"])
@virtual
async def test_a_cancellation_while_closing_after_an_error_aborts_and_passes(original, con) -> None:
    gate = Gate()
    reader, writer, log = streams(original, wait_closed=gate)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(log) == ABORTED


@virtual
async def test_a_cancellation_while_closing_with_an_invalid_timeout_aborts_and_passes(con) -> None:
    gate = Gate()
    reader, writer, log = streams(wait_closed=gate)
    task = asyncio.ensure_future(consume_session(reader, writer, con, True))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert log == ABORTED


@virtual
async def test_a_second_cancellation_ends_the_closing_that_the_first_began(con) -> None:
    begin = clock()
    reading, closed = Gate(), Gate()
    reader, writer, log = streams(reading, wait_closed=closed)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await reading.reached.wait()
    task.cancel()
    await closed.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert log == ["readline", *ABORTED]
    assert clock() == begin


@virtual
async def test_after_a_cancellation_a_close_that_hangs_is_bounded_and_aborted(con) -> None:
    begin = clock()
    gate = Gate()
    reader, writer, log = streams(gate, wait_closed=forever)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 7))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert log == ["readline", *ABORTED]
    assert clock() - begin == pytest.approx(7)


@pytest.mark.parametrize("error", [*QUIET, *LOUD], ids=by_type)
@pytest.mark.parametrize("where", ["close", "wait_closed"])
@virtual
async def test_no_error_while_closing_replaces_a_cancellation(where, error, con) -> None:
    gate = Gate()
    reader, writer, log = streams(gate, **{where: error})
    task = asyncio.ensure_future(consume_session(reader, writer, con, 7))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(log)[0] == "close"


@pytest.mark.parametrize("steps", [(), (LINES[0],)], ids=["reading", "draining"])
@virtual
async def test_a_timeout_of_the_caller_stays_the_callers(steps, con) -> None:
    begin = clock()
    reader, writer, log = streams(*steps, forever, drain=forever)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3) as outer:
            await consume_session(reader, writer, con, 7)
    assert outer.expired()
    assert clock() - begin == pytest.approx(3)
    assert closing(log) == CLOSED


@pytest.mark.parametrize("line", [LINES[0], b"", b"EVENT 0 5"], ids=["event", "end", "torn"])
@virtual
async def test_a_cancellation_that_meets_a_read_just_finished_is_not_lost(line, con) -> None:
    """The next read would hang: a cancellation that was lost would show as a timeout, or an end."""
    gate = Gate()
    reader, writer, log = streams(gate, forever)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    gate.future.set_result(line)
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(log) == CLOSED


@pytest.mark.parametrize("ticks", range(8))
@virtual
async def test_a_cancellation_at_any_moment_after_a_read_is_not_lost(ticks, con) -> None:
    gate = Gate()
    reader, writer, log = streams(gate, forever, drain=lambda: asyncio.sleep(0))
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    gate.future.set_result(LINES[0])
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(log) == CLOSED
    # Acknowledged or not, an event that was acknowledged is in the store.
    assert state(con) in ([(0, 5)] if b"ACK 0\n" in log else [(-1, 0), (0, 5)])


@pytest.mark.parametrize("where", ["drain", "wait_closed"])
@virtual
async def test_a_cancellation_that_meets_a_drain_or_close_just_finished_is_not_lost(where, con) -> None:
    gate = Gate()
    reader, writer, _ = streams(LINES[0], **{where: gate})
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    gate.future.set_result(None)
    task.cancel()
    await outcome(task)
    assert task.cancelled()


@virtual
async def test_a_cancellation_that_meets_a_read_that_failed_just_now_ends_the_session(con) -> None:
    error = ConnectionResetError("no")
    gate = Gate()
    reader, writer, log = streams(gate)
    task = asyncio.ensure_future(consume_session(reader, writer, con, 100))
    await gate.reached.wait()
    gate.future.set_exception(error)
    task.cancel()
    result = await outcome(task)
    assert result is error or isinstance(result, asyncio.CancelledError)
    assert closing(log) == CLOSED
    gate.future.exception()


@virtual
async def test_a_task_that_was_cancelled_is_done_with_its_cancellation(con) -> None:
    """What asyncio counts of cancellations comes out even: no timeout of ours leaves one behind."""
    reader, writer, _ = streams(forever, wait_closed=forever)
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(TimeoutError):
        await consume_session(reader, writer, con, 5)
    assert task.cancelling() == 0
    await asyncio.sleep(0)


# --- the streams of asyncio themselves -----------------------------------------------------------


async def test_a_stream_reader_of_asyncio_is_read_line_by_line(con) -> None:
    log: list[Any] = []
    reader = asyncio.StreamReader(limit=64)
    reader.feed_data(b"".join(LINES))
    reader.feed_eof()
    assert await consume_session(reader, FakeWriter(log), con, 1) == (2, 98)
    assert closing(log) == CLOSED


@pytest.mark.parametrize("data", [b"EVENT 0 5", b"x" * 64 + b"\n", b"x" * 65536])
async def test_a_torn_or_overlong_line_of_a_stream_reader_is_a_value_error(data, con, path) -> None:
    log: list[Any] = []
    reader = asyncio.StreamReader(limit=64)
    reader.feed_data(data)
    reader.feed_eof()
    with pytest.raises(ValueError):
        await consume_session(reader, FakeWriter(log), con, 1)
    assert log == CLOSED
    assert stored(path) == EMPTY
