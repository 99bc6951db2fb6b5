"""The guarantee in a simulated world: some histories here, and as many as wanted with `make simulate`."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import Simulation
from .run import OPTIONS

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
