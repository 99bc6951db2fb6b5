"""What becomes of a batch on which the handler fails: its left half is applied, then its right half.

What failed is found in as many steps as the batch can be halved. What precedes it is committed, and so is what it does
not concern.
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.store.sheet import Batch, HandlerRaised, Result


def apply_in_halves(batch: Batch[Result], apply: Callable[[Batch[Result]], Result]) -> Result:
    """Apply a batch, whole if possible.

    Args:
        batch: the batch.
        apply: applies a batch in one transaction.

    Returns:
        What became of it. What `apply` raises once something is committed is the outcome's error.

    Raises:
        Exception: what `apply` has raised, where nothing of the batch is known to be committed.
    """
    try:
        return apply(batch)
    except HandlerRaised as failure:
        # Where the handler has ended the transaction nobody knows what of it stays, and trying again would hide that.
        if len(batch) == 1 or failure.ended:
            left, rest = batch.failed(failure), batch
        else:
            first, rest = batch.halves(failure)
            left = apply_in_halves(first, apply)
    if left.error is not None:
        return left
    try:
        return left.followed_by(apply_in_halves(rest.after(left), apply))
    except Exception as error:  # noqa: BLE001 - whatever it is, what is committed must be acknowledged before it is raised
        return left.ended_by(error)
