"""What a store holds, read at one time, for whoever looks at it from outside: nothing is changed, no file is made."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.core.streams import Lease, Override, Stream
from consumer.store import migrate
from consumer.store.databases.choice import database_of
from consumer.store.leases import read_lease
from consumer.store.migrate import Status
from consumer.store.schema import Tables
from consumer.store.statements import LeaseStatements, StreamStatements
from consumer.store.streams import read_stream


@dataclass(frozen=True, slots=True)
class Overview:
    """A store as it is.

    Attributes:
        status: the contract's pair, and where the schema stands.
        store_id: what tells this store from all others; None where its schema is older than that.
        streams: all streams of records, by name.
        leases: which processes consume from which sources, and did.
        seen_ms: when this was read, in milliseconds since 1970 by the database's clock.
    """

    status: Status
    store_id: str | None
    streams: tuple[Stream, ...]
    leases: tuple[Lease, ...]
    seen_ms: int

    def holder(self, stream: str) -> Lease | None:
        """Give the lease of the process that consumes a stream now."""
        return next((lease for lease in self.leases if lease.is_held and lease.source == stream), None)


def overview(url: str, *, prefix: str = "", schema: str | None = None) -> Overview:
    """Look at a store.

    Args:
        url: the database.
        prefix: what the names of its tables begin with.
        schema: where they are, on PostgreSQL; see `Store`.

    Raises:
        NotReady, SchemaMismatch, InvalidURL, InvalidOption, sqlalchemy.exc.DBAPIError: as for `migrate.status`.
    """
    with migrate.looking(url, prefix=prefix, schema=schema) as (connection, status):
        clock = database_of(connection.engine).CLOCK_MS
        seen_ms: int = connection.exec_driver_sql(f"SELECT {clock}").scalar_one()
        if not status.has_streams:
            return Overview(status, None, (), (), seen_ms)
        tables = Tables(prefix)
        statements = StreamStatements(tables, clock)
        store_id = connection.execute(statements.read_store).one().store_id
        streams = tuple(read_stream(row._asdict()) for row in connection.execute(statements.read_streams))
        leases = connection.execute(LeaseStatements(tables, clock).read)
        return Overview(status, store_id, streams, tuple(map(read_lease, leases)), seen_ms)


def history(url: str, *, prefix: str = "", schema: str | None = None) -> list[Override]:
    """Give all that was done to a store's streams by hand, the oldest first.

    Args:
        url: the database.
        prefix: what the names of its tables begin with.
        schema: where they are, on PostgreSQL; see `Store`.

    Raises:
        NotReady, SchemaMismatch, InvalidURL, InvalidOption, sqlalchemy.exc.DBAPIError: as for `migrate.status`.
    """
    with migrate.looking(url, prefix=prefix, schema=schema) as (connection, status):
        if not status.has_streams:
            return []
        statements = StreamStatements(Tables(prefix), database_of(connection.engine).CLOCK_MS)
        rows = connection.execute(statements.read_overrides)
        return [Override(**row._asdict()) for row in rows]
