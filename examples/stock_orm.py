"""A vending machine's stock in a table of one's own, with an ORM session. A delta is what was filled in, or sold.

python stock_orm.py tcp://127.0.0.1:7000 sqlite:///stock.db
"""

import asyncio
import sys

from sqlalchemy import Connection
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from consumer import Consumer, Event, Store
from consumer.store import migrate
from consumer.store.databases.choice import make_engine


class Base(DeclarativeBase):
    """The user's own models."""


class Stock(Base):
    """One machine's stock."""

    __tablename__ = "stock"
    machine: Mapped[int] = mapped_column(primary_key=True)
    pieces: Mapped[int] = mapped_column(default=0)
    sold: Mapped[int] = mapped_column(default=0)


def handler(connection: Connection, events: list[Event]) -> None:
    """Change the stock. The session's commit ends a savepoint of its own; without it nothing of it would stay."""
    with Session(connection) as session, session.begin():
        stock = session.get_one(Stock, 1)
        for _, delta in events:
            stock.pieces += delta
            stock.sold += max(0, -delta)


def prepare(database: str) -> None:
    """Make the store and, beside it in the same database, the table with its one row."""
    migrate.upgrade(database)
    engine = make_engine(database)
    with Session(engine) as session, session.begin():
        Base.metadata.create_all(session.connection())
        if session.get(Stock, 1) is None:
            session.add(Stock(machine=1))
    engine.dispose()


def main(publisher: str, database: str, *, once: bool = False) -> None:
    """Consume until somebody stops it, or until the publisher closes."""
    prepare(database)
    with Store(database) as store:
        asyncio.run(Consumer(publisher, store, handler, once=once).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
