"""A publisher as a model: what it has, what it sent, and what it heard.

It is durable before it sends. It honours RESUME, or goes by the acknowledgements that it remembers and sends again what
is not acknowledged. It may also lie, which is noted: a consumer that ends with an error must have been given cause.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from .network import Connection

FAR = 1_000_000
"""How far beyond the stream an event is that nothing leads up to: never to be reached, whatever is published yet."""

_LINE = re.compile(rb"(RESUME|ACK) (-1|[0-9]+)\n")


class Lie(StrEnum):
    """What a publisher may do that it should not, or that leaves a consumer behind."""

    CONFLICT = "conflict"
    GAP = "gap"
    GARBAGE = "garbage"
    TORN = "torn"
    TRUNCATED = "truncated"
    SNAPSHOT = "snapshot"
    AHEAD = "ahead"


_FRAMES = {
    Lie.GAP: b"EVENT %d 1\n" % FAR,
    Lie.GARBAGE: b"EVENT 01 1\n",
    Lie.TORN: b"EVENT 1",
    Lie.TRUNCATED: b"TRUNCATED 7\n",
    Lie.SNAPSHOT: b"SNAPSHOT 7 7\n",
    Lie.AHEAD: b"AHEAD -1\n",
}


@dataclass
class Session:
    """One connection, from the publisher's side."""

    publisher: "Publisher"
    connection: Connection
    next: int = -1
    has_resumed: bool = False
    is_over: bool = False
    """It is lost, or a lie was told: nothing more is sent."""
    sent: list[tuple[int, int]] = field(default_factory=list)
    """The number of each true event, in order, and how many bytes had been sent when it was."""
    acked: int = 0
    """How many of those are acknowledged."""
    _bytes: int = 0
    _rest: bytes = b""

    def receive(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            match = _LINE.fullmatch(line + b"\n")
            assert match is not None, f"the consumer said {line!r}"
            if match[1] == b"RESUME":
                self._resume(int(match[2]))
            else:
                self.acked += 1
                self.publisher.acked = max(self.publisher.acked, int(match[2]))
        self.pump()

    def lose(self) -> None:
        self.is_over = True

    def pump(self) -> None:
        """Send what there is, up to the window."""
        deltas = self.publisher.deltas
        while self.has_resumed and not self.is_over and self.next < len(deltas):
            if len(self.sent) - self.acked >= self.publisher.window:
                return
            self._say(b"EVENT %d %d\n" % (self.next, deltas[self.next]))
            self.sent.append((self.next, self._bytes))
            self.next += 1

    def lie(self, lie: Lie) -> None:
        """Say what is not so, and nothing more."""
        if lie is Lie.CONFLICT:
            seq = self.sent[-1][0]
            self._say(b"EVENT %d %d\n" % (seq, self.publisher.deltas[seq] + 1))
        else:
            self._say(_FRAMES[lie])
        self.publisher.lies[lie] += 1
        self.is_over = True
        if lie is Lie.TORN:
            self.connection.down.end()

    def _resume(self, last: int) -> None:
        self.has_resumed = True
        publisher = self.publisher
        self.next = max(publisher.first, 1 + (last if publisher.honours_resume else publisher.acked))
        if publisher.honours_resume and last + 1 < publisher.first:
            self._say(b"TRUNCATED %d\n" % publisher.first)
            self.is_over = True
            self.connection.down.end()

    def _say(self, frame: bytes) -> None:
        self._bytes += len(frame)
        self.connection.down.send(frame)


class Publisher:
    """The stream, and who listens to it."""

    def __init__(self, *, honours_resume: bool, window: int) -> None:
        self.deltas: list[int] = []
        """The stream: the number of an event is its place. What was published stays so, gone from here or not."""
        self.first = 0
        """The oldest event that can still be sent."""
        self.acked = -1
        self.honours_resume = honours_resume
        self.window = window
        self.sessions: list[Session] = []
        self.lies: Counter[Lie] = Counter()

    @property
    def head(self) -> int:
        return len(self.deltas) - 1

    def accept(self, connection: Connection) -> Session:
        self.sessions.append(Session(self, connection))
        return self.sessions[-1]

    def live(self) -> list[Session]:
        """The sessions in which something can still be said."""
        return [session for session in self.sessions if session.has_resumed and not session.is_over]

    def publish(self, deltas: list[int]) -> None:
        self.deltas += deltas
        for session in self.live():
            session.pump()

    def truncate(self, count: int) -> None:
        """Forget old events, acknowledged or not. Where that is all, the next one is the oldest."""
        self.first = min(self.first + count, len(self.deltas))

    def send_again(self, count: int) -> None:
        """Go back in every session, and send what follows once more."""
        for session in self.live():
            session.next = min(session.next, max(self.first, session.next - count))
            session.pump()

    def forget(self) -> None:
        """Forget what was acknowledged: all that is left is sent again, where that is what this publisher goes by."""
        self.acked = -1
