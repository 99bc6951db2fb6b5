"""Step 7: run_client, on fakes in place of the network and then against real sockets on 127.0.0.1."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import Conflict, Gap, apply_event, open_store, run_client

from .helpers import (
    ABORTED,
    CLOSED,
    EMPTY,
    GUARD_S,
    SHORT_S,
    Connects,
    FakeReader,
    FakeWriter,
    Falsy,
    Gate,
    Listener,
    Odd,
    Step,
    after,
    another,
    clock,
    closing,
    forever,
    holding,
    open_files,
    outcome,
    perform,
    raises_exactly,
    sockets,
    stored,
    virtual,
)

LINES = [b"EVENT 0 5\n", b"EVENT 1 -7\n", b"EVENT 2 100\n"]
EVENTS = [(0, 5), (1, -7), (2, 100)]

INVALID = [0, -1, True, None, float("nan"), float("inf"), "1", 0.0]
QUIET = [TimeoutError("no"), ConnectionResetError("no"), BrokenPipeError("no")]
LOUD = [OSError("no"), RuntimeError("no"), sqlite3.OperationalError("no")]


def by_type(error: BaseException) -> str:
    return type(error).__name__


class Network:
    """In place of ``asyncio.open_connection``: keeps the calls and gives fakes with one common log."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.log: list[Any] = []
        self.connect: Step = None
        self.reader = FakeReader(self.log)
        self.writer = FakeWriter(self.log)
        self.on_call: Callable[[], object] = lambda: None

    def serve(self, *steps: Step, connect: Step = None, **writer: Any) -> None:
        self.connect = connect
        self.reader = FakeReader(self.log, *steps)
        self.writer = FakeWriter(self.log, **writer)

    async def __call__(self, *args: Any, **kwargs: Any) -> tuple[FakeReader, FakeWriter]:
        self.calls.append((args, kwargs))
        self.log.append("connect")
        self.on_call()
        await perform(self.connect)
        self.log.append("connected")
        return self.reader, self.writer


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network()
    monkeypatch.setattr(asyncio, "open_connection", network)
    return network


def prepared(path: object, *deltas: int) -> None:
    """A store that has seen these events before."""
    con = open_store(path)
    for seq, delta in enumerate(deltas):
        apply_event(con, seq, delta)
    con.close()


# --- the order of things -------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", INVALID, ids=repr)
@virtual
async def test_an_invalid_timeout_makes_no_file_and_no_connection(timeout, path, network, connects) -> None:
    with pytest.raises(ValueError):
        await run_client("127.0.0.1", 9, path, timeout)
    assert connects.calls == []
    assert network.calls == []
    assert not path.exists()


@virtual
async def test_the_timeout_is_checked_before_the_other_arguments_are_used(network) -> None:
    with pytest.raises(ValueError):
        await run_client(None, None, object(), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [18, 300, 308, 309, 400])
@virtual
async def test_an_int_too_large_for_a_clock_works_or_is_a_value_error(exponent, path, network) -> None:
    network.serve(*LINES)
    try:
        result = await run_client("127.0.0.1", 9, path, 10**exponent)
    except ValueError:
        assert network.calls == []
        assert not path.exists()
    else:
        assert result == (2, 98)


@virtual
async def test_the_store_is_opened_first_and_its_path_passed_on_as_it_is(path, network, connects) -> None:
    seen = []
    network.on_call = lambda: seen.append((len(connects.calls), stored(path)))
    await run_client("127.0.0.1", 9, path, 1)
    args, kwargs = connects.calls[0]
    assert args == (path,)
    assert args[0] is path
    assert kwargs == {"timeout": 1, "isolation_level": None}
    assert seen == [(1, EMPTY)]


@virtual
async def test_a_store_that_cannot_be_opened_makes_no_connection(tmp_path, network) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await run_client("127.0.0.1", 9, tmp_path / "nowhere" / "store.db", 1)
    assert network.calls == []


@virtual
async def test_the_connection_is_made_exactly_as_said(path, network) -> None:
    host, port = str(b"localhost", "ascii"), 70_000
    await run_client(host, port, path, 1)
    ((args, kwargs),) = network.calls
    assert args[0] is host
    assert args[1] is port
    assert len(args) == 2
    assert kwargs == {"limit": 64}


