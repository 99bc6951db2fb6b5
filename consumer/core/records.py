"""A record: a user's bytes with their place in a stream, and the digest by which the same content is recognised.

A record is a tuple, since making one is a good part of what consuming it costs: 0.25 us by `rows`, 0.4 us by
`Record(...)`, 3 us as a frozen dataclass. So there is one form of it everywhere, from the source to the handler.

The digest is stored, and a checksum of it stands for all that was consumed, so its definition never changes. Whoever
wants to compare a source with a store in another language computes this: SHA-256, cut to its first 16 bytes, of

    seq, length of subject, length of key, number of headers, length of data: five signed integers of 64 bits
    subject, key
    for each header: length of name, length of value: two such integers; name, value
    data

Integers are big-endian and texts UTF-8. Where there is no key, no value or no data, its length is -1, so that an empty
one is another content. All lengths precede what they measure, so no two records give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from consumer.core.errors import BadRecord

NUMBER_MAX = 2**63 - 1
"""The highest number of a record: what both databases, Kafka and NATS hold in a signed integer of 64 bits."""

NO_NUMBER = -1
"""The number that stands for none: before the first record."""

DIGEST_BYTES = 16
"""The length of a digest: among 2**48 records, the chance that two of them have the same one is below 2**-32."""

RECORD_OVERHEAD_BYTES = 256
"""What a record takes up in memory beside its own bytes: a tuple and its objects. So empty ones are bounded too."""

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names and values in their order. A name may be there twice."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    """One record of a stream.

    Attributes:
        stream: the stream's name, such as `kafka/orders/3`.
        seq: the record's number in its stream, 0 to 2**63 - 1. Numbers rise, and may leave some out.
        data: the content, None where there is none, which is not the same as an empty one: a tombstone.
        key: the key, None where there is none.
        subject: where it was published: a topic, a subject of NATS, the path of a file.
        headers: pairs of a name and a value.
        timestamp_ms: milliseconds since 1970 in UTC by the source's clock, None where it has none.
    """

    stream: str
    seq: int
    data: bytes | None
    key: bytes | None = None
    subject: str = ""
    headers: Headers = ()
    timestamp_ms: int | None = None

    @property
    def timestamp(self) -> datetime | None:
        """When it was published, by the source's clock; None where that is not known or is no date of a calendar."""
        if self.timestamp_ms is None:
            return None
        try:
            return _EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:
            return None

    def json(self) -> Any:
        """Read the content as JSON.

        Raises:
            BadRecord: it is none, or there is no content at all, as in a tombstone.
        """
        if self.data is None:
            raise BadRecord(self, "it has no content, so it is no JSON")
        try:
            return json.loads(self.data)
        except (ValueError, RecursionError) as error:
            raise BadRecord(self, f"its content is no JSON: {_without_content(error)}") from error


def _without_content(error: Exception) -> str:
    """Say what is wrong with a text, and not the text itself."""
    return f"{error}" if isinstance(error, json.JSONDecodeError) else type(error).__name__


def rows(stream: str, seqs: Iterable[int], datas: Iterable[bytes | None], *, subject: str = "") -> list[Record]:
    """Make many records at once that have nothing but numbers and contents, such as the lines of a file.

    Args:
        stream: the stream's name.
        seqs: the numbers, of which there may be more than contents.
        datas: the contents.
        subject: where all of them were published.
    """
    columns = zip(repeat(stream), seqs, datas, repeat(None), repeat(subject), repeat(()), repeat(None), strict=False)
    return list(map(_new, columns))


_new: Final = partial(tuple.__new__, Record)  # what `Record._make` does, without the look at the length


# Digest and checksum.

_LENGTHS: Final = struct.Struct(">5q").pack
_HEADER_LENGTHS: Final = struct.Struct(">2q").pack
_sha256 = hashlib.sha256


def digests(records: Iterable[Record]) -> list[bytes]:
    """Give the digest of each record, as the head of this module defines it.

    Raises:
        ValueError: a text has no UTF-8.
        struct.error: a number is out of range.
    """
    found = []
    known: str | None = None
    topic = b""
    for _, seq, data, key, subject, headers, _ in records:
        if subject is not known:  # most often it is the very object of the record before
            known, topic = subject, subject.encode()
        lengths = _LENGTHS(
            seq, len(topic), -1 if key is None else len(key), len(headers), -1 if data is None else len(data)
        )
        framed = lengths + topic + (key or b"") + (_framed(headers) if headers else b"") + (data or b"")
        found.append(_sha256(framed).digest()[:DIGEST_BYTES])
    return found


def digest(record: Record) -> bytes:
    """Give the digest of one record."""
    return digests((record,))[0]


def _framed(headers: Headers) -> bytes:
    parts: list[bytes] = []
    for name, value in headers:
        label = name.encode()
        parts += (_HEADER_LENGTHS(len(label), -1 if value is None else len(value)), label, value or b"")
    return b"".join(parts)


CHECKSUM_MODULUS = 1 << (8 * DIGEST_BYTES)


def checksum(found: Sequence[bytes], before: int = 0) -> int:
    """Add digests to a checksum: the sum of all of a stream, as numbers, modulo 2**128.

    It does not depend on how the records were cut into batches.
    """
    return sum(map(int.from_bytes, found), before) % CHECKSUM_MODULUS


# Sizes.


def content_bytes(record: Record) -> int:
    """Give the bytes of a record that its publisher chose: key, headers and data. A record is limited by these."""
    _, _, data, key, _, headers, _ = record
    size = len(data or b"") + len(key or b"")
    for name, value in headers:
        size += len(name) + len(value or b"")
    return size


def memory_bytes(records: Iterable[Record]) -> int:
    """Estimate what records take up in memory, which is what a batch is bounded by."""
    return sum(content_bytes(record) + RECORD_OVERHEAD_BYTES for record in records)
