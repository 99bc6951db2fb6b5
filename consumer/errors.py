"""The error tree: everything this package raises on purpose, each with what its reader needs to act.

Every error keeps its facts as attributes and builds its one-line message from them. What is retried and what the exit
codes are is not written here: `service.py` and `cli.py` hold the one table of each.
"""

from __future__ import annotations

SHOWN_BYTES = 80
"""How much of a malformed line a message shows."""


class ConsumerError(Exception):
    """The root: `except ConsumerError` catches what this package found out, and no programming error."""


class MalformedFrame(ConsumerError, ValueError):
    """Bytes that are no frame of the protocol.

    Attributes:
        line: the offending bytes, as many of them as had arrived.
    """

    def __init__(self, line: bytes) -> None:
        super().__init__(line)
        self.line = line

    def __str__(self) -> str:
        shown = repr(self.line[:SHOWN_BYTES])[1:] + (" …" if len(self.line) > SHOWN_BYTES else "")
        return f"malformed frame {shown}; check that the address is the publisher's and that it speaks this protocol"


class Conflict(ConsumerError):
    """A known number came with other content, or below the cursor without a ledger row.

    Attributes:
        seq: the event's number.
        recorded: the delta in the ledger, None where it has no row of that number.
        received: the delta that came.
    """

    def __init__(self, seq: int, recorded: int | None, received: int) -> None:
        super().__init__(seq, recorded, received)
        self.seq = seq
        self.recorded = recorded
        self.received = received

    def __str__(self) -> str:
        known = "holds no row of that number" if self.recorded is None else f"holds delta {self.recorded}"
        return (
            f"conflict at event {self.seq}: delta {self.received} came, the ledger {known}; "
            "find out which of the two histories is right before going on"
        )


class Gap(ConsumerError):
    """An event came whose predecessor is missing.

    Attributes:
        expected: the number that was due.
        received: the number that came.
    """

    def __init__(self, expected: int, received: int) -> None:
        super().__init__(expected, received)
        self.expected = expected
        self.received = received

    def __str__(self) -> str:
        return (
            f"gap: event {self.received} came where {self.expected} was due; "
            "reconnect to have the missing ones sent again"
        )


class ResyncRequired(ConsumerError):
    """The publisher no longer has what the cursor needs next.

    Attributes:
        last: the cursor.
        first: the oldest event that the publisher can still send, None where it did not say.
        snapshot: `(last, total)` where the publisher offered a snapshot instead, otherwise None.
    """

    def __init__(self, last: int, first: int | None = None, snapshot: tuple[int, int] | None = None) -> None:
        super().__init__(last, first, snapshot)
        self.last = last
        self.first = first
        self.snapshot = snapshot

    def __str__(self) -> str:
        if self.snapshot is not None:
            offer = f"it offers a snapshot with last {self.snapshot[0]} and total {self.snapshot[1]} instead"
        elif self.first is not None:
            offer = f"its history starts at {self.first}"
        else:
            offer = "its history starts later"
        return (
            f"event {self.last + 1} is no longer at the publisher: {offer}; "
            "restore the missing events there, or rebuild this store"
        )


class CursorAhead(ConsumerError):
    """The cursor is beyond the publisher's last event: it lost events, or it is another stream.

    Attributes:
        last: the cursor.
        head: the publisher's last event, -1 where it has none.
    """

    def __init__(self, last: int, head: int) -> None:
        super().__init__(last, head)
        self.last = last
        self.head = head

    def __str__(self) -> str:
        return (
            f"the cursor is at {self.last}, but the publisher's last event is {self.head}: "
            "it lost events or is another stream; check the address and restore the publisher"
        )


class InvalidURL(ConsumerError, ValueError):
    """A URL that was typed cannot be one; the message says which and what is taken."""


class NotReady(ConsumerError):
    """There is no store in this database, or it is not at this version; the message says what to run."""


class SchemaMismatch(ConsumerError):
    """The database has a table of ours with another shape; the message names both shapes."""