@virtual
async def test_everything_happens_in_the_contracts_order(path, network) -> None:
    network.serve(*LINES)
    result = await run_client("127.0.0.1", 9, path, 1, network.log.append)
    assert result == (2, 98)
    assert type(result) is tuple
    assert network.log == [
        *("connect", "connected", b"RESUME -1\n", "drain"),
        *("readline", 0, b"ACK 0\n", "drain"),
        *("readline", 1, b"ACK 1\n", "drain"),
        *("readline", 2, b"ACK 2\n", "drain"),
        *("readline", "close", "wait_closed"),
    ]
    assert stored(path) == holding(*EVENTS)


@pytest.mark.parametrize("deltas", [(), (5,), (5, -7), (5, -7, 100)], ids=len)
@virtual
async def test_resume_says_what_the_database_holds(deltas, path, network) -> None:
    prepared(path, *deltas)
    network.serve(*LINES[len(deltas) :])
    assert await run_client("127.0.0.1", 9, path, 1) == (2, 98)
    assert network.log[2] == b"RESUME %d\n" % (len(deltas) - 1)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@virtual
async def test_what_resume_claims_is_synced_before(mode, path, network, monkeypatch) -> None:
    """A process that was killed inside its COMMIT may have left it visible, and not on disk."""
    prepared(path, 5)
    network.serve(*LINES[1:])
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        network.log.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    with another(path) as con:
        con.execute(f"PRAGMA journal_mode={mode}")
        con.execute("UPDATE checkpoint SET last=last")
        monkeypatch.setattr(os, "fsync", noted)
        assert await run_client("127.0.0.1", 9, path, 1) == (2, 98)
    folder = path.parent.resolve()
    synced = [folder] if mode == "DELETE" else [folder / f"{path.name}-wal", folder]
    assert network.log[: 3 + len(synced)] == ["connect", "connected", *synced, b"RESUME 0\n"]


@virtual
async def test_a_name_that_is_no_utf8_is_a_name(tmp_path, network) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    folder.mkdir()
    network.serve(*LINES)
    assert await run_client("127.0.0.1", 9, folder / "store.db", 1) == (2, 98)
    assert network.log[2] == b"RESUME -1\n"


@virtual
async def test_resume_says_the_largest_cursor_in_full(path, network) -> None:
    prepared(path)
    with another(path) as con:
        con.execute("UPDATE checkpoint SET last=2147483647, total=-3")
    assert await run_client("127.0.0.1", 9, path, 1) == (2147483647, -3)
    assert network.log[2] == b"RESUME 2147483647\n"


@virtual
async def test_each_run_reads_the_cursor_anew(path, network) -> None:
    for seq, line in enumerate(LINES):
        network.log.clear()
        network.serve(line)
        assert (await run_client("127.0.0.1", 9, path, 1))[0] == seq
        assert network.log[2] == b"RESUME %d\n" % (seq - 1)


@virtual
async def test_a_before_ack_that_is_false_and_calls_itself_none_is_passed_on(path, network) -> None:
    before_ack = Falsy()
    network.serve(*LINES)
    await run_client("127.0.0.1", 9, path, 1, before_ack)
    assert before_ack.calls == [(0,), (1,), (2,)]


@virtual
async def test_all_parameters_can_be_given_by_name(path, network) -> None:
    calls = []
    network.serve(*LINES)
    result = await run_client(host="127.0.0.1", port=9, path=path, timeout=1, before_ack=calls.append)
    assert result == (2, 98)
    assert calls == [0, 1, 2]


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.25, 7])
@virtual
async def test_a_connect_that_hangs_is_a_timeout_error(timeout, path, network, connects) -> None:
    begin = clock()
    network.serve(connect=forever)
    with pytest.raises(TimeoutError):
        await run_client("127.0.0.1", 9, path, timeout)
    assert clock() - begin == pytest.approx(timeout)
    assert connects.all_closed
    assert network.log == ["connect"]


@pytest.mark.parametrize("timeout", [0.25, 7])
@virtual
async def test_a_drain_of_resume_that_hangs_is_a_timeout_error_and_reclaims_the_socket(
    timeout, path, network, connects
) -> None:
    begin = clock()
    network.serve(*LINES, drain=forever, wait_closed=forever)
    with pytest.raises(TimeoutError):
        await run_client("127.0.0.1", 9, path, timeout)
    assert clock() - begin == pytest.approx(2 * timeout)
    assert network.log == ["connect", "connected", b"RESUME -1\n", "drain", *ABORTED]
    assert connects.all_closed


