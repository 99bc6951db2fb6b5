"""The checks, one for each thing that `consumer.sources.base.Source` says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from consumer.core.errors import ConnectFailed
from consumer.core.records import Record
from consumer.core.runs import Position, Run
from consumer.testing.conformance.bench import Append, Bench, Make, Session, beginning, behind, call, fail

PATIENCE_S = 10.0
"""How long to wait for what must come. It only guards: a source that is right gives it as soon as it can."""

QUIET_S = 0.2
"""How long to wait for what must not come. A source that is right is never found wrong by it."""

PLACES_MAX = 6
"""How many positions of a stream are tried."""

CANCEL_STEPS = 12
"""After how many turns of the event loop, at most, a call is cancelled."""

STEP_S = 0.0005
"""How long a turn is at its longest, since some sources wait for a thread."""

STRANGER = "no/such/stream"

Result = TypeVar("Result")


async def check_source(
    make: Make,
    append: Append,
    *,
    recreate: Callable[[], Awaitable[None] | None] | None = None,
    trim: Callable[[], Awaitable[None] | None] | None = None,
    patience_s: float = PATIENCE_S,
    quiet_s: float = QUIET_S,
) -> None:
    """Try whether a source does what a consumer relies on. All of it is said at `consumer.sources.base.Source`.

    Args:
        make: `make(once=False)` makes a source of the engine that is tried: another object each time, of one engine.
            With `once=True` it ends with what is there when it is opened.
        append: `append(contents)` puts a record for each of some contents into the engine, in any of its streams.
            Nobody else appends meanwhile. It may be async.
        recreate: deletes all streams and makes them anew, empty or with other records; where that can be done.
        trim: deletes the oldest record of each stream; where that can be done.
        patience_s: how long to wait for what must come, in seconds.
        quiet_s: how long to wait for what must not come, in seconds.

    Raises:
        AssertionError: the source does something else; the message says what.
    """
    bench = Bench(make, append, patience_s, quiet_s)
    checks = [*CHECKS]
    if trim is not None:
        checks.append(lambda bench: offers_follow_a_trim(bench, trim))
    if recreate is not None:
        checks.append(lambda bench: a_stream_made_anew_is_offered_as_another_one(bench, recreate))
    for check in checks:
        await bench.append()
        await check(bench)


# What is offered.


async def offers_tell_the_truth(bench: Bench) -> None:
    """What is offered is what is there, and the same when it is asked for."""
    appended = await bench.append()
    async with bench.session() as session:
        offers = {**session.offers}
        for stream, offer in offers.items():
            asked = await session.within(session.source.ask([stream]), "ask")
            if [*asked] != [offer]:
                fail(f"asked for stream {stream} it says {asked}, and offered {offer}")
        await session.place_all()
        await session.read_to_heads()
        await session.read_nothing("beyond the head that it had offered")
        got = [record.data for records in session.records.values() for record in records]
    if missing := [data for data in appended if data not in got]:
        fail(f"it offers less than there is: {missing} was appended before it was opened, and has not come")


async def strangers_are_passed_over(bench: Bench) -> None:
    """A stream that is not ours is not there to be asked for, placed or acknowledged."""
    async with bench.session() as session:
        if asked := await session.within(session.source.ask([STRANGER]), "ask"):
            fail(f"asked for a stream that is not there, it says {asked}")
        await session.within(session.source.place({STRANGER: behind(3)}), "place")
        await session.within(session.source.place({STRANGER: None}), "place")
        session.source.acknowledge({STRANGER: 3})
        await session.place_all()
        await session.read_to_heads()


async def nothing_comes_before_it_is_placed(bench: Bench) -> None:
    """Nothing of a stream is handed out before somebody has said where to start."""
    async with bench.session() as session:
        await session.read_nothing("before it was placed")


# What is read.


async def runs_say_what_they_follow(bench: Bench) -> None:
    """Runs follow each other without a hole, with the placement's generation; what comes later follows too."""
    async with bench.session() as session:
        await session.place_all(generation=7)
        await session.read_to_heads()
        before = sum(map(len, session.records.values()))
        appended = await bench.append()
        await session.read_count(before + len(appended))


