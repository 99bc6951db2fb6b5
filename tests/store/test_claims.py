"""Where a stream is started, or what keeps it from starting; what is stored of that, and what goes on to hold."""

from collections.abc import Mapping
from typing import Any

import pytest

from consumer.core.errors import (
    ConsumerError,
    CursorAhead,
    HandlerChanged,
    InvalidOption,
    ResyncRequired,
    SourceChanged,
)
from consumer.core.outcome import Halt, RunsOutcome
from consumer.core.points import Point
from consumer.core.runs import Offer, Position
from consumer.core.starts import Earliest, FromNumber, FromTime, Latest, Start
from consumer.store.claims import Claim
from consumer.store.moves import pause, resume, skip
from consumer.store.transaction import Store

from .helpers import Running, at, execute, is_sqlite, rows, waiting_for
from .recording import A, B, C, Kept, claim, halted, keep, of, offer, picked, record, row, run, run_of, stands

AT_TIME = FromTime(1_777_593_600_000)


def positions(claimed: Claim) -> Mapping[str, Position | None]:
    """Where streams are started, if nothing was wrong with any of them."""
    assert (claimed.unsure, claimed.halted) == ({}, ())
    return claimed.positions


# --- streams that are new ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "begins", "through"),
    [
        (Earliest(), "earliest", 9),
        (Latest(), "latest", 100),
        (FromNumber(50), "50", 49),
        (FromNumber(10), "10", 9),
        (AT_TIME, "2026-05-01T00:00:00.000+00:00", 69),
    ],
)
def test_a_new_stream_begins_where_its_user_says(
    store: Store, url: str, start: Start, begins: str, through: int
) -> None:
    claimed = store.claim([Offer(A, "id", 10, 100, since=70)], start)
    assert positions(claimed) == {A: Position(-1, through, None, overlap=False, generation=0)}
    assert picked(url, "begins last through identity state records starts handler committed_ms") == (
        begins,
        -1,
        through,
        "id",
        "running",
        0,
        1,
        None,
        None,
    )


def test_where_a_stream_begins_is_decided_once(store: Store, url: str) -> None:
    store.claim([Offer(A, "id", 0, 100)], Latest())
    again = store.claim([Offer(A, "id", 0, 200)], FromNumber(7))
    assert positions(again) == {A: Position(-1, 100, None, overlap=False, generation=0)}
    assert picked(url, "begins through") == ("latest", 100)


def test_a_stream_is_started_at_its_last_record(store: Store) -> None:
    claim(store, A, B)
    store.apply_runs([run_of([record(A, 3)], after=-1, token=b"end"), run(A, 3, [], 8)])
    assert positions(claim(store, A, B)) == {
        A: Position(3, 8, b"end", overlap=True, generation=0),
        B: Position(-1, -1, None, overlap=False, generation=0),
    }


def test_a_source_without_times_cannot_begin_at_one(store: Store, url: str) -> None:
    with pytest.raises(InvalidOption, match="cannot begin at a time"):
        store.claim([offer(A)], AT_TIME)
    assert rows(url, "SELECT * FROM consumer_stream") == []
    store.claim([offer(A)])
    assert positions(store.claim([offer(A)], AT_TIME))[A] is not None  # it has begun already


def test_a_new_stream_that_cannot_begin_there_is_halted_and_keeps_its_beginning(store: Store, url: str) -> None:
    claimed = store.claim([Offer(A, "id", 10, 100), Offer(B, "id", 0, 3)], FromNumber(5))
    assert claimed.positions == {A: None, B: None}
    assert [(halt.stream, halt.at, type(halt.error)) for halt in claimed.halted] == [
        (A, None, ResyncRequired),
        (B, None, CursorAhead),
    ]
    assert picked(url, "begins through state starts") == ("5", 4, "halted", 0)
    assert positions(store.claim([Offer(A, "id", 5, 100)]))[A] == Position(-1, 4, None, overlap=False, generation=0)


