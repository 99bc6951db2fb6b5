"""The product's side of every comparison; the one place here that knows how it is called.

python -m benchmarks.product --port PORT --db URL [--handler]
"""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.peers import SLOTS

if TYPE_CHECKING:
    from sqlalchemy import Connection


def prepare(url: str) -> None:
    """Bring a server's database to head, which `run` does for SQLite alone."""
    if not url.startswith("sqlite"):
        command = [sys.executable, "-m", "consumer", "upgrade", "--db", url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def record_movements(connection: Connection, events: list[tuple[int, int]]) -> None:
    """The handler that peer (e) has too: one bulk insert into the user's own table."""
    connection.exec_driver_sql(
        "INSERT INTO movement VALUES (?, ?, ?)",
        [(seq, seq % SLOTS, delta) for seq, delta in events],
    )


def consume(port: int, url: str, *, handler: bool) -> None:
    """Consume until the publisher closes, as `consumer run` does: what users start is what is measured."""
    sys.argv = ["consumer", "run", f"tcp://127.0.0.1:{port}", "--db", url, "--once"]
    if handler:
        sys.argv += ["--handler", "benchmarks.product:record_movements"]
    runpy.run_module("consumer", run_name="__main__", alter_sys=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--db", required=True)
    parser.add_argument("--handler", action="store_true")
    options = parser.parse_args()
    consume(options.port, options.db, handler=options.handler)


if __name__ == "__main__":
    main()
