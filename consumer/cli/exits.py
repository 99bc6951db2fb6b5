"""How an error ends the command: one line on standard error that says what to do, and an exit code."""

from __future__ import annotations

import typer

from consumer.core import errors
from consumer.core.words import one_line

UNEXPECTED = 1
USAGE = 2
UNUSABLE = 19
STOPPED_BY_FORCE = 21

EXIT_CODES: dict[type[Exception], int] = {
    typer.TyperException: USAGE,
    errors.InvalidURL: USAGE,
    errors.InvalidOption: USAGE,
    errors.BadInput: USAGE,
    errors.HandlerChanged: USAGE,
    errors.UnknownStream: USAGE,
    errors.NotAsExpected: USAGE,
    errors.NotNext: USAGE,
    errors.Conflict: 10,
    errors.Gap: 11,
    errors.ResyncRequired: 12,
    errors.CursorAhead: 13,
    errors.HandlerFailed: 14,
    errors.BadRecord: 14,
    errors.MalformedFrame: 15,
    errors.RecordTooLarge: 15,
    errors.UnfinishedRecord: 15,
    errors.NotReady: 16,
    errors.UnsafeDurability: 17,
    errors.GaveUp: 18,
    errors.SchemaMismatch: UNUSABLE,
    errors.DatabaseUnusable: UNUSABLE,
    errors.SyncFailed: UNUSABLE,
    errors.DatabaseReadOnly: UNUSABLE,
    errors.CommitUnconfirmed: UNUSABLE,
    errors.StoreReplaced: UNUSABLE,
    errors.StoreForked: UNUSABLE,
    errors.Fenced: UNUSABLE,
    errors.JournalUnusable: UNUSABLE,
    errors.SourceUnusable: UNUSABLE,
    errors.TLSRefused: 20,
    errors.StoppedByForce: STOPPED_BY_FORCE,
    errors.AddressInUse: 22,
    errors.SourceChanged: 23,
    errors.GroupShared: 24,
    errors.Behind: UNEXPECTED,
}
"""The codes that the environment relies on; 0 is a good end and 1 anything unexpected. The first that fits counts."""

HINTS: dict[type[Exception], str] = {
    errors.TLSRefused: "see --tls-ca and --tls-name for theirs, --tls-cert and --tls-key for ours",
    errors.AddressInUse: "see --port",
}
"""The options that an error is about. The library knows no command line, so its errors cannot name them. A command that
knows better which ones puts them into a note of the error."""


def exit_code(error: BaseException) -> int:
    """Give the code that an error ends the command with."""
    for kind, code in EXIT_CODES.items():
        if isinstance(error, kind):
            return code
    return UNUSABLE if _is_of_a_database(error) else UNEXPECTED


def explain(error: BaseException) -> str:
    """Put an error into one line."""
    if isinstance(error, typer.TyperException):
        return one_line(error.format_message())
    name = type(error).__name__
    if isinstance(error, errors.ConsumerError):
        hints = [hint for kind, hint in HINTS.items() if isinstance(error, kind)]
        return "; ".join([one_line(error) or name, *hints, *getattr(error, "__notes__", ())])
    if _is_of_a_database(error):
        return f"the database cannot be used: {reason(error)}"
    return f"unexpected {name}: {one_line(error)}; please report it"


def reason(error: BaseException) -> str:
    """Give what a driver said, in one line and without SQLAlchemy's frame around it."""
    return one_line(getattr(error, "orig", None) or error)


def _is_of_a_database(error: BaseException) -> bool:
    # Loaded only now: most commands and most errors have nothing to do with a database, and it takes long to load.
    from consumer.store.databases.choice import is_database_error  # noqa: PLC0415

    return is_database_error(error)
