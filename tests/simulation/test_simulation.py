"""The guarantee in a simulated world: some histories here, and as many as wanted with `make simulate`."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from . import run
from .breakages import ack_before_commit
from .machine import Simulation
from .run import OPTIONS, Batch, run_batch, simulate

HISTORIES = 200

HAPPENS = {
    "ACKs checked",
    "RESUMEs checked",
    "cuts",
    "database failures",
    "events",
    "histories",
    "kills",
    "lies",
    "power cuts",
    "publisher restarts",
    "starts",
    "steps",
    "stops",
}


def test_every_event_changes_the_database_once_whatever_happens_and_whenever() -> None:
    Simulation.figures.clear()
    run_state_machine_as_test(Simulation, settings=settings(OPTIONS, max_examples=HISTORIES, derandomize=True))
    assert {name for name, count in Simulation.figures.items() if count} >= HAPPENS
    assert Simulation.figures["histories"] >= HISTORIES


def test_a_history_that_fails_is_shortened_to_the_steps_that_matter(monkeypatch) -> None:
    ack_before_commit(monkeypatch)
    batch = run_batch(7, 50)
    assert "AssertionError: ACK 0, and the durable cursor is -1" in batch.failure
    steps = [line for line in batch.failure.splitlines() if line.startswith("state.")]
    assert steps[0].startswith("state.begin(")
    assert steps[-1] == "state.teardown()"
    assert len(steps) <= 5


def test_a_seed_gives_the_same_histories_again() -> None:
    once = run_batch(11, 20)
    assert once.figures["histories"] == 20
    assert run_batch(11, 20) == once


def test_the_long_form_says_which_seed_has_failed(monkeypatch, capsys) -> None:
    batches = [Batch(3, Counter(histories=200), None), Batch(4, Counter(histories=20), "the steps")]
    monkeypatch.setattr(run, "run_batches", lambda *_: iter(batches))
    assert simulate(400, 1, 3) == 1
    said = capsys.readouterr().out
    assert "seed 4 fails:\nthe steps\nagain: python -m tests.simulation --seed 4 --histories 200\n" in said
    assert "220 histories" in said


@pytest.mark.parametrize(("is_interrupted", "code"), [(False, 0), (True, 130)])
def test_the_long_form_gives_its_figures_where_nothing_fails(monkeypatch, capsys, is_interrupted, code) -> None:
    def batches(*_: object) -> Iterator[Batch]:
        yield Batch(3, Counter(histories=200), None)
        if is_interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_batches", batches)
    assert simulate(200, 1, 3) == code
    assert "200 histories" in capsys.readouterr().out
