"""The guarantee in a simulated world: some hundred histories here, and as many as wanted with `make simulate`."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import Simulation

HISTORIES, STEPS = 200, 15


def test_every_event_changes_the_database_once_whatever_happens_and_whenever() -> None:
    run_state_machine_as_test(
        Simulation,
        settings=settings(
            database=None,
            derandomize=True,
            deadline=None,
            max_examples=HISTORIES,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
        ),
    )
