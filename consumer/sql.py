"""The statements over the tables, built once: what the store runs through SQLAlchemy and the shim on plain sqlite3.

A statement names its values by parameters; `schema.py` alone names tables and columns.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, bindparam, func, insert, literal_column, select, update

from consumer.schema import NOTHING_YET, checkpoint, ledger

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

COUNT_LEDGER = select(func.count()).select_from(ledger)
