"""Which failures pass by themselves: the one table of what is tried again, and how often.

Errors carry no flag of their own. The supervision (`consumer.runtime`) goes by this table, and so does the store,
which must not look for a bad event where the database was at fault.
"""

from __future__ import annotations

from enum import Enum

from consumer.core.errors import (
    CommitUnconfirmed,
    ConnectFailed,
    DatabaseReadOnly,
    Fenced,
    Gap,
    MalformedFrame,
    Retry,
    SyncFailed,
)
from consumer.store.databases.base import Cause
from consumer.store.databases.choice import cause_of


class Patience(Enum):
    """How often a failure is tried again before it is final."""

    FOREVER = "it passes by itself"
    THRICE = "it may pass; without progress three times are enough"
    CONNECTING = "as often in a row as the consumer's user allows"
    NEVER = "trying again changes nothing"


TRIES = 3
"""What `Patience.THRICE` means."""


def patience(error: BaseException) -> Patience:
    """Look an error up in the table.

    Args:
        error: what was raised, by this package, the database, the network or a handler.

    Returns:
        How often to try again.
    """
    if isinstance(error, ConnectFailed):
        return Patience.CONNECTING
    if isinstance(error, Fenced | Gap | MalformedFrame):
        return Patience.THRICE
    passing = Retry | SyncFailed | DatabaseReadOnly | CommitUnconfirmed | ConnectionError | TimeoutError | EOFError
    if isinstance(error, passing) or cause_of(error) is Cause.PASSING:
        return Patience.FOREVER
    return Patience.NEVER
