"""Where a stream that has never been consumed begins: `earliest`, `latest`, a number or a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from consumer.core.errors import InvalidOption
from consumer.core.records import NUMBER_MAX


@dataclass(frozen=True, slots=True)
class Earliest:
    """At the first record that is there."""

    def __str__(self) -> str:
        return "earliest"


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last record that is there."""

    def __str__(self) -> str:
        return "latest"


@dataclass(frozen=True, slots=True)
class FromNumber:
    """At a record's number."""

    seq: int

    def __str__(self) -> str:
        return str(self.seq)


@dataclass(frozen=True, slots=True)
class FromTime:
    """At the first record of a time, in milliseconds since 1970 in UTC; behind the last one where none is that late."""

    timestamp_ms: int

    def __str__(self) -> str:
        return written_time(self.timestamp_ms)


def written_time(ms: int, sep: str = "T", timespec: str = "milliseconds") -> str:
    """Write a time as ISO 8601 has it, with the zone: milliseconds since 1970 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep, timespec)


Start: TypeAlias = Earliest | Latest | FromNumber | FromTime


def parse_start(text: str) -> Start:
    """Read what a user or a store says about it; `str` of the result says the same again.

    Args:
        text: `earliest`, `latest`, a number, or a time by ISO 8601 with its zone, such as `2026-05-01T00:00:00Z`.

    Raises:
        InvalidOption: it is none of these.
    """
    if text in ("earliest", "latest"):
        return Earliest() if text == "earliest" else Latest()
    if text.isascii() and text.isdigit() and int(text) <= NUMBER_MAX:
        return FromNumber(int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise InvalidOption(
            f"{text!r} is no place to begin: give earliest, latest, a record's number, or a time with its zone such as "
            "2026-05-01T00:00:00Z"
        )
    return FromTime(round(time.timestamp() * 1000))
