"""The waits between tries, as every consumer has them."""

import asyncio
import random
from itertools import islice

from consumer.observe.observations import Retrying
from consumer.runtime import supervision
from consumer.testing.script.conversation import Session


def test_the_waits_are_chosen_by_chance_within_bounds_that_grow() -> None:
    """Many consumers that have lost their publisher together do not come back together."""
    tries = [list(islice(supervision.backoff(), 8)) for _ in range(200)]
    for waits_s, limit_s in zip(zip(*tries, strict=True), [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert all(0.1 <= wait_s <= limit_s for wait_s in waits_s)
        assert len(set(waits_s)) > 100
        assert max(waits_s) > limit_s / 2  # of two hundred one is, unless chance is broken


def test_nobody_elses_seed_makes_consumers_wait_alike() -> None:
    """As test frameworks set one, for the generator that a whole program shares."""
    random.seed(0)
    first = list(islice(supervision.backoff(), 8))
    random.seed(0)
    assert list(islice(supervision.backoff(), 8)) != first


async def test_what_is_said_to_be_waited_is_what_is_waited(sqlite_store, serve, run, monkeypatch):
    async def close(session: Session) -> None:
        session.close()

    asked_s: list[float] = []
    sleep = asyncio.sleep

    async def note(delay_s: float) -> None:
        asked_s.append(delay_s)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    async with serve(close) as publisher, run(publisher.url, sqlite_store) as running:
        await running.watch.until(Retrying, 5)
        said_s = [retrying.wait_s for retrying in running.watch.of(Retrying)]
        await publisher.session(5)
    assert len(set(said_s)) == 5
    assert [delay_s for delay_s in asked_s if delay_s in said_s] == said_s
