"""TCP keepalive in numbers: how soon a peer that is gone without a word is missed.

The publisher's connections and PostgreSQL's go by them, and the rooms of the two know nothing of each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """When a silent peer is asked whether it is there.

    Attributes:
        idle_s: after so much silence, in seconds.
        interval_s: and then again each time after so many.
        count: how many questions without an answer are the end.
    """

    idle_s: int
    interval_s: int
    count: int

    @property
    def gone_after_s(self) -> int:
        """How long a peer may be gone before it is missed."""
        return self.idle_s + self.interval_s * self.count


OURS = KeepAlive(idle_s=15, interval_s=5, count=3)
"""A consumer's: half a minute instead of two hours, even where its timeout is set very long."""
