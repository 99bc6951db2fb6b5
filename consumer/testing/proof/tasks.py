"""What the two processes of a proof tell each other: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from consumer.testing.crash import CrashPoint


@dataclass(frozen=True, slots=True)
class Target:
    """Where a handler is.

    Attributes:
        module: the name of its module.
        name: its name there, with dots for what is inside a class.
        file: the module's file, for a module that may not be found by its name; None where only the name is known.
        database: the URL of the database that it will run on.
    """

    module: str
    name: str
    file: str | None
    database: str


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What befalls a run.

    Attributes:
        point: where.
        times: at which time of passing it.
        kills: SIGKILL; otherwise the database fails there, in a way that passes.
    """

    point: CrashPoint
    times: int
    kills: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """One run: from RESUME until the publisher closes, or until it dies.

    Attributes:
        publisher: the publisher's.
        batch: the most events of one transaction.
        limit_s: how long it may take, in seconds.
        disturbance: what befalls it.
    """

    publisher: str
    batch: int
    limit_s: float
    disturbance: Disturbance | None


@dataclass(frozen=True, slots=True)
class Ready:
    """The handler is loaded; `dies_in_calls`: `syscalls.die_in_next` works here."""

    dies_in_calls: bool


@dataclass(frozen=True, slots=True)
class Done:
    """A run came to its end; its handler has sent so many statements."""

    statements: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A run, or the loading of the handler, came to nothing, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A run's process is gone, with this exit code, or the negative number of the signal that ended it."""

    code: int


Message: TypeAlias = Ready | Done | Failed | Ended
