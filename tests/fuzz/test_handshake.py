"""What a publisher is told by anyone who connects: it answers or ends the connection with a reason, and serves others."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Self

import pytest
from hypothesis import example, given, target
from hypothesis import strategies as st

from consumer.publisher import Limits, Publisher
from consumer.publisher.server.limits import RECEIVE_BYTES
from consumer.sources.tcp.wire import LINE_BYTES_MAX, encode_event

from . import naive
from .mutations import CUTS, MUTATIONS, examples, mutated, pieces

COUNT, FIRST, WINDOW = 40, 10, 8
EVENTS = [(seq, seq % 7) for seq in range(FIRST, FIRST + COUNT)]
HEAD = FIRST + COUNT - 1

REASONS = re.compile(
    r"closed: (it closed the connection|it left without a RESUME|it said .* instead of (RESUME|an ACK)"
    r"|RESUME -?\d+ answered by (TRUNCATED 10|AHEAD 49)"
    r"|it acknowledged event \d+, but -?\d+ was the last that it was sent"
    r"|connection lost: .*?)(?: \(event (?P<acknowledged>-?\d+) acknowledged, (?P<sent>-?\d+) sent\))?$",
    re.DOTALL,
)
"""All that may be said of a connection that somebody else has ended."""


class Served(logging.Handler):
    """A publisher in a thread of its own, and what it says of each connection in the end."""

    def __init__(self, path: Path, patience_s: float) -> None:
        super().__init__()
        self.patience_s = patience_s
        self.closed: SimpleQueue[str] = SimpleQueue()
        self.faults: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        limits = Limits(handshake_s=patience_s, silence_s=patience_s, linger_s=0.05, poll_s=0.01)
        self.publisher = Publisher(path, window=WINDOW, limits=limits)
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self.publisher.run(self._stop)])

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.WARNING:
            self.faults.append(self.format(record))
        if "closed: " in record.getMessage():
            self.closed.put(record.getMessage())

    def __enter__(self) -> Self:
        logger = logging.getLogger("consumer.publisher")
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        self._loop.set_exception_handler(lambda _, context: self.faults.append(str(context)))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(self.patience_s)
        self._loop.close()
        logging.getLogger("consumer.publisher").removeHandler(self)

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.publisher.port), self.patience_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def kept_bytes(self) -> int:
        """The most that is kept of what one consumer has said."""
        sessions = list(self.publisher._deliveries.values())
        return max((len(session._rest) for session in sessions), default=0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served") / "journal"
    path.write_bytes(b"".join(encode_event(*event) for event in EVENTS))
    with Served(path, 30.0) as served:
        yield served


def hear(sock: socket.socket) -> bytes:
    heard = b""
    try:
        while data := sock.recv(65536):
            heard += data
    except ConnectionError:  # it may close while something is unread
        pass
    return heard


def served_well(served: Served) -> None:
    """Somebody else asks for the last event, gets it and says so."""
    wanted = encode_event(*EVENTS[-1])
    with served.connect() as good:
        good.sendall(b"RESUME %d\n" % (HEAD - 1))
        assert good.recv(len(wanted), socket.MSG_WAITALL) == wanted
        good.sendall(b"ACK %d\n" % HEAD)
        good.shutdown(socket.SHUT_WR)
        assert hear(good) == b""
    assert served.closed.get(timeout=served.patience_s).endswith(
        f"closed: it closed the connection (event {HEAD} acknowledged, {HEAD} sent)"
    )


def conversation(last: int, acks: list[int]) -> bytes:
    return b"RESUME %d\n" % last + b"".join(b"ACK %d\n" % (last + ack) for ack in acks)


TALK = st.builds(conversation, st.integers(-1, HEAD + 2), st.lists(st.integers(0, WINDOW + 1), max_size=8))


@examples(150)
@given(said=st.builds(mutated, TALK, MUTATIONS), cuts=CUTS)
@example(said=b"RESUME 9\n" + b"A" * 64, cuts=[])
@example(said=b"RESUME " + b"1" * 200_000, cuts=[])
@example(said=b"RESUME 9\n" + b"ACK 9\n" * 30_000, cuts=[7, 8, 9])
@example(said=b"RESUME 20\nACK 21\nACK 19\nACK 20\n", cuts=[12])
@example(said=b"RESUME 20\nnonsense\nACK 20\n", cuts=[])
@example(said=b"RESUME 20 \r\n", cuts=[])
@example(said=b"", cuts=[])
def test_whatever_is_said_ends_with_a_reason_and_others_are_served(
    served: Served, said: bytes, cuts: list[int]
) -> None:
    with served.connect() as sock:
        try:
            for piece in pieces(said, cuts):
                sock.sendall(piece)
            sock.shutdown(socket.SHUT_WR)
        except OSError:  # it has closed already
            pass
        heard = hear(sock)
    closed = served.closed.get(timeout=served.patience_s)
    reason = REASONS.search(closed)
    assert reason is not None, closed
    assert served.kept_bytes() < LINE_BYTES_MAX + RECEIVE_BYTES
    check_answer(said, heard, closed)
    if reason["sent"] is not None:
        acknowledged, sent = int(reason["acknowledged"]), int(reason["sent"])
        assert acknowledged <= sent
        target(float(acknowledged - FIRST), label="acknowledged")
    served_well(served)
    assert served.faults == []


def check_answer(said: bytes, heard: bytes, closed: str) -> None:
    """What came before the connection's end, as far as a reset has not taken it back."""
    line = said[: said.find(b"\n") + 1]
    last = naive.resume(line)
    if last is None:
        assert heard == b""
        without_end = b"\n" not in said[:LINE_BYTES_MAX] and len(said) >= LINE_BYTES_MAX
        assert ("instead of RESUME" if line or without_end else "it left without a RESUME") in closed
    elif last > HEAD:
        assert b"AHEAD 49\n".startswith(heard)
        assert f"RESUME {last} answered by AHEAD 49" in closed
    elif last < FIRST - 1:
        assert b"TRUNCATED 10\n".startswith(heard)
        assert f"RESUME {last} answered by TRUNCATED 10" in closed
    else:
        whole, rest = naive.lines(said[len(line) :])
        seqs = [naive.ack(ack) for ack in whole]
        most = max(last, *(seq for seq in seqs if seq is not None), FIRST) + WINDOW
        assert b"".join(encode_event(*event) for event in EVENTS if last < event[0] <= most).startswith(heard)
        if None in seqs or len(rest) >= LINE_BYTES_MAX:
            assert re.search("instead of an ACK|it acknowledged event|connection lost", closed)
