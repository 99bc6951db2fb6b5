"""The contract's two tables, and the checkpoint's row.

A store that is there already, made by `open_store` or by somebody's own solution, is taken as it is, with its data.
The tables are written out here, so that what this revision does never changes with the code.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.schema import CreateTable, DropTable

from consumer.store import migrate

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NOTHING_YET = -1
BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def tables() -> tuple[sa.Table, sa.Table]:
    prefix, metadata = migrate.names_in(context.config).prefix, sa.MetaData()
    # A key that is declared nullable is written without NOT NULL, as the contract's own statements have it.
    checkpoint = sa.Table(
        f"{prefix}checkpoint",
        metadata,
        sa.Column("id", sa.Integer, sa.CheckConstraint("id=1"), primary_key=True, nullable=True, autoincrement=False),
        sa.Column("last", BIG, nullable=False),
        sa.Column("total", BIG, nullable=False),
    )
    ledger = sa.Table(
        f"{prefix}ledger",
        metadata,
        sa.Column("seq", BIG, primary_key=True, nullable=True, autoincrement=False),
        sa.Column("delta", sa.Integer, nullable=False),
    )
    return checkpoint, ledger


def upgrade() -> None:
    both = checkpoint, _ = tables()
    # A script for later cannot know what will be there then: offline it creates, and fails where there is something.
    existing = set() if context.is_offline_mode() else migrate.find_tables(op.get_bind(), both)
    for table in both:
        if table not in existing:
            op.execute(CreateTable(table))
    row = sa.select(sa.literal_column("1"), sa.literal_column(f"{NOTHING_YET}"), sa.literal_column("0"))
    is_there = sa.select(checkpoint.c.id).where(checkpoint.c.id == sa.literal_column("1")).exists()
    op.execute(sa.insert(checkpoint).from_select(["id", "last", "total"], row.where(~is_there)))


def downgrade() -> None:
    checkpoint, ledger = tables()
    if context.get_x_argument(as_dictionary=True).get("drop") != "yes" and not _is_empty(checkpoint, ledger):
        raise migrate.MigrationRefused(
            "this store holds events or a cursor, and dropping it would let every event come again; "
            "say -x drop=yes to insist"
        )
    for table in (ledger, checkpoint):
        op.execute(DropTable(table))


def _is_empty(checkpoint: sa.Table, ledger: sa.Table) -> bool:
    if context.is_offline_mode():
        return False  # nobody knows
    connection = op.get_bind()
    last = connection.scalar(sa.select(checkpoint.c.last))
    return last in (None, NOTHING_YET) and connection.scalar(sa.select(sa.func.count()).select_from(ledger)) == 0
