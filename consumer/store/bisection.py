"""What becomes of a batch on which the handler fails: its left half is applied, then its right half.

The failing event is found in as many steps as the batch can be halved. What precedes it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from consumer.core.events import Event
from consumer.core.outcome import Outcome
from consumer.store.handlers import HandlerRaised


def apply_in_halves(events: Sequence[Event], apply: Callable[[Sequence[Event]], Outcome]) -> Outcome:
    """Apply a batch, whole if possible.

    Args:
        events: the batch.
        apply: applies events in one transaction.

    Returns:
        What became of it. What `apply` raises once something is committed is the outcome's error.

    Raises:
        Exception: what `apply` has raised, where nothing of the batch is known to be committed.
    """
    try:
        return apply(events)
    except HandlerRaised as failure:
        # Where the handler has ended the transaction nobody knows what of it stays, and trying again would hide that.
        if len(events) == 1 or failure.ended:
            return Outcome(0, 0, failure.before.last, failure.as_result(), failure.before.total)
    middle = len(events) // 2
    left = apply_in_halves(events[:middle], apply)
    if left.error is not None:
        return left
    try:
        return left.followed_by(apply_in_halves(events[middle:], apply))
    except Exception as error:  # noqa: BLE001 - whatever it is, what is committed must be acknowledged before it is raised
        return replace(left, error=error)
