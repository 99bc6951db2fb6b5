"""The error tree: everything this package raises on purpose, each with what its reader needs to act.

Every error keeps its facts as attributes and builds its one-line message from them. Two things are not written here,
since others decide them: which failures are tried again (`consumer.store.retry`), and with which exit code an error
ends the command (`consumer.cli.exits`).
"""

from __future__ import annotations

from consumer.core.words import counted, last_event

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
        return (
            f"malformed frame {shown}; "
            "check that the address is the publisher's, that it speaks this protocol and that its journal is sound"
        )


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
            "reconnect to have the missing ones sent again, or fix a publisher that leaves them out"
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
            f"the cursor is at {self.last}, but at the publisher {last_event(self.head)}: "
            "it lost events or is another stream; check the address and restore the publisher"
        )


class InvalidURL(ConsumerError, ValueError):
    """A URL that was typed cannot be one; the message says which and what is taken."""


class InvalidOption(ConsumerError, ValueError):
    """An option that was given cannot be used; the message says which and why."""


class NotReady(ConsumerError):
    """There is no store in this database, or it is not at this version.

    Attributes:
        reason: which of the two, in words.
        needs_upgrade: whether an upgrade makes it ready.
    """

    def __init__(self, reason: str, needs_upgrade: bool = False) -> None:
        super().__init__(reason, needs_upgrade)
        self.reason = reason
        self.needs_upgrade = needs_upgrade

    def __str__(self) -> str:
        if not self.needs_upgrade:
            return self.reason
        return f"{self.reason}: call consumer.migrate.upgrade, or run consumer upgrade"


class DatabaseUnusable(ConsumerError):
    """A database failed in a way that does not pass by itself.

    Attributes:
        url: which one, without its password.
        reason: what it said.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"the database {self.url} cannot be used: {self.reason}"


class DatabaseReadOnly(ConsumerError):
    """The server takes no changes now: a standby, or a primary that is read-only for the time of a failover."""

    def __str__(self) -> str:
        return (
            "the PostgreSQL server is read-only, as a standby is and a server during a failover; "
            "where the URL names several hosts, target_session_attrs=read-write finds the one that is not"
        )


class CommitUnconfirmed(ConsumerError):
    """PostgreSQL has committed, but without the standby that it should have waited for: nothing may be acknowledged."""

    def __str__(self) -> str:
        return "PostgreSQL has committed without the standby that it should have waited for"


class SyncFailed(ConsumerError):
    """What is committed cannot be made durable, so it may neither be claimed nor be built on.

    Attributes:
        path: the file.
        reason: what the system said.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be synced: {self.reason}; look at the disk"


class StoreReplaced(ConsumerError):
    """The database's file is no longer the one that is open, so that nothing written to it can be found again.

    Attributes:
        path: the file that was deleted, moved or replaced.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path} was deleted, moved or replaced while it was open: nothing more is acknowledged; put the "
            "right file there and start again, which goes on from the cursor that it holds"
        )


class SchemaMismatch(ConsumerError):
    """The database has a table of ours with another shape; the message names both shapes."""


class UnsafeDurability(ConsumerError):
    """The database could lose what it has confirmed, so nothing may be acknowledged from it; the message says why."""


class Fenced(ConsumerError):
    """Another consumer moved the cursor although this one held the lock.

    Attributes:
        expected: the cursor that was read under the lock.
    """

    def __init__(self, expected: int) -> None:
        super().__init__(expected)
        self.expected = expected

    def __str__(self) -> str:
        return (
            f"the cursor is no longer at {self.expected}, although it was locked: something else writes to this store"
        )


class Retry(ConsumerError):
    """Raised by a handler: not now. The whole batch is rolled back and comes again later."""


class HandlerFailed(ConsumerError):
    """A handler raised, or broke a rule of handlers. Nothing of the event is in the database.

    Attributes:
        seq: the number of the event, or of the first of several.
        reason: what happened. The handler's own exception is `__cause__`.
    """

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(seq, reason)
        self.seq = seq
        self.reason = reason

    def __str__(self) -> str:
        return f"the handler failed at event {self.seq}: {self.reason}; fix it, or the data, and start again"


class ConnectFailed(ConsumerError):
    """The publisher could not be reached, or broke off before RESUME was said; the message says how."""


class GaveUp(ConsumerError):
    """Connecting failed as often in a row as was allowed.

    Attributes:
        attempts: how often.
        reason: the last failure.
    """

    def __init__(self, attempts: int, reason: str) -> None:
        super().__init__(attempts, reason)
        self.attempts = attempts
        self.reason = reason

    def __str__(self) -> str:
        return f"gave up after {counted(self.attempts, 'attempt')} to connect: {self.reason}"


class TLSRefused(ConsumerError):
    """One of the two sides refused the other's certificate; the message says which."""


class StoppedByForce(ConsumerError):
    """The database call did not end in time after a stop; the outcome of the last commit is unknown."""

    def __str__(self) -> str:
        return (
            "stopped by force while a commit, or the handler before it, was under way, whose outcome is unknown; "
            "nothing that was acknowledged is lost, and the next start goes on from the database"
        )


class JournalUnusable(ConsumerError):
    """A journal that can be neither served nor appended to.

    Attributes:
        path: the file.
        reason: what is wrong with it, and what to do.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"the journal {self.path} cannot be used: {self.reason}"


class AddressInUse(ConsumerError):
    """Another process listens where the publisher should.

    Attributes:
        host: the address that was asked for.
        port: the port.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return f"{self.host} port {self.port} is in use: stop what listens there, or choose another port"


class BadInput(ConsumerError, ValueError):
    """A line of input that cannot be appended. Nothing after it was written.

    Attributes:
        number: which line it is, from 1.
        reason: what is wrong with it.
        appended: how many events before it were appended by the same command.
        head: the journal's last event now, -1 where it has none.
        is_other_kind: whether it is a bare delta where EVENT lines were to come, or the other way round.
    """

    def __init__(self, number: int, reason: str, appended: int, head: int, is_other_kind: bool = False) -> None:
        super().__init__(number, reason, appended, head, is_other_kind)
        self.number = number
        self.reason = reason
        self.appended = appended
        self.head = head
        self.is_other_kind = is_other_kind

    def __str__(self) -> str:
        return (
            f"line {self.number}: {self.reason}; {counted(self.appended, 'event')} appended before it, "
            f"{last_event(self.head)}: correct the line and give it again with what follows it"
        )
