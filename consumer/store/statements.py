"""The statements over the contract's two tables, built once for each choice of names.

The store runs them through its driver, the shim on plain sqlite3. A statement names its values by parameters;
`schema.py` alone names tables and columns.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)

from consumer.store.schema import NOTHING_YET, Tables

_ROW_ID: ColumnElement[int] = literal_column("1")  # a store holds one stream: the checkpoint has this one row


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
