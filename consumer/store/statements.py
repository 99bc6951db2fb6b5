"""The statements over the store's tables, built once for each choice of names.

The store runs them through its driver, the shim on plain sqlite3. A statement names its values by parameters;
`schema.py` alone names tables and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Update,
    any_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)

from consumer.core.streams import StreamState
from consumer.store.schema import NOTHING_YET, Tables

_ROW_ID: ColumnElement[int] = literal_column("1")  # a store holds one stream: the checkpoint has this one row

_ZERO: ColumnElement[int] = literal_column("0")
_ONE: ColumnElement[int] = literal_column("1")
_RUNNING: ColumnElement[str] = literal_column(f"'{StreamState.RUNNING}'")
_HALTED: ColumnElement[str] = literal_column(f"'{StreamState.HALTED}'")
_PAUSED: ColumnElement[str] = literal_column(f"'{StreamState.PAUSED}'")

UNLESS_THERE = " ON CONFLICT DO NOTHING"
"""What both databases say behind an INSERT that is to pass over a row that is there. Core has no common word for it."""


class Statements:
    """The statements over the tables of one store.

    Args:
        tables: the tables.

    Attributes:
        read_state: gives `last` and `total`.
        insert_event: takes `seq` and `delta`.
        read_delta: gives the delta of `seq`.
        add_to_total: takes `delta`.
        move_cursor: takes `seq`.
        insert_first_row: makes the checkpoint's row, only where there is none.
        move_on_from: both of these in one. It changes no row where the cursor is not at `from_seq`: whoever else has
            moved it, this one is fenced off.
        read_deltas: gives `seq` and `delta` from `low` to `high`.
        insert_events: many rows from the two arrays `seqs` and `deltas`; PostgreSQL's.
        read_revision: gives the schema's revision.
        count_ledger: gives the number of the ledger's rows.
    """

    def __init__(self, tables: Tables) -> None:
        checkpoint, ledger = tables.checkpoint, tables.ledger
        row = checkpoint.c.id == _ROW_ID
        self.read_state = select(checkpoint.c.last, checkpoint.c.total).where(row)
        self.insert_event = insert(ledger).values(seq=bindparam("seq"), delta=bindparam("delta"))
        self.read_delta = select(ledger.c.delta).where(ledger.c.seq == bindparam("seq"))
        self.add_to_total = update(checkpoint).where(row).values(total=checkpoint.c.total + bindparam("delta"))
        self.move_cursor = update(checkpoint).where(row).values(last=bindparam("seq"))
        self.insert_first_row = insert(checkpoint).from_select(
            [checkpoint.c.id, checkpoint.c.last, checkpoint.c.total],
            select(_ROW_ID, literal_column(str(NOTHING_YET)), literal_column("0")).where(
                ~select(checkpoint.c.id).where(row).exists()
            ),
        )
        self.move_on_from = (
            update(checkpoint)
            .where(row, checkpoint.c.last == bindparam("from_seq"))
            .values(last=bindparam("seq"), total=checkpoint.c.total + bindparam("delta"))
        )
        self.read_deltas = select(ledger.c.seq, ledger.c.delta).where(
            ledger.c.seq.between(bindparam("low"), bindparam("high"))
        )
        self.insert_events = insert(ledger).from_select(
            [ledger.c.seq, ledger.c.delta],
            select(
                func.pg_catalog.unnest(bindparam("seqs", type_=ARRAY(BigInteger))),
                func.pg_catalog.unnest(bindparam("deltas", type_=ARRAY(Integer))),
            ),
        )
        self.read_revision = select(tables.version.c.version_num)
        self.count_ledger = select(func.count()).select_from(ledger)


MOVED = (
    "name",
    "from_last",
    "from_through",
    "from_generation",
    "last",
    "through",
    "token",
    "records",
    "checksum",
    "last_digest",
    "last_timestamp_ms",
)
"""The values of a stream that goes on: its name, where it must stand, and where it stands then."""


_HEALTHY = {"halted_at": null(), "halted_error": null(), "halted_since_ms": null(), "starts": _ZERO}
"""What the row of a stream says that nothing has stopped, whether it has gone on by itself or was moved by hand."""


class StreamStatements:
    """The statements over the tables for records. All times in them are the database's.

    Args:
        tables: the tables.
        clock_ms: an expression of the database's own clock, in milliseconds since 1970.

    Attributes:
        read_clock: gives the time.
        read_store: gives the store's id, `compatible_from` and how many moves by hand there were.
        read_streams: gives all columns of all streams, by name.
        lock_in_list: gives all columns of those whose names are in the JSON list `names`, by name; SQLite's, where the
            transaction has the lock.
        lock_in_array: locks and gives the same of those in the array `names`; PostgreSQL's.
        insert_stream: takes the columns of a stream that is new; a clause for where it is not is to be put behind.
        claim_stream: notes that a stream is about to be consumed: takes `name`, `identity` and `handler`.
        move_on: takes `MOVED`. It changes no row where the stream stands elsewhere.
        move_all_on: the same for many, each value an array; PostgreSQL's.
        insert_mark: takes the columns of a mark.
        halt: takes `name`, `generation`, `at` and `error`; where the stream is halted already, it keeps since when.
        move_by_hand: takes `name` and where the stream stands then, and raises its generation.
        set_state: takes `name` and `state`, forgets what halted the stream and raises its generation.
        count_move: raises the number of moves.
        read_numbers: gives the numbers of the moves of one stream, the latest first.
        insert_override: takes the columns of a move.
        delete_marks: takes a stream's name and a number `above` which its marks go.
        read_overrides: gives all moves of all streams, in their order.
    """

    def __init__(self, tables: Tables, clock_ms: str) -> None:
        stream, override, store, mark = tables.stream, tables.override, tables.store, tables.mark
        now: ColumnElement[int] = literal_column(clock_ms)
        self.read_clock = select(now)
        is_named = stream.c.name == bindparam("name_")
        self.read_store = select(store.c.store_id, store.c.compatible_from, store.c.moves)
        self.read_streams = select(stream).order_by(stream.c.name)
        listed = func.json_each(bindparam("names")).table_valued("value")
        self.lock_in_list = self.read_streams.where(stream.c.name.in_(select(listed.c.value)))
        named = stream.c.name == any_(bindparam("names", type_=ARRAY(stream.c.name.type)))
        self.lock_in_array = self.read_streams.where(named).with_for_update()
        self.insert_stream = insert(stream).values({c.name: bindparam(c.name) for c in stream.c})
        self.claim_stream = (
            update(stream)
            .where(is_named)
            .values(identity=bindparam("identity_"), handler=bindparam("handler_"), starts=stream.c.starts + _ONE)
        )
        self.move_on = _going_on(tables, now, lambda name: bindparam(f"{name}_"))
        found = {"from_last": stream.c.last, "from_through": stream.c.through, "from_generation": stream.c.generation}
        columns = {name: found[name] if name in found else stream.c[name] for name in MOVED}
        arrays = [bindparam(f"{name}_", type_=ARRAY(column.type)) for name, column in columns.items()]
        # With several arrays this is syntax, which PostgreSQL reads as its own functions where no schema is named.
        values = func.unnest(*arrays).table_valued(*MOVED).render_derived(name="moved")
        self.move_all_on = _going_on(tables, now, lambda name: values.c[name])
        self.insert_mark = insert(mark).values({c.name: bindparam(c.name) for c in mark.c})
        self.halt = (
            update(stream)
            .where(is_named, stream.c.generation == bindparam("generation_"), stream.c.state != _PAUSED)
            .values(
                state=_HALTED,
                halted_at=bindparam("at"),
                halted_error=bindparam("error"),
                halted_since_ms=func.coalesce(stream.c.halted_since_ms, now),
            )
        )
        self.move_by_hand = (
            update(stream)
            .where(is_named)
            .values(
                identity=bindparam("identity_"),
                last=bindparam("last_"),
                through=bindparam("through_"),
                token=null(),
                last_digest=null(),
                last_timestamp_ms=null(),
                state=bindparam("state_"),
                generation=stream.c.generation + _ONE,
                **_HEALTHY,
            )
        )
        self.set_state = (
            update(stream)
            .where(is_named)
            .values(state=bindparam("state_"), generation=stream.c.generation + _ONE, **_HEALTHY)
        )
        self.count_move = update(store).values(moves=store.c.moves + _ONE)
        self.read_numbers = (
            select(override.c.number).where(override.c.stream == bindparam("name_")).order_by(override.c.number.desc())
        )
        self.insert_override = insert(override).values({c.name: bindparam(c.name) for c in override.c})
        self.delete_marks = mark.delete().where(
            mark.c.stream == bindparam("name_"), mark.c.through > bindparam("above")
        )
        self.read_overrides = select(override).order_by(override.c.made_ms, override.c.stream, override.c.number)


def _going_on(tables: Tables, now: ColumnElement[int], value: Callable[[str], ColumnElement[Any]]) -> Update:
    """Build the UPDATE of streams that go on, which also ends whatever had halted them."""
    stream = tables.stream
    set_to = {name: value(name) for name in MOVED[4:]}
    return (
        update(stream)
        .where(
            stream.c.name == value("name"),
            stream.c.last == value("from_last"),
            stream.c.through == value("from_through"),
            stream.c.generation == value("from_generation"),
        )
        .values(
            **set_to,
            committed_ms=now,
            state=case((stream.c.state == _HALTED, _RUNNING), else_=stream.c.state),
            **_HEALTHY,
        )
    )


class LeaseStatements:
    """The statements over the leases.

    Args:
        tables: the tables.
        clock_ms: an expression of the database's own clock, in milliseconds since 1970.

    Attributes:
        lock: locks the lease of `source` and gives its columns, and whether its time is not over.
        insert: makes one for `source` that nobody holds; a clause for where there is one already is to be put behind.
        take: has `holder` hold it for `ms` from now on, where it is free or held by that holder already. Since when, is
            kept only in the latter case.
        give_back: has nobody hold it, where `holder` does.
        read: gives all of them.
    """

    def __init__(self, tables: Tables, clock_ms: str) -> None:
        lease = tables.lease
        now: ColumnElement[int] = literal_column(clock_ms)
        is_held = lease.c.until_ms > now
        is_named = lease.c.source == bindparam("source_")
        self.read = select(lease, is_held.label("is_held")).order_by(lease.c.source)
        self.lock = self.read.where(is_named).with_for_update()
        self.insert = insert(lease).from_select(
            [c.name for c in lease.c],
            # SQLite needs a WHERE between a SELECT and ON CONFLICT, which it would take for a join's otherwise.
            select(bindparam("source_", type_=lease.c.source.type), literal_column("''"), null(), now, _ZERO).where(
                literal_column("1 = 1")
            ),
        )
        is_mine = lease.c.holder == bindparam("holder_")
        self.take = (
            update(lease)
            .where(is_named, ~is_held | is_mine)
            .values(
                since_ms=case((is_mine & is_held, lease.c.since_ms), else_=now),
                holder=bindparam("holder_"),
                handler=bindparam("handler_"),
                until_ms=now + bindparam("ms"),
            )
        )
        self.give_back = update(lease).where(is_named, is_mine).values(until_ms=_ZERO)
