"""Streams, whatever fails or dies and whoever else consumes them: before or after, never between, and each record once."""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from consumer.core.outcome import RunsOutcome
from consumer.core.points import Point
from consumer.store.transaction import Store

from .helpers import POINTS, Running, at, connected, is_sqlite, rows, waiting_for, workers
from .recording import A, B, claim, handled, keep, of, picked, run
from .streams_worker import ACTIONS, COUNT, SIZE

TABLES = ("stream", "mark", "override", "lease", "store")
PASSED = {
    "apply": [point for point in POINTS if point is not Point.AFTER_LEDGER],
    "claim": [Point.BEFORE_COMMIT, Point.AFTER_COMMIT],
    "halt": [Point.BEFORE_COMMIT, Point.AFTER_COMMIT],
    "move": [Point.BEFORE_HANDLER, Point.AFTER_HANDLER, Point.BEFORE_COMMIT, Point.AFTER_COMMIT],
    "take": [Point.BEFORE_COMMIT, Point.AFTER_COMMIT],
}
"""The points that each action passes, in their order."""

PLACES = [(action, point) for action, points in PASSED.items() for point in points]


def picture(url: str) -> dict[str, Any]:
    """All that is in the tables of streams and in a user's, without times and the store's own id."""
    with connected(url) as connection:
        found = {
            name: [
                {column: value for column, value in row.items() if column != "store_id" and not column.endswith("_ms")}
                for row in connection.exec_driver_sql(f"SELECT * FROM {name}").mappings()
            ]
            for name in [*(f"consumer_{table}" for table in TABLES), "kept", "seen"]
        }
    return {name: sorted(each, key=repr) for name, each in found.items()}


def prepare(url: str) -> None:
    with Store(url) as store:
        claim(store, A, B)
        store.apply_runs([run(A, -1, [0])], keep)


@pytest.fixture
def done(made_sqlite: Path, tmp_path: Path) -> Any:
    """Gives what is there when an action was done undisturbed, which is the same on both databases."""

    def do(action: str) -> dict[str, Any]:
        url = f"sqlite:///{shutil.copy(made_sqlite, tmp_path / 'undisturbed.db')}"
        prepare(url)
        with Store(url) as store:
            ACTIONS[action](store)
        return picture(url)

    return do


class PowerCut(BaseException):
    """What nobody catches."""


@pytest.mark.parametrize(("action", "point"), PLACES)
def test_an_error_at_any_point_leaves_the_state_before_or_after(url: str, done: Any, action: str, point: Point) -> None:
    prepare(url)
    before, after = picture(url), done(action)

    def fail() -> None:
        raise PowerCut

    with Store(url) as store:
        with at(point, fail), pytest.raises(PowerCut):
            ACTIONS[action](store)
        assert picture(url) == (after if point is Point.AFTER_COMMIT else before)
        if point is not Point.AFTER_COMMIT:
            ACTIONS[action](store)
    assert picture(url) == after != before


@pytest.mark.parametrize("action", PASSED)
def test_each_action_passes_its_points_in_their_order(url: str, action: str) -> None:
    prepare(url)
    with Store(url) as store, at(Point.AFTER_COMMIT, lambda: None) as reached:
        ACTIONS[action](store)
    assert reached == PASSED[action]


@pytest.mark.parametrize(("action", "point"), PLACES)
def test_a_process_killed_at_any_point_leaves_the_state_before_or_after(
    url: str, done: Any, action: str, point: Point, patience_s: float
) -> None:
    prepare(url)
    before, after = picture(url), done(action)
    with workers((url, action, point), program="streams_worker") as [process]:
        assert end(process, patience_s) == -signal.SIGKILL
    assert picture(url) == (after if point is Point.AFTER_COMMIT else before)
    if point is not Point.AFTER_COMMIT:
        with Store(url) as store:
            ACTIONS[action](store)
    assert picture(url) == after != before


def end(process: "subprocess.Popen[str]", patience_s: float) -> int:
    _, err = process.communicate("\n", timeout=patience_s)
    assert process.returncode in {0, -signal.SIGKILL}, err
    return process.returncode


def test_what_was_killed_before_its_commit_comes_again_and_what_was_killed_after_it_is_known(url: str) -> None:
    prepare(url)
    with Store(url) as store:
        for point, new in [(Point.BEFORE_COMMIT, 2), (Point.AFTER_COMMIT, 0)]:
            runs = [run(A, 2 - new, [3 - new, 4 - new]) if new else run(A, 2, [3, 4])]
            with at(point, lambda: 1 / 0), pytest.raises(ZeroDivisionError):
                store.apply_runs(runs, keep)
            assert store.apply_runs(runs, keep) == RunsOutcome({A: runs[0].through}, new, 2 - new)
    assert handled(url) == of(A, 0, 1, 2, 3, 4)


# --- several at once -----------------------------------------------------------------------------


@pytest.mark.parametrize("victims", [0, 1])
def test_several_processes_apply_the_same_runs_and_each_record_counts_once(
    url: str, victims: int, patience_s: float
) -> None:
    with workers(*[(url, "consume")] * 3, program="streams_worker") as processes:
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for victim in processes[:victims]:  # after some of its batches, wherever it then is
            for _ in range(4):
                victim.stdout.readline()
            victim.kill()
        ends = [process.communicate(timeout=2 * patience_s) for process in processes]
    for process, (out, err) in list(zip(processes, ends, strict=True))[victims:]:
        assert process.returncode == 0, err
        assert out.split()[-1] == "done"
    for name in (A, B):
        assert handled(url, name) == of(name, *range(COUNT))
        assert picked(url, "last through records state", name) == (COUNT - 1, COUNT - 1, COUNT, "running")
    assert SIZE < COUNT


def test_the_second_waits_for_the_first_and_finds_its_records_there(url: str, patience_s: float) -> None:
    prepare(url)
    runs = [run(B, -1, [0, 1]), run(A, 0, [1, 2])]
    with Store(url) as first, Store(url) as second:
        others: list[Running] = []

        def begin_second() -> None:
            others.append(Running(lambda: second.apply_runs(runs[::-1], keep)))
            if not is_sqlite(url):  # SQLite tells nobody who waits
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                assert any(rows(url, waits) for _ in waiting_for(patience_s))

        with at(Point.BEFORE_COMMIT, begin_second):
            assert first.apply_runs(runs, keep) == RunsOutcome({A: 2, B: 1}, 4)
        others[0].ended(patience_s)
        assert others[0].result == RunsOutcome({A: 2, B: 1}, 0, 4)
    assert handled(url) == [*of(A, 0), *of(B, 0, 1), *of(A, 1, 2)]


def test_those_who_consume_other_streams_of_postgresql_do_not_wait(postgres_url: str) -> None:
    prepare(postgres_url)
    with (
        Store(postgres_url) as first,
        Store(postgres_url) as second,
        at(Point.BEFORE_COMMIT, lambda: second.apply_runs([run(B, -1, [0])])),
    ):
        first.apply_runs([run(A, 0, [1])])
    assert picked(postgres_url, "last", A) == (1,)
    assert picked(postgres_url, "last", B) == (0,)
