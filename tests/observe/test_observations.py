"""Hooks that get one frozen object: all are told, and what they raise disturbs nobody."""

import asyncio
import dataclasses

import pytest

from consumer.observe.observations import (
    Committed,
    Connected,
    Disconnected,
    Failed,
    FailedAtStop,
    Retrying,
    Stalled,
    notify,
)

ALL = [
    Connected("tcp://h:1", 4),
    Committed(2, 3, 9, 100, 0.5),
    Disconnected("tcp://h:1", "silent"),
    Retrying(ValueError("no"), 1.0),
    Failed(ValueError("no")),
    FailedAtStop(ValueError("no")),
    Stalled(30.0),
]


@pytest.mark.parametrize("observation", ALL, ids=lambda observation: type(observation).__name__)
def test_an_observation_cannot_be_changed(observation) -> None:
    field = dataclasses.fields(observation)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(observation, field, None)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, GeneratorExit])
def test_every_observer_is_told_and_none_disturbs_the_others(caplog, error) -> None:
    told: list[object] = []

    def fails(observation: object) -> None:
        raise error("an observer's own")

    notify((told.append, fails, told.append), ALL[0])
    assert told == [ALL[0], ALL[0]]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("ERROR", "an observer failed")]
    assert "an observer's own" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_observer_may_end_the_process(error) -> None:
    def leaves(observation: object) -> None:
        raise error

    with pytest.raises(error):
        notify((leaves,), ALL[0])
