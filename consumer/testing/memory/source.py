"""A source that reads from a `MemoryEngine`: the shortest complete example of the interface, and a tool for tests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from consumer.core.errors import RecordTooLarge
from consumer.core.records import RECORD_OVERHEAD_BYTES, Record, content_bytes
from consumer.core.runs import Assigned, Failed, Happening, Lost, Offer, Position, Run
from consumer.sources.base import BATCH_BYTES, RECORD_BYTES_MAX
from consumer.testing.memory.engine import MemoryEngine

RUN_RECORDS = 100
"""How many records a run has at most, unless the caller says otherwise."""


@dataclass(slots=True)
class _Placed:
    generation: int
    after: int  # what the next run follows


class MemorySource:
    """A source of a `MemoryEngine`'s records.

    Args:
        engine: the engine.
        once: end when what was there when it was opened is given, and perhaps some more.
        run_records: how many records a run has at most.
        batch_bytes: how much memory the records of one `read` may take up.
        record_max: how many bytes a record may have.
        since_ms: the time for which its offers say where that begins, in milliseconds since 1970.

    Attributes:
        placements: each placement that was asked for, in order, for a test to look at.
    """

    has_many_streams = True

    def __init__(
        self,
        engine: MemoryEngine,
        *,
        once: bool = False,
        run_records: int = RUN_RECORDS,
        batch_bytes: int = BATCH_BYTES,
        record_max: int = RECORD_BYTES_MAX,
        since_ms: int | None = None,
    ) -> None:
        self._engine = engine
        self._once = once
        self._run_records = run_records
        self._batch_bytes = batch_bytes
        self._record_max = record_max
        self._since_ms = since_ms
        self._begin()
        self.placements: list[tuple[str, Position | None]] = []

    def _begin(self) -> None:
        self._happened: deque[Assigned | Lost] = deque()
        self._placed: dict[str, _Placed | None] = {}  # None where it is not to be fed
        self._ours: set[str] = set()
        self._ends: dict[str, int] = {}
        self._news = asyncio.Event()
        self._is_broken = False

    # The interface.

    async def open(self) -> None:
        """Join the group; as `Source.open`."""
        self._begin()
        await asyncio.sleep(0)
        self._engine.join(self)

    async def read(self) -> Sequence[Happening]:
        """Give what has happened; as `Source.read`."""
        while True:
            if self._is_broken:
                raise ConnectionResetError("the engine has broken the connection")
            if self._happened:
                happened = tuple(self._happened)
                self._happened.clear()
                return happened
            if runs := self._runs():
                return runs
            if self._happened:  # a stream that is trimmed below what comes next is offered again
                continue
            if self._once and self._has_ended():
                return ()
            self._news.clear()
            await self._news.wait()

    async def place(self, positions: Mapping[str, Position | None]) -> None:
        """Start or stop streams; as `Source.place`."""
        await asyncio.sleep(0)
        waiting = {offer.stream for one in self._happened if isinstance(one, Assigned) for offer in one.offers}
        for stream, position in positions.items():
            self.placements.append((stream, position))
            if stream in self._ours and stream not in waiting:
                self._placed[stream] = None if position is None else _Placed(position.generation, position.start - 1)
        self.wake()

    async def ask(self, streams: Collection[str]) -> Sequence[Offer]:
        """Say what holds of streams; as `Source.ask`."""
        await asyncio.sleep(0)
        return self._offers([stream for stream in streams if stream in self._ours])

    def acknowledge(self, committed: Mapping[str, int]) -> None:
        """Tell the engine; as `Source.acknowledge`."""
        self._engine.acknowledge({stream: seq for stream, seq in committed.items() if stream in self._ours})

    async def close(self) -> None:
        """Leave the group; as `Source.close`."""
        self._engine.leave(self)
        self._ours.clear()

    # What the engine tells it.

    def gain(self, streams: Sequence[str]) -> None:
        """Offer streams."""
        for stream in streams:
            self._placed.pop(stream, None)
        self._ours.update(streams)
        offers = self._offers(streams)
        for offer in offers:
            self._ends[offer.stream] = min(offer.head, self._ends.get(offer.stream, offer.head))
        self._happened.append(Assigned(offers))
        self.wake()

    def lose(self, streams: Sequence[str]) -> None:
        """Say that streams went."""
        for stream in streams:
            self._placed.pop(stream, None)
            self._ends.pop(stream, None)
        self._ours.difference_update(streams)
        self._happened.append(Lost(tuple(streams)))
        self.wake()

    def wake(self) -> None:
        """Look whether something has come."""
        self._news.set()

    def go_back(self, stream: str, seq: int) -> None:
        """Give records again."""
        placed = self._placed.get(stream)
        if placed is not None:
            placed.after = min(placed.after, seq - 1)
        self.wake()

    def break_off(self) -> None:
        """Be disconnected."""
        self._is_broken = True
        self.wake()

    # How it is done.

    def _offers(self, streams: Sequence[str]) -> tuple[Offer, ...]:
        found = (self._engine.offer(stream, self._since_ms) for stream in streams)
        return tuple(offer for offer in found if offer is not None)

    def _runs(self) -> list[Run | Failed]:
        """Give a run of each stream that has something, as far as there is room."""
        room = self._batch_bytes
        given: list[Run | Failed] = []
        for stream, placed in [*self._placed.items()]:
            if placed is None or (room <= 0 and given):
                continue
            log = self._engine.streams[stream]
            if placed.after + 1 < log.first:
                self.gain([stream])
            elif placed.after + 1 < log.end and not self._is_behind_end(stream, placed):
                more, room = self._run(stream, placed, room)
                given += more
        return given

    def _is_behind_end(self, stream: str, placed: _Placed) -> bool:
        return self._once and placed.after >= self._ends[stream]

    def _run(self, stream: str, placed: _Placed, room: int) -> tuple[list[Run | Failed], int]:
        records, through = self._engine.fetch(stream, placed.after + 1, self._run_records)
        fitting: list[Record] = []
        large: Record | None = None
        for record in records:
            size = content_bytes(record)
            if size > self._record_max:
                large = record
                break
            room -= size + RECORD_OVERHEAD_BYTES
            if room < 0 and fitting:
                break
            fitting.append(record)
        if len(fitting) < len(records):
            through = records[len(fitting)].seq - 1
        given: list[Run | Failed] = []
        if through > placed.after:
            token = self._engine.streams[stream].identity.encode()
            given.append(Run(stream, placed.generation, placed.after, fitting, through, token))
            placed.after = through
        if large is not None:
            given.append(Failed(stream, placed.generation, RecordTooLarge(stream, large.seq, self._record_max)))
            self._placed[stream] = None
        return given, room

    def _has_ended(self) -> bool:
        """Say whether all streams are decided about, and those that are fed have come to their ends."""
        return self._ours == set(self._placed) and all(
            placed is None or placed.after >= self._ends[stream] for stream, placed in self._placed.items()
        )
