"""What the tests of streams share: records, runs and offers, handlers, and plain looks at their rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select

from consumer.core.records import Record
from consumer.core.runs import Offer, Run
from consumer.store.claims import Claim
from consumer.store.transaction import Store

from .helpers import connected, kept, rows

A, B, C = "mem/a", "mem/b", "mem/c"


def keep(connection: Connection, records: Sequence[Record]) -> None:
    """A good handler."""
    held = connection.execute(select(func.count()).select_from(kept)).scalar_one()
    connection.execute(
        insert(kept),
        [
            {"stream": record.stream, "seq": record.seq, "place": held + place, "data": record.data}
            for place, record in enumerate(records)
        ],
    )


class Kept:
    """The same, noting what each call is given. It fails on some records, with an error made from the record."""

    def __init__(self, bad: Sequence[tuple[str, int]] = (), error: Any = lambda record: ValueError(record.seq)) -> None:
        self.bad = set(bad)
        self.error = error
        self.calls: list[list[tuple[str, int]]] = []

    def __call__(self, connection: Connection, records: Sequence[Record]) -> None:
        self.calls.append(numbers(records))
        keep(connection, records)
        for record in records:
            if (record.stream, record.seq) in self.bad:
                raise self.error(record)


def numbers(records: Sequence[Record]) -> list[tuple[str, int]]:
    return [(record.stream, record.seq) for record in records]


# --- what a source gives -------------------------------------------------------------------------


def record(stream: str, seq: int, data: bytes | None = None, **others: Any) -> Record:
    return Record(stream, seq, b"%d of %s" % (seq, stream.encode()) if data is None else data, **others)


def run(stream: str, after: int, seqs: Sequence[int] = (), through: int | None = None, generation: int = 0) -> Run:
    """Records of the usual content. `through` is the last of them where it is not given."""
    reached = through if through is not None else seqs[-1]
    return Run(stream, generation, after, [record(stream, seq) for seq in seqs], reached)


def run_of(records: Sequence[Record], after: int | None = None, generation: int = 0, token: bytes | None = None) -> Run:
    """Records of any content, without holes before and behind them."""
    first, last = records[0], records[-1]
    return Run(first.stream, generation, first.seq - 1 if after is None else after, records, last.seq, token)


def offer(stream: str, first: int = 0, head: int = 2**40, identity: str | None = "id", **others: Any) -> Offer:
    return Offer(stream, identity, first, head, **others)


def claim(store: Store, *streams: str, **others: Any) -> Claim:
    """Have streams begin at number 0, each with a source that has everything."""
    return store.claim([offer(stream) for stream in streams], **others)


# --- looks into a database -----------------------------------------------------------------------


def row(url: str, stream: str = A) -> dict[str, Any]:
    """All columns of a stream."""
    with connected(url) as connection:
        found = connection.exec_driver_sql("SELECT * FROM consumer_stream").mappings()
        [one] = [dict(each) for each in found if each["name"] == stream]
        return one


def picked(url: str, names: str, stream: str = A) -> tuple[Any, ...]:
    """Some columns of a stream."""
    found = row(url, stream)
    return tuple(found[name] for name in names.split())


def stands(url: str, *streams: str) -> list[tuple[int, int, str]]:
    """`last`, `through` and `state` of streams."""
    return [picked(url, "last through state", stream) for stream in streams]


def halted(url: str, stream: str = A) -> tuple[Any, ...]:
    return picked(url, "state halted_at halted_error halted_since_ms", stream)


NOT_HALTED = ("running", None, None, None)


def handled(url: str, *streams: str) -> list[tuple[str, int]]:
    """What the user's table holds, in the order in which the handler got it; of some streams, or of all."""
    found = rows(url, "SELECT stream, seq FROM kept ORDER BY place")
    return [each for each in found if not streams or each[0] in streams]


def of(stream: str, *seqs: int) -> list[tuple[str, int]]:
    return [(stream, seq) for seq in seqs]
