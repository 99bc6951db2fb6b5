"""Leases of sources: taken, renewed, refused to others, taken over after their time, given back. No test waits."""

import pytest

from consumer.core.points import Point
from consumer.core.streams import Lease
from consumer.store.leases import LEASE_S
from consumer.store.transaction import Store

from .helpers import Running, at, execute, is_sqlite, now_ms, rows, waiting_for

SOURCE, OTHER, ME, YOU = "kafka/orders", "file/a'b%", "me", "you"


def expire(url: str) -> None:
    """Have the time of all leases be over, and have begun long ago."""
    execute(url, "UPDATE consumer_lease SET since_ms = 5, until_ms = 10")


def test_a_free_source_is_taken_by_the_databases_clock(store: Store, url: str) -> None:
    assert store.leases() == []
    before = now_ms(url)
    lease = store.take_lease(SOURCE, ME, "shop:apply")
    after = now_ms(url)
    assert before - 1 <= lease.since_ms <= after + 1
    assert lease == Lease(SOURCE, ME, "shop:apply", lease.since_ms, lease.until_ms, is_held=True)
    assert 0 <= lease.until_ms - lease.since_ms - LEASE_S * 1000 <= after - before + 1
    assert store.leases() == [lease]


def test_a_lease_is_renewed_and_since_when_stays(store: Store, url: str) -> None:
    store.take_lease(SOURCE, ME)
    now = now_ms(url)
    execute(url, f"UPDATE consumer_lease SET since_ms = 5, until_ms = {now + 5000}")
    lease = store.take_lease(SOURCE, ME, "shop:apply")
    assert (lease.holder, lease.handler, lease.since_ms, lease.is_held) == (ME, "shop:apply", 5, True)
    assert lease.until_ms >= now + LEASE_S * 1000 - 1
    assert store.leases() == [lease]


def test_a_lease_that_is_held_is_refused_to_others_and_says_who_has_it(store: Store) -> None:
    held = store.take_lease(SOURCE, ME, "shop:apply")
    assert store.take_lease(SOURCE, YOU, "shop:other") == held
    assert store.leases() == [held]


def test_a_lease_is_taken_over_once_its_time_is_over(store: Store, url: str) -> None:
    store.take_lease(SOURCE, ME, "shop:apply")
    expire(url)
    [over] = store.leases()
    assert (over.holder, over.is_held) == (ME, False)
    lease = store.take_lease(SOURCE, YOU)
    assert (lease.holder, lease.handler, lease.is_held) == (YOU, None, True)
    assert lease.since_ms > 10
    assert store.take_lease(SOURCE, ME) == lease


def test_a_lease_that_was_not_held_meanwhile_begins_anew(store: Store, url: str) -> None:
    store.take_lease(SOURCE, ME)
    expire(url)
    assert store.take_lease(SOURCE, ME).since_ms > 10
    execute(url, "UPDATE consumer_lease SET since_ms = 5")
    store.give_back_lease(SOURCE, ME)
    assert store.take_lease(SOURCE, ME).since_ms > 10


def test_a_lease_that_is_given_back_is_free_at_once(store: Store) -> None:
    store.take_lease(SOURCE, ME)
    store.take_lease(OTHER, ME)
    store.give_back_lease(SOURCE, ME)
    assert [(lease.source, lease.holder, lease.is_held) for lease in store.leases()] == [
        (OTHER, ME, True),
        (SOURCE, ME, False),
    ]
    assert store.take_lease(SOURCE, YOU).holder == YOU


def test_only_its_holder_can_give_a_lease_back(store: Store) -> None:
    held = store.take_lease(SOURCE, ME)
    store.give_back_lease(SOURCE, YOU)
    store.give_back_lease(OTHER, ME)
    assert store.leases() == [held]


def test_sources_have_leases_of_their_own(store: Store) -> None:
    assert [store.take_lease(SOURCE, ME).holder, store.take_lease(OTHER, YOU).holder] == [ME, YOU]
    assert [(lease.source, lease.holder) for lease in store.leases()] == [(OTHER, YOU), (SOURCE, ME)]


@pytest.mark.parametrize("is_known", [True, False])
def test_of_two_that_take_a_free_source_at_once_one_has_it(url: str, is_known: bool, patience_s: float) -> None:
    with Store(url) as first, Store(url) as second:
        if is_known:
            first.take_lease(SOURCE, ME)
            expire(url)
        others: list[Running] = []

        def begin_second() -> None:
            others.append(Running(lambda: second.take_lease(SOURCE, YOU)))
            if not is_sqlite(url):  # SQLite tells nobody who waits
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                assert any(rows(url, waits) for _ in waiting_for(patience_s))

        with at(Point.BEFORE_COMMIT, begin_second):
            assert first.take_lease(SOURCE, ME).holder == ME
        others[0].ended(patience_s)
        assert others[0].error is None
        assert others[0].result.holder == ME
