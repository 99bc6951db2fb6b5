"""The command. Exit code 0: no difference; 1: at least one; 130: Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from sqlalchemy import create_engine, pool

from consumer.publisher import Appender
from consumer.store import migrate
from tests.conftest import started_postgres
from tests.faults.server import Server

from .chaos import Soak
from .handler import TABLES
from .processes import Place
from .report import Watch, show

INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--db", choices=("sqlite", "postgres"), required=True)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    title = f"soak on {options.db}"
    with prepared(options.db) as (place, server):
        soak = Soak(place, options.seed, server)
        try:
            with Watch(console, title, options.kills) as watch:
                soak.run(options.kills, watch)
        except KeyboardInterrupt:
            console.print("interrupted: nothing was compared")
            return INTERRUPTED
        finally:
            show(console, title, options.seed, soak.result)
        if soak.result.differences:
            console.print(tail(place), highlight=False, markup=False, soft_wrap=True)
        return 1 if soak.result.differences else 0


@contextmanager
def prepared(db: str) -> Iterator[tuple[Place, Server | None]]:
    """A folder, an empty store with the user's tables in it, an empty journal, two ports."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="consumer-soak-")))
        server = Server(stack.enter_context(started_postgres())) if db == "postgres" else None
        url = server.url if server else f"sqlite:///{folder / 'store.db'}"
        migrate.upgrade(url)
        with create_engine(url, poolclass=pool.NullPool).begin() as connection:
            for statement in TABLES:
                connection.exec_driver_sql(statement)
        place = Place(folder, url, *free_ports(2))
        Appender(place.journal).close()
        yield place, server


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


def tail(place: Place) -> str:
    """The ends of all logs, for whoever looks for the reason of a difference."""
    return "\n".join(
        f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        for log in sorted(place.folder.glob("*.log"))
    )


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
