"""What the checks of a source stand on: a session whose every answer is looked at, and waits that end."""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn, Protocol, TypeAlias, TypeVar

from consumer.core.records import NUMBER_MAX, Record, digest
from consumer.core.runs import Assigned, Failed, Happening, Lost, Offer, Position, Run
from consumer.sources.base import Source

Result = TypeVar("Result")

Append: TypeAlias = Callable[[Sequence[bytes]], Awaitable[None] | None]
"""Puts contents into a source's engine, as one record each, in whichever of its streams. It may be async."""


class Make(Protocol):
    """Makes a source of the engine that is tried: another object each time, of the same engine."""

    def __call__(self, *, once: bool) -> Source:
        """Make one, which ends with what is there when it is opened if `once` is said."""


def fail(what: str) -> NoReturn:
    """Say what is wrong with a source."""
    raise AssertionError(what)


async def call(function: Callable[..., Awaitable[None] | None], *arguments: object) -> None:
    """Call something of the user's that may be async or not."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        await result


class Session:
    """A session of a source, from `open` to `close`.

    Attributes:
        source: the source.
        offers: the last offer of each stream that is assigned.
        positions: where each stream is placed.
        records: what has come of each stream since it was placed.
        offered: how many offers have come.
        repeated: how many records have come that lay below what was reached.
    """

    def __init__(self, source: Source, patience_s: float, quiet_s: float) -> None:
        self.source = source
        self.offers: dict[str, Offer] = {}
        self.positions: dict[str, Position] = {}
        self.records: dict[str, list[Record]] = defaultdict(list)
        self.offered = 0
        self.repeated = 0
        self._through: dict[str, int] = {}
        self._patience_s = patience_s
        self._quiet_s = quiet_s

    async def within(self, waited: Awaitable[Result], what: str) -> Result:
        """Wait, but not for ever."""
        task = asyncio.ensure_future(waited)
        done, _ = await asyncio.wait((task,), timeout=self._patience_s)
        if not done:
            task.cancel()
            fail(f"{what} has not ended within {self._patience_s:g} s")
        return task.result()

    async def open(self) -> None:
        """Open the source, and hear of its streams."""
        await self.within(self.source.open(), "open")
        while not self.offers:
            await self.read()

    async def close(self) -> None:
        """Close it."""
        await self.within(self.source.close(), "close")

    async def place(self, positions: Mapping[str, Position | None]) -> None:
        """Place streams; what has come of them before is forgotten."""
        await self.within(self.source.place(positions), "place")
        for stream, position in positions.items():
            self.records.pop(stream, None)
            self.positions.pop(stream, None)
            if position is not None:
                self.positions[stream] = position
                self._through[stream] = position.start - 1

    async def place_all(self, generation: int = 0) -> None:
        """Place every stream at its beginning."""
        await self.place({stream: beginning(offer, generation) for stream, offer in self.offers.items()})

    async def read(self) -> Sequence[Happening]:
        """Read once, and look at what comes."""
        return self.take(await self.within(self.source.read(), "read"))

    def take(self, happened: Sequence[Happening]) -> Sequence[Happening]:
        """Look at what has come."""
        for one in happened:
            match one:
                case Assigned(offers):
                    for offer in offers:
                        self._take_offer(offer)
                case Lost(streams):
                    for stream in streams:
                        self.offers.pop(stream, None)
                        self.positions.pop(stream, None)
                case Run():
                    self._take_run(one)
                case Failed(stream, _, error):
                    fail(f"stream {stream} failed: {error}")
        return happened

    async def read_to_heads(self) -> None:
        """Read until all that was offered has come, of the streams that are placed."""
        heads = {stream: self.offers[stream].head for stream in self.positions}
        while any(self._through[stream] < head for stream, head in heads.items()):
            if not await self.read():
                fail(f"it has ended before it gave what it offered: {heads} was offered, {self._through} was reached")

    async def read_count(self, count: int) -> None:
        """Read until that many records have come."""
        while sum(map(len, self.records.values())) < count:
            if not await self.read():
                fail(f"it has ended before it gave all of {count} records")

    async def read_nothing(self, why: str) -> None:
        """Read for a short while, in which no run may come."""
        reading = asyncio.ensure_future(self.source.read())
        done, _ = await asyncio.wait((reading,), timeout=self._quiet_s)
        if done:
            for one in reading.result():
                if isinstance(one, Run):
                    fail(f"it gave a run of stream {one.stream} {why}")
            return
        await self.cancel(reading, "read")

    async def cancel(self, task: asyncio.Future[Result], what: str) -> Result | None:
        """Cancel, wait for the end, and give what it returned all the same."""
        task.cancel()
        done, _ = await asyncio.wait((task,), timeout=self._patience_s)
        if not done:
            fail(f"{what} was cancelled and has not ended within {self._patience_s:g} s")
        return None if task.cancelled() else task.result()

    def _take_offer(self, offer: Offer) -> None:
        stream = offer.stream
        if not stream or not isinstance(stream, str):
            fail(f"a stream needs a name, not {stream!r}")
        if not 0 <= offer.first <= offer.head + 1 <= NUMBER_MAX + 1:
            fail(f"stream {stream} cannot have first {offer.first} and head {offer.head}")
        self.offered += 1
        self.offers[stream] = offer
        self.positions.pop(stream, None)

    def _take_run(self, run: Run) -> None:
        position = self.positions.get(run.stream)
        if position is None:
            fail(f"it gave a run of stream {run.stream}, which is not placed")
        name = f"a run of stream {run.stream} after {run.after} through {run.through}"
        if run.generation != position.generation:
            fail(f"{name} has generation {run.generation}, and was placed with {position.generation}")
        reached = self._through[run.stream]
        if run.after > reached:
            fail(f"{name} leaves something out: {reached} was reached before, so it must not say a higher `after`")
        if not run.records and run.through <= reached:
            fail(f"{name} says nothing new: {reached} was reached before")
        before = run.after
        for record in run.records:
            if type(record) is not Record or record.stream != run.stream:
                fail(f"what stream {run.stream} gave is no Record of that stream: {record!r}")
            if record.seq <= before or record.seq > run.through:
                fail(f"{name} has record {record.seq} behind {before}: numbers rise, above `after` and up to `through`")
            before = record.seq
            self._take_record(run.stream, record, reached)
        self._through[run.stream] = max(reached, run.through)

    def _take_record(self, stream: str, record: Record, reached: int) -> None:
        digest(record)  # which raises where something in it is of a wrong type
        if record.seq > reached:
            self.records[stream].append(record)
        else:
            self.repeated += 1

    def has_reached(self, stream: str) -> int:
        """Say up to which number a stream has come."""
        return self._through[stream]


def beginning(offer: Offer, generation: int = 0) -> Position:
    """The position before everything that is there."""
    return behind(offer.first - 1, generation)


def behind(seq: int, generation: int = 0) -> Position:
    """The position behind a number."""
    return Position(seq, seq, None, overlap=False, generation=generation)


class Bench:
    """What is tried, and how to try it.

    Args:
        make: makes a source.
        append: puts records into the engine.
        patience_s: how long to wait for what must come, in seconds.
        quiet_s: how long to wait for what must not come.
    """

    def __init__(self, make: Make, append: Append, patience_s: float, quiet_s: float) -> None:
        self._make = make
        self._append = append
        self._patience_s = patience_s
        self._quiet_s = quiet_s
        self._appended = 0

    def new(self, *, once: bool = False) -> Session:
        """Make a source, and do not open it."""
        return Session(self._make(once=once), self._patience_s, self._quiet_s)

    @asynccontextmanager
    async def session(self, *, once: bool = False) -> AsyncIterator[Session]:
        """Make a source, open it, and close it in the end."""
        session = self.new(once=once)
        try:
            await session.open()
            yield session
        finally:
            await session.close()

    async def append(self, count: int = 3) -> list[bytes]:
        """Put records into the engine, each with another content."""
        datas = [b'{"number": %d}' % (self._appended + index) for index in range(count)]
        self._appended += count
        await call(self._append, datas)
        return datas

    async def all_records(self) -> dict[str, list[Record]]:
        """Read all that is there."""
        async with self.session() as session:
            await session.place_all()
            await session.read_to_heads()
            return {stream: session.records[stream] for stream in session.offers}
