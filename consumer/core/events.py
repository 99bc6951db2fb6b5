"""Valid events as one list of integers: what the hot path carries instead of a tuple for each.

To everybody who looks it is a sequence of `(seq, delta)` tuples. Inside it is one list of integers, as the decoder
reads them and as a bulk insert takes them; making a tuple of each in between would be a third of all the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Self, TypeAlias, TypeGuard, overload

SEQ_MAX = 2**31 - 1
"""The highest number of an event."""

DELTA_MAX = 1000
"""The largest change of one event, in either direction."""

Event: TypeAlias = tuple[int, int]
"""`(seq, delta)`."""


def is_integer(value: object, low: int, high: int) -> TypeGuard[int]:
    """Say whether `value` is an `int`, no `bool`, and within `low`..`high`."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def check_event(seq: object, delta: object) -> None:
    """Raise `ValueError` unless `seq` and `delta` are integers within the ranges of the protocol."""
    if not is_integer(seq, 0, SEQ_MAX):
        raise ValueError(f"seq must be an int from 0 to {SEQ_MAX}, not {seq!r}")
    if not is_integer(delta, -DELTA_MAX, DELTA_MAX):
        raise ValueError(f"delta must be an int from {-DELTA_MAX} to {DELTA_MAX}, not {delta!r}")


class Events(Sequence[Event]):
    """Events whose values are known to be valid; their order is whatever it was on arrival."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: list[int]) -> None:
        """Take over a list of integers in range: seq, delta, seq, delta and so on."""
        self.numbers = numbers

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Put valid events into one list."""
        return cls(list(chain.from_iterable(events)))

    @classmethod
    def if_valid(cls, events: Sequence[Event]) -> Self | None:
        """Put events into one list if all are valid. It takes exact ints only, since it looks at all at once."""
        seqs = [seq for seq, _ in events]
        deltas = [delta for _, delta in events]
        if {*map(type, seqs), *map(type, deltas)} != {int}:
            return None
        if min(seqs) < 0 or max(seqs) > SEQ_MAX or min(deltas) < -DELTA_MAX or max(deltas) > DELTA_MAX:
            return None
        return cls.of(events)

    @property
    def seqs(self) -> list[int]:
        """The numbers of all events."""
        return self.numbers[::2]

    @property
    def deltas(self) -> list[int]:
        """The changes of all events."""
        return self.numbers[1::2]

    def continue_after(self, last: int) -> bool:
        """Say whether these are the very next events after a cursor."""
        return self.seqs == list(range(last + 1, last + 1 + len(self)))

    def __len__(self) -> int:
        return len(self.numbers) // 2

    def __iter__(self) -> Iterator[Event]:
        return zip(self.seqs, self.deltas, strict=True)

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Event | Self:
        """Give one event, or those of a slice without a step."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return type(self).of(list(self)[index])
            return type(self)(self.numbers[2 * start : 2 * max(start, stop)])
        index = range(len(self))[index]
        return self.numbers[2 * index], self.numbers[2 * index + 1]

    def __repr__(self) -> str:
        return f"Events({list(self)})"
