"""Many processes on one store at the same moment.

    python racers.py open FOLDER PROCESSES FILES     each opens every new file, and prints its state
    python racers.py apply PATH PROCESSES EVENTS     each applies all events, and prints which were new to it

The package is imported once and the processes are forked from there, so that they start within the same
millisecond; each waits for the starting signal, the closing of a pipe.
"""

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from consumer import apply_event, open_store, state


def race(processes: int, run: Callable[[], str]) -> None:
    """Run it in all of them from one signal on; their answers are printed, and one that fails fails all."""
    ready, start = os.pipe()
    answers, answer = os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(start)
                os.read(ready, 1)
                os.write(answer, run().encode() + b"\n")  # short enough to be atomic
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    os.close(start)
    os.close(ready)
    os.close(answer)
    with os.fdopen(answers) as lines:
        sys.stdout.write(lines.read())
    sys.stdout.flush()
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    if failed:
        sys.exit(f"{failed} of {processes} failed")


def open_one(path: str) -> str:
    con = open_store(path)
    try:
        return str(state(con))
    finally:
        con.close()


def apply_all(path: str, events: int) -> str:
    """Busy is no verdict: it is tried again until there is one."""
    con = open_store(path)
    new = []
    for seq in range(events):
        while True:
            try:
                if apply_event(con, seq, seq - 10):
                    new.append(seq)
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
    con.close()
    return ",".join(map(str, new))


def main() -> None:
    what, where, processes, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if what == "open":
        for number in range(count):
            path = str(Path(where, f"{number}.db"))
            race(processes, lambda path=path: open_one(path))
    else:
        race(processes, lambda: apply_all(where, count))


if __name__ == "__main__":
    main()
