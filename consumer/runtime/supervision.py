"""What follows a failure: whether it is final, and otherwise how long to wait before the next try.

Two small things. `backoff` gives the waits. `Failures` counts what has failed and goes by the one table of what passes,
which is in `store/retry.py` since the store needs it too. The loop that asks both is `Consumer._supervise`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from consumer.core.errors import GaveUp
from consumer.store.retry import TRIES, Patience, patience

WAIT_MIN_S, WAIT_MAX_S = 0.1, 30.0
"""The shortest wait and the longest. A publisher that starts again is back soon after; one that is gone is not asked in
a tight circle."""

WAIT_INITIAL_S = 1.0
"""The longest that the first wait may be. It is chosen by chance, as the later ones are, so that a thousand consumers
that have lost their publisher together do not come back together."""

chance = random.SystemRandom().uniform
"""What chooses a wait between two bounds. It is not the generator that a whole program shares: whoever seeds that one
would have all consumers wait alike, and test frameworks do. Nor has it a state, which a fork would copy."""


def backoff() -> Iterator[float]:
    """Give the waits between tries, in seconds, without end: up to twice as long each time."""
    limit_s = min(WAIT_INITIAL_S, WAIT_MAX_S)
    while True:
        yield chance(min(WAIT_MIN_S, limit_s), limit_s)
        limit_s = min(2 * limit_s, WAIT_MAX_S)


class Failures:
    """What has failed so far, of what is not tried for ever.

    Args:
        connects_max: how often in a row connecting may fail, None for no limit.
    """

    def __init__(self, connects_max: int | None) -> None:
        self._connects_max = connects_max
        self._connects = 0  # in a row
        self._others = 0  # of those that are tried three times, since the last progress

    def connected(self) -> None:
        """Connecting has succeeded."""
        self._connects = 0

    def progressed(self) -> None:
        """A batch with new events was committed."""
        self._others = 0

    def final(self, error: Exception) -> Exception | None:
        """Count a failure, and say what it comes to.

        Args:
            error: what failed.

        Returns:
            The error to end with, or None where it is to be tried again.
        """
        match patience(error):
            case Patience.FOREVER:
                return None
            case Patience.CONNECTING:
                self._connects += 1
                if self._connects_max is None or self._connects < self._connects_max:
                    return None
                gave_up = GaveUp(self._connects, str(error))
                gave_up.__cause__ = error
                return gave_up
            case Patience.THRICE:
                self._others += 1
                return error if self._others >= TRIES else None
            case Patience.NEVER:
                return error
