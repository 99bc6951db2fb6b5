"""A batch equals its events applied one by one: the same tables, the same acknowledgements, the same error."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumer.core.events import Events
from consumer.store.transaction import Store

from .helpers import SEQ_MAX, LineByLine, connected, facts, record, stored

BAD_SEQS = [True, False, None, "1", b"1", 1.0, float("nan"), float("inf"), -1, -(2**70), SEQ_MAX + 1, 2**70, (1,), []]
BAD_DELTAS = [True, False, None, "1", b"1", 0.0, 1.0, float("nan"), 1001, -1001, 2**70, (1,), []]

STEPS = st.one_of(
    st.tuples(st.just("next"), st.integers(1, 6)),
    st.tuples(st.just("duplicate"), st.integers(0, 8)),
    st.tuples(st.just("again"), st.integers(1, 6)),
    st.tuples(st.just("conflict"), st.integers(0, 8)),
    st.tuples(st.just("gap"), st.integers(1, 3)),
    st.tuples(st.just("bad seq"), st.sampled_from(BAD_SEQS)),
    st.tuples(st.just("bad delta"), st.sampled_from(BAD_DELTAS)),
    st.tuples(st.just("cut"), st.just(0)),
)


def batches(steps: list[tuple[str, object]]) -> Iterator[list[tuple[object, object]]]:
    """Events that were new, sent again, wrong or out of order at the time, cut where it says so."""
    batch: list[tuple[object, object]] = []
    known: list[int] = []  # the deltas so far; what follows an error in its batch is not applied

    def due(count: int) -> list[tuple[int, int]]:
        return [(seq, seq * 13 % 2001 - 1000) for seq in range(len(known), len(known) + count)]

    is_broken = False
    for kind, value in steps:
        if kind == "cut":
            yield batch
            batch, is_broken = [], False
        elif kind == "next":
            new = due(value)
            batch += new
            known += [] if is_broken else [delta for _, delta in new]
        elif kind == "again":  # those before the cursor once more
            batch += [(seq, known[seq]) for seq in range(max(0, len(known) - value), len(known))]
        elif kind == "duplicate":
            batch += [(seq, known[seq]) for seq in [len(known) - 1 - value] if seq >= 0]
        elif kind == "conflict":
            wrong = [(seq, known[seq] - 1) for seq in [len(known) - 1 - value] if seq >= 0]
            batch += wrong
            is_broken = is_broken or bool(wrong)
        else:
            due_seq = len(known)
            if kind == "gap":
                batch.append((due_seq + value, 1))
            else:
                batch.append((value, 1) if kind == "bad seq" else (due_seq, value))
            is_broken = True
    yield batch


def check(store: Store, url: str, cut: list[list[tuple[object, object]]], *, handled: bool) -> None:
    with connected(url) as connection:
        for statement in ("DELETE FROM ledger", "DELETE FROM seen", "UPDATE checkpoint SET last = -1, total = 0"):
            connection.exec_driver_sql(statement)
    oracle = LineByLine()
    try:
        for batch in cut:
            columns = Events.if_valid(batch)  # as the feed carries them; a user's own are plain tuples
            outcome = store.apply(batch if columns is None or handled else columns, record if handled else None)
            acked, new, error = oracle.apply(batch)
            assert (outcome.acked, outcome.new) == (acked, new)
            assert facts(outcome.error) == facts(error)
            assert (outcome.last, outcome.total) == oracle.state()
        assert stored(url) == oracle.stored(handled=handled)
    finally:
        oracle.close()


@pytest.mark.parametrize("handled", [False, True], ids=["no handler", "handler"])
def test_any_batches_equal_the_contracts_line_by_line(store, url, handled) -> None:
    @settings(
        max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(st.lists(STEPS, max_size=14))
    def any_batches(steps) -> None:
        check(store, url, list(batches(steps)), handled=handled)

    any_batches()


@pytest.mark.parametrize("handled", [False, True], ids=["no handler", "handler"])
@pytest.mark.parametrize("seed", range(3))
def test_large_batches_with_disturbances_equal_it_too(store, url, seed, handled) -> None:
    chance = random.Random(seed)
    known = [(seq, chance.randint(-1000, 1000)) for seq in range(5000)]
    cut, position = [], 0
    while position < len(known):
        ahead = min(len(known), position + chance.choice([1, 2, 499, 500, 501, 999, 1000, 1001, 1700]))
        batch = known[max(0, position - chance.choice([0, 0, 1, 700])) : ahead]
        error = chance.choice([None, None, (ahead + 1, 5), (max(0, position - 1), 1001), ("7", 1)])
        if error is None:
            for _ in range(chance.choice([0, 3])):  # sent again in the same batch, out of order
                original = chance.randrange(len(batch))
                batch.insert(chance.randint(original + 1, len(batch)), batch[original])
        else:
            cut_off = chance.randrange(len(batch) + 1)
            batch.insert(cut_off, error)
            ahead = max([position, *(seq + 1 for seq, _ in batch[:cut_off])])
        cut.append(batch)
        position = ahead
    check(store, url, cut, handled=handled)
    assert len(stored(url).ledger) == len(known)


def test_an_integer_of_another_type_counts_as_its_value(store, url) -> None:
    class Number(int):
        """As an IntEnum or numpy would have it."""

    check(store, url, [[(0, 1), (Number(1), Number(2))], [(1, 2), (2, 3)]], handled=True)
