"""The tables of a store: the one owner of their names, types and shapes.

Migrations, the store and the shim all build on these objects; nothing else knows a table or a column by name.
`checkpoint` and `ledger` are the contract's two tables and never change shape. A user may have another table of one of
these names, so all of them can be given a prefix.

What belongs to records is in tables whose names begin with `consumer_`: a row for each stream, and none for a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, MetaData, String, Table, Text
from sqlalchemy.engine import Dialect

from consumer.core.errors import InvalidOption

NOTHING_YET = -1
"""The cursor of a store that has seen no event."""

HEAD = "0002"
"""The revision that these tables correspond to. Kept here, so that a running consumer can check it without Alembic."""

_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,29}|")
"""What a prefix may be: it is part of names that PostgreSQL cuts at 63 bytes, and never needs quotes in a message."""

_Big = BigInteger().with_variant(Integer, "sqlite")
"""BIGINT; on SQLite INTEGER, which is 64 bits wide there and the only type of a rowid key."""


class Tables:
    """The tables of one store, under the names that its user chose.

    Args:
        prefix: what their names begin with.

    Raises:
        InvalidOption: it cannot be a prefix.

    Attributes:
        prefix: the prefix.
        metadata: all of them but Alembic's.
        checkpoint: one row, the cursor and the total.
        ledger: a row for each event.
        contract: these two.
        store: one row: the store's own id, the oldest revision whose programs may go on using it, and how many moves by
            hand there were.
        stream: a row for each stream of records: where it stands, the sum of what was consumed, and what stopped it.
        mark: what the count and the checksum of a stream were at some number.
        lease: which process consumes from a source.
        override: each move of a stream by hand, with its reason.
        version: where Alembic keeps this schema's revision, to be read only. It is not `alembic_version`, which is the
            user's.
    """

    def __init__(self, prefix: str = "") -> None:
        if _PREFIX.fullmatch(prefix) is None:
            raise InvalidOption(
                f"{prefix!r} cannot be the prefix of table names: give at most 30 letters, digits and underscores, and "
                "no digit first"
            )
        self.prefix = prefix
        self.metadata = MetaData()
        # The keys are declared nullable, since a bare `INTEGER PRIMARY KEY` is what the contract's statements say:
        # SQLAlchemy then writes no NOT NULL, and SQLite's `PRAGMA table_info` is equal to the letter. No database lets
        # a NULL in there.
        self.checkpoint = Table(
            f"{prefix}checkpoint",
            self.metadata,
            Column("id", Integer, CheckConstraint("id=1"), primary_key=True, nullable=True, autoincrement=False),
            Column("last", _Big, nullable=False),
            Column("total", _Big, nullable=False),
        )
        self.ledger = Table(
            f"{prefix}ledger",
            self.metadata,
            Column("seq", _Big, primary_key=True, nullable=True, autoincrement=False),
            Column("delta", Integer, nullable=False),
        )
        self.contract = (self.checkpoint, self.ledger)
        self.store = Table(
            f"{prefix}consumer_store",
            self.metadata,
            Column("id", Integer, CheckConstraint("id=1"), primary_key=True, autoincrement=False),
            Column("store_id", Text, nullable=False),
            Column("compatible_from", Text, nullable=False),
            Column("moves", _Big, nullable=False),
        )
        self.stream = Table(
            f"{prefix}consumer_stream",
            self.metadata,
            Column("name", Text, primary_key=True),
            Column("identity", Text),
            Column("begins", Text, nullable=False),  # where it was to begin: `earliest`, a number, …
            Column("last", _Big, nullable=False),
            Column("through", _Big, nullable=False),
            Column("token", Text),  # in hexadecimal digits, as all bytes are here
            Column("records", _Big, nullable=False),
            Column("checksum", Text, nullable=False),
            Column("last_digest", Text),
            Column("last_timestamp_ms", _Big),
            Column("state", Text, nullable=False),
            Column("generation", _Big, nullable=False),
            Column("starts", Integer, nullable=False),
            Column("halted_at", _Big),
            Column("halted_error", Text),
            Column("halted_since_ms", _Big),
            Column("handler", Text),
            Column("committed_ms", _Big),
        )
        self.mark = Table(
            f"{prefix}consumer_mark",
            self.metadata,
            Column("stream", Text, primary_key=True),
            Column("through", _Big, primary_key=True, autoincrement=False),
            Column("records", _Big, nullable=False),
            Column("checksum", Text, nullable=False),
        )
        self.lease = Table(
            f"{prefix}consumer_lease",
            self.metadata,
            Column("source", Text, primary_key=True),
            Column("holder", Text, nullable=False),
            Column("handler", Text),
            Column("since_ms", _Big, nullable=False),
            Column("until_ms", _Big, nullable=False),
        )
        self.override = Table(
            f"{prefix}consumer_override",
            self.metadata,
            Column("stream", Text, primary_key=True),
            Column("number", _Big, primary_key=True, autoincrement=False),  # 1 is the stream's first
            Column("made_ms", _Big, nullable=False),
            Column("made_by", Text, nullable=False),
            Column("what", Text, nullable=False),
            Column("from_last", _Big, nullable=False),
            Column("from_through", _Big, nullable=False),
            Column("to_last", _Big, nullable=False),
            Column("to_through", _Big, nullable=False),
            Column("from_identity", Text),
            Column("to_identity", Text),
            Column("reason", Text, nullable=False),
        )
        self.version = Table(
            f"{prefix}consumer_alembic_version", MetaData(), Column("version_num", String(32), primary_key=True)
        )

    def names(self) -> set[str]:
        """Give the names of all of them, Alembic's included."""
        return {*self.metadata.tables, self.version.name}

    def comparable_metadata(self) -> MetaData:
        """Copy the tables as PostgreSQL reflects them, where keys are NOT NULL: what Alembic compares with there."""
        copy = MetaData()
        for table in self.metadata.sorted_tables:
            for column in table.to_metadata(copy).primary_key:
                column.nullable = False
        return copy


