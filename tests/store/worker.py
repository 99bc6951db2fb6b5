"""A consumer without a network in a process of its own: it applies the same events as its parent, and may die on the way.

    python -m tests.store.worker URL COUNT BATCH [POINT TIMES]     SIGKILL where the point is reached for the TIMES-th time

It says `ready` when it could begin, waits for a line, and then says after each batch how far it would acknowledge.
"""

# ruff: noqa: T201 - it speaks to its parent
import os
import signal
import sys

from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert

from consumer.core import points
from consumer.core.points import Point
from consumer.store.retry import Patience, patience
from consumer.store.transaction import Store

users = MetaData()
seen = Table("seen", users, Column("seq", Integer, primary_key=True, autoincrement=False), Column("delta", Integer))


def record(connection: Connection, events: list[tuple[int, int]]) -> None:
    connection.execute(insert(seen), [{"seq": seq, "delta": delta} for seq, delta in events])


def die_at(point: Point, times: int) -> None:
    left = times

    def reach(here: Point) -> None:
        nonlocal left
        left -= here is point
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    points.reach = reach


def consume(store: Store, events: list[tuple[int, int]], batch: int) -> None:
    """Go on from the cursor to the end, as a session does: what passes by itself begins anew from the cursor."""
    last = store.resume()
    while last < len(events) - 1:
        try:
            outcome = store.apply(events[last + 1 : last + 1 + batch], record)
            assert outcome.error is None, outcome.error
        except Exception as error:
            if patience(error) is not Patience.FOREVER:
                raise
            last = store.resume()
        else:
            last += outcome.acked
            print(last, flush=True)


def main(url: str, count: str, batch: str, point: str = "", times: str = "1") -> None:
    with Store(url) as store:
        store.resume()
        if point:
            die_at(Point(point), int(times))
        print("ready", flush=True)
        sys.stdin.readline()
        consume(store, [(seq, seq * 7 % 2001 - 1000) for seq in range(int(count))], int(batch))


if __name__ == "__main__":
    main(*sys.argv[1:])
