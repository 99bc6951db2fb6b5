"""What a stream's row says, computed anew from its definition, and the marks beside it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from consumer.core.errors import NotReady
from consumer.core.records import NUMBER_MAX, Record
from consumer.core.rule import Cursor
from consumer.core.runs import Run
from consumer.core.streams import Stream, StreamState
from consumer.store.moves import Move
from consumer.store.streams import MARK_EVERY
from consumer.store.transaction import Store

from .helpers import execute, now_ms, rows
from .recording import A, B, Kept, claim, offer, picked, record, row, run, run_of

# --- the definition of digest and checksum, written down once more -------------------------------


def integer(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def length(content: bytes | None) -> bytes:
    return integer(-1 if content is None else len(content))


def digest(one: Record) -> str:
    subject = one.subject.encode()
    content = integer(one.seq) + length(subject) + length(one.key) + integer(len(one.headers)) + length(one.data)
    content += subject + (one.key or b"")
    for name, value in one.headers:
        content += length(name.encode()) + length(value) + name.encode() + (value or b"")
    return hashlib.sha256(content + (one.data or b"")).hexdigest()[:32]


def checksum(records: Sequence[Record]) -> str:
    return f"{sum(int(digest(each), 16) for each in records) % 2**128:032x}"


RECORDS = [
    Record(A, 0, b"first"),
    Record(A, 3, b"", b"key", "topic/ü", (), 5),
    Record(A, 4, None, b"", "topic/ü", (("name", b"value"), ("name", None), ("ü", b"")), -7),
    Record(A, 2**40, b"\x00\xff" * 500, None, "", (), 1_700_000_000_123),
    Record(A, NUMBER_MAX, b"last", None, "other"),
]


def test_a_row_says_what_was_consumed(store: Store, url: str) -> None:
    claim(store, A)
    last = 0
    for count, one in enumerate(RECORDS, 1):
        before = now_ms(url)
        store.apply_runs([Run(A, 0, last - 1, [one], one.seq, b"token %d" % count)])
        last = one.seq + 1
        found = row(url)
        assert before <= found.pop("committed_ms") <= now_ms(url)
        assert found == {
            "name": A,
            "identity": "id",
            "begins": "earliest",
            "last": one.seq,
            "through": one.seq,
            "token": (b"token %d" % count).hex(),
            "records": count,
            "checksum": checksum(RECORDS[:count]),
            "last_digest": digest(one),
            "last_timestamp_ms": one.timestamp_ms,
            "state": "running",
            "generation": 0,
            "starts": 0,
            "halted_at": None,
            "halted_error": None,
            "halted_since_ms": None,
            "handler": None,
        }


def test_a_row_is_read_as_it_was_written(store: Store, url: str) -> None:
    claim(store, A, handler="shop:apply")
    store.apply_runs([Run(A, 0, -1, RECORDS[1:3], 9, b"\x00token")])
    store.apply_runs([run(A, 20, [21])])
    [found] = store.streams()
    since, committed = picked(url, "halted_since_ms committed_ms")
    assert found == Stream(
        A,
        Cursor(4, 9, bytes.fromhex(digest(RECORDS[2])), -7, b"\x00token", 0, "id"),
        "earliest",
        2,
        int(checksum(RECORDS[1:3]), 16),
        StreamState.HALTED,
        0,
        10,
        found.halted_error,
        since,
        "shop:apply",
        committed,
    )
    assert found.halted_error is not None
    assert found.halted_error.startswith(f"gap in stream {A}: ")


@pytest.mark.parametrize("changed", [{"data": None}, {"data": b""}, {"key": b""}, {"headers": (("a", None),)}])
def test_no_content_is_not_an_empty_one(store: Store, changed: dict[str, Any]) -> None:
    claim(store, A)
    one = Record(A, 0, b"data")
    store.apply_runs([run_of([one])])
    assert [type(halt.error).__name__ for halt in store.apply_runs([run_of([one._replace(**changed)])]).halted] == [
        "Conflict"
    ]


def test_another_time_at_the_cursor_is_a_conflict_and_an_unknown_one_is_not(store: Store) -> None:
    claim(store, A)
    one = record(A, 0, timestamp_ms=5)
    store.apply_runs([run_of([one])])
    assert store.apply_runs([run_of([one._replace(timestamp_ms=None)])]).duplicates == 1
    assert [halt.at for halt in store.apply_runs([run_of([one._replace(timestamp_ms=6)])]).halted] == [0]


def test_a_token_is_kept_until_there_is_another(store: Store, url: str) -> None:
    claim(store, A)
    seen = []
    for first, token in enumerate([b"", None, b"\xff"]):
        store.apply_runs([run_of([record(A, first)], token=token)])
        seen.append(row(url)["token"])
    assert seen == ["", "", "ff"]
    store.apply_runs([Run(A, 0, 2, [], 5, b"end")])
    assert row(url)["token"] == b"end".hex()


def test_a_token_goes_with_its_end_alone(store: Store, url: str) -> None:
    """Where the handler fails half-way, the run's end was not reached."""
    claim(store, A)
    store.apply_runs([run_of([record(A, seq) for seq in range(4)], token=b"end")], Kept([(A, 3)]))
    assert picked(url, "last token") == (2, None)


