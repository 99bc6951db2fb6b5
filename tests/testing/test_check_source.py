"""The checks of a source: ours pass them, and each kind of wrong one is found by name."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, cycle
from pathlib import Path

import pytest

from consumer.core.runs import Assigned, Happening, Offer, Position, Run
from consumer.sources.file.source import FileSource
from consumer.testing import MemoryEngine, MemorySource, check_source

STREAMS = ("memory/0", "memory/1", "memory/2")

QUIET_S = 0.05


class World:
    """An engine with several streams, holes and a beginning that is gone."""

    def __init__(self, streams: Sequence[str] = STREAMS) -> None:
        self.engine = MemoryEngine(streams)
        self._streams = cycle(streams)
        for stream in streams:
            for _ in range(5):
                self.engine.append(stream, b"before")
                self.engine.mark(stream)
            self.engine.trim(stream, 3)
            self.engine.remove(stream, 6)

    def append(self, datas: Sequence[bytes]) -> None:
        for data, stream in zip(datas, self._streams, strict=False):
            self.engine.append(stream, data, key=b"k", headers=(("h", None), ("h", b"")))
            self.engine.mark(stream)

    def recreate(self) -> None:
        for stream in self.engine.streams:
            self.engine.recreate(stream)

    def trim(self) -> None:
        for stream, log in self.engine.streams.items():
            self.engine.trim(stream, log.records[0].seq + 1)


@pytest.mark.parametrize("streams", [STREAMS, STREAMS[:1]])
@pytest.mark.parametrize("run_records", [1, 2, 100])
async def test_the_source_in_memory_passes(streams: Sequence[str], run_records: int) -> None:
    world = World(streams)
    make = partial(MemorySource, world.engine, run_records=run_records)
    await check_source(make, world.append, recreate=world.recreate, trim=world.trim, quiet_s=QUIET_S)


@pytest.mark.parametrize("end", [b"\n", b"\n\n"], ids=["lines", "lines with empty ones between them"])
async def test_the_file_source_passes(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "orders.jsonl"
    numbers = count()

    def append(datas: Sequence[bytes]) -> None:
        with path.open("ab") as file:
            file.writelines(data + end for data in datas)

    def recreate() -> None:
        other = tmp_path / "other"
        other.write_bytes(b"file %d\n" % next(numbers))
        other.rename(path)

    recreate()
    await check_source(partial(FileSource, str(path)), append, recreate=recreate, quiet_s=QUIET_S)


async def test_what_is_appended_may_be_async() -> None:
    world = World()

    async def append(datas: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        world.append(datas)

    await check_source(partial(MemorySource, world.engine), append, quiet_s=QUIET_S)


# Wrong ones. Each makes one mistake that a plausible source makes.


class Altering(MemorySource):
    """Gives other runs or offers than there are."""

    def alter(self, run: Run) -> Run:
        return run

    def alter_offer(self, offer: Offer) -> Offer:
        return offer

    async def read(self) -> Sequence[Happening]:
        altered: list[Happening] = []
        for one in await super().read():
            if isinstance(one, Run):
                altered.append(self.alter(one))
            elif isinstance(one, Assigned):
                altered.append(Assigned(tuple(map(self.alter_offer, one.offers))))
            else:
                altered.append(one)
        return altered


class StartsAtTheBeginning(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        first = self._engine.streams[next(iter(positions))].first if {*positions} <= {*self._engine.streams} else 0
        await super().place(
            {s: p and replace(p, last=first - 1, through=first - 1, overlap=False) for s, p in positions.items()}
        )


class StartsAtItsOwnCursor(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        kept = self._engine.acknowledged
        await super().place(
            {s: replace(p, last=kept[s], through=kept[s]) if p and s in kept else p for s, p in positions.items()}
        )


class StartsOneLater(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        await super().place({s: p and replace(p, last=p.last + 2, through=p.through + 2) for s, p in positions.items()})


class KnowsNoOverlap(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        await super().place({s: p and replace(p, overlap=False) for s, p in positions.items()})


class FollowsFromItsFirstRecord(Altering):
    """As if numbers without a record were none: what is in between might have been left out."""

    def alter(self, run: Run) -> Run:
        return replace(run, after=run.records[0].seq - 1) if run.records else run


class VouchesForTooMuch(Altering):
    def alter(self, run: Run) -> Run:
        return replace(run, records=run.records[:-1])


class GoesNoFurtherThanItsLastRecord(Altering):
    """The cursor never comes to a head without a record, so that it looks as if something were left."""

    def alter(self, run: Run) -> Run:
        return replace(run, through=run.records[-1].seq) if run.records else run


class GivesOldGenerations(Altering):
    def alter(self, run: Run) -> Run:
        return replace(run, generation=0)


class GivesTuples(Altering):
    def alter(self, run: Run) -> Run:
        return replace(run, records=[tuple(record) for record in run.records])


class GivesOtherStreams(Altering):
    def alter(self, run: Run) -> Run:
        return replace(run, records=[record._replace(stream="other") for record in run.records])


class GivesFallingNumbers(Altering):
    def alter(self, run: Run) -> Run:
        return replace(run, records=run.records[::-1])


class GivesTimesOfItsOwn(Altering):
    clock = count()

    def alter(self, run: Run) -> Run:
        return replace(run, records=[record._replace(timestamp_ms=next(self.clock)) for record in run.records])


class OffersAHeadTooLow(Altering):
    def alter_offer(self, offer: Offer) -> Offer:
        return replace(offer, head=offer.head - 1)


class OffersAHeadTooHigh(Altering):
    def alter_offer(self, offer: Offer) -> Offer:
        return replace(offer, head=offer.head + 1)


class OffersWhatItDoesNotSayWhenAsked(Altering):
    def alter_offer(self, offer: Offer) -> Offer:
        return replace(offer, identity="other")


class FeedsBeforeItIsPlaced(MemorySource):
    async def read(self) -> Sequence[Happening]:
        happened = await super().read()
        if isinstance(happened[0], Assigned):
            for offer in happened[0].offers:
                await super().place({offer.stream: Position(2, 2, None, overlap=False, generation=0)})
        return happened


class CannotBeStopped(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        await super().place({s: p for s, p in positions.items() if p is not None})


class CannotBePlacedTwice(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        await super().place({s: p for s, p in positions.items() if p is None or not self._placed.get(s)})


class RaisesForStrangers(MemorySource):
    async def place(self, positions: Mapping[str, Position | None]) -> None:
        for stream in positions:
            self._engine.streams[stream]
        await super().place(positions)


class LosesWhatACancelledReadHad(MemorySource):
    async def read(self) -> Sequence[Happening]:
        happened = await super().read()
        await asyncio.sleep(0)
        return happened


class IgnoresACancellation(MemorySource):
    async def read(self) -> Sequence[Happening]:
        try:
            return await super().read()
        except asyncio.CancelledError:
            return await super().read()


class HangsInClose(MemorySource):
    async def close(self) -> None:
        await super().close()
        await asyncio.Event().wait()


class CannotBeClosedTwice(MemorySource):
    async def close(self) -> None:
        if not self._ours:
            raise RuntimeError("not open")
        await super().close()


class CannotBeOpenedTwice(MemorySource):
    is_used = False

    async def open(self) -> None:
        if self.is_used:
            raise RuntimeError("was open before")
        self.is_used = True
        await super().open()


class NeverEnds(MemorySource):
    def __init__(self, engine: MemoryEngine, *, once: bool = False) -> None:
        super().__init__(engine)


class EndsAtOnce(MemorySource):
    async def read(self) -> Sequence[Happening]:
        return () if self._once and self._placed and not self._happened else await super().read()


class WaitsForWhatIsHalted(MemorySource):
    def _has_ended(self) -> bool:
        return super()._has_ended() and None not in self._placed.values()


class OffersNoChange(MemorySource):
    def gain(self, streams: Sequence[str]) -> None:
        new = [stream for stream in streams if stream not in self._ours]
        if new:
            super().gain(new)


class ForgetsAnOfferThatIsCancelled(MemorySource):
    async def read(self) -> Sequence[Happening]:
        happened = await super().read()
        if happened and isinstance(happened[0], Assigned) and self.placements:
            await asyncio.sleep(0)
        return happened


class HasNoIdentity(Altering):
    """Or the same for whatever has the name."""

    def _offers(self, streams: Sequence[str]) -> tuple[Offer, ...]:
        return tuple(replace(offer, identity="the same") for offer in super()._offers(streams))


WRONG = {
    StartsAtTheBeginning: "records from before instead of starting there",
    StartsAtItsOwnCursor: "acknowledged|placed again|has not ended",
    StartsOneLater: "leaves something out|instead of",
    KnowsNoOverlap: "leaves something out",
    FollowsFromItsFirstRecord: "leaves something out",
    VouchesForTooMuch: "offers less than there is",
    GoesNoFurtherThanItsLastRecord: "leaves something out|read has not ended",
    GivesOldGenerations: "has generation 0, and was placed with 7",
    GivesTuples: "is no Record of that stream",
    GivesOtherStreams: "is no Record of that stream",
    GivesFallingNumbers: "numbers rise",
    GivesTimesOfItsOwn: "in another session",
    OffersAHeadTooLow: "and offered",
    OffersAHeadTooHigh: "and offered",
    OffersWhatItDoesNotSayWhenAsked: "and offered",
    FeedsBeforeItIsPlaced: "before it was placed",
    CannotBeStopped: "not to be fed|not placed",
    CannotBePlacedTwice: "has generation|has not ended",
    RaisesForStrangers: "no/such/stream",
    LosesWhatACancelledReadHad: "leaves something out|has not given all|has not ended",
    IgnoresACancellation: "read was cancelled and has not ended",
    HangsInClose: "close has not ended",
    CannotBeClosedTwice: "not open",
    CannotBeOpenedTwice: "was open before",
    NeverEnds: "read has not ended",
    EndsAtOnce: "it ended at",
    WaitsForWhatIsHalted: "read has not ended",
    OffersNoChange: "not placed|read has not ended|leaves something out|says nothing new",
    ForgetsAnOfferThatIsCancelled: "read has not ended",
    HasNoIdentity: "was made anew, and is still offered as",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
async def test_a_wrong_source_is_found(wrong: type[MemorySource]) -> None:
    world = World()
    with pytest.raises((AssertionError, KeyError, RuntimeError), match=WRONG[wrong]):
        await check_source(
            partial(wrong, world.engine),
            world.append,
            recreate=world.recreate,
            trim=world.trim,
            patience_s=0.5,
            quiet_s=QUIET_S,
        )


async def test_an_engine_that_only_says_it_has_trimmed_is_found() -> None:
    world = World()
    with pytest.raises(AssertionError, match="still offers 3"):
        await check_source(partial(MemorySource, world.engine), world.append, trim=lambda: None, quiet_s=QUIET_S)
