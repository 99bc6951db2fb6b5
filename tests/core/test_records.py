"""A record, its digest and its checksum: which contents are the same."""

import hashlib
import struct
from datetime import UTC, datetime
from itertools import combinations

import pytest

from consumer.core.errors import BadRecord
from consumer.core.records import (
    NUMBER_MAX,
    RECORD_OVERHEAD_BYTES,
    Record,
    checksum,
    content_bytes,
    digest,
    digests,
    memory_bytes,
    rows,
)

PLAIN = Record("s/0", 7, b"data")


def test_a_digest_is_what_the_module_says_to_whoever_computes_it_elsewhere() -> None:
    record = Record("s/0", 7, b"data", b"key", "töpic", (("a", b"1"), ("b", None)), 1)
    framed = (
        struct.pack(">5q", 7, 6, 3, 2, 4)
        + "töpic".encode()
        + b"key"
        + struct.pack(">2q", 1, 1)
        + b"a1"
        + struct.pack(">2q", 1, -1)
        + b"b"
        + b"data"
    )
    assert digest(record) == hashlib.sha256(framed).digest()[:16]


def test_a_digest_never_changes_its_definition() -> None:
    """The stores of users hold it. These two were computed once and written down."""
    assert digest(Record("s", 0, None)).hex() == "a06a640f685d4866956861fbcd639c81"
    record = Record("s", 2**63 - 1, b"\0", b"", "t", (("h", None), ("h", b"")), 5)
    assert digest(record).hex() == "d4b4c6bc64969d34dde3f2e84fa14f8b"


DIFFERENT = {
    "another number": PLAIN._replace(seq=8),
    "no data": PLAIN._replace(data=None),
    "empty data": PLAIN._replace(data=b""),
    "an empty key": PLAIN._replace(key=b""),
    "a byte in the key": PLAIN._replace(key=b"d", data=b"ata"),
    "all in the key": PLAIN._replace(key=b"data", data=b""),
    "all in the key and no data": PLAIN._replace(key=b"data", data=None),
    "another subject of the same length": PLAIN._replace(subject="x", data=b"ata"),
    "another key of the same length": PLAIN._replace(key=b"x", data=b"ata"),
    "another name of a header of the same length": PLAIN._replace(headers=(("x", b"ata"),), data=b""),
    "another value of a header of the same length": PLAIN._replace(headers=(("d", b"xxx"),), data=b""),
    "other data of the same length": PLAIN._replace(data=b"DATA"),
    "a subject": PLAIN._replace(subject="d", data=b"ata"),
    "all in the subject": PLAIN._replace(subject="data", data=b""),
    "subject and key": PLAIN._replace(subject="d", key=b"a", data=b"ta"),
    "key and subject": PLAIN._replace(subject="da", key=b"", data=b"ta"),
    "a header": PLAIN._replace(headers=(("data", None),), data=b""),
    "a header with an empty value": PLAIN._replace(headers=(("data", b""),), data=b""),
    "a header with a value": PLAIN._replace(headers=(("da", b"ta"),), data=b""),
    "a header with more of a value": PLAIN._replace(headers=(("d", b"ata"),), data=b""),
    "one name twice": PLAIN._replace(headers=(("h", b"1"), ("h", b"2"))),
    "one name twice, the other way round": PLAIN._replace(headers=(("h", b"2"), ("h", b"1"))),
    "one name once": PLAIN._replace(headers=(("h", b"2"),)),
    "two headers that look like one": PLAIN._replace(headers=(("h", b"1h2"),)),
    "a header that looks like data": PLAIN._replace(headers=(("h", b"1data"),), data=b""),
    "data that looks like a header": PLAIN._replace(data=struct.pack(">2q", 1, 1) + b"h1data"),
    "NULs": PLAIN._replace(data=b"data\0"),
    "the highest number": PLAIN._replace(seq=NUMBER_MAX),
    "the lowest number": PLAIN._replace(seq=0),
}


