"""Lines become records, numbered by the byte where they begin, however they are read."""

# ruff: noqa: ASYNC240 - files are small here

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from consumer.core.errors import RecordTooLarge, UnfinishedRecord
from consumer.core.records import Record, memory_bytes
from consumer.core.runs import Failed, Run
from consumer.sources.file.address import FileAddress
from consumer.sources.file.reader import RUN_RECORDS_MAX, Nothing, Placed, Reader

from .driver import BEGINNING, at, behind, contents


def naive(data: bytes) -> list[tuple[int, bytes]]:
    """The lines of a file, read the slow way."""
    found, begin = [], 0
    for index, byte in enumerate(data):
        if byte == ord("\n"):
            if index > begin:
                found.append((begin, data[begin:index]))
            begin = index + 1
    return found


async def test_a_line_is_a_record_to_the_byte(path: Path, reading) -> None:
    path.write_bytes(b'{"a": 1}\n\n\xff\0 \r\n\rx\n')
    async with reading(path, once=True) as source:
        records = await source.rest()
    name = str(path)
    assert records == [
        Record(f"file{name}", 0, b'{"a": 1}', None, name, (), None),
        Record(f"file{name}", 10, b"\xff\0 \r", None, name, (), None),
        Record(f"file{name}", 15, b"\rx", None, name, (), None),
    ]


async def test_a_run_says_what_it_follows_and_how_far_it_goes(path: Path, reading) -> None:
    path.write_bytes(b"a\n\nb\n\n\n")
    async with reading(path, behind(-1, generation=7)) as source:
        run = await source.run()
    assert (run.stream, run.generation, run.after, run.through, run.token) == (source.stream, 7, -1, 6, None)
    assert contents(run.records) == [(0, b"a"), (3, b"b")]


async def test_empty_lines_alone_carry_the_cursor_on(path: Path, reading) -> None:
    path.write_bytes(b"a\n")
    async with reading(path) as source:
        assert (await source.run()).through == 1
        with path.open("ab") as file:
            file.write(b"\n\n")
        run = await source.run()
    assert (run.after, [*run.records], run.through) == (1, [], 3)


@settings(max_examples=100)
@given(
    data=st.binary().map(lambda data: data.translate(bytes(10 if one % 3 == 0 else one for one in range(256)))),
    batch_bytes=st.sampled_from([1, 2, 600, 1500, 5000, 1 << 24]),
)
@example(b"", 1)
@example(b"\n", 1)
@example(b"\n\n\n", 1)
@example(b"a\n" * 3, 2 * 256 * 2)
def test_any_bytes_come_to_the_same_lines_in_whatever_pieces_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, batch_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(data)
    reader = Reader(FileAddress.parse(str(path)), "s", once=True, batch_bytes=batch_bytes, record_max=1000)
    offer = reader.open()
    placed, found, through, ended = Placed.start(BEGINNING), [], -1, None
    while not isinstance(given := reader.look(placed), Nothing):
        for happened in given:
            if isinstance(happened, Failed):
                ended = happened.error
                break
            assert isinstance(happened, Run)
            assert happened.after == through
            through = happened.through
            found += contents(happened.records)
        if ended:
            break
    reader.close()
    assert found == naive(data)
    rest = data[data.rfind(b"\n") + 1 :]
    if rest:
        assert isinstance(ended, UnfinishedRecord)
        assert ended.seq == len(data) - len(rest)
    else:
        assert (given, through) == (Nothing.LEFT, offer.head)


@pytest.mark.parametrize("batch_bytes", [2000, 5000, 100_000, 16 * 1024 * 1024])
async def test_what_is_read_at_once_is_bounded_in_memory(path: Path, reading, batch_bytes: int) -> None:
    path.write_bytes((b"x" * 100 + b"\n") * 50 + b"\n" * 50 + b"y\n" * 10_000 + (b"z" * 5000 + b"\n") * 20)
    count = 0
    async with reading(path, once=True, batch_bytes=batch_bytes) as source:
        while happened := await source.read():
            (run,) = happened
            assert memory_bytes(run.records) <= batch_bytes or len(run.records) == 1
            assert len(run.records) <= RUN_RECORDS_MAX
            count += len(run.records)
    assert count == 10_070


@pytest.mark.parametrize(
    ("position", "seqs", "after"),
    [
        (behind(-1), [0, 4, 9], -1),
        (behind(3), [4, 9], 3),
        (behind(7), [9], 7),
        (behind(8), [9], 8),
        (at(4, 7), [4, 9], 3),
        (at(4, 8), [4, 9], 3),
        (at(0, 3), [0, 4, 9], -1),
        # A cursor that was moved by hand into a line: what begins behind it comes next.
        (behind(0), [4, 9], 0),
        (behind(4), [9], 4),
        (behind(5), [9], 5),
    ],
)
async def test_a_position_is_where_it_goes_on(path: Path, reading, position, seqs: list[int], after: int) -> None:
    path.write_bytes(b"one\ntwo\n\nthree\n")
    async with reading(path, position, once=True) as source:
        run = await source.run()
        assert [record.seq for record in run.records] == seqs
        assert run.after == after
        assert await source.read() == ()


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("through", [9, 10, 13])
async def test_a_position_in_the_last_line_is_carried_to_its_end(path: Path, reading, through: int, once: bool) -> None:
    """Nothing is left to be consumed, and whoever looks at the lag must see that."""
    path.write_bytes(b"one\ntwo\n\nthree\n")
    async with reading(path, behind(through, generation=2), once=once) as source:
        run = await source.run()
        assert (run.after, [*run.records], run.through, run.generation) == (through, [], source.offer.head, 2)
        if once:
            assert await source.read() == ()
            return
        with path.open("ab") as file:
            file.write(b"four\n")
        assert contents((await source.run()).records) == [(15, b"four")]