@pytest.mark.parametrize("sizes", [[12], [1] * 12, [5, 7], [3, 3, 3, 3]])
def test_counts_and_checksum_do_not_depend_on_how_batches_are_cut(store: Store, url: str, sizes: list[int]) -> None:
    claim(store, A)
    records = [record(A, seq, b"x" * seq) for seq in range(12)]
    start = 0
    for size in sizes:
        store.apply_runs([run_of(records[start : start + size])], Kept())
        start += size
    assert picked(url, "last records checksum last_digest") == (11, 12, checksum(records), digest(records[-1]))


def test_a_checksum_wraps_around(store: Store, url: str) -> None:
    claim(store, A)
    execute(url, f"UPDATE consumer_stream SET checksum = '{'f' * 32}'")
    store.apply_runs([run(A, -1, [0])])
    assert row(url)["checksum"] == f"{int(digest(record(A, 0)), 16) - 1:032x}"


# --- marks ---------------------------------------------------------------------------------------


def marks(url: str) -> list[tuple[Any, ...]]:
    return rows(url, "SELECT stream, through, records, checksum FROM consumer_mark ORDER BY stream, through")


def test_a_mark_is_made_where_a_million_is_reached(store: Store, url: str) -> None:
    assert MARK_EVERY == 1_000_000
    claim(store, A, B)
    assert marks(url) == []
    execute(url, f"UPDATE consumer_stream SET records = 999997 WHERE name = '{A}'")
    execute(url, f"UPDATE consumer_stream SET records = 1000000 WHERE name = '{B}'")
    for first, size in [(0, 2), (2, 1), (3, 5)]:
        store.apply_runs([run(name, first - 1, range(first, first + size)) for name in (A, B)])
        if first == 0:
            assert marks(url) == []
    known = [record(A, seq) for seq in range(3)]
    assert marks(url) == [(A, 2, 1_000_000, checksum(known))]

    execute(url, f"UPDATE consumer_stream SET records = 1999999 WHERE name = '{A}'")
    store.apply_runs([run(A, 7, [8, 9], 10), run(B, 7, [8])])
    assert [mark[:3] for mark in marks(url)] == [(A, 2, 1_000_000), (A, 10, 2_000_001)]
    assert marks(url)[-1][3] == row(url)["checksum"]


def test_marks_above_where_a_stream_is_moved_to_go(store: Store, url: str) -> None:
    claim(store, A, B)
    for number in (3, 5, 8):
        execute(url, *(f"INSERT INTO consumer_mark VALUES ('{name}', {number}, 1, '0')" for name in (A, B)))
    store.apply_runs([run(A, -1, [9])])
    store.move([Move(A, "replay", "why", "me", to=5)])
    assert [mark[:2] for mark in marks(url)] == [(A, 3), (A, 5), (B, 3), (B, 5), (B, 8)]


# --- what no store writes ------------------------------------------------------------------------

DAMAGES = [
    "state = 'elsewhere'",
    "checksum = 'xyz'",
    "checksum = ''",
    "last_digest = 'a'",
    "last_digest = 'zz'",
    "token = 'a'",
    "last = 7",  # above `through`
    "last = -2",
    "through = -1",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_row_that_no_store_writes_is_named(store: Store, url: str, damage: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [0, 1])])
    execute(url, f"UPDATE consumer_stream SET {damage}")
    for read in (store.streams, lambda: store.apply_runs([run(A, 1, [2])]), lambda: store.claim([offer(A)])):
        with pytest.raises(NotReady, match=f"the row of stream {A} holds what no store writes .*: restore it"):
            read()


@pytest.mark.parametrize("damage", ["last = 'x'", "through = 'x'", "last = 1.5"])
def test_sqlite_may_hold_another_type(sqlite_url: str, damage: str) -> None:
    with Store(sqlite_url) as store:
        claim(store, A)
        store.apply_runs([run(A, -1, [0, 2])])
        execute(sqlite_url, f"UPDATE consumer_stream SET {damage}")
        with pytest.raises(NotReady, match="what no store writes"):
            store.streams()