def test_what_is_different_has_different_digests() -> None:
    named = {"as it is": PLAIN, **DIFFERENT}
    for (one, a), (other, b) in combinations(named.items(), 2):
        assert digest(a) != digest(b), f"{one} and {other}"


def test_neither_the_streams_name_nor_the_timestamp_is_in_the_digest() -> None:
    """A stream can be given another name; the timestamp is compared by itself."""
    assert digest(PLAIN._replace(stream="other", timestamp_ms=5)) == digest(PLAIN)


def test_many_digests_are_those_of_each_whatever_the_subjects() -> None:
    records = [PLAIN._replace(subject=subject) for subject in ("a", "a", "b", "", "a")]
    assert digests(records) == [digest(record) for record in records]


@pytest.mark.parametrize("seq", [2**63, -(2**63) - 1])
def test_a_number_that_no_database_holds_has_no_digest(seq: int) -> None:
    with pytest.raises(struct.error):
        digest(PLAIN._replace(seq=seq))


@pytest.mark.parametrize("record", [PLAIN._replace(subject="\udcff"), PLAIN._replace(headers=(("\udcff", b""),))])
def test_a_text_that_is_none_has_no_digest(record: Record) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        digest(record)


def test_a_checksum_is_the_same_however_the_records_are_cut() -> None:
    found = digests([PLAIN._replace(seq=seq) for seq in range(100)])
    whole = checksum(found)
    assert whole == checksum(found[63:], checksum(found[:63])) == checksum(found[::-1])
    assert 0 < whole < 2**128
    assert whole == sum(int.from_bytes(one, "big") for one in found) % 2**128


def test_a_checksum_stays_within_what_a_store_holds() -> None:
    assert checksum([b"\xff" * 16, b"\0" * 15 + b"\x02"]) == 1
    assert checksum([], 5) == 5


def test_rows_are_records() -> None:
    made = rows("s/0", range(3, 99), [b"a", b"", None], subject="t")
    assert made == [
        Record("s/0", 3, b"a", subject="t"),
        Record("s/0", 4, b"", subject="t"),
        Record("s/0", 5, None, subject="t"),
    ]
    assert {type(record) for record in made} == {Record}


def test_a_size_counts_what_the_publisher_chose() -> None:
    assert content_bytes(PLAIN) == 4
    assert content_bytes(PLAIN._replace(key=b"12", headers=(("h", b"345"), ("g", None)))) == 4 + 2 + 4 + 1
    assert content_bytes(PLAIN._replace(data=None)) == 0


def test_in_memory_an_empty_record_is_not_for_nothing() -> None:
    assert memory_bytes([PLAIN, PLAIN._replace(data=None)]) == 4 + 2 * RECORD_OVERHEAD_BYTES


@pytest.mark.parametrize(("data", "value"), [(b'{"a": [1]}', {"a": [1]}), (b"null", None), ('"ä"'.encode(), "ä")])
def test_content_is_read_as_json(data: bytes, value: object) -> None:
    assert PLAIN._replace(data=data).json() == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "has no content"),
        (b"", "is no JSON: Expecting value: line 1 column 1"),
        (b"{'secret'}", "is no JSON: Expecting property name"),
        (b"\xff\xfe\xfd", "is no JSON: UnicodeDecodeError"),
        (b"[" * 100_000, "is no JSON: RecursionError"),
    ],
)
def test_content_that_is_no_json_is_a_bad_record_whose_message_does_not_repeat_it(
    data: bytes | None, words: str
) -> None:
    with pytest.raises(BadRecord, match=words) as caught:
        PLAIN._replace(data=data).json()
    assert caught.value.record.seq == 7
    assert "record 7 of stream s/0" in str(caught.value)
    assert "secret" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("timestamp_ms", "timestamp"),
    [
        (None, None),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        (2**62, None),
    ],
)
def test_a_timestamp_is_a_time_with_its_zone_or_none(timestamp_ms: int | None, timestamp: datetime | None) -> None:
    assert PLAIN._replace(timestamp_ms=timestamp_ms).timestamp == timestamp