@virtual
async def test_each_wait_has_the_timeout_to_itself(path, network) -> None:
    begin = clock()
    network.serve(*(after(9, line) for line in LINES), connect=after(9), drain=after(9), wait_closed=after(9))
    assert await run_client("127.0.0.1", 9, path, 10) == (2, 98)
    assert clock() - begin == pytest.approx(9 * (1 + 1 + 3 + 3 + 1))


@virtual
async def test_the_timeout_is_handed_over_to_the_session(path, network, connects) -> None:
    begin = clock()
    network.serve(LINES[0], forever, wait_closed=forever)
    with pytest.raises(TimeoutError):
        await run_client("127.0.0.1", 9, path, 7)
    assert clock() - begin == pytest.approx(14)
    assert closing(network.log) == ABORTED
    assert connects.all_closed


# --- every path closes the database, and reclaims the socket -------------------------------------


@virtual
async def test_after_a_success_the_database_is_closed(path, network, connects) -> None:
    network.serve(*LINES)
    await run_client("127.0.0.1", 9, path, 1)
    assert connects.all_closed
    assert open_files(path) == []


ERRORS = [
    ConnectionRefusedError("no"),
    OSError("no"),
    TimeoutError("of its own"),
    RuntimeError("no"),
    ValueError("no"),
    Odd("no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=by_type)
@virtual
async def test_a_connect_that_fails_passes_and_closes_the_database(error, path, network, connects) -> None:
    network.serve(connect=error)
    with raises_exactly(error):
        await run_client("127.0.0.1", 9, path, 1)
    assert connects.all_closed
    assert open_files(path) == []
    assert network.log == ["connect"]


@pytest.mark.parametrize("where", ["write", "drain"])
@pytest.mark.parametrize("error", ERRORS, ids=by_type)
@virtual
async def test_a_resume_that_fails_passes_reclaims_the_socket_and_closes_the_database(
    error, where, path, network, connects
) -> None:
    network.serve(*LINES, **{where: error})
    with raises_exactly(error):
        await run_client("127.0.0.1", 9, path, 1)
    said = ["connect", "connected", b"RESUME -1\n", *["drain"] * (where == "drain")]
    assert network.log == [*said, *CLOSED]
    assert connects.all_closed
    assert open_files(path) == []


@pytest.mark.parametrize("closing_error", [*QUIET, *LOUD], ids=by_type)
@pytest.mark.parametrize("where", ["close", "wait_closed"])
@pytest.mark.parametrize("original", [RuntimeError("original"), Odd("original")], ids=by_type)
@virtual
async def test_no_error_while_reclaiming_the_socket_hides_the_original(
    original, where, closing_error, path, network, connects
) -> None:
    network.serve(drain=original, **{where: closing_error})
    with raises_exactly(original):
        await run_client("127.0.0.1", 9, path, 1)
    assert closing(network.log)[0] == "close"
    if closing_error in QUIET:
        assert closing(network.log)[-1] == "abort"
    assert connects.all_closed


@virtual
async def test_a_cursor_that_cannot_be_read_reclaims_whatever_was_opened(path, network, connects) -> None:
    def drop() -> None:
        with another(path) as con:
            con.execute("DELETE FROM checkpoint")

    network.on_call = drop
    # Before or after the connect: the text does not say when the cursor is read.
    await outcome(run_client("127.0.0.1", 9, path, 1))
    assert closing(network.log) == CLOSED
    assert connects.all_closed


SESSIONS = {
    "a gap": ((LINES[1],), {}, Gap),
    "a conflict": ((LINES[0], b"EVENT 0 6\n"), {}, Conflict),
    "a torn line": ((b"EVENT 0 5",), {}, ValueError),
    "a reset": ((ConnectionResetError("no"),), {}, ConnectionResetError),
    "silence": ((forever,), {}, TimeoutError),
    "a close that fails": ((), {"wait_closed": RuntimeError("no")}, RuntimeError),
    "another BaseException": ((Odd("no"),), {}, Odd),
}


@pytest.mark.parametrize(("steps", "writer", "error"), SESSIONS.values(), ids=SESSIONS)
@virtual
async def test_a_session_that_fails_passes_closes_once_and_closes_the_database(
    steps, writer, error, path, network, connects
) -> None:
    network.serve(*steps, **writer)
    with pytest.raises(error):
        await run_client("127.0.0.1", 9, path, 1)
    assert closing(network.log)[:2] == CLOSED
    assert network.log.count("close") == 1
    assert connects.all_closed
    assert open_files(path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt("no"), SystemExit(3)], ids=by_type)
def test_an_interrupt_passes_closes_the_socket_and_the_database(error, path, network, connects) -> None:
    def before_ack(seq: int) -> None:
        raise error

    network.serve(*LINES)
    with raises_exactly(error):
        asyncio.run(run_client("127.0.0.1", 9, path, 1, before_ack))
    assert closing(network.log) == CLOSED
    assert connects.all_closed
    assert stored(path) == holding(EVENTS[0])


# --- cancellation --------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["connect", "drain", "read", "wait_closed"])
@virtual
async def test_a_cancellation_at_each_wait_passes_and_closes_everything(where, path, network, connects) -> None:
    gate = Gate()
    if where == "read":
        network.serve(gate)
    else:
        network.serve(**{where: gate})
    task = asyncio.ensure_future(run_client("127.0.0.1", 9, path, 100))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    expected = {"connect": [], "wait_closed": ABORTED}.get(where, CLOSED)
    assert closing(network.log) == expected
    assert connects.all_closed
    assert open_files(path) == []


@virtual
async def test_a_cancellation_while_the_socket_is_being_reclaimed_aborts_and_passes(path, network, connects) -> None:
    gate = Gate()
    network.serve(drain=RuntimeError("original"), wait_closed=gate)
    task = asyncio.ensure_future(run_client("127.0.0.1", 9, path, 100))
    await gate.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(network.log) == ABORTED
    assert connects.all_closed


@virtual
async def test_a_second_cancellation_while_the_socket_is_being_reclaimed_closes_the_database(
    path, network, connects
) -> None:
    draining, closed = Gate(), Gate()
    network.serve(drain=draining, wait_closed=closed)
    task = asyncio.ensure_future(run_client("127.0.0.1", 9, path, 100))
    await draining.reached.wait()
    task.cancel()
    await closed.reached.wait()
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert closing(network.log) == ABORTED
    assert connects.all_closed


@pytest.mark.parametrize("ticks", range(10))
@virtual
async def test_a_cancellation_that_meets_a_connect_just_finished_is_not_lost(ticks, path, network, connects) -> None:
    """The publisher is silent: a cancellation that was lost would show as a timeout."""
    gate = Gate()
    network.serve(forever, connect=gate, drain=lambda: asyncio.sleep(0))
    task = asyncio.ensure_future(run_client("127.0.0.1", 9, path, 100))
    await gate.reached.wait()
    gate.future.set_result(None)
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert connects.all_closed
    assert closing(network.log) == (CLOSED if "connected" in network.log else [])


@pytest.mark.parametrize("where", ["drain", "read", "wait_closed"])
@virtual
async def test_a_cancellation_that_meets_a_wait_just_finished_is_not_lost(where, path, network, connects) -> None:
    gate = Gate()
    if where == "read":
        network.serve(gate, forever)
    else:
        network.serve(forever if where == "drain" else b"", **{where: gate})
    task = asyncio.ensure_future(run_client("127.0.0.1", 9, path, 100))
    await gate.reached.wait()
    gate.future.set_result(b"")
    task.cancel()
    await outcome(task)
    assert task.cancelled()
    assert connects.all_closed
    assert closing(network.log)[:2] == CLOSED


@virtual
async def test_a_timeout_of_the_caller_stays_the_callers(path, network, connects) -> None:
    begin = clock()
    network.serve(connect=forever)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3) as outer:
            await run_client("127.0.0.1", 9, path, 7)
    assert outer.expired()
    assert clock() - begin == pytest.approx(3)
    assert connects.all_closed


