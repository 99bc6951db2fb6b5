"""The invariants: what must be true at every moment, checked against the model and never against the consumer's word."""

import re
from collections import Counter

from consumer.core.errors import (
    Conflict,
    CursorAhead,
    Gap,
    HandlerFailed,
    MalformedFrame,
    ResyncRequired,
    StoppedByForce,
)
from consumer.store.retry import TRIES

from .disk import Disk
from .network import Connection
from .process import End, Process
from .publisher import Lie, Publisher, Session

_LINE = re.compile(rb"(RESUME|ACK) (-1|[0-9]+)\n")


class Audit:
    """Looks at every byte that a consumer writes, at the database, and at how a consumer ends."""

    def __init__(self, disk: Disk, publisher: Publisher, figures: Counter[str]) -> None:
        self.disk = disk
        self.publisher = publisher
        self.figures = figures
        self.processes: list[Process] = []
        self.handler_failures = 0
        self._violation: AssertionError | None = None

    def check(self) -> None:
        """Raise what was found wrong, since the last time and now."""
        if self._violation is not None:
            raise self._violation
        self._check_database()
        self._check_processes()

    # What a consumer writes, at the moment when it writes it.

    def write(self, connection: Connection, data: bytes) -> None:
        try:
            assert _LINE.sub(b"", data) == b"", f"the consumer writes {data!r}"
            for word, number in _LINE.findall(data):
                assert (word == b"RESUME") is not connection.has_resumed, f"{data!r} at the wrong time"
                check = self._check_ack if connection.has_resumed else self._check_resume
                check(connection, int(number))
        except AssertionError as error:  # it is raised where the consumer cannot catch it
            self._violation = self._violation or error

    def close(self, connection: Connection) -> None:
        self._process(connection).floor = self.disk.durable

    def _check_resume(self, connection: Connection, last: int) -> None:
        process = self._process(connection)
        durable = self.disk.durable
        if len(self.processes) == 1:
            assert last == durable, f"RESUME {last}, and the durable cursor is {durable}"
        else:  # another consumer may have moved it since this one looked
            assert process.floor <= last <= durable, f"RESUME {last}, not within {process.floor} to {durable}"
        connection.has_resumed = True
        self.figures["RESUMEs checked"] += 1

    def _check_ack(self, connection: Connection, seq: int) -> None:
        assert seq <= self.disk.durable, f"ACK {seq}, and the durable cursor is {self.disk.durable}"
        session = connection.peer
        assert isinstance(session, Session)
        brought = [sent for sent, end in session.sent if end <= connection.down.delivered]
        assert brought[connection.acked : connection.acked + 1] == [seq], (
            f"after {connection.acked} others ACK {seq} goes to a connection that brought {brought}"
        )
        connection.acked += 1
        self.figures["ACKs checked"] += 1

    def _process(self, connection: Connection) -> Process:
        return next(process for process in self.processes if process.loop is connection.loop)

    # What is in the database.

    def _check_database(self) -> None:
        """The database is a prefix of the stream, each event in it once, and so is the user's table."""
        found = self.disk.found()
        assert found.last <= self.publisher.head
        stream = list(enumerate(self.publisher.deltas[: found.last + 1]))
        assert found.ledger == stream, f"the ledger is {found.ledger}, the stream {stream}"
        assert found.total == sum(delta for _, delta in stream), f"the total is {found.total}, the stream {stream}"
        assert found.seen == found.ledger, f"the user's table is {found.seen}, the ledger {found.ledger}"
        assert self.disk.durable <= found.last

    # How a consumer ends.

    def _check_processes(self) -> None:
        """No consumer ends without being told to, or being given cause."""
        for process in self.processes:
            assert process.is_dead or not process.loop.broken, process.loop.broken
            if process.task.done() and not process.is_dead:
                self._check_end(process)

    def _check_end(self, process: Process) -> None:
        if process.task.cancelled():
            assert End.CANCEL in process.ended_by, "it was cancelled by itself"
            return
        error = process.task.exception()
        if error is None:
            assert process.ended_by - {End.CANCEL}, "it ended by itself"
            return
        assert self._is_deserved(process, error), f"it ended with {error!r}"
        if isinstance(error, HandlerFailed) and len(self.processes) == 1:
            last = self.disk.last()
            assert last == error.seq - 1, f"what precedes event {error.seq} is not committed: {last}"

    def _is_deserved(self, process: Process, error: BaseException) -> bool:
        lies = self.publisher.lies
        match error:
            case ResyncRequired():
                told = lies[Lie.GAP] + lies[Lie.TRUNCATED] + lies[Lie.SNAPSHOT]
                return told > 0 or self.publisher.first > error.last + 1
            case Gap() | MalformedFrame():
                return lies[Lie.GAP] + lies[Lie.GARBAGE] >= TRIES
            case Conflict():
                return lies[Lie.CONFLICT] > 0
            case CursorAhead():
                return lies[Lie.AHEAD] > 0
            case HandlerFailed():
                return self.handler_failures >= TRIES
        return isinstance(error, StoppedByForce) and bool(process.ended_by)
