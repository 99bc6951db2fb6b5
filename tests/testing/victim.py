"""A process that dies at a crash point, between `begins` and `ended`; at those of an event in its second batch.

python victim.py URL POINT
"""

import signal
import sys

from consumer.core.points import MigrationPoint
from consumer.store import migrate
from consumer.store.transaction import Store
from consumer.testing import crash_at

EVENTS = [(seq, seq - 3) for seq in range(6)]


def handler(connection, events) -> None:
    connection.exec_driver_sql("SELECT 1")


def main(url: str, point: str) -> None:
    if point not in list(MigrationPoint):
        migrate.upgrade(url)
    print("begins", flush=True)  # noqa: T201
    with crash_at(point, signal.SIGKILL, times=1 if point in list(MigrationPoint) else 2):
        migrate.upgrade(url)
        with Store(url) as store:
            store.resume()
            store.apply(EVENTS[:3], handler)
            store.apply(EVENTS[3:], handler)
    print("ended", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
