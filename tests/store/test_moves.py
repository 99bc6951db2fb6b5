"""What is done to streams by hand: compared with what is expected, on record, in one transaction, and heeded by all."""

from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from consumer.core.errors import HandlerFailed, NotAsExpected, NotNext, UnknownStream
from consumer.core.outcome import RunsOutcome
from consumer.core.points import Point
from consumer.core.records import NUMBER_MAX
from consumer.core.streams import Override, StreamState
from consumer.store.moves import Move, pause, resume, skip, trust
from consumer.store.transaction import Store

from .helpers import Running, at, execute, is_sqlite, kept, now_ms, rows, waiting_for
from .recording import A, B, C, Kept, claim, halted, handled, keep, of, offer, picked, record, row, run, run_of

ALL = (
    "identity last through token last_digest last_timestamp_ms state generation starts halted_at halted_error "
    "halted_since_ms"
)


@pytest.fixture
def at_5(store: Store, url: str) -> str:
    """Three streams. The first has come to 5, with nothing up to 9, is halted at 10 and was started twice since."""
    claim(store, A, B, C)
    store.apply_runs([run_of([record(A, 5, timestamp_ms=7)], after=-1, token=b"t"), run(A, 5, [], 9)])
    store.apply_runs([run(A, 9, [10, 11])], Kept([(A, 10)]))
    claim(store, A)
    claim(store, A)
    return url


MOVES: list[tuple[Move, tuple[Any, ...]]] = [
    (pause(A, "why", "me"), ("id", 5, 9, "74", "kept", 7, "paused")),
    (resume(A, "why", "me"), ("id", 5, 9, "74", "kept", 7, "running")),
    (skip(A, 10, 5, "why", "me"), ("id", 10, 10, None, None, None, "running")),
    (trust(A, None, 5, "why", "me"), (None, 5, 9, None, None, None, "running")),
    (trust(A, 100, 5, "why", "me"), (None, 99, 99, None, None, None, "running")),
    (trust(A, 0, 5, "why", "me"), (None, -1, -1, None, None, None, "running")),
    (Move(A, "replay", "why", "me", to=2), ("id", 2, 2, None, None, None, "running")),
    (Move(A, "rebind", "why", "me", identity="new"), ("new", 5, 9, None, None, None, "running")),
    (Move(A, "stop", "why", "me", to=9, state=StreamState.PAUSED), ("id", 9, 9, None, None, None, "paused")),
]


@pytest.mark.parametrize(("move", "after"), MOVES, ids=[f"{move.what} {move.to}" for move, _ in MOVES])
def test_a_move_changes_what_it_says_and_clears_what_halted_the_stream(
    store: Store, at_5: str, move: Move, after: tuple[Any, ...]
) -> None:
    others, digest = (row(at_5, B), row(at_5, C)), row(at_5)["last_digest"]
    kept_as_is = "name begins records checksum handler committed_ms"
    before = picked(at_5, kept_as_is)
    made_after = now_ms(at_5)
    [override] = store.move([move])

    wanted = tuple(digest if value == "kept" else value for value in after)
    assert picked(at_5, ALL) == (*wanted, 1, 0, None, None, None)
    assert picked(at_5, kept_as_is) == before
    assert (row(at_5, B), row(at_5, C)) == others
    assert made_after <= override.made_ms <= now_ms(at_5)
    identity, last, through = after[:3]
    assert override == Override(A, 1, override.made_ms, "me", move.what, 5, 9, last, through, "id", identity, "why")
    assert store.overrides() == [override]
    assert [tuple(each) for each in rows(at_5, "SELECT * FROM consumer_override")] == [tuple(asdict(override).values())]
    assert store.moves() == 1


def test_each_move_of_a_stream_has_its_number_and_counts(store: Store, at_5: str) -> None:
    store.move([pause(A, "1", "me"), resume(B, "1", "me")])
    assert store.moves() == 2
    store.move([resume(A, "2", "me")])
    store.move([Move(A, "replay", "3", "you", to=0)])
    assert [
        (each.stream, each.number, each.what, each.reason, each.made_by)
        for each in sorted(store.overrides(), key=lambda each: (each.stream, each.number))
    ] == [
        (A, 1, "pause", "1", "me"),
        (A, 2, "resume", "2", "me"),
        (A, 3, "replay", "3", "you"),
        (B, 1, "resume", "1", "me"),
    ]
    assert picked(at_5, "generation") == (3,)
    assert store.moves() == 4


