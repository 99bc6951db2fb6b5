"""What the tests of the file source need: a source that is opened, placed and read step by step."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from consumer.core.records import Record
from consumer.core.runs import Assigned, Failed, Happening, Offer, Position, Run
from consumer.sources.file.source import FileSource

BEGINNING = Position(-1, -1, None, overlap=False, generation=0)


def behind(through: int, generation: int = 0) -> Position:
    return Position(through, through, None, overlap=False, generation=generation)


def at(last: int, through: int, generation: int = 0) -> Position:
    return Position(last, through, None, overlap=True, generation=generation)


class Reading:
    """A source that is open, and what was offered."""

    def __init__(self, source: FileSource, offer: Offer, patience_s: float) -> None:
        self._patience_s = patience_s
        self.source = source
        self.offer = offer
        self.stream = offer.stream

    async def place(self, position: Position | None) -> None:
        await self.source.place({self.stream: position})

    async def read(self) -> Sequence[Happening]:
        async with asyncio.timeout(self._patience_s):
            return await self.source.read()

    async def run(self) -> Run:
        (run,) = await self.read()
        assert isinstance(run, Run)
        return run

    async def offered(self) -> Offer:
        (assigned,) = await self.read()
        assert isinstance(assigned, Assigned)
        (offer,) = assigned.offers
        return offer

    async def failed(self) -> Failed:
        (failed,) = await self.read()
        assert isinstance(failed, Failed)
        return failed

    async def records(self, count: int) -> list[Record]:
        """As many records as that, or more."""
        found: list[Record] = []
        while len(found) < count:
            found += (await self.run()).records
        return found

    async def rest(self) -> list[Record]:
        """All records up to the end."""
        found: list[Record] = []
        while happened := await self.read():
            for run in happened:
                assert isinstance(run, Run)
                found += run.records
        return found


@asynccontextmanager
async def open_reading(
    patience_s: float, path: Path | str, position: Position | None = BEGINNING, **options: Any
) -> AsyncIterator[Reading]:
    """Open a file and place it, unless there is no position."""
    source = FileSource(str(path), **options)
    try:
        await source.open()
        (assigned,) = await source.read()
        assert isinstance(assigned, Assigned)
        driver = Reading(source, assigned.offers[0], patience_s)
        if position is not None:
            await driver.place(position)
        yield driver
    finally:
        await source.close()


def contents(records: Sequence[Record]) -> list[tuple[int, bytes | None]]:
    return [(record.seq, record.data) for record in records]