async def records_are_the_same_whenever_they_are_read(bench: Bench) -> None:
    """A second session gives the same records, to the last byte, and the timestamp too."""
    first, second = await bench.all_records(), await bench.all_records()
    for stream, records in first.items():
        for one, other in zip(records, second.get(stream, []), strict=False):
            if one != other:
                fail(f"the same record came as {one} and, in another session, as {other}")
        if len(records) != len(second.get(stream, [])):
            fail(f"stream {stream} gave {len(records)} records and, in another session, {len(second.get(stream, []))}")


async def positions_are_honoured(bench: Bench) -> None:
    """It starts behind a position, and leaves nothing out."""
    for stream, records in (await bench.all_records()).items():
        for index in _places(records):
            await _starts_with(bench, stream, behind(records[index].seq, index), records[index + 1 :])


async def the_overlap_is_given(bench: Bench) -> None:
    """Where a position says overlap, the record at `last` comes first, to be compared."""
    for stream, records in (await bench.all_records()).items():
        for index in _places(records):
            last = records[index].seq
            through = records[index + 1].seq - 1 if index + 1 < len(records) else last
            await _starts_with(
                bench, stream, Position(last, through, None, overlap=True, generation=3), records[index:]
            )


async def _starts_with(bench: Bench, stream: str, position: Position, expected: list[Record]) -> None:
    where = f"at {position.start}, with overlap" if position.overlap else f"behind {position.through}"
    async with bench.session() as session:
        await session.place({stream: position})
        await session.read_to_heads()
        got = session.records[stream]
        if session.repeated:
            fail(
                f"placed {where} stream {stream} gave {session.repeated} records from before instead of starting there"
            )
    if got != expected:
        fail(
            f"placed {where} stream {stream} gave {len(got)} records, from {[record.seq for record in got[:3]]}, "
            f"instead of {len(expected)} from {[record.seq for record in expected[:3]]}"
        )


