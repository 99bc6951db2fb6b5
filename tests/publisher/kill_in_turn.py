"""A publisher, a consumer and a writer, killed in turn until it is enough; then what is left is compared.

    python kill_in_turn.py FOLDER ROUNDS SEED

A process of its own that forks: a kill costs milliseconds then, and not the start of an interpreter. It prints one line
of JSON, or fails with what does not hold.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from consumer import open_store, run_client, state
from consumer.publisher import Appender, Limits, Publisher

PATIENCE_S = 30.0
APPEND_EVENTS = (1, 3, 40)
EVENTS_A_ROUND = 60  # what the contract's client, with a transaction for each, can keep up with
KILL_AFTER_S = (0.0, 0.08)


def fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def publish(path: Path, port: int, *, follow: bool) -> None:
    with Publisher(path, port=port, follow=follow, limits=Limits(poll_s=0.001)) as publisher:
        asyncio.run(publisher.run(asyncio.Event()))


def consume(port: int, store: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            asyncio.run(run_client("127.0.0.1", port, store, PATIENCE_S))
        except ConnectionError:
            time.sleep(0.002)  # the publisher is dead just now
        else:
            time.sleep(0.002)


def write(path: Path, reports: int, seed: int, last: int) -> None:
    """Append, up to about event `last`, and report each head once it is on disk."""
    sizes = random.Random(seed)
    with Appender(path, lock_wait_s=PATIENCE_S) as appender:
        while True:
            first = appender.head + 1
            if first <= last:
                count = sizes.choice(APPEND_EVENTS)
                head = appender.append((seq, seq % 2001 - 1000) for seq in range(first, first + count))
                os.write(reports, b"%10d" % head)
            time.sleep(0.01)


def check(path: Path, store: Path, reported: int) -> int:
    """What was reported is there, what is there is consecutive, and the consumer has seen nothing that is gone."""
    with Appender(path) as appender:
        head = appender.head
    events = [tuple(map(int, line.split()[1:])) for line in path.read_text().splitlines()]
    assert events == [(seq, seq % 2001 - 1000) for seq in range(head + 1)], "the journal is not consecutive"
    assert head >= reported, f"{reported} was reported as appended, {head} is the last event"
    con = open_store(store)
    last, total = state(con)
    rows = con.execute("SELECT seq, delta FROM ledger ORDER BY seq").fetchall()
    con.close()
    assert last <= head, f"the consumer has seen event {last}, {head} is the last that there is"
    assert rows == events[: last + 1], "the ledger is not the journal's beginning"
    assert total == sum(delta for _, delta in rows), "the total is not the ledger's"
    return head


def main() -> None:
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    luck = random.Random(seed)
    path, store = folder / "journal", folder / "store.db"
    Appender(path).close()
    open_store(store).close()
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    reads, reports = os.pipe()
    os.set_blocking(reads, False)
    starts: dict[str, Callable[[], int]] = {
        "publisher": lambda: fork(lambda: publish(path, port, follow=True)),
        "consumer": lambda: fork(lambda: consume(port, store)),
        "writer": lambda: fork(lambda: write(path, reports, luck.randrange(2**30), rounds * EVENTS_A_ROUND)),
    }
    running: dict[str, int] = {}

    def end(*names: str) -> None:
        for name in names:
            kill(running.pop(name))

    def begin(*names: str) -> None:
        for name in names:
            running[name] = starts[name]()

    reported = -1
    begin(*starts)
    try:
        for _ in range(rounds):
            for name in ("publisher", "consumer"):
                time.sleep(luck.uniform(*KILL_AFTER_S))
                end(name)
                begin(name)
            time.sleep(luck.uniform(*KILL_AFTER_S))
            end("writer", "consumer")  # both, so that nobody changes what is compared
            with suppress(BlockingIOError):  # it may have come to nothing this time
                reported = int(os.read(reads, 10_000_000)[-10:])
            check(path, store, reported)
            begin("writer", "consumer")
    finally:
        end(*running)
    head = check(path, store, reported)
    last_before = sqlite3.connect(store).execute("SELECT last FROM checkpoint").fetchone()[0]
    publisher = fork(lambda: publish(path, port, follow=False))
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                last, total = asyncio.run(run_client("127.0.0.1", port, store, PATIENCE_S))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    finally:
        kill(publisher)
    assert last == head == check(path, store, reported)
    result = {"rounds": rounds, "events": head + 1, "consumed_under_kills": last_before + 1, "total": total}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
