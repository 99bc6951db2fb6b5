"""What a running consumer reports: hooks that get one frozen object for each thing that happens.

A hook is any callable that takes an `Observation`. It is called in the event loop and must be quick. It cannot disturb
the consumer: what it raises is logged and otherwise ignored. Only `SystemExit` and `KeyboardInterrupt` pass on, and end
the process as they do everywhere in asyncio.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

logger = logging.getLogger("consumer")


@dataclass(frozen=True, slots=True)
class Connected:
    """The publisher was reached and RESUME was said.

    Attributes:
        address: the publisher's.
        last: the cursor that was said.
    """

    address: str
    last: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch was committed, and its acknowledgements were handed to the connection.

    Attributes:
        new: how many of its events were new.
        acked: how many were acknowledged, duplicates included.
        last: the cursor afterwards.
        total: the total afterwards.
        seconds: how long the database took.
    """

    new: int
    acked: int
    last: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection ended without an error: the publisher closed it, or was silent and is asked anew.

    Attributes:
        address: the publisher's.
        reason: which of the two.
        is_doubtful: the publisher has said nothing at all, so that something else may listen there.
    """

    address: str
    reason: str
    is_doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Retrying:
    """Something failed that passes, or may.

    Attributes:
        error: what failed.
        wait_s: how long until the next try, in seconds.
    """

    error: Exception
    wait_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The consumer ends with an error, which `run` raises.

    Attributes:
        error: which.
    """

    error: Exception


@dataclass(frozen=True, slots=True)
class FailedAtStop:
    """What was under way when the consumer was stopped has failed. Nobody raises it: the stop itself went well.

    Attributes:
        error: what failed.
    """

    error: BaseException


@dataclass(frozen=True, slots=True)
class Stalled:
    """A call to the database, or the handler in it, does not return. It is waited for all the same.

    Attributes:
        seconds: for how long, at least.
    """

    seconds: float


Observation: TypeAlias = Connected | Committed | Disconnected | Retrying | Failed | FailedAtStop | Stalled
Observer: TypeAlias = Callable[[Observation], None]
Observed = TypeVar("Observed")


def notify(observers: tuple[Callable[[Observed], None], ...], observation: Observed) -> None:
    """Tell every observer; none can disturb the others or who is observed.

    Raises:
        SystemExit, KeyboardInterrupt: an observer ends the process.
    """
    for observer in observers:
        try:
            observer(observation)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:  # a CancelledError among them, which would be taken for a cancellation of the consumer
            logger.exception("an observer failed")
