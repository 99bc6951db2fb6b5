"""A consumer of streams without a source, in a process of its own. It does one thing, and may die on the way.

    python -m tests.store.streams_worker URL ACTION [POINT]     SIGKILL where the point is reached

It says `ready` when it could begin, waits for a line, and then does what ACTION names.
"""

# ruff: noqa: T201 - it speaks to its parent
import os
import signal
import sys
from collections.abc import Callable

from consumer.core import points
from consumer.core.errors import HandlerFailed
from consumer.core.outcome import Halt
from consumer.core.points import Point
from consumer.core.starts import Latest
from consumer.store.moves import Move, skip
from consumer.store.transaction import Store

from .recording import A, B, C, claim, keep, offer, run

COUNT, SIZE = 240, 7
"""How many records a stream has where two processes consume it, and how many are in a run."""


def apply(store: Store) -> None:
    store.apply_runs([run(A, 0, [1, 2]), run(B, -1, [0]), run(A, 2, [], 9)], keep)


def place(store: Store) -> None:
    store.claim([offer(A, 5), offer(B, identity="other"), offer(C, 0, 10)], Latest(), handler="shop:apply")


def halt(store: Store) -> None:
    store.halt([Halt(A, 1, HandlerFailed(1, "no", stream=A)), Halt(B, None, ValueError("no"))], {A: 0, B: 0})


def move(store: Store) -> None:
    store.move(
        [skip(A, 1, 0, "why", "me"), Move(B, "replay", "why", "me", to=7)],
        lambda connection, names: connection.exec_driver_sql("INSERT INTO seen VALUES (1, 1)") and None,
    )


def take(store: Store) -> None:
    store.take_lease("mem/", "me", "shop:apply")


def consume(store: Store) -> None:
    """Consume two streams to their end, from wherever they stand."""
    while True:
        positions = claim(store, A, B).positions
        runs = []
        for name, position in positions.items():
            assert position is not None
            seqs = range(max(position.start, 0), min(position.through + 1 + SIZE, COUNT))
            if position.through < COUNT - 1:
                runs.append(run(name, seqs[0] - 1, seqs))
        if not runs:
            return
        outcome = store.apply_runs(runs, keep)
        assert (outcome.error, outcome.halted) == (None, ())
        print(outcome.new, flush=True)


ACTIONS: dict[str, Callable[[Store], None]] = {
    "apply": apply,
    "claim": place,
    "halt": halt,
    "move": move,
    "take": take,
    "consume": consume,
}


def die_at(point: Point) -> None:
    def reach(here: Point) -> None:
        if here is point:
            os.kill(os.getpid(), signal.SIGKILL)

    points.reach = reach


def main(url: str, action: str, point: str = "") -> None:
    with Store(url) as store:
        store.resume()
        if point:
            die_at(Point(point))
        print("ready", flush=True)
        sys.stdin.readline()
        ACTIONS[action](store)
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
