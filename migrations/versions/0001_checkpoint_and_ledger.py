"""The contract's two tables, and the checkpoint's row.

A store that is there already, made by `open_store` or by somebody's own solution, is taken as it is, with its data.
The definitions are those of `consumer.store.schema`: these two tables never change shape.

Revision ID: 0001
Revises:
"""

from alembic import context, op
from sqlalchemy.schema import CreateTable, DropTable

from consumer.store import migrate, statements
from consumer.store.schema import NOTHING_YET, metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A script for later cannot know what will be there then: offline it creates, and fails where there is something.
    existing = set() if context.is_offline_mode() else migrate.find_tables(op.get_bind())
    for table in metadata.sorted_tables:
        if table not in existing:
            op.execute(CreateTable(table))
    op.execute(statements.INSERT_FIRST_ROW)


def downgrade() -> None:
    if context.get_x_argument(as_dictionary=True).get("drop") != "yes" and not _is_empty():
        raise migrate.MigrationRefused(
            "this store holds events or a cursor, and dropping it would let every event come again; "
            "say -x drop=yes to insist"
        )
    for table in reversed(metadata.sorted_tables):
        op.execute(DropTable(table))


def _is_empty() -> bool:
    if context.is_offline_mode():
        return False  # nobody knows
    connection = op.get_bind()
    last = connection.scalar(statements.READ_LAST)
    return last in (None, NOTHING_YET) and connection.scalar(statements.COUNT_LEDGER) == 0
