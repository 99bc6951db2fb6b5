"""A vending machine's stock in a table of one's own, with SQLAlchemy Core. A delta is what was filled in, or sold.

python stock_core.py tcp://127.0.0.1:7000 sqlite:///stock.db
"""

import asyncio
import sys

from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert, select, update

from consumer import Consumer, Event, Store
from consumer.store import migrate
from consumer.store.databases.choice import make_engine

metadata = MetaData()
stock = Table(
    "stock",
    metadata,
    Column("machine", Integer, primary_key=True),
    Column("pieces", Integer, nullable=False),
    Column("sold", Integer, nullable=False),
)


def handler(connection: Connection, events: list[Event]) -> None:
    """Change the stock, whatever number of events comes at once: one statement for all of them."""
    change = sum(delta for _, delta in events)
    sold = sum(-delta for _, delta in events if delta < 0)
    connection.execute(
        update(stock).where(stock.c.machine == 1).values(pieces=stock.c.pieces + change, sold=stock.c.sold + sold)
    )


def prepare(database: str) -> None:
    """Make the store and, beside it in the same database, the table with its one row."""
    migrate.upgrade(database)
    engine = make_engine(database)
    with engine.begin() as connection:
        metadata.create_all(connection)
        if connection.execute(select(stock)).first() is None:
            connection.execute(insert(stock).values(machine=1, pieces=0, sold=0))
    engine.dispose()


def main(publisher: str, database: str, *, once: bool = False) -> None:
    """Consume until somebody stops it, or until the publisher closes."""
    prepare(database)
    with Store(database) as store:
        asyncio.run(Consumer(publisher, store, handler, once=once).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