def test_many_streams_are_made_in_the_order_of_their_names(store: Store, url: str) -> None:
    """Two processes that make the same ones would otherwise wait for each other."""
    offers = [offer(name, 0, 3, head_is_firm=False) for name in (C, A, B)]
    assert store.claim(offers, FromNumber(9)).unsure.keys() == {A, B, C}  # so the rows are as they were made
    assert rows(url, f"SELECT name FROM consumer_stream ORDER BY {'rowid' if is_sqlite(url) else 'ctid'}") == [
        (A,),
        (B,),
        (C,),
    ]


def test_no_offer_is_no_claim(store: Store) -> None:
    assert store.claim([]) == Claim()


# --- identity and extent -------------------------------------------------------------------------


def test_an_identity_is_bound_to_when_it_is_first_known(store: Store, url: str) -> None:
    store.claim([offer(A, identity=None)])
    assert row(url)["identity"] is None
    store.claim([offer(A, identity="first")])
    assert row(url)["identity"] == "first"
    assert positions(store.claim([offer(A, identity=None)]))[A] is not None
    assert row(url)["identity"] == "first"


REFUSED: list[tuple[Offer, ConsumerError]] = [
    (offer(A, 100, identity="other"), SourceChanged(A, "id", "other")),
    (offer(A, 7), ResyncRequired(5, 7, stream=A)),
    (offer(A, 0, 4), CursorAhead(5, 4, stream=A)),
    (offer(A, 0, -1), CursorAhead(5, -1, stream=A)),
]


@pytest.mark.parametrize(("offered", "error"), REFUSED, ids=[type(error).__name__ for _, error in REFUSED])
def test_a_stream_that_cannot_be_started_is_halted_alone(
    store: Store, url: str, offered: Offer, error: ConsumerError
) -> None:
    claim(store, A, B)
    store.apply_runs([run(A, -1, [5])])
    claimed = store.claim([offered, offer(B)])
    assert claimed.positions == {A: None, B: Position(-1, -1, None, overlap=False, generation=0)}
    [halt] = claimed.halted
    assert (halt.stream, halt.at, type(halt.error), str(halt.error)) == (A, None, type(error), str(error))
    assert halted(url)[:3] == ("halted", None, str(error))
    assert picked(url, "identity starts") == ("id", 0)
    assert row(url, B)["starts"] == 2

    execute(url, "UPDATE consumer_stream SET halted_since_ms = 5")
    store.claim([offered])
    assert row(url)["halted_since_ms"] == 5


@pytest.mark.parametrize("offered", [offer(A, 5), offer(A, 6), offer(A, 0, 5)])
def test_a_stream_that_has_all_that_is_needed_is_started(store: Store, offered: Offer) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [5])])
    assert positions(store.claim([offered]))[A] == Position(5, 5, None, overlap=offered.first <= 5, generation=0)


def test_a_head_that_is_not_firm_leaves_a_stream_unsure(store: Store, url: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [5])])
    before = row(url)
    claimed = store.claim([offer(A, 0, 4, head_is_firm=False)])
    assert (claimed.positions, claimed.halted) == ({A: None}, ())
    assert [(name, error.last, error.head) for name, error in claimed.unsure.items()] == [(A, 5, 4)]
    assert row(url) == before
    assert positions(store.claim([offer(A, 0, 5, head_is_firm=False)]))[A] is not None


# --- state ---------------------------------------------------------------------------------------


def test_a_halted_stream_is_placed_again_and_stays_halted_until_a_commit(store: Store, url: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [0, 1])], Kept([(A, 1)]))
    before = halted(url)
    assert positions(claim(store, A)) == {A: Position(0, 0, None, overlap=True, generation=0)}
    assert halted(url) == before
    assert store.apply_runs([run(A, -1, [0, 1])], keep) == RunsOutcome({A: 1}, 1, 1)
    assert row(url)["state"] == "running"


