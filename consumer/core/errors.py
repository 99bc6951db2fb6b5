"""The error tree: everything this package raises on purpose, each with what its reader needs to act.

Every error keeps its facts as attributes and builds its one-line message from them. Two things are not written here,
since others decide them: which failures are tried again (`consumer.store.retry`), and with which exit code an error
ends the command (`consumer.cli.exits`).
"""

from __future__ import annotations

from typing import Protocol

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
    """A known number came with other content, or one that was known to hold nothing came with some.

    Attributes:
        seq: the number of the event or record.
        recorded: what is known of it: an event's delta, a record's digest; None where there is nothing of that number.
        received: the same of what came, None where no record has that number any more and something else is there.
        stream: the record's stream, None for an event.
    """

    def __init__(
        self, seq: int, recorded: int | bytes | None, received: int | bytes | None, *, stream: str | None = None
    ) -> None:
        super().__init__(seq, recorded, received)
        self.seq = seq
        self.recorded = recorded
        self.received = received
        self.stream = stream

    def __str__(self) -> str:
        if self.stream is not None:
            if self.received is None:
                found = "is not there any more, and something else is in its place"
            else:
                found = f"came {'where none' if self.recorded is None else 'with other content than'} was before"
            return (
                f"conflict in stream {self.stream}: record {self.seq} {found}; the stream was rewritten, restored or "
                "made anew: find out which of the two histories is right before going on"
            )
        known = "holds no row of that number" if self.recorded is None else f"holds delta {self.recorded!r}"
        return (
            f"conflict at event {self.seq}: delta {self.received!r} came, the ledger {known}; "
            "find out which of the two histories is right before going on"
        )


class Gap(ConsumerError):
    """An event or a run of records came, and what precedes it is missing.

    Attributes:
        expected: the number that was due.
        received: the number that came; for records the one from which on the source vouches for what it gave.
        stream: the records' stream, None for an event.
    """

    def __init__(self, expected: int, received: int, *, stream: str | None = None) -> None:
        super().__init__(expected, received)
        self.expected = expected
        self.received = received
        self.stream = stream

    def __str__(self) -> str:
        if self.stream is not None:
            return (
                f"gap in stream {self.stream}: records from {self.received} on came where those from {self.expected} "
                "on were due; if it stays so, the source leaves records out"
            )
        return (
            f"gap: event {self.received} came where {self.expected} was due; "
            "reconnect to have the missing ones sent again, or fix a publisher that leaves them out"
        )


class ResyncRequired(ConsumerError):
    """The publisher or source no longer has what the cursor needs next.

    Attributes:
        last: the cursor; for records the number up to which everything is settled.
        first: the oldest number that can still be had, None where the publisher did not say.
        snapshot: `(last, total)` where the publisher offered a snapshot instead, otherwise None.
        stream: the records' stream, None for events.
    """

    def __init__(
        self,
        last: int,
        first: int | None = None,
        snapshot: tuple[int, int] | None = None,
        *,
        stream: str | None = None,
    ) -> None:
        super().__init__(last, first, snapshot)
        self.last = last
        self.first = first
        self.snapshot = snapshot
        self.stream = stream

    def __str__(self) -> str:
        if self.stream is not None:
            return (
                f"stream {self.stream} begins at {self.first} now, and what follows {self.last} up to there was never "
                "consumed: restore it at the source, or decide to go on without it"
            )
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
    """The cursor is beyond the last event or record: some were lost, or it is another stream.

    Attributes:
        last: the cursor; for records the number up to which everything is settled.
        head: the last number there, -1 where there is none.
        stream: the records' stream, None for events.
        is_firm: whether that is final. Otherwise the head may be out of date, and is worth asking for again.
    """

    def __init__(self, last: int, head: int, *, stream: str | None = None, is_firm: bool = True) -> None:
        super().__init__(last, head)
        self.last = last
        self.head = head
        self.stream = stream
        self.is_firm = is_firm

    def __str__(self) -> str:
        if self.stream is not None:
            end = "it is empty" if self.head < 0 else f"it ends at {self.head}"
            return (
                f"the cursor of stream {self.stream} is at {self.last}, but {end}: "
                "it lost records or is another stream; check the address and restore the source"
            )
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


