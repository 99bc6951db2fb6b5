"""A process whose handler forks, inside the store's transaction: `python forking.py URL HOW`.

The child returns from the handler, or raises there, as HOW says, goes on, and ends as any program of Python's does,
which clears all that it has. Before that the handler writes more than SQLite keeps in memory, so that behind what is
committed the log's index already knows of what is not.
"""

# ruff: noqa: T201 - it speaks to its parent
import os
import sys

from sqlalchemy import Connection, insert

from consumer.core.errors import StoreForked
from consumer.core.events import Event
from consumer.store.transaction import Store
from tests.store.helpers import record, seen, stream

EVENTS = 20_000


def handler_that_forks(how: str, connection: Connection, events: list[Event]) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA cache_size=10")
    connection.execute(insert(seen), [{"seq": seq, "delta": delta} for seq, delta in events[:-1]])
    child = os.fork()
    if child == 0:
        if how == "raise":
            raise ValueError
        return
    os.waitpid(child, 0)
    connection.execute(insert(seen), [{"seq": seq, "delta": delta} for seq, delta in events[-1:]])


def main(url: str, how: str) -> None:
    with Store(url) as store:
        store.resume()
        events = stream(EVENTS)
        store.apply(events[:1], record)
        try:
            outcome = store.apply(events[1:], lambda *given: handler_that_forks(how, *given))
        except StoreForked:
            print("the child", flush=True)
        else:
            print(outcome.acked, outcome.error)


if __name__ == "__main__":
    main(*sys.argv[1:])
