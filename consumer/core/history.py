"""What a cursor still needs of a retained history.

Pure, and the publisher's side of RESUME in miniature. That a history begins too late for a cursor is an error here and
never a shorter answer: a silent jump to the oldest retained event is how others lose events.
"""

from __future__ import annotations

from itertools import pairwise

from consumer.core.errors import ResyncRequired
from consumer.core.events import SEQ_MAX, Event, check_event, is_integer

EVENTS_MAX = 128
"""The longest history that `replay` takes."""

LIMIT_MAX = 16
"""The most events that `replay` gives at once."""


def replay(events: list[Event], last: int, limit: int) -> list[Event]:
    """Give the next events after a cursor.

    Args:
        events: the retained history, 1..128 tuples `(seq, delta)` with consecutive ascending seqs. It is not changed.
        last: the cursor, -1..2147483647.
        limit: the most events to give, 1..16.

    Returns:
        A new list of at most `limit` events with `seq > last`.

    Raises:
        ValueError: a wrong type or range, an empty or torn history, or a cursor beyond its end. All input is checked
            before anything is decided.
        ResyncRequired: the history begins after the event that the cursor needs next.
    """
    _check_history(events)
    if not is_integer(last, -1, SEQ_MAX):
        raise ValueError(f"last must be an int from -1 to {SEQ_MAX}, not {last!r}")
    if not is_integer(limit, 1, LIMIT_MAX):
        raise ValueError(f"limit must be an int from 1 to {LIMIT_MAX}, not {limit!r}")
    first, final = events[0][0], events[-1][0]
    if last > final:
        raise ValueError(f"the cursor {last} is beyond the history's end at {final}")
    if last < first - 1:
        raise ResyncRequired(last, first)
    start = last + 1 - first
    return events[start : start + limit]


def _check_history(events: object) -> None:
    if not isinstance(events, list) or not 1 <= len(events) <= EVENTS_MAX:
        raise ValueError(f"events must be a list of 1 to {EVENTS_MAX} tuples")
    for event in events:
        if not isinstance(event, tuple):
            raise ValueError(f"an event must be a tuple (seq, delta), not {event!r}")
        seq, delta = event
        check_event(seq, delta)
    for (before, _), (after, _) in pairwise(events):
        if after != before + 1:
            raise ValueError(f"seqs must be consecutive, but {after} follows {before}")
