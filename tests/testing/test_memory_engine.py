"""The engine in memory does to its records what real engines do, and its sources hear of it."""

import asyncio
from collections.abc import Sequence

import pytest

from consumer.core.errors import Conflict, CursorAhead, RecordTooLarge, ResyncRequired, SourceChanged
from consumer.core.records import digest, memory_bytes
from consumer.core.rule import Cursor, judge_run, place
from consumer.core.runs import Assigned, Failed, Happening, Lost, Offer, Position, Run
from consumer.testing import MemoryEngine, MemorySource

BEGINNING = Position(-1, -1, None, overlap=False, generation=0)
S = "memory/0"


class Reading:
    def __init__(self, source: MemorySource, patience_s: float) -> None:
        self.source = source
        self._patience_s = patience_s

    async def read(self) -> Sequence[Happening]:
        async with asyncio.timeout(self._patience_s):
            return await self.source.read()

    async def offers(self) -> dict[str, Offer]:
        return {offer.stream: offer for one in await self.read() if isinstance(one, Assigned) for offer in one.offers}

    async def run(self) -> Run:
        (run,) = await self.read()
        assert isinstance(run, Run)
        return run

    async def seqs(self) -> list[int]:
        return [record.seq for record in (await self.run()).records]


@pytest.fixture
def engine() -> MemoryEngine:
    engine = MemoryEngine()
    for number in range(5):
        engine.append(S, b"%d" % number)
    return engine


@pytest.fixture
def started(patience_s: float):
    async def start(engine: MemoryEngine, position: Position | None = BEGINNING, **options: object) -> Reading:
        source = MemorySource(engine, **options)
        await source.open()
        reading = Reading(source, patience_s)
        offers = await reading.offers()
        if position is not None:
            await source.place(dict.fromkeys(offers, position))
        return reading

    return start


def cursor_at_4(engine: MemoryEngine, offer: Offer) -> Cursor:
    record = engine.streams[S].records[4]
    return Cursor(4, 4, digest(record), record.timestamp_ms, identity=offer.identity)


async def test_markers_and_deleted_records_leave_holes(engine: MemoryEngine, started) -> None:
    engine.remove(S, 2)
    engine.mark(S, 3)
    reading = await started(engine)
    run = await reading.run()
    assert ([record.seq for record in run.records], run.after, run.through) == ([0, 1, 3, 4], -1, 7)
    engine.mark(S, 2)
    run = await reading.run()
    assert ([*run.records], run.after, run.through) == ([], 7, 9)
    assert engine.append(S, b"x") == 10
    assert await reading.seqs() == [10]


async def test_a_stream_made_anew_and_filled_up_again_is_another_one(engine: MemoryEngine, started) -> None:
    reading = await started(engine)
    before = engine.offer(S)
    cursor = cursor_at_4(engine, before)
    await reading.run()
    engine.recreate(S)
    for number in range(5, 12):
        engine.append(S, b"%d" % number)
    offer = (await reading.offers())[S]
    with pytest.raises(SourceChanged):
        place(cursor, offer)


async def test_what_nobody_notices_goes_on_without_a_word(engine: MemoryEngine, started) -> None:
    reading = await started(engine)
    await reading.run()
    engine.recreate(S, is_noticed=False)
    for number in range(7):
        engine.append(S, b"new %d" % number)
    run = await reading.run()  # old 4, new 5
    assert [record.data for record in run.records] == [b"new 5", b"new 6"]


async def test_a_backup_that_is_restored_has_its_identity_and_another_record_at_the_cursor(
    engine: MemoryEngine, started
) -> None:
    backup = engine.backup(S)
    engine.lose_tail(S, 2, is_noticed=False)
    restored = engine.backup(S)
    engine.restore(S, backup)
    cursor = cursor_at_4(engine, engine.offer(S))
    engine.restore(S, restored)
    assert engine.offer(S).head == 2
    for number in range(3):
        engine.append(S, b"other %d" % number)
    reading = await started(engine, None)
    position = place(cursor, engine.offer(S)).position
    await reading.source.place({S: position})
    with pytest.raises(Conflict):
        judge_run(cursor, await reading.run())


async def test_a_lost_tail_shows_while_it_is_missing(engine: MemoryEngine, started) -> None:
    cursor = cursor_at_4(engine, engine.offer(S))
    reading = await started(engine)
    await reading.run()
    engine.lose_tail(S, 2)
    with pytest.raises(CursorAhead):
        place(cursor, (await reading.offers())[S])
    assert engine.append(S, b"again") == 3


async def test_a_head_that_is_behind_is_not_firm(engine: MemoryEngine, started) -> None:
    engine.heads_behind[S] = 2
    offer = engine.offer(S)
    assert (offer.head, offer.head_is_firm) == (2, False)
    del engine.heads_behind[S]
    assert engine.offer(S).head_is_firm


