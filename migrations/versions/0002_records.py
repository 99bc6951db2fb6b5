"""What records need: a row for each stream, marks, leases, moves by hand, and the store's own id.

The tables are written out here, so that what this revision does never changes with the code.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.schema import CreateTable, DropTable

from consumer.store import migrate

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
RANDOM_ID = {
    "sqlite": "lower(hex(randomblob(16)))",
    "postgresql": "replace(CAST(pg_catalog.gen_random_uuid() AS TEXT), '-', '')",
}


def tables() -> dict[str, sa.Table]:
    prefix, metadata = migrate.names_in(context.config).prefix, sa.MetaData()

    def table(name: str, *columns: sa.Column) -> sa.Table:
        return sa.Table(f"{prefix}consumer_{name}", metadata, *columns)

    return {
        "store": table(
            "store",
            sa.Column("id", sa.Integer, sa.CheckConstraint("id=1"), primary_key=True, autoincrement=False),
            sa.Column("store_id", sa.Text, nullable=False),
            sa.Column("compatible_from", sa.Text, nullable=False),
            sa.Column("moves", BIG, nullable=False),
        ),
        "stream": table(
            "stream",
            sa.Column("name", sa.Text, primary_key=True),
            sa.Column("identity", sa.Text),
            sa.Column("begins", sa.Text, nullable=False),
            sa.Column("last", BIG, nullable=False),
            sa.Column("through", BIG, nullable=False),
            sa.Column("token", sa.Text),
            sa.Column("records", BIG, nullable=False),
            sa.Column("checksum", sa.Text, nullable=False),
            sa.Column("last_digest", sa.Text),
            sa.Column("last_timestamp_ms", BIG),
            sa.Column("state", sa.Text, nullable=False),
            sa.Column("generation", BIG, nullable=False),
            sa.Column("starts", sa.Integer, nullable=False),
            sa.Column("halted_at", BIG),
            sa.Column("halted_error", sa.Text),
            sa.Column("halted_since_ms", BIG),
            sa.Column("handler", sa.Text),
            sa.Column("committed_ms", BIG),
        ),
        "mark": table(
            "mark",
            sa.Column("stream", sa.Text, primary_key=True),
            sa.Column("through", BIG, primary_key=True, autoincrement=False),
            sa.Column("records", BIG, nullable=False),
            sa.Column("checksum", sa.Text, nullable=False),
        ),
        "lease": table(
            "lease",
            sa.Column("source", sa.Text, primary_key=True),
            sa.Column("holder", sa.Text, nullable=False),
            sa.Column("handler", sa.Text),
            sa.Column("since_ms", BIG, nullable=False),
            sa.Column("until_ms", BIG, nullable=False),
        ),
        "override": table(
            "override",
            sa.Column("stream", sa.Text, primary_key=True),
            sa.Column("number", BIG, primary_key=True, autoincrement=False),
            sa.Column("made_ms", BIG, nullable=False),
            sa.Column("made_by", sa.Text, nullable=False),
            sa.Column("what", sa.Text, nullable=False),
            sa.Column("from_last", BIG, nullable=False),
            sa.Column("from_through", BIG, nullable=False),
            sa.Column("to_last", BIG, nullable=False),
            sa.Column("to_through", BIG, nullable=False),
            sa.Column("from_identity", sa.Text),
            sa.Column("to_identity", sa.Text),
            sa.Column("reason", sa.Text, nullable=False),
        ),
    }


def upgrade() -> None:
    wanted = tables()
    # As in 0001: what is there already, from a store whose recorded version was lost, is taken as it is.
    existing = set() if context.is_offline_mode() else migrate.find_tables(op.get_bind(), wanted.values())
    for table in wanted.values():
        if table not in existing:
            op.execute(CreateTable(table))
    store = wanted["store"]
    random_id = sa.literal_column(RANDOM_ID[op.get_context().dialect.name])
    row = sa.select(sa.literal_column("1"), random_id, sa.literal_column(f"'{revision}'"), sa.literal_column("0"))
    is_there = sa.select(store.c.id).where(store.c.id == sa.literal_column("1")).exists()
    op.execute(sa.insert(store).from_select(["id", "store_id", "compatible_from", "moves"], row.where(~is_there)))


def downgrade() -> None:
    made = tables()
    if context.get_x_argument(as_dictionary=True).get("drop") != "yes" and not _is_empty(made["stream"]):
        raise migrate.MigrationRefused(
            "this store holds streams of records, and dropping them would let every record come again; "
            "say -x drop=yes to insist"
        )
    for table in reversed(made.values()):
        op.execute(DropTable(table))


def _is_empty(stream: sa.Table) -> bool:
    if context.is_offline_mode():
        return False  # nobody knows
    return op.get_bind().scalar(sa.select(sa.func.count()).select_from(stream)) == 0
