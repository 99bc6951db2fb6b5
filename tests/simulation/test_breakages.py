"""The simulation finds what it is there to find: for each breakage the few steps that show it, and what notices.

The same steps are in order where nothing is broken. `python -m tests.simulation --breakages` shows besides that random
histories come upon each of them; a history that has found a fault of ours is kept here too.
"""

from collections.abc import Callable
from operator import methodcaller

import pytest

from consumer.core.points import Point
from consumer.testing import Moment

from .breakages import ALL
from .machine import Simulation
from .network import Break
from .publisher import Lie

Step = Callable[[Simulation], None]

do = methodcaller


def begin(**differently) -> Step:
    usual = {"honours_resume": True, "window": 100, "batch": 100, "pace_s": 0.03, "consumers": 1, "more": [1, 2]}
    return do("begin", **usual | differently)


def kill(point: Point | Moment, **differently) -> Step:
    usual = {"who": 0, "times": 1, "kept_bytes": 0, "with_power": False, "more": [3, 4]}
    return do("kill", point=point, **usual | differently)


def fail(point: Point | Moment) -> Step:
    return do("fail_in_database", who=0, point=point, times=1, more=[3, 4])


def lie(lie: Lie, more: list[int]) -> Step:
    return do("lie", lie=lie, more=more)


def break_connection(how: Break, after_bytes: int = 0) -> Step:
    return do("break_connection", how=how, is_down=True, after_bytes=after_bytes, more=[3, 4])


SLOW_DATABASE = do("weather", delay_s=0.001, cuts=[10], database_delay_s=0.05)

DURABLE = "the durable cursor is"
BROUGHT = "goes to a connection that brought"

BOTH_WAYS_SILENT = [
    begin(honours_resume=False, pace_s=0.002, more=[0] * 16),
    do("weather", delay_s=0.0, cuts=[1], database_delay_s=0.05),
    do("break_connection", how=Break.SILENCE, is_down=False, after_bytes=0, more=[]),
]
"""Reading and the acknowledgements that nobody takes have the same timeout, which expires in the same turn. Found by
seed 200072: the consumer waited for ever."""

SHOWN: dict[str, tuple[str, list[Step]]] = {
    "ack_before_commit": (f"ACK 0, and {DURABLE} -1", [begin()]),
    "ack_all_of_a_batch_that_was_committed_in_part": (BROUGHT, [begin(), lie(Lie.CONFLICT, [3])]),
    "ack_to_a_connection_that_did_not_bring_the_event": (
        BROUGHT,
        [begin(honours_resume=False, more=[]), SLOW_DATABASE, break_connection(Break.RESET, after_bytes=18)],
    ),
    "inbox_kept_at_a_reconnect": (
        "it ended with ResyncRequired",
        [begin(batch=1, more=[]), fail(Point.AFTER_LEDGER)],
    ),
    "resume_from_memory": (f"RESUME 1, and {DURABLE} 3", [begin(), fail(Point.AFTER_COMMIT)]),
    "no_sync_before_resume_or_the_ack_of_a_duplicate": (
        f"RESUME 3, and {DURABLE} 1",
        [begin(), kill(Moment.IN_COMMIT)],
    ),
    "no_sync_before_the_ack_of_a_duplicate": (
        f"ACK 2, and {DURABLE} 1",
        [begin(consumers=2), kill(Moment.IN_COMMIT)],
    ),
    "no_sync_at_commit": (f"ACK 0, and {DURABLE} -1", [begin()]),
    "cursor_not_moved": (f"ACK 0, and {DURABLE} -1", [begin()]),
    "cursor_in_a_transaction_of_its_own": ("the ledger is", [begin(), kill(Point.AFTER_COMMIT)]),
    "total_not_changed": ("the total is 0", [begin()]),
    "duplicates_counted_again": ("the total is 5", [begin(), do("send_again", count=1, more=[0])]),
    "content_of_duplicates_not_compared": (BROUGHT, [begin(), lie(Lie.CONFLICT, [])]),
    "gaps_let_through": ("ACK 1000000", [begin(), lie(Lie.GAP, [])]),
    "handler_after_the_transaction": ("the user's table is", [begin(), kill(Point.AFTER_COMMIT)]),
    "handler_sees_duplicates": ("it ended with HandlerFailed", [begin(), do("publish", more=[3])]),
    "nobody_told_of_an_end": ("deadlock", [begin(), break_connection(Break.RESET)]),
    "not_cancelled_where_a_timeout_has_just_expired": ("event 16 is not acknowledged", BOTH_WAYS_SILENT),
    "a_lost_connection_is_final": ("it ended with ConnectionResetError", [begin(), break_connection(Break.RESET)]),
    "a_passing_database_failure_is_final": ("it ended with OperationalError", [begin(), fail(Point.AFTER_LEDGER)]),
    "silence_never_ends": ("event 4 is not acknowledged", [begin(), break_connection(Break.SILENCE)]),
}


def play(steps: list[Step]) -> None:
    history = Simulation()
    try:
        for step in steps:
            step(history)
            history.everything_is_as_it_must_be()
    finally:
        history.teardown()


def test_each_breakage_has_a_history_that_shows_it() -> None:
    assert set(SHOWN) == set(ALL)


@pytest.mark.parametrize("name", SHOWN)
def test_a_breakage_is_found_and_its_history_is_in_order_without_it(name: str) -> None:
    found, steps = SHOWN[name]
    play(steps)
    with pytest.MonkeyPatch.context() as patch:
        ALL[name](patch)
        with pytest.raises(AssertionError, match=found):
            play(steps)


def test_a_power_cut_takes_back_a_commit_that_nobody_has_synced_and_all_comes_right() -> None:
    before = Simulation.figures["commits taken back"]
    play([begin(), kill(Moment.IN_COMMIT, with_power=True)])
    assert Simulation.figures["commits taken back"] == before + 1