CONTRACT = Tables()
"""The tables under the contract's own names."""


def owns_table(name: str, prefix: str = "") -> bool:
    """Say whether a table of this name belongs to this package.

    For a user's own `env.py`, whose autogenerate would otherwise propose to drop our tables::

        def include_name(name, type_, parent_names):
            return type_ != "table" or not owns_table(name)

    Args:
        name: a table's name without its schema.
        prefix: the prefix that the store was made with.
    """
    return name in Tables(prefix).names()


class FoundColumn(NamedTuple):
    """A column as a database reports it: its name, the type's SQL text, and whether it belongs to the primary key."""

    name: str
    type: str
    is_key: bool


def difference(table: Table, found: Iterable[FoundColumn], dialect: Dialect) -> str | None:
    """Name what keeps an existing table from serving as one of ours.

    Case, NOT NULL and CHECK are not compared: a store that somebody else's solution of the contract made is as good.

    Args:
        table: one of the tables above.
        found: the columns of the existing table of that name.
        dialect: the database's. On SQLite every type with INT in it stores the same integers; elsewhere BIGINT and
            INTEGER differ.

    Returns:
        One sentence that names both shapes, or None where it serves.
    """

    def shape(columns: Iterable[FoundColumn]) -> set[tuple[str, str, bool]]:
        return {
            (name.lower(), "INT" if dialect.name == "sqlite" and "INT" in type_.upper() else type_.upper(), is_key)
            for name, type_, is_key in columns
        }

    found = list(found)
    wanted = [FoundColumn(c.name, c.type.compile(dialect), c.primary_key) for c in table.columns]
    if shape(found) == shape(wanted):
        return None
    return f"a table {table.name} exists with other columns: {_describe(found)}; needed: {_describe(wanted)}"


def _describe(columns: Iterable[FoundColumn]) -> str:
    return ", ".join(f"{name} {type_}{' PRIMARY KEY' if is_key else ''}" for name, type_, is_key in columns)
