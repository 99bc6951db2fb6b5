"""How an error ends the command: one line on standard error that says what to do, and an exit code."""

from __future__ import annotations

import typer
from sqlalchemy.exc import DBAPIError

from consumer.core import errors
from consumer.core.words import one_line
from consumer.store.databases.choice import is_database_error

UNEXPECTED = 1
USAGE = 2
UNUSABLE = 19

EXIT_CODES: dict[type[Exception], int] = {
    typer.TyperException: USAGE,
    errors.InvalidURL: USAGE,
    errors.InvalidOption: USAGE,
    errors.BadInput: USAGE,
    errors.Conflict: 10,
    errors.Gap: 11,
    errors.ResyncRequired: 12,
    errors.CursorAhead: 13,
    errors.HandlerFailed: 14,
    errors.MalformedFrame: 15,
    errors.NotReady: 16,
    errors.UnsafeDurability: 17,
    errors.GaveUp: 18,
    errors.SchemaMismatch: UNUSABLE,
    errors.DatabaseUnusable: UNUSABLE,
    errors.SyncFailed: UNUSABLE,
    errors.StoreReplaced: UNUSABLE,
    errors.Fenced: UNUSABLE,
    errors.JournalUnusable: UNUSABLE,
    errors.TLSRefused: 20,
    errors.StoppedByForce: 21,
    errors.AddressInUse: 22,
}
"""The codes that the environment relies on; 0 is a good end and 1 anything unexpected."""


def exit_code(error: BaseException) -> int:
    """Give the code that an error ends the command with."""
    for kind, code in EXIT_CODES.items():
        if isinstance(error, kind):
            return code
    if is_database_error(error):
        return UNUSABLE
    return UNEXPECTED


def explain(error: BaseException) -> str:
    """Put an error into one line."""
    if isinstance(error, typer.TyperException):
        return one_line(error.format_message())
    if is_database_error(error):
        return f"the database cannot be used: {reason(error)}"
    name = type(error).__name__
    if isinstance(error, errors.ConsumerError):
        return one_line(error) or name
    return f"unexpected {name}: {one_line(error)}; please report it"


def reason(error: BaseException) -> str:
    """Give what a driver said, in one line and without SQLAlchemy's frame around it."""
    return one_line(error.orig if isinstance(error, DBAPIError) else error)
