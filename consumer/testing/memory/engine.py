"""An engine in memory that plays everything that real ones do to their records: trim, lose, make anew, restore, move.

It is a group of one or more sources, among which the streams are divided, as in Kafka. All is done in the event loop's
thread, and nothing takes time, so that it can be used in virtual time as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from consumer.core.records import Headers, Record
from consumer.core.runs import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Log:
    """What the engine holds of a stream.

    Attributes:
        identity: another one each time the stream is made anew.
        first: the lowest number that is kept.
        end: the number that comes next.
        records: what is kept, by rising numbers. Numbers without a record are markers, or were deleted.
    """

    identity: str
    first: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)

    def place_of(self, seq: int) -> int:
        """Give the place in `records` of the first one that is not below a number."""
        return bisect_left(self.records, seq, key=attrgetter("seq"))

    def since(self, timestamp_ms: int) -> int:
        """Give the first number of a time."""
        return next((one.seq for one in self.records if (one.timestamp_ms or 0) >= timestamp_ms), self.end)


class Member(Protocol):
    """What the engine tells a source's session."""

    def gain(self, streams: Sequence[str]) -> None:
        """Take streams over, or hear that something else holds of those one has."""

    def lose(self, streams: Sequence[str]) -> None:
        """Hear that they are somebody else's, or gone."""

    def wake(self) -> None:
        """Look whether something has come."""

    def go_back(self, stream: str, seq: int) -> None:
        """Give what is already given again, from a number on."""

    def break_off(self) -> None:
        """Hear that the connection broke."""


