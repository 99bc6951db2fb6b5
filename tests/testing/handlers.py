"""Handlers for the proof: right ones, and ones that are wrong in different ways."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, insert, pool, text, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from consumer import Event

metadata = MetaData()
sales = Table(
    "sales", metadata, Column("seq", Integer, primary_key=True, autoincrement=False), Column("pieces", Integer)
)
stock = Table(
    "stock", metadata, Column("machine", Integer, primary_key=True), Column("pieces", Integer, nullable=False)
)
mails = Table("mails", metadata, Column("id", Integer, primary_key=True), Column("seq", Integer))


class Base(DeclarativeBase):
    pass


class Shelf(Base):
    __tablename__ = "shelf"
    machine: Mapped[int] = mapped_column(primary_key=True)
    pieces: Mapped[int]


def setup(connection: Connection) -> None:
    """The tables, made anew before each run, and the file outside of the database emptied."""
    metadata.create_all(connection)
    Base.metadata.create_all(connection)
    connection.execute(insert(stock).values(machine=1, pieces=0))
    connection.execute(insert(Shelf).values(machine=1, pieces=0))
    outside().write_text("")


def outside() -> Path:
    """A file, in the place of a mail or a payment."""
    return Path(os.environ["CONSUMER_TEST_OUTSIDE"])


def own_engine():
    """The very database of the proof, over a connection of one's own."""
    return create_engine(os.environ["CONSUMER_TEST_URL"], poolclass=pool.NullPool)


def observe_outside(_: Connection) -> object:
    return outside().read_text().splitlines()


# Right ones.


def core(connection: Connection, events: list[Event]) -> None:
    connection.execute(insert(sales), [{"seq": seq, "pieces": -delta} for seq, delta in events])
    change = sum(delta for _, delta in events)
    connection.execute(update(stock).values(pieces=stock.c.pieces + change))


def orm(connection: Connection, events: list[Event]) -> None:
    with Session(connection) as session, session.begin():
        session.get_one(Shelf, 1).pieces += sum(delta for _, delta in events)


class Handlers:
    @staticmethod
    def inside(connection: Connection, events: list[Event]) -> None:
        core(connection, events)


# Wrong ones.


def tells_the_outside(connection: Connection, events: list[Event]) -> None:
    """A side effect outside of the transaction: it is there even where the transaction is not."""
    core(connection, events)
    with outside().open("a") as file:
        file.writelines(f"sold {seq}\n" for seq, _ in events)


def commits(connection: Connection, events: list[Event]) -> None:
    core(connection, events)
    connection.commit()


def commits_raw(connection: Connection, events: list[Event]) -> None:
    core(connection, events)
    connection.exec_driver_sql("COMMIT")


def connects_itself(connection: Connection, events: list[Event]) -> None:
    """On PostgreSQL it works, and commits what the store may roll back; on SQLite it cannot get the lock."""
    with own_engine().connect() as own:
        if own.dialect.name == "sqlite":
            own.exec_driver_sql("PRAGMA busy_timeout = 0")
        own.execute(insert(mails), [{"seq": seq} for seq, _ in events])
        own.commit()


def throws_dice(connection: Connection, events: list[Event]) -> None:
    connection.execute(insert(sales), [{"seq": seq, "pieces": random.randrange(10**9)} for seq, _ in events])


def counts_batches(connection: Connection, events: list[Event]) -> None:
    """Its effect depends on where batches are cut."""
    connection.execute(update(stock).values(pieces=stock.c.pieces + 1))


def swallows(connection: Connection, events: list[Event]) -> None:
    """A failure half-way ends it early, and nobody hears of it."""
    for seq, delta in events:
        try:
            with connection.begin_nested():
                connection.execute(insert(sales).values(seq=seq, pieces=-delta))
                connection.execute(update(stock).values(pieces=stock.c.pieces + delta))
        except Exception:  # noqa: BLE001
            return


_pieces = 0


def remembers(connection: Connection, events: list[Event]) -> None:
    """It keeps in memory what only the database can keep."""
    global _pieces  # noqa: PLW0603
    _pieces += sum(delta for _, delta in events)
    connection.execute(update(stock).values(pieces=_pieces))


_counted: list[int] = []


def remembers_across_batches(connection: Connection, events: list[Event]) -> None:
    """The same, and clever enough for a batch that comes again: a new process still knows nothing."""
    seqs = dict(events)
    _counted[:] = [*dict.fromkeys([*_counted, *seqs])]
    connection.execute(update(stock).values(pieces=len(_counted)))


def changes_what_it_finds(connection: Connection, events: list[Event]) -> None:
    """It depends on cuts, too, so that the proof is over soon."""
    connection.execute(text("CREATE TABLE IF NOT EXISTS made_by_handler (a INTEGER)"))
    connection.execute(text("UPDATE a_second SET pieces = 0"))
    connection.execute(text("INSERT INTO z_first (name) VALUES ('batch')"))


def fails(connection: Connection, events: list[Event]) -> None:
    core(connection, events)
    if events[-1][0] >= 5:
        raise LookupError("no such machine")


def sleeps(connection: Connection, events: list[Event]) -> None:
    time.sleep(3600)


def kills_itself(connection: Connection, events: list[Event]) -> None:
    os._exit(3)


async def is_a_coroutine(connection: Connection, events: list[Event]) -> None:
    pass


def writes_the_ledger(connection: Connection, events: list[Event]) -> None:
    connection.execute(text("UPDATE ledger SET delta = 0"))
