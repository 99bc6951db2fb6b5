"""What a running publisher tells its observers: one frozen object for each RESUME and each end of a connection.

An observer is called in the event loop and must be quick. What it raises is logged and otherwise ignored.
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


Notice: TypeAlias = Resumed | Closed
Observer: TypeAlias = Callable[[Notice], None]


def write_log(notice: Notice) -> None:
    """Write a line about a notice to the log. This is the observer that every publisher has."""
    match notice:
        case Resumed(peer, last, head):
            _log.info("%s: resumes after event %d of %d", peer, last, head)
        case Closed(peer, reason, None):
            _log.info("%s: closed: %s", peer, reason)
        case Closed(peer, reason, acknowledged, sent):
            _log.info("%s: closed: %s (event %d acknowledged, %d sent)", peer, reason, acknowledged, sent)