async def test_a_trim_beyond_what_comes_next_is_offered(engine: MemoryEngine, started) -> None:
    reading = await started(engine, None)
    engine.trim(S, 3)
    await reading.source.place({S: BEGINNING})
    offer = (await reading.offers())[S]
    assert (offer.first, offer.head) == (3, 4)
    with pytest.raises(ResyncRequired):
        place(Cursor(), offer)
    engine.trim(S, 99)
    assert (engine.offer(S).first, engine.offer(S).head) == (5, 4)


async def test_what_is_given_again_is_given_from_there_on(engine: MemoryEngine, started) -> None:
    reading = await started(engine)
    await reading.run()
    engine.redeliver(S, 3)
    run = await reading.run()
    assert (run.after, [record.seq for record in run.records]) == (2, [3, 4])


async def test_streams_are_divided_and_move_at_a_rebalance(patience_s: float, started) -> None:
    engine = MemoryEngine(["a", "b"])
    one = Reading(MemorySource(engine), patience_s)
    await one.source.open()
    assert {*await one.offers()} == {"a", "b"}
    other = Reading(MemorySource(engine), patience_s)
    await other.source.open()
    assert await one.read() == (Lost(("b",)),)
    assert {*await other.offers()} == {"b"}
    engine.rebalance()
    assert [*map(type, await one.read())] == [Lost, Assigned]
    assert [*map(type, await other.read())] == [Lost, Assigned]
    engine.append("a", b"x")
    await one.source.place({"a": BEGINNING, "b": BEGINNING})
    await other.source.place({"a": BEGINNING})
    assert (await other.run()).stream == "a"
    await other.source.close()
    assert {*await one.offers()} == {"a"}
    engine.add("c")
    assert {*await one.offers()} == {"c"}
    engine.delete("b")
    assert await one.read() == (Lost(("b",)),)
    await one.source.close()


async def test_acknowledgements_are_kept_or_lost(engine: MemoryEngine, started) -> None:
    reading = await started(engine)
    reading.source.acknowledge({S: 3, "other": 9})
    assert engine.acknowledged == {S: 3}
    engine.loses_acknowledgements = True
    reading.source.acknowledge({S: 4})
    assert engine.acknowledged == {S: 3}


async def test_a_broken_connection_is_an_error_until_it_is_opened_anew(engine: MemoryEngine, started) -> None:
    reading = await started(engine)
    engine.disconnect()
    with pytest.raises(ConnectionResetError):
        await reading.read()
    await reading.source.close()
    await reading.source.open()
    assert S in await reading.offers()


async def test_a_record_that_is_too_large_fails_its_stream_and_no_other(patience_s: float, started) -> None:
    engine = MemoryEngine(["a", "b"])
    engine.append("a", b"1")
    engine.append("a", b"x" * 11)
    engine.append("a", b"2")
    engine.append("b", b"1")
    reading = await started(engine, record_max=10)
    first, failed, other = await reading.read()
    assert ([record.seq for record in first.records], first.through) == ([0], 0)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RecordTooLarge)
    assert (failed.stream, failed.error.seq) == ("a", 1)
    assert other.stream == "b"
    engine.append("b", b"2")
    assert (await reading.run()).stream == "b"
    await reading.source.place({"a": Position(1, 1, None, overlap=False, generation=1)})
    assert (await reading.run()).records[0].data == b"2"


async def test_what_is_read_at_once_is_bounded_in_memory(engine: MemoryEngine, started) -> None:
    reading = await started(engine, batch_bytes=600)
    assert await reading.seqs() == [0, 1]
    run = await reading.run()
    assert memory_bytes(run.records) <= 600
    assert run.after == 1


@pytest.mark.parametrize(("since_ms", "since"), [(None, None), (0, 0), (2000, 3), (9999, 5)])
async def test_an_offer_says_where_a_time_begins(started, since_ms: int | None, since: int | None) -> None:
    engine = MemoryEngine()
    for time in (1000, 1000, 1500, 2000, 3000):
        engine.append(S, b"", timestamp_ms=time)
    source = MemorySource(engine, since_ms=since_ms)
    await source.open()
    (assigned,) = await source.read()
    assert assigned.offers[0].since == since


async def test_a_token_comes_back_with_the_position(engine: MemoryEngine, started) -> None:
    reading = await started(engine)
    token = (await reading.run()).token
    assert token is not None
    position = Position(4, 4, token, overlap=True, generation=2)
    await reading.source.place({S: position})
    assert reading.source.placements[-1] == (S, position)
    run = await reading.run()
    assert (run.generation, [record.seq for record in run.records]) == (2, [4])