class MemoryEngine:
    """The engine.

    Args:
        streams: the names of the streams that are there at the beginning.

    Attributes:
        acknowledged: for each stream the number that was acknowledged last.
        loses_acknowledgements: whether those that come are dropped.
        heads_behind: how far the heads that are offered are behind the truth, for each stream where a replica answers
            that is out of date. Such a head is not firm.
    """

    def __init__(self, streams: Iterable[str] = ("memory/0",)) -> None:
        self._identities = count(1)
        self._logs = {stream: self._new_log() for stream in streams}
        self._members: list[Member] = []
        self._owners: dict[str, Member] = {}
        self._turn = 0
        self._now_ms = count(1_000)
        self.acknowledged: dict[str, int] = {}
        self.loses_acknowledgements = False
        self.heads_behind: dict[str, int] = {}

    # What publishers do.

    def append(
        self,
        stream: str,
        data: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Append a record.

        Args:
            stream: where.
            data: its content.
            key: its key.
            headers: its headers.
            timestamp_ms: its time; the engine's own where none is given, which rises by one with each record.

        Returns:
            Its number.
        """
        log = self._logs[stream]
        seq, log.end = log.end, log.end + 1
        now_ms = next(self._now_ms) if timestamp_ms is None else timestamp_ms
        log.records.append(Record(stream, seq, data, key, stream, headers, now_ms))
        self._wake(stream)
        return seq

    def mark(self, stream: str, numbers: int = 1) -> None:
        """Use up numbers without a record, as the markers of transactions do."""
        self._logs[stream].end += numbers
        self._wake(stream)

    # What engines do.

    def remove(self, stream: str, seq: int) -> None:
        """Delete a record in the middle, as compaction does."""
        log = self._logs[stream]
        log.records = [record for record in log.records if record.seq != seq]

    def trim(self, stream: str, first: int) -> None:
        """Delete what is below a number, as retention does."""
        log = self._logs[stream]
        log.first = max(log.first, min(first, log.end))
        log.records = log.records[log.place_of(log.first) :]
        self._wake(stream)

    def lose_tail(self, stream: str, numbers: int, *, is_noticed: bool = True) -> None:
        """Lose the last numbers, and give them again to what comes next, as an unclean election does.

        Args:
            stream: which.
            numbers: how many.
            is_noticed: whether its source is told, and offers the stream again; otherwise it goes on as if nothing was.
        """
        log = self._logs[stream]
        log.end = max(log.first, log.end - numbers)
        log.records = log.records[: log.place_of(log.end)]
        self._changed(stream, is_noticed=is_noticed)

    def recreate(self, stream: str, *, is_noticed: bool = True) -> None:
        """Delete a stream and make it anew, empty and under the same name."""
        self._logs[stream] = self._new_log()
        self._changed(stream, is_noticed=is_noticed)

    def backup(self, stream: str) -> Log:
        """Take a copy of a stream, for `restore`."""
        return deepcopy(self._logs[stream])

    def restore(self, stream: str, backup: Log, *, is_noticed: bool = True) -> None:
        """Put a copy in the place of a stream: with its identity, as a restored disk has it."""
        self._logs[stream] = deepcopy(backup)
        self._changed(stream, is_noticed=is_noticed)

    def add(self, stream: str) -> None:
        """Add a stream, which one of the sources gets."""
        self._logs[stream] = self._new_log()
        self._assign()

    def delete(self, stream: str) -> None:
        """Delete a stream for good."""
        del self._logs[stream]
        owner = self._owners.pop(stream, None)
        if owner is not None:
            owner.lose([stream])

    def redeliver(self, stream: str, seq: int) -> None:
        """Have the stream's source give again what it has given, from a number on."""
        if stream in self._owners:
            self._owners[stream].go_back(stream, seq)

    def rebalance(self) -> None:
        """Divide the streams among the sources anew, each to the next one."""
        self._turn += 1
        self._assign()

    def disconnect(self) -> None:
        """Break all connections."""
        for member in tuple(self._members):
            member.break_off()

    # What a source asks.

    @property
    def streams(self) -> Mapping[str, Log]:
        """What is there, for a test to compare with."""
        return self._logs

    def join(self, member: Member) -> None:
        """Take a session into the group."""
        self._members.append(member)
        self._assign()

    def leave(self, member: Member) -> None:
        """Let a session go; its streams go to the others."""
        if member in self._members:
            self._members.remove(member)
            self._owners = {stream: owner for stream, owner in self._owners.items() if owner is not member}
            self._assign()

    def offer(self, stream: str, since_ms: int | None = None) -> Offer | None:
        """Say what holds of a stream, None where it is not there."""
        log = self._logs.get(stream)
        if log is None:
            return None
        behind = self.heads_behind.get(stream, 0)
        head = max(log.end - 1 - behind, -1)
        since = None if since_ms is None else log.since(since_ms)
        return Offer(stream, log.identity, log.first, head, head_is_firm=not behind, since=since)

    def fetch(self, stream: str, seq: int, records_max: int) -> tuple[list[Record], int]:
        """Give records from a number on, and the number up to which these are all."""
        log = self._logs[stream]
        begin = log.place_of(seq)
        found = log.records[begin : begin + records_max]
        is_all = begin + records_max >= len(log.records)
        return found, log.end - 1 if is_all else found[-1].seq

    def acknowledge(self, committed: Mapping[str, int]) -> None:
        """Note what was acknowledged."""
        if not self.loses_acknowledgements:
            self.acknowledged.update({stream: seq for stream, seq in committed.items() if stream in self._logs})

    # How it is done.

    def _new_log(self) -> Log:
        return Log(f"log {next(self._identities)}")

    def _wake(self, stream: str) -> None:
        if stream in self._owners:
            self._owners[stream].wake()

    def _changed(self, stream: str, *, is_noticed: bool) -> None:
        if stream in self._owners and is_noticed:
            self._owners[stream].gain([stream])
        self._wake(stream)

    def _assign(self) -> None:
        """Give each stream to its member, and tell those who lose one before those who gain it."""
        if not self._members:
            return
        owners = {
            stream: self._members[(index + self._turn) % len(self._members)] for index, stream in enumerate(self._logs)
        }
        moved = [stream for stream, owner in owners.items() if self._owners.get(stream) is not owner]
        for stream in moved:
            if stream in self._owners:
                self._owners[stream].lose([stream])
        self._owners = owners
        for member in self._members:
            if gained := [stream for stream in moved if owners[stream] is member]:
                member.gain(gained)
