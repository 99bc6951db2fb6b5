"""What a running publisher tells: hooks that get one frozen object, and the one that writes the log.

A hook is called in the event loop, must be quick, and cannot disturb the publisher, as on the consumer's side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_log = logging.getLogger("consumer.publisher")


@dataclass(frozen=True, slots=True)
class Resumed:
    """A consumer has said RESUME, and is served.

    Attributes:
        peer: its address.
        last: the cursor that it said, or that of the snapshot that it was sent.
        head: the journal's last event.
    """

    peer: str
    last: int
    head: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection is at its end.

    Attributes:
        peer: its address.
        reason: why.
        acknowledged: the last event that was acknowledged; None for one that was never served.
        sent: the last event that was sent; None likewise.
    """

    peer: str
    reason: str
    acknowledged: int | None = None
    sent: int | None = None


Observation: TypeAlias = Resumed | Closed
Observer: TypeAlias = Callable[[Observation], None]


def write_log(observation: Observation) -> None:
    """Be the observer that writes a line about each."""
    match observation:
        case Resumed(peer, last, head):
            _log.info("%s: resumes after event %d of %d", peer, last, head)
        case Closed(peer, reason, None):
            _log.info("%s: closed: %s", peer, reason)
        case Closed(peer, reason, acknowledged, sent):
            _log.info("%s: closed: %s (event %d acknowledged, %d sent)", peer, reason, acknowledged, sent)
