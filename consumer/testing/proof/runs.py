"""One run after the other: the process that dies in it, and a publisher that sends again what was not acknowledged."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any, Self

from consumer.core.events import Event
from consumer.sources.tcp.wire import decode_acks, encode_event, parse_resume
from consumer.testing.crash import Moment
from consumer.testing.proof.tasks import Done, Ended, Failed, Message, Ready, Target, Task

START_LIMIT_S = 60.0
"""How long the other process may take to start and to load the handler: a slow machine, a large application."""

END_LIMIT_S = 10.0
"""How long it may take to end when nothing more is asked of it, before it is killed."""

GRACE_S = 10.0
"""How much longer than a run's own limit it is waited for: longer than it waits for itself."""

RECEIVE_BYTES = 64 * 1024

_START = "import sys; sys.path[:] = sys.argv[2:]; from consumer.testing.proof.child import main; main(int(sys.argv[1]))"


class Publisher:
    """Sends events in pieces of one size, each when the one before is acknowledged; what is not, it sends again.

    It goes by the ACKs alone: what was committed and not acknowledged before a death comes as a duplicate.
    """

    def __init__(self, events: Sequence[Event], size: int) -> None:
        """Say what to send.

        Args:
            events: consecutive ones.
            size: the number of events of a piece, which is what the consumer finds in one read.
        """
        self._events = events
        self._size = size
        self.acked = 0
        """How many events are acknowledged."""

    @property
    def is_done(self) -> bool:
        """Whether all are acknowledged."""
        return self.acked == len(self._events)

    def serve(self, connection: socket.socket) -> None:
        """Serve one connection to its end, whichever side ends it.

        Raises:
            AssertionError: RESUME says less than what was acknowledged.
        """
        with suppress(ConnectionError):
            last = self._read_resume(connection)
            if last is None:
                return
            if last < self._events[0][0] + self.acked - 1:
                raise AssertionError(f"RESUME {last} came after {self.acked} events were acknowledged")
            rest = b""
            while not self.is_done:
                piece = self._events[self.acked : self.acked + self._size]
                goal = self.acked + len(piece)
                connection.sendall(b"".join(encode_event(*event) for event in piece))
                while self.acked < goal:
                    data = connection.recv(RECEIVE_BYTES)
                    if not data:
                        return
                    seqs, rest, stop = decode_acks(rest + data)
                    assert stop is None, stop
                    if seqs:
                        self.acked = max(self.acked, seqs[-1] - self._events[0][0] + 1)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(RECEIVE_BYTES):
                pass

    @staticmethod
    def _read_resume(connection: socket.socket) -> int | None:
        line = b""
        while not line.endswith(b"\n"):
            data = connection.recv(RECEIVE_BYTES)
            if not data:
                return None
            line += data
        return parse_resume(line)


class Runner:
    """The other process, for run after run. A context manager: nothing of it is left."""

    def __init__(self, target: Target, first_folders: Sequence[str] = ()) -> None:
        """Say what it is to run.

        Args:
            target: the handler.
            first_folders: where it looks for modules before it looks where this process does.
        """
        self._target = target
        self._path = [*first_folders, *(folder or str(os.getcwd()) for folder in sys.path)]  # noqa: PTH109 - a string

    def __enter__(self) -> Self:
        """Start it and have it load the handler.

        Raises:
            ValueError: the handler cannot be loaded, or cannot be one.
        """
        ours, theirs = Pipe()
        self._channel: Any = ours
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
                [sys.executable, "-c", _START, str(descriptor), *self._path],
                stdin=subprocess.DEVNULL,
                pass_fds=[descriptor],
                start_new_session=True,  # so that it and its children can be killed together
            )
        try:
            ours.send(self._target)
            message = self._receive(START_LIMIT_S)
        except BaseException:
            self._kill()
            raise
        if isinstance(message, Failed):
            self._kill()
            raise ValueError(f"the handler {self._target.module}:{self._target.name} is not usable: {message.reason}")
        assert isinstance(message, Ready)
        self.dies_in_calls = message.dies_in_calls
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it; after an error at once."""
        if kind is not None:
            self._kill()
            return
        self._channel.close()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._kill()

    def run(self, task: Task, publisher: Publisher) -> Done | Failed | None:
        """Have one process run, and serve it.

        Args:
            task: what it is to do; its publisher is the one that listens here.
            publisher: what serves it.

        Returns:
            What it said of itself, None where it was killed.

        Raises:
            AssertionError: what the publisher found out.
        """
        deadline = time.monotonic() + task.limit_s + GRACE_S
        report: Done | Failed | None = None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._channel.send(replace(task, publisher=f"tcp://127.0.0.1:{listener.getsockname()[1]}"))
            while True:
                ready = wait([listener, self._channel], max(0.0, deadline - time.monotonic()))
                if self._channel in ready:
                    message = self._receive(0.0)
                    if isinstance(message, Ended):
                        return self._judge(message, report, task)
                    assert isinstance(message, Done | Failed)
                    report = message
                elif listener in ready:
                    connection, _ = listener.accept()
                    with connection:
                        connection.settimeout(max(0.1, deadline - time.monotonic()))
                        publisher.serve(connection)
                else:
                    return Failed(f"it was not over after {task.limit_s:g} s")

    @staticmethod
    def _judge(ended: Ended, report: Done | Failed | None, task: Task) -> Done | Failed | None:
        if ended.code == -signal.SIGALRM:
            return Failed(f"it was not over after {task.limit_s:g} s")
        deaths = set[int]()
        if task.disturbance is not None and task.disturbance.kills:
            deaths = {-signal.SIGSYS if task.disturbance.point is Moment.IN_COMMIT else -signal.SIGKILL}
        if report is None and ended.code not in deaths:
            how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
            return Failed(f"its process ended with {how}")
        return report

    def _receive(self, limit_s: float) -> Message:
        if not self._channel.poll(limit_s):
            raise AssertionError(f"the process that is to run the handler said nothing for {limit_s:g} s")
        try:
            message: Message = self._channel.recv()
        except (EOFError, ConnectionError):
            raise AssertionError("the process that is to run the handler has ended by itself") from None
        return message

    def _kill(self) -> None:
        self._channel.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