# --- real sockets --------------------------------------------------------------------------------


class Traces:
    """What a run must not leave in this process: descriptors of the store, and sockets."""

    def __init__(self, path: object, connects: Connects) -> None:
        self.path, self.connects = path, connects
        self.sockets = sockets()

    async def gone(self) -> bool:
        async with asyncio.timeout(GUARD_S):
            while open_files(self.path) or sockets() > self.sockets:  # noqa: ASYNC110 - nobody says when
                await asyncio.sleep(0.001)
        return self.connects.all_closed


@pytest.fixture
async def traces(path: object, connects: Connects) -> Traces:
    """Taken within the loop, which has sockets of its own."""
    return Traces(path, connects)


async def test_a_publisher_that_ends_gets_all_acks_and_the_state_is_returned(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME -1\n"
        await peer.send(b"".join(LINES))
        peer.half_close()
        assert [await peer.readline() for _ in LINES] == [b"ACK 0\n", b"ACK 1\n", b"ACK 2\n"]
        assert await outcome(client) == (2, 98)
        assert await peer.readline() == b""  # closed by the client, and nothing more was said
    assert await traces.gone()
    assert stored(path) == holding(*EVENTS)


async def test_a_peer_that_keeps_its_own_end_open_does_not_keep_the_client(path, traces) -> None:
    """Half closed at our end of file: the client closes, whatever the peer does with its side."""
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        await peer.send(LINES[0])
        peer.half_close()
        assert await outcome(client) == (0, 5)  # the peer has read nothing and closed nothing
        assert await peer.readline() == b"RESUME -1\n"
        assert await peer.readline() == b"ACK 0\n"
    assert await traces.gone()


async def test_a_silent_publisher_is_a_timeout_error_and_the_cursor_stays(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path, SHORT_S)
        peer = await listener.accept()
        assert isinstance(await outcome(client), TimeoutError)
        assert await peer.readline() == b"RESUME -1\n"
        assert await peer.readline() == b""
    assert await traces.gone()
    assert stored(path) == EMPTY


async def test_silence_after_some_events_is_a_timeout_error_and_they_stay(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path, 0.3)
        peer = await listener.accept()
        await peer.send(LINES[0] + LINES[1] + b"EVENT 2 1")  # and not a byte more
        assert isinstance(await outcome(client), TimeoutError)
        said = [await peer.readline() for _ in range(4)]
        assert said == [b"RESUME -1\n", b"ACK 0\n", b"ACK 1\n", b""]
    assert await traces.gone()
    assert stored(path) == holding(*EVENTS[:2])


async def test_a_reset_by_the_peer_is_its_connection_error(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME -1\n"
        await peer.send(LINES[0])
        assert await peer.readline() == b"ACK 0\n"
        peer.reset()
        assert isinstance(await outcome(client), ConnectionError)
    assert await traces.gone()
    assert stored(path) == holding(EVENTS[0])


async def test_a_reset_before_anything_was_said_is_its_connection_error(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        peer.reset()
        assert isinstance(await outcome(client), ConnectionError)
    assert await traces.gone()
    assert stored(path) == EMPTY


async def test_a_reset_in_the_middle_of_a_line_commits_nothing_of_it(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME -1\n"
        await peer.send(LINES[0] + b"EVENT 1 -")
        assert await peer.readline() == b"ACK 0\n"
        peer.reset()
        assert isinstance(await outcome(client), ConnectionError)
    assert await traces.gone()
    assert stored(path) == holding(EVENTS[0])


@pytest.mark.parametrize("torn", [b"EVENT 1 -7", b"EVENT 1 -", b"EVENT 1", b"E"])
async def test_a_torn_last_line_is_a_value_error_and_no_event(torn, path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        await peer.send(LINES[0] + torn)
        peer.half_close()
        assert isinstance(await outcome(client), ValueError)
        said = [await peer.readline() for _ in range(3)]
        assert said == [b"RESUME -1\n", b"ACK 0\n", b""]
    assert await traces.gone()
    assert stored(path) == holding(EVENTS[0])


@pytest.mark.parametrize("size", [64, 65, 66, 1000, 64 * 1024, 300_000])
async def test_a_line_too_long_is_a_value_error(size, path, traces) -> None:
    """64 bytes with the newline is the most a line can have, and no event has so many."""
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME -1\n"
        await peer.send(LINES[0])
        assert await peer.readline() == b"ACK 0\n"
        try:
            await peer.send(b"EVENT 1 ".ljust(size - 1, b"7") + b"\n" + LINES[1])
        except ConnectionError:
            assert size > 1000  # the client may be gone before all of it was taken
        assert isinstance(await outcome(client), ValueError)
    assert await traces.gone()
    assert stored(path) == holding(EVENTS[0])


async def test_an_endless_line_is_refused_before_it_ends(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        await peer.send(b"7" * 200)  # no newline, and the connection stays open
        assert isinstance(await outcome(client), ValueError)
    assert await traces.gone()
    assert stored(path) == EMPTY


async def test_events_may_come_a_byte_at_a_time(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        for byte in b"".join(LINES):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        peer.half_close()
        assert await outcome(client) == (2, 98)
    assert await traces.gone()
    assert stored(path) == holding(*EVENTS)


async def test_an_event_is_acknowledged_before_the_next_comes(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME -1\n"
        for seq, line in enumerate(LINES):
            await peer.send(line)
            assert await peer.readline() == b"ACK %d\n" % seq
            assert stored(path) == holding(*EVENTS[: seq + 1])
        peer.half_close()
        assert await outcome(client) == (2, 98)
    assert await traces.gone()


async def test_nobody_listening_is_a_connection_error_and_the_store_is_there(path, traces) -> None:
    async with Listener() as listener:
        listener.sock.close()
        assert isinstance(await outcome(listener.client(path)), ConnectionRefusedError)
    assert await traces.gone()
    assert stored(path) == EMPTY


@pytest.mark.parametrize(
    ("lines", "error"),
    [([b"EVENT 1 1\n"], Gap), ([LINES[0], b"EVENT 0 6\n"], Conflict), ([b"HELLO\n"], ValueError)],
    ids=["gap", "conflict", "malformed"],
)
async def test_what_cannot_be_consumed_raises_without_an_ack(lines, error, path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        await peer.send(b"".join(lines))
        assert isinstance(await outcome(client), error)
        said = [await peer.readline() for _ in range(len(lines) + 1)]
        assert said == [*[b"RESUME -1\n", b"ACK 0\n"][: len(lines)], b""]
    assert await traces.gone()


async def test_a_cancellation_leaves_nothing_open(path, traces) -> None:
    async with Listener() as listener:
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME -1\n"
        await peer.send(LINES[0])
        assert await peer.readline() == b"ACK 0\n"
        client.cancel()
        assert isinstance(await outcome(client), asyncio.CancelledError)
        assert await peer.readline() == b""
    assert await traces.gone()
    assert stored(path) == holding(EVENTS[0])


async def test_a_cancellation_at_any_moment_of_a_connect_is_not_lost(path, traces) -> None:
    """After so many turns of the loop, from before the first step to well within the session."""
    async with Listener() as listener:
        for turns in range(30):
            client = listener.client(path)
            for _ in range(turns):
                await asyncio.sleep(0)
            client.cancel()
            assert isinstance(await outcome(client), asyncio.CancelledError)
    assert await traces.gone()
    assert stored(path) == EMPTY


async def test_an_error_of_before_ack_leaves_the_event_unacknowledged_until_the_next_run(path, traces) -> None:
    error = RuntimeError("the machine stopped before the ACK")

    def before_ack(seq: int) -> None:
        if seq == 1:
            raise error

    async with Listener() as listener:
        client = listener.client(path, before_ack=before_ack)
        peer = await listener.accept()
        await peer.send(b"".join(LINES))
        assert await outcome(client) is error
        assert await peer.readline() == b"RESUME -1\n"
        assert await peer.readline() == b"ACK 0\n"
        assert stored(path) == holding(*EVENTS[:2])
        client = listener.client(path)
        peer = await listener.accept()
        assert await peer.readline() == b"RESUME 1\n"
        await peer.send(b"".join(LINES[1:]))
        peer.half_close()
        assert await peer.readline() == b"ACK 1\n"
        assert await peer.readline() == b"ACK 2\n"
        assert await outcome(client) == (2, 98)
    assert await traces.gone()
    assert stored(path) == holding(*EVENTS)


async def test_a_stream_sent_again_whole_is_acknowledged_whole_and_changes_nothing(path, traces) -> None:
    async with Listener() as listener:
        before = b""
        for last in [-1, 2]:
            client = listener.client(path)
            peer = await listener.accept()
            assert await peer.readline() == b"RESUME %d\n" % last
            await peer.send(b"".join(LINES))
            peer.half_close()
            assert [await peer.readline() for _ in LINES] == [b"ACK 0\n", b"ACK 1\n", b"ACK 2\n"]
            assert await outcome(client) == (2, 98)
            assert path.read_bytes() == (before or path.read_bytes())
            before = path.read_bytes()
    assert await traces.gone()
    assert stored(path) == holding(*EVENTS)


async def test_a_run_starts_no_thread_and_sets_no_signal_handler(path, monkeypatch) -> None:
    calls: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda *args: calls.append(args))
        patch.setattr(signal, "signal", lambda *args: calls.append(args))
        patch.setattr(signal, "set_wakeup_fd", lambda *args, **kw: calls.append(args))
        loop_type = type(asyncio.get_running_loop())
        patch.setattr(loop_type, "add_signal_handler", lambda *args: calls.append(args))
        async with Listener() as listener:
            client = listener.client(path)
            peer = await listener.accept()
            await peer.send(b"".join(LINES))
            peer.half_close()
            assert await outcome(client) == (2, 98)
    assert calls == []
