"""The statements over the tables, built once: what the store runs through SQLAlchemy and the shim on plain sqlite3.

A statement names its values by parameters; `schema.py` alone names tables and columns.
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

from consumer.store.schema import NOTHING_YET, checkpoint, ledger, version

_ROW_ID: ColumnElement[int] = literal_column("1")  # a store holds one stream: the checkpoint has this one row
_row = checkpoint.c.id == _ROW_ID

READ_STATE = select(checkpoint.c.last, checkpoint.c.total).where(_row)

READ_LAST = select(checkpoint.c.last).where(_row)

INSERT_EVENT = insert(ledger).values(seq=bindparam("seq"), delta=bindparam("delta"))

READ_DELTA = select(ledger.c.delta).where(ledger.c.seq == bindparam("seq"))

ADD_TO_TOTAL = update(checkpoint).where(_row).values(total=checkpoint.c.total + bindparam("delta"))

MOVE_CURSOR = update(checkpoint).where(_row).values(last=bindparam("seq"))

INSERT_FIRST_ROW = insert(checkpoint).from_select(
    [checkpoint.c.id, checkpoint.c.last, checkpoint.c.total],
    select(_ROW_ID, literal_column(str(NOTHING_YET)), literal_column("0")).where(
        ~select(checkpoint.c.id).where(_row).exists()
    ),
)
"""The checkpoint's row, only where there is none."""

MOVE_CURSOR_FROM = MOVE_CURSOR.where(checkpoint.c.last == bindparam("from_seq"))
"""It changes no row where the cursor is not at `from_seq`: whoever else has moved it, this one is fenced off."""

READ_DELTAS = select(ledger.c.seq, ledger.c.delta).where(ledger.c.seq.between(bindparam("low"), bindparam("high")))

INSERT_EVENTS = insert(ledger).from_select(
    [ledger.c.seq, ledger.c.delta],
    select(
        func.unnest(bindparam("seqs", type_=ARRAY(BigInteger))),
        func.unnest(bindparam("deltas", type_=ARRAY(Integer))),
    ),
)
"""Many rows from two arrays; PostgreSQL's."""

READ_REVISION = select(version.c.version_num)

COUNT_LEDGER = select(func.count()).select_from(ledger)