class StoreForked(ConsumerError):
    """A store was used in a child of the process that has connected it. The connections are the parent's alone."""

    def __str__(self) -> str:
        return (
            "this store was connected in another process, of which this one is a fork: make a new Store here, or close "
            "it before the fork"
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
        seq: the number of the event or record, or of the first of several; -1 where a function failed that was called
            with a move by hand.
        reason: what happened. The handler's own exception is `__cause__`.
        stream: the record's stream, or those that were to be moved; None for an event.
    """

    def __init__(self, seq: int, reason: str, *, stream: str | None = None) -> None:
        super().__init__(seq, reason)
        self.seq = seq
        self.reason = reason
        self.stream = stream

    def __str__(self) -> str:
        if self.stream is None:
            what = f"event {self.seq}"
        else:
            what = f"the move of {self.stream}" if self.seq < 0 else f"record {self.seq} of stream {self.stream}"
        return f"the handler failed at {what}: {self.reason}; fix it, or the data, and start again"


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


# What only records, streams and their sources can come to.


class Numbered(Protocol):
    """What an error needs of a record."""

    @property
    def stream(self) -> str:
        """The record's stream."""

    @property
    def seq(self) -> int:
        """The record's number."""


class SourceChanged(ConsumerError):
    """What a stream's name leads to is not what was consumed from: it was deleted and made anew, or is another.

    Attributes:
        stream: its name.
        known: the identity that was consumed from.
        found: the one that is there now.
    """

    def __init__(self, stream: str, known: str, found: str) -> None:
        super().__init__(stream, known, found)
        self.stream = stream
        self.known = known
        self.found = found

    def __str__(self) -> str:
        return (
            f"stream {self.stream} is another one than was consumed from: it was {self.known} and is {self.found} now; "
            "check the address, or say that the new one is to be trusted"
        )


class GroupShared(ConsumerError):
    """Another store commits its position under the same group, so that each of the two would get only a part.

    Attributes:
        group: the group's name.
        owner: the store id that was found there.
    """

    def __init__(self, group: str, owner: str) -> None:
        super().__init__(group, owner)
        self.group = group
        self.owner = owner

    def __str__(self) -> str:
        return f"group {self.group} is in use by store {self.owner}: give each store a group of its own"


class SourceUnusable(ConsumerError):
    """A source that cannot be consumed from, and that trying again does not change.

    Attributes:
        source: which, without credentials.
        reason: what is wrong with it.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source = source
        self.reason = reason

    def __str__(self) -> str:
        return f"the source {self.source} cannot be used: {self.reason}"


class BadRecord(ConsumerError):
    """Raised by a handler: this very record cannot be handled, so that it need not be looked for.

    Attributes:
        record: which.
        stream: its stream.
        seq: its number.
        reason: what is wrong with it.
    """

    def __init__(self, record: Numbered, reason: str = "the handler refused it") -> None:
        super().__init__(record, reason)
        self.record = record
        self.stream = record.stream
        self.seq = record.seq
        self.reason = reason

    def __str__(self) -> str:
        return f"bad record {self.seq} of stream {self.stream}: {self.reason}"

    def __repr__(self) -> str:
        return f"BadRecord({self})"  # without the record's content, which is the user's and not for logs


class RecordTooLarge(ConsumerError):
    """A record has more bytes than are allowed.

    Attributes:
        stream: its stream.
        seq: its number.
        limit: how many bytes are allowed.
    """

    def __init__(self, stream: str, seq: int, limit: int) -> None:
        super().__init__(stream, seq, limit)
        self.stream = stream
        self.seq = seq
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"record {self.seq} of stream {self.stream} is larger than the {counted(self.limit, 'byte')} allowed; "
            "allow more, or go on without it"
        )


class UnfinishedRecord(ConsumerError):
    """The source ends inside a record, where it was to be consumed to its end.

    Attributes:
        stream: its stream.
        seq: the record's number, which for a file is the byte where its line begins.
    """

    def __init__(self, stream: str, seq: int) -> None:
        super().__init__(stream, seq)
        self.stream = stream
        self.seq = seq

    def __str__(self) -> str:
        return (
            f"the last line of stream {self.stream}, which begins at byte {self.seq}, has no newline: "
            "finish or remove it, or wait for whoever writes it"
        )


class HandlerChanged(ConsumerError):
    """A stream was consumed by another handler so far, so that this one would never see what came before.

    Attributes:
        stream: the stream's name.
        known: the name of the handler that has consumed it.
        given: the name of the one that was given.
    """

    def __init__(self, stream: str, known: str, given: str) -> None:
        super().__init__(stream, known, given)
        self.stream = stream
        self.known = known
        self.given = given

    def __str__(self) -> str:
        return (
            f"stream {self.stream} was consumed by the handler {self.known} so far, and {self.given} would not see "
            "what that one has: give another name to begin anew under it, or this name again to go on where it stands"
        )


class UnknownStream(ConsumerError):
    """There is no stream of that name in this store.

    Attributes:
        stream: the name.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.stream = stream

    def __str__(self) -> str:
        return f"there is no stream {self.stream} in this store: consumer status lists those that there are"


class NotAsExpected(ConsumerError):
    """A stream's cursor is not where it was expected, so nothing was changed.

    Attributes:
        stream: the stream's name.
        expected: the number that was expected to be the last one.
        last: the number of its last committed record, -1 for none.
    """

    def __init__(self, stream: str, expected: int, last: int) -> None:
        super().__init__(stream, expected, last)
        self.stream = stream
        self.expected = expected
        self.last = last

    def __str__(self) -> str:
        return (
            f"the last record of stream {self.stream} is {self.last}, not {self.expected} as was expected: nothing was "
            "changed; look at it again before deciding"
        )


class NotNext(ConsumerError):
    """A record is to be passed over that is not the next one, so that others would be lost with it.

    Attributes:
        stream: the stream's name.
        record: the number that was given.
        due: the number that is due next.
        halted_at: the number of the record that the stream is halted at, None for none.
    """

    def __init__(self, stream: str, record: str, due: int, halted_at: int | None) -> None:
        super().__init__(stream, record, due, halted_at)
        self.stream = stream
        self.record = record
        self.due = due
        self.halted_at = halted_at

    def __str__(self) -> str:
        where = f"{self.due} is due next" if self.halted_at is None else f"the stream is halted at {self.halted_at}"
        return f"record {self.record} of stream {self.stream} is not the next one, {where}: nothing was changed"


class Behind(ConsumerError):
    """A store is further behind than somebody allows; the message says which streams, and how far."""
