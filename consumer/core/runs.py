"""What a source says to whoever consumes from it, and what it is told: plain data, the same for every kind of source.

Two numbers describe where a stream stands. `last` is the number of the last record that was committed, `through` the
number up to which everything is settled; where numbers hold no record, the two differ. Both are -1 at the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from consumer.core.errors import ConsumerError
from consumer.core.records import Record


@dataclass(frozen=True, slots=True)
class Offer:
    """What a source says of a stream before anything of it is consumed.

    Attributes:
        stream: the stream's name. It does not depend on the host.
        identity: what tells this stream from another one of the same name, such as a topic's id; None where that is
            not known.
        first: the lowest number that a record still there can have.
        head: the highest number that is there, whether it holds a record or not; `first - 1` or lower where nothing is.
        head_is_firm: whether `head` is certain. Otherwise a replica may have answered that is behind the others.
        since: the first number of the time that the source was asked for, `head + 1` where no record is that late; None
            where it was not asked, or knows no times.
    """

    stream: str
    identity: str | None
    first: int
    head: int
    head_is_firm: bool = True
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a stream is to be started.

    Attributes:
        last: the number of the last record that was committed, -1 for none.
        through: the number up to which everything is settled.
        token: what the source itself gave with the run that ended there, None where it gave nothing.
        overlap: whether to start at `last`, so that the record there can be compared, or behind `through`.
        generation: to be given back in each run that comes of this placement.
    """

    last: int
    through: int
    token: bytes | None
    overlap: bool
    generation: int

    @property
    def start(self) -> int:
        """The lowest number that is wanted."""
        return self.last if self.overlap else self.through + 1


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one stream, as its source gave them.

    The source vouches that there is no other record above `after` and up to `through` than these, which may be none.

    Attributes:
        stream: the stream's name.
        generation: that of the placement which the run came of.
        after: the number which the run follows.
        records: the records, by rising numbers.
        through: the number that the run reaches, at least that of its last record.
        token: what the source wants to be given back with a position at `through`, None for nothing.
    """

    stream: str
    generation: int
    after: int
    records: Sequence[Record]
    through: int
    token: bytes | None = None

    def split(self, seq: int) -> tuple[Self, Self]:
        """Cut before a number: what is below it, and what is not. Only the second one keeps the token.

        Args:
            seq: the number, above `after` and not above `through`.
        """
        count = sum(record.seq < seq for record in self.records)
        return (
            replace(self, records=self.records[:count], through=seq - 1, token=None),
            replace(self, records=self.records[count:], after=seq - 1),
        )


@dataclass(frozen=True, slots=True)
class Assigned:
    """Streams that we may have from now on, or of which something else holds than was said before.

    Nothing of them is handed out until they are placed, after a second offer too.

    Attributes:
        offers: one for each stream.
    """

    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """Streams that are ours no more. Nothing of them is handed out any longer.

    Attributes:
        streams: their names.
    """

    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A stream that cannot go on behind what was handed out of it. The others can.

    Nothing of it is handed out until it is placed again.

    Attributes:
        stream: its name.
        generation: that of its placement.
        error: what is wrong, such as a record that is too large.
    """

    stream: str
    generation: int
    error: ConsumerError


Happening: TypeAlias = Run | Assigned | Lost | Failed
"""What a source can say."""