async def test_a_position_behind_the_last_line_leaves_nothing(path: Path, reading) -> None:
    path.write_bytes(b"one\ntwo\n\nthree\n")
    async with reading(path, behind(14), once=True) as source:
        assert await source.read() == ()


async def test_once_a_position_in_a_line_that_was_finished_later_goes_no_further(path: Path, reading) -> None:
    path.write_bytes(b"one\ntw")
    async with reading(path, None, once=True) as source:
        with path.open("ab") as file:
            file.write(b"o\nthree\n")
        await source.place(behind(4))
        assert await source.read() == ()


async def test_a_position_in_a_line_waits_until_that_line_is_complete(path: Path, reading) -> None:
    path.write_bytes(b"one\ntw")
    async with reading(path, behind(5)) as source:
        with path.open("ab") as file:
            file.write(b"o\nthree\n")
        assert contents((await source.run()).records) == [(8, b"three")]


# Sizes.


@pytest.mark.parametrize("newline", [b"\n", b""])
async def test_a_line_that_is_too_large_is_named_behind_what_precedes_it(path: Path, reading, newline: bytes) -> None:
    path.write_bytes(b"one\n" + b"x" * 101 + newline)
    async with reading(path, behind(-1, generation=5), record_max=100) as source:
        run, *failed = await source.read()
        assert contents(run.records) == [(0, b"one")]
        assert run.through == 3
        if not failed:
            failed = [await source.failed()]
    assert (failed[0].stream, failed[0].generation) == (source.stream, 5)
    assert isinstance(failed[0].error, RecordTooLarge)
    assert (failed[0].error.stream, failed[0].error.seq, failed[0].error.limit) == (source.stream, 4, 100)


async def test_the_limit_of_a_record_does_not_count_its_newline(path: Path, reading) -> None:
    path.write_bytes(b"x" * 100 + b"\n" + b"y" * 101 + b"\n")
    async with reading(path, record_max=100) as source:
        run, failed = await source.read()
    assert contents(run.records) == [(0, b"x" * 100)]
    assert failed.error.seq == 101


async def test_a_record_of_the_largest_size_is_read_whatever_a_batch_may_have(path: Path, reading) -> None:
    line = b"x" * (1024 * 1024)
    path.write_bytes(line + b"\ny\n")
    async with reading(path, once=True, batch_bytes=1) as source:
        assert contents(await source.rest()) == [(0, line), (len(line) + 1, b"y")]


async def test_a_line_without_an_end_is_too_large_before_it_fills_the_memory(path: Path, reading) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # which takes up no room on the disk
    async with reading(path) as source:
        failed = await source.failed()
    assert isinstance(failed.error, RecordTooLarge)


async def test_nothing_follows_a_failure_until_it_is_placed_again(path: Path, reading) -> None:
    path.write_bytes(b"x" * 101 + b"\ntwo\n")
    async with reading(path, record_max=100, once=True) as source:
        await source.failed()
        assert await source.read() == ()
        await source.place(behind(0, generation=1))  # which is what somebody does who skips record 0
        run = await source.run()
    assert (run.after, contents(run.records), run.generation) == (0, [(102, b"two")], 1)


# The end.


async def test_once_ends_at_the_end_that_was_there_when_it_was_opened(path: Path, reading) -> None:
    path.write_bytes(b"one\n")
    async with reading(path, None, once=True) as source:
        with path.open("ab") as file:
            file.write(b"two\n")
        await source.place(BEGINNING)
        assert contents(await source.rest()) == [(0, b"one")]


async def test_once_names_the_byte_of_a_last_line_without_a_newline(path: Path, reading) -> None:
    path.write_bytes(b"one\ntw")
    async with reading(path, once=True) as source:
        with path.open("ab") as file:
            file.write(b"o\n")  # too late: it is not there when it was opened
        assert contents((await source.run()).records) == [(0, b"one")]
        failed = await source.failed()
        assert isinstance(failed.error, UnfinishedRecord)
        assert failed.error.seq == 4
        assert await source.read() == ()


async def test_once_an_empty_file_is_at_its_end(path: Path, reading) -> None:
    path.touch()
    async with reading(path, once=True) as source:
        assert await source.read() == ()


async def test_once_a_stream_that_shall_not_be_fed_is_not_waited_for(path: Path, reading) -> None:
    path.write_bytes(b"one\n")
    async with reading(path, None, once=True) as source:
        await source.place(None)
        assert await source.read() == ()


async def test_a_last_line_without_a_newline_is_waited_for(path: Path, reading) -> None:
    path.write_bytes(b"one\ntw")
    async with reading(path) as source:
        assert contents(await source.records(1)) == [(0, b"one")]
        with path.open("ab") as file:
            file.write(b"o\nth")
        assert contents(await source.records(1)) == [(4, b"two")]
