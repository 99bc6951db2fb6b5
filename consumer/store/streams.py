"""The streams of records as the store keeps them: how their rows are locked, read and written.

Everything here happens inside a transaction that `transaction.py` has begun and will end. What is to be done with runs
of records, at a claim and by hand is decided in `runs.py`, `claims.py` and `moves.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from consumer.core.errors import Fenced, NotReady
from consumer.core.events import is_integer
from consumer.core.outcome import Halt
from consumer.core.records import DIGEST_BYTES, NO_NUMBER, NUMBER_MAX
from consumer.core.rule import Cursor
from consumer.core.streams import Override, Stream, StreamState
from consumer.core.words import one_line
from consumer.store.databases.base import Database
from consumer.store.statements import MOVED, UNLESS_THERE, StreamStatements

MARK_EVERY = 1_000_000
"""How many records of a stream lie between two marks: where a later comparison with the source can begin."""


class Streams:
    """The rows of all streams of one store.

    Args:
        database: which kind it is.
        statements: over the store's tables.
        schema: where the tables are.
    """

    def __init__(self, database: Database, statements: StreamStatements, schema: str) -> None:
        def compiled(statement: Any) -> str:
            return database.compile(statement, schema)

        self._database = database
        self._columns = [column.name for column in statements.read_streams.selected_columns]
        self._lock_some = database.locking(statements, schema)
        self._move_on = database.moving(statements, schema)
        self._read_clock = compiled(statements.read_clock)
        self._insert = compiled(statements.insert_stream) + UNLESS_THERE
        self._claim = compiled(statements.claim_stream)
        self._insert_mark = compiled(statements.insert_mark)
        self._halt = compiled(statements.halt)
        self._move_by_hand = compiled(statements.move_by_hand)
        self._set_state = compiled(statements.set_state)
        self._count_move = compiled(statements.count_move)
        self._delete_marks = compiled(statements.delete_marks)
        self._read_numbers = compiled(statements.read_numbers)
        self._insert_override = compiled(statements.insert_override)

    def lock(self, cursor: Any, names: Iterable[str]) -> dict[str, Stream]:
        """Read where streams stand, and keep every other consumer from moving them. One that is not known is left out.

        All consumers lock in the order of the names, so that two never wait for each other.
        """
        self._database.set_up(cursor)
        rows = self._lock_some(cursor, sorted(names))
        return {row[0]: read_stream(dict(zip(self._columns, row, strict=True))) for row in rows}

    def insert(self, cursor: Any, streams: Sequence[Stream]) -> None:
        """Write the rows of streams that are new, unless another consumer just has: in the order of their names too."""
        cursor.executemany(self._insert, [self._written(s) for s in sorted(streams, key=lambda s: s.name)])

    def claim(self, cursor: Any, streams: Sequence[Stream]) -> None:
        """Note that streams are about to be consumed: their identities, their handlers, and one start more."""
        cursor.executemany(
            self._claim, [{"name_": s.name, "identity_": s.cursor.identity, "handler_": s.handler} for s in streams]
        )

    def move_on(self, cursor: Any, moved: Sequence[tuple[Stream, Stream]]) -> None:
        """Move streams on.

        Args:
            cursor: the driver's.
            moved: for each stream how it was found under the lock, and how it stands then.

        Raises:
            Fenced: one was moved although it was locked.
        """
        rows = [(was.name, was.cursor.last, was.cursor.through, *_reached(now)) for was, now in moved]
        if self._move_on(cursor, [dict(zip(_MOVED, row, strict=True)) for row in rows]) != len(moved):
            raise Fenced(moved[0][0].cursor.last)
        marks = [_mark(now) for was, now in moved if was.records // MARK_EVERY != now.records // MARK_EVERY]
        if marks:
            cursor.executemany(self._insert_mark, marks)

    def halt(self, cursor: Any, halted: Sequence[tuple[Stream, Halt]]) -> None:
        """Note what streams cannot pass, and why. One that was moved by hand or is paused is left alone."""
        cursor.executemany(
            self._halt,
            [
                {
                    "name_": stream.name,
                    "generation_": stream.cursor.generation,
                    "at": halt.at,
                    "error": storable(one_line(halt.error)),
                }
                for stream, halt in halted
            ],
        )

    def move_by_hand(self, cursor: Any, now: Stream) -> None:
        """Have a stream stand elsewhere, in a new generation. What it had at its cursor is not known any more."""
        cursor.execute(
            self._move_by_hand,
            {
                "name_": now.name,
                "identity_": now.cursor.identity,
                "last_": now.cursor.last,
                "through_": now.cursor.through,
                "state_": str(now.state),
            },
        )
        cursor.execute(self._delete_marks, {"name_": now.name, "above": now.cursor.through})
        cursor.execute(self._count_move)

    def set_state(self, cursor: Any, name: str, state: StreamState) -> None:
        """Have a stream pause or run, in a new generation."""
        cursor.execute(self._set_state, {"name_": name, "state_": str(state)})
        cursor.execute(self._count_move)

    def now_ms(self, cursor: Any) -> int:
        """Give the time by the database's clock, in milliseconds since 1970."""
        return int(cursor.execute(self._read_clock).fetchone()[0])

    def next_override(self, cursor: Any, name: str) -> int:
        """Give the number that what is done to a stream next has on record, under its lock."""
        latest = cursor.execute(self._read_numbers, {"name_": name}).fetchone()
        return 1 if latest is None else int(latest[0]) + 1

    def record(self, cursor: Any, override: Override) -> None:
        """Put on record what was done to a stream by hand."""
        cursor.execute(self._insert_override, asdict(override))

    def _written(self, stream: Stream) -> dict[str, Any]:
        cursor = stream.cursor
        return {
            "name": stream.name,
            "identity": cursor.identity,
            "begins": stream.begins,
            "last": cursor.last,
            "through": cursor.through,
            "token": _hex(cursor.token),
            "records": stream.records,
            "checksum": written_checksum(stream.checksum),
            "last_digest": _hex(cursor.digest),
            "last_timestamp_ms": cursor.timestamp_ms,
            "state": str(stream.state),
            "generation": cursor.generation,
            "starts": stream.starts,
            "halted_at": stream.halted_at,
            "halted_error": stream.halted_error,
            "halted_since_ms": stream.halted_since_ms,
            "handler": stream.handler,
            "committed_ms": stream.committed_ms,
        }