def test_what_was_done_is_given_in_its_order(store: Store, at_5: str) -> None:
    for stream in (B, A, B):
        store.move([pause(stream, "why", "me")])
    execute(at_5, "UPDATE consumer_override SET made_ms = 1 WHERE number = 2")
    execute(at_5, "UPDATE consumer_override SET made_ms = 2 WHERE number = 1")
    assert [(each.stream, each.number) for each in store.overrides()] == [(B, 2), (A, 1), (B, 1)]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["", "  ", "\n"])
def test_a_move_needs_a_reason(reason: str) -> None:
    with pytest.raises(ValueError, match="a reason is needed"):
        pause(A, reason, "me")


@pytest.mark.parametrize("to", [-2, NUMBER_MAX + 1])
def test_a_number_that_no_record_can_have_is_refused(to: int) -> None:
    with pytest.raises(ValueError, match=f"the number {to}"):
        Move(A, "replay", "why", "me", to=to)


@pytest.mark.parametrize("to", [-1, NUMBER_MAX])
def test_the_first_and_the_last_number_can_be_moved_to(store: Store, at_5: str, to: int) -> None:
    store.move([Move(A, "replay", "why", "me", to=to)])
    assert picked(at_5, "last through") == (to, to)


BAD_MOVES: list[tuple[Move, Exception]] = [
    (pause("mem/unknown", "why", "me"), UnknownStream("mem/unknown")),
    (skip(A, 10, 4, "why", "me"), NotAsExpected(A, 4, 5)),
    (skip(A, 10, 9, "why", "me"), NotAsExpected(A, 9, 5)),
    (trust(A, None, 4, "why", "me"), NotAsExpected(A, 4, 5)),
    (skip(A, 11, 5, "why", "me"), NotNext(A, "11", 10, 10)),
    (skip(A, 9, 5, "why", "me"), NotNext(A, "9", 10, 10)),
    (skip(B, 1, -1, "why", "me"), NotNext(B, "1", 0, None)),
]


@pytest.mark.parametrize(("move", "error"), BAD_MOVES, ids=[str(error)[:40] for _, error in BAD_MOVES])
def test_a_move_that_cannot_be_made_changes_nothing_of_any_stream(
    store: Store, at_5: str, move: Move, error: Exception
) -> None:
    before = [row(at_5, name) for name in (A, B, C)]
    for among in ([move], [pause(C, "why", "me"), move]):
        with pytest.raises(type(error)) as raised:
            store.move(among)
        assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))
        assert [row(at_5, name) for name in (A, B, C)] == before
        assert (store.overrides(), store.moves()) == ([], 0)


def test_a_stream_is_moved_once_in_a_transaction(store: Store, at_5: str) -> None:
    with pytest.raises(ValueError, match=f"stream {A} twice"):
        store.move([pause(A, "why", "me"), pause(B, "why", "me"), resume(A, "why", "me")])
    assert store.overrides() == []


def test_no_move_at_all_changes_nothing(store: Store, at_5: str) -> None:
    assert store.move([]) == []
    assert store.moves() == 0


# --- skip ----------------------------------------------------------------------------------------


def test_a_skip_passes_the_record_that_a_stream_is_halted_at_even_where_that_is_not_the_next(
    store: Store, url: str
) -> None:
    claim(store, A)
    store.apply_runs([run(A, -1, [3], 9)])
    store.apply_runs([run_of([record(A, 3, b"other")], after=2)])
    assert halted(url)[:2] == ("halted", 3)
    store.move([skip(A, 3, 3, "the new history is right", "me")])
    assert picked(url, "last through state") == (3, 3, "running")


def test_a_skip_leaves_a_paused_stream_paused(store: Store, at_5: str) -> None:
    store.move([pause(A, "why", "me")])
    store.move([skip(A, 10, 5, "why", "me")])
    assert picked(at_5, "last state") == (10, "paused")