def _places(records: list[Record]) -> list[int]:
    """Some places in a list, the first and the last among them."""
    step = max(1, len(records) // PLACES_MAX)
    return sorted({*range(0, len(records), step), len(records) - 1}) if records else []


# Placed while it runs.


async def what_is_not_to_be_fed_is_not(bench: Bench) -> None:
    """After place(None) nothing of a stream comes, and after another placement all of it."""
    async with bench.session() as session:
        await session.place_all(generation=1)
        await session.read()
        await session.place(dict.fromkeys(session.offers))
        await bench.append()
        await session.read_nothing("although it was not to be fed any more")
        await session.place_all(generation=2)
        await session.read_to_heads()


async def a_placement_replaces_the_one_before(bench: Bench) -> None:
    """A stream that runs can be placed elsewhere, and goes on from there with the new generation."""
    reference = await bench.all_records()
    async with bench.session() as session:
        for generation in range(1, 4):
            await session.place_all(generation)
            await session.read()
        await session.place_all(generation=9)
        await session.read_to_heads()
        for stream, records in reference.items():
            if session.records[stream][: len(records)] != records:
                fail(f"placed again at its beginning, stream {stream} did not give all its records again")


async def acknowledgements_move_nothing(bench: Bench) -> None:
    """What was acknowledged is given again where a position says so: the engine's own cursor counts for nothing."""
    reference = await bench.all_records()
    async with bench.session() as session:
        await session.place_all()
        await session.read_to_heads()
        through = {stream: session.has_reached(stream) for stream in session.offers}
        session.source.acknowledge(through)
        session.source.acknowledge(dict.fromkeys(through, 0))
        session.source.acknowledge(through)
        await session.place_all(generation=1)
        await session.read_to_heads()
    again = await bench.all_records()
    if again != reference:
        fail("after all was acknowledged, another session does not begin where it is placed")


# Beginnings and ends.


async def a_close_ends(bench: Bench) -> None:
    """A close ends, in whatever state, and the source can be opened again."""
    session = bench.new()
    await session.close()
    await session.open()
    await session.close()
    await session.close()
    for steps in range(CANCEL_STEPS):
        opening = asyncio.ensure_future(session.source.open())
        await _let_pass(steps, opening)
        await session.cancel(opening, "open")
        await session.close()
    session.offers.clear()
    await session.open()
    try:
        await session.place_all()
        await session.read_to_heads()
    finally:
        await session.close()


async def once_ends_with_what_is_there(bench: Bench) -> None:
    """With `once` it gives what is there when it is opened, says that it has ended, and ends without what is halted."""
    expected = await bench.all_records()
    async with bench.session(once=True) as session:
        await session.place_all()
        heads = {stream: offer.head for stream, offer in session.offers.items()}
        while await session.read():
            pass
        for stream, head in heads.items():
            if (
                session.has_reached(stream) < head
                or session.records[stream][: len(expected[stream])] != expected[stream]
            ):
                fail(f"it ended at {session.has_reached(stream)} of stream {stream}, whose head it said is {head}")
    async with bench.session(once=True) as session:
        await session.place(dict.fromkeys(session.offers))
        while happened := await session.read():
            if any(isinstance(one, Run) for one in happened):
                fail("it gave a run of a stream that was not to be fed")


async def a_cancelled_call_loses_nothing(bench: Bench) -> None:
    """Each call can be cancelled wherever it waits: no record is lost by it, and none comes that should not."""
    reference = await bench.all_records()
    async with bench.session() as session:
        for steps in range(CANCEL_STEPS):
            placing = asyncio.ensure_future(
                session.source.place({stream: beginning(offer) for stream, offer in session.offers.items()})
            )
            await _let_pass(steps, placing)
            await session.cancel(placing, "place")
            await session.place_all(generation=steps)
            for turns in range(CANCEL_STEPS):
                await _read_a_little(session, turns)
            await session.read_to_heads()
            for stream, records in reference.items():
                if session.records[stream] != records:
                    fail(f"after calls that were cancelled, stream {stream} has not given all its records")
            asking = asyncio.ensure_future(session.source.ask([*session.offers]))
            await _let_pass(steps, asking)
            await session.cancel(asking, "ask")


async def _read_a_little(session: Session, turns: int) -> None:
    reading = asyncio.ensure_future(session.source.read())
    await _let_pass(turns, reading)
    session.take(await session.cancel(reading, "read") or ())


async def _let_pass(steps: int, task: asyncio.Future[Result]) -> None:
    """Let a task come some way."""
    for step in range(steps):
        if task.done():
            return
        await asyncio.sleep(STEP_S if step % 2 else 0)


# What only some engines can do.


async def offers_follow_a_trim(bench: Bench, trim: Callable[[], Awaitable[None] | None]) -> None:
    """Where the oldest records are deleted, a higher first number is offered."""
    before = await bench.all_records()
    await call(trim)
    async with bench.session() as session:
        for stream, records in before.items():
            if records and session.offers[stream].first <= records[0].seq:
                fail(f"stream {stream} still offers {session.offers[stream].first} as its first after that was deleted")
        await session.place_all()
        await session.read_to_heads()


async def a_stream_made_anew_is_offered_as_another_one(
    bench: Bench, recreate: Callable[[], Awaitable[None] | None]
) -> None:
    """A stream that is deleted and made anew under a running source is offered again, as another one."""
    async with bench.session() as session:
        known = {stream: offer.identity for stream, offer in session.offers.items()}
        await session.place_all()
        await session.read_to_heads()
        offered = session.offered
        await call(recreate)
        await bench.append()
        try:
            for turns in range(CANCEL_STEPS):
                await _read_a_little(session, turns)
            while session.offered == offered:
                await session.read()
        except (OSError, ConnectFailed):
            pass  # the session has broken, which is as good: the next one begins with an offer
    async with bench.session() as session:
        for stream, offer in session.offers.items():
            if stream in known and offer.identity == known[stream]:
                fail(f"stream {stream} was made anew, and is still offered as {offer.identity}")


CHECKS: tuple[Callable[[Bench], Awaitable[None]], ...] = (
    offers_tell_the_truth,
    strangers_are_passed_over,
    nothing_comes_before_it_is_placed,
    runs_say_what_they_follow,
    records_are_the_same_whenever_they_are_read,
    positions_are_honoured,
    the_overlap_is_given,
    what_is_not_to_be_fed_is_not,
    a_placement_replaces_the_one_before,
    acknowledgements_move_nothing,
    a_close_ends,
    once_ends_with_what_is_there,
    a_cancelled_call_loses_nothing,
)
"""What every source can be tried for."""