_MOVED = tuple(f"{name}_" for name in MOVED)


def _reached(now: Stream) -> tuple[Any, ...]:
    """Give what a stream's row says once it has gone on, in the order of `MOVED`."""
    cursor = now.cursor
    return (
        cursor.generation,
        cursor.last,
        cursor.through,
        _hex(cursor.token),
        now.records,
        written_checksum(now.checksum),
        _hex(cursor.digest),
        cursor.timestamp_ms,
    )


def _mark(stream: Stream) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "through": stream.cursor.through,
        "records": stream.records,
        "checksum": written_checksum(stream.checksum),
    }


def read_stream(row: Mapping[str, Any]) -> Stream:
    """Read a row.

    Raises:
        NotReady: it holds what no store writes.
    """
    last, through = row["last"], row["through"]
    try:
        if not (is_integer(through, NO_NUMBER, NUMBER_MAX) and is_integer(last, NO_NUMBER, through)):
            raise ValueError(f"last {last!r} and through {through!r}")  # noqa: TRY301 - one message for all of them
        state = StreamState(row["state"])
        cursor = Cursor(
            last=last,
            through=through,
            digest=_bytes(row["last_digest"]),
            timestamp_ms=row["last_timestamp_ms"],
            token=_bytes(row["token"]),
            generation=row["generation"],
            identity=row["identity"],
            is_fed=state is not StreamState.PAUSED,
        )
        checksum = int(row["checksum"], 16)
    except (TypeError, ValueError) as error:
        raise NotReady(f"the row of stream {row['name']} holds what no store writes ({error}): restore it") from error
    return Stream(
        row["name"],
        cursor,
        row["begins"],
        row["records"],
        checksum,
        state,
        row["starts"],
        row["halted_at"],
        row["halted_error"],
        row["halted_since_ms"],
        row["handler"],
        row["committed_ms"],
    )


def written_checksum(checksum: int) -> str:
    """Give a checksum as it stands in a row: all of its hexadecimal digits."""
    return f"{checksum:0{2 * DIGEST_BYTES}x}"


def storable(text: str) -> str:
    """Give a text that every database takes: PostgreSQL has no zero byte, and neither has lone surrogates."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)