@pytest.mark.parametrize(
    ("text", "stored"), [("a\0b\ud800", "a\\x00b\\ud800"), ("a\nb 'c' \"d\" 100% ü🎉", "a\nb 'c' \"d\" 100% ü🎉")]
)
def test_reasons_and_names_may_have_any_characters(store: Store, at_5: str, text: str, stored: str) -> None:
    store.move([pause(A, text, text)])
    assert [(each.reason, each.made_by) for each in store.overrides()] == [(stored, stored)]


# --- a function of the user's --------------------------------------------------------------------


def test_a_function_of_the_users_is_called_in_the_same_transaction(store: Store, at_5: str) -> None:
    given: list[list[str]] = []

    def call(connection: Connection, names: list[str]) -> None:
        given.append(names)
        connection.execute(insert(kept), [{"stream": A, "seq": 10, "place": 1, "data": b"by hand"}])
        found = connection.exec_driver_sql("SELECT last FROM consumer_stream WHERE name = 'mem/a'").scalar_one()
        assert found == 10

    store.move([skip(A, 10, 5, "why", "me"), pause(C, "why", "me")], call)
    assert given == [[A, C]]
    assert handled(at_5) == of(A, 10)


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("no")], ids=repr)
def test_where_the_function_fails_nothing_is_changed(store: Store, at_5: str, error: Exception) -> None:
    before = row(at_5)

    def call(connection: Connection, names: list[str]) -> None:
        connection.execute(insert(kept), [{"stream": A, "seq": 10, "place": 1, "data": b"by hand"}])
        raise error

    with pytest.raises(HandlerFailed, match=f"the move of {A}, {C}: {type(error).__name__}: .*no'?;") as raised:
        store.move([skip(A, 10, 5, "why", "me"), pause(C, "why", "me")], call)
    assert raised.value.__cause__ is error
    assert (row(at_5), row(at_5, C)["state"], handled(at_5), store.overrides()) == (before, "running", [], [])


# --- while somebody consumes ---------------------------------------------------------------------


def test_a_move_waits_for_a_batch_in_flight_and_holds_for_the_next_one(url: str, patience_s: float) -> None:
    with Store(url) as store, Store(url) as operator:
        claim(store, A, B)
        others: list[Running] = []

        def move() -> None:
            others.append(Running(lambda: operator.move([Move(A, "replay", "why", "me", to=0)])))
            if not is_sqlite(url):  # SQLite tells nobody who waits
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                assert any(rows(url, waits) for _ in waiting_for(patience_s))

        with at(Point.BEFORE_COMMIT, move):
            assert store.apply_runs([run(A, -1, [0, 1, 2])], keep).through == {A: 2}
        others[0].ended(patience_s)
        [override] = others[0].result
        assert (override.from_last, override.to_last) == (2, 0)
        outcome = store.apply_runs([run(A, 2, [3]), run(B, -1, [0])], keep)
        assert outcome == RunsOutcome({B: 0}, 1, stale=frozenset({A}))
        position = claim(store, A).positions[A]
        assert position is not None
        assert (position.last, position.start, position.generation) == (0, 1, 1)


def test_an_expectation_is_compared_under_the_lock(url: str, patience_s: float) -> None:
    with Store(url) as store, Store(url) as operator:
        claim(store, A)
        others: list[Running] = []
        with at(
            Point.BEFORE_COMMIT,
            lambda: others.append(Running(lambda: operator.move([skip(A, 0, -1, "why", "me")]))),
        ):
            store.apply_runs([run(A, -1, [0])])
        others[0].ended(patience_s)
        assert isinstance(others[0].error, NotAsExpected)
    assert picked(url, "last generation") == (0, 0)


def test_moves_are_counted_for_those_who_look(url: str) -> None:
    with Store(url) as store, Store(url) as operator:
        claim(store, A)
        assert store.moves() == 0
        operator.move([pause(A, "why", "me")])
        assert store.moves() == 1
        store.apply_runs([run(A, -1, [0])])
        store.claim([offer(A)])
        assert store.moves() == 1