def test_a_paused_stream_is_not_placed(store: Store, url: str) -> None:
    claim(store, A, B)
    store.move([pause(A, "why", "me")])
    before = row(url)
    assert positions(store.claim([offer(A, 0, -5, "other"), offer(B)]))[A] is None
    assert row(url) == before
    store.move([resume(A, "why", "me")])
    assert positions(claim(store, A))[A] == Position(-1, -1, None, overlap=False, generation=2)


def test_starts_are_counted_until_something_is_committed(store: Store, url: str) -> None:
    for starts in (1, 2, 3):
        claim(store, A)
        assert row(url)["starts"] == starts
    store.apply_runs([run(A, -1, [], 3)])
    assert row(url)["starts"] == 0
    claim(store, A)
    store.apply_runs([run(A, 3, [], 3)])  # nothing new
    assert row(url)["starts"] == 1


def test_after_a_skip_a_stream_starts_behind_the_record(store: Store, url: str) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [0, 1, 2])], Kept([(A, 1)]))
    store.move([skip(A, 1, 0, "why", "me")])
    assert positions(claim(store, A)) == {A: Position(1, 1, None, overlap=False, generation=1)}
    # A source that gives the record all the same is not contradicted: what it holds was never compared with anything.
    handler = Kept([(A, 1)])
    assert store.apply_runs([run(A, 0, [1, 2], generation=1)], handler) == RunsOutcome({A: 2}, 1, 1)
    assert handler.calls == [of(A, 2)]
    assert positions(claim(store, A)) == {A: Position(2, 2, None, overlap=True, generation=1)}


# --- handlers ------------------------------------------------------------------------------------


def test_another_handler_is_refused_and_nothing_changed(store: Store, url: str) -> None:
    claim(store, A, handler="shop:apply")
    with pytest.raises(HandlerChanged) as raised:
        store.claim([offer(B), offer(A)], handler="shop:other")
    assert (raised.value.stream, raised.value.known, raised.value.given) == (A, "shop:apply", "shop:other")
    assert [picked(url, "name handler starts")] == [(A, "shop:apply", 1)]
    assert len(store.streams()) == 1


def test_a_handler_is_known_once_there_is_one(store: Store, url: str) -> None:
    seen = []
    for given in (None, "shop:apply", None, "shop:apply"):
        claim(store, A, handler=given)
        seen.append(row(url)["handler"])
    assert seen == [None, "shop:apply", "shop:apply", "shop:apply"]
    claim(store, A, handler="shop:other", takes_over=True)
    assert row(url)["handler"] == "shop:other"
    claim(store, A, takes_over=True)
    assert row(url)["handler"] == "shop:other"


# --- several processes ---------------------------------------------------------------------------


def test_two_that_claim_a_new_stream_at_once_begin_at_the_same_number(url: str, patience_s: float) -> None:
    with Store(url) as first, Store(url) as second:
        others: list[Running] = []

        def begin_second() -> None:
            others.append(Running(lambda: second.claim([Offer(A, "id", 0, 200), offer(B)], Latest(), handler="h")))
            if not is_sqlite(url):  # SQLite tells nobody who waits
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                assert any(rows(url, waits) for _ in waiting_for(patience_s))

        with at(Point.BEFORE_COMMIT, begin_second):
            assert positions(first.claim([Offer(A, "id", 0, 100)], Latest()))[A] is not None
        others[0].ended(patience_s)
        assert others[0].error is None
        assert others[0].result.positions[A] == Position(-1, 100, None, overlap=False, generation=0)
    assert picked(url, "through begins starts handler") == (100, "latest", 2, "h")
    assert stands(url, B) == [(-1, 2**40, "running")]


@pytest.mark.parametrize("generations", [{A: 0}, {A: 1}])
def test_a_halt_holds_for_the_placement_that_it_was_found_in(
    store: Store, url: str, generations: dict[str, Any]
) -> None:
    claim(store, A)
    store.move([resume(A, "why", "me")])
    store.halt([Halt(A, None, ValueError("no"))], generations)
    assert row(url)["state"] == ("halted" if generations == {A: 1} else "running")
