"""The user's handler: what it is, how it is called inside the store's transaction, and how its failures are told apart.

A handler must not end the transaction that it is called in. SQLAlchemy's commit is refused, and on SQLite every
statement that would end it too (`databases/sqlite.py`). Whatever slips through is found when the savepoint around it is
released.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import Connection, NestedTransaction

from consumer.core.errors import StoreForked
from consumer.core.events import Event
from consumer.core.records import Record
from consumer.store.databases.base import IN_HANDLER, REFUSED, Cause
from consumer.store.databases.choice import cause_of
from consumer.store.retry import Patience, patience
from consumer.store.sheet import HandlerRaised, Sheet

Handler: TypeAlias = Callable[[Connection, list[Event]], None]
"""`handler(connection, events)`: a user's own changes, in the store's transaction, for new events only."""

RecordHandler: TypeAlias = Callable[[Connection, list[Record]], None]
"""`handler(connection, records)`: the same for records, which may be of several streams."""

_ENDED = (
    "a handler must leave its transaction as it was: no commit, rollback or close, no savepoint left open, no "
    "database error passed over outside a savepoint of its own"
)


def check_handler(handler: Handler | RecordHandler) -> None:
    """Raise `TypeError` for a handler that cannot be one: it runs in a thread, inside a transaction."""
    call = handler if inspect.isroutine(handler) else getattr(handler, "__call__", None)  # noqa: B004 - to look inside
    if not callable(handler) or inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
        raise TypeError(f"a handler is a plain function handler(connection, events), not {handler!r}")
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return  # one written in C may have none
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise TypeError(f"a handler is called as handler(connection, events): {error}") from error


def call_inside_savepoint(handler: Callable[..., None], connection: Connection, sheet: Sheet[Any]) -> None:
    """Call a handler inside a savepoint: its release proves that the transaction is still the one that was begun.

    Raises:
        HandlerRaised: the handler failed, or ended the transaction.
        StoreForked: the handler has forked, and this is the child, in which nothing more is done.
        Exception: what passes by itself: `Retry`, or a failure of the database or of a connection.
    """
    savepoint = connection.begin_nested()
    info = connection.info
    info.pop(REFUSED, None)
    info[IN_HANDLER] = True
    try:
        _call(handler, connection, list(sheet.new()))
    except BaseException as error:
        if isinstance(error, StoreForked):
            raise
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # Ctrl-C; in another thread it can only be the handler's own
        if cause_of(error) is Cause.PASSING:
            raise  # it may have ended the transaction by itself
        ended = not _ends(savepoint, savepoint.rollback)
        if patience(error) is Patience.FOREVER and not ended:
            raise
        refused = info.pop(REFUSED, None)
        raise HandlerRaised(sheet, PermissionError(refused) if refused else error, ended=ended) from error
    finally:
        info[IN_HANDLER] = False
    if not _ends(savepoint, savepoint.commit) or connection.info is not info:  # another one where it was detached
        raise HandlerRaised(sheet, RuntimeError(_ENDED), ended=True)


def _call(handler: Callable[[Connection, Any], object], connection: Connection, new: list[Any]) -> None:
    process = os.getpid()
    try:
        result = handler(connection, new)
    finally:
        if os.getpid() != process:  # it has forked, and this is the child
            raise StoreForked
    if inspect.iscoroutine(result):
        result.close()
    if result is not None:
        raise TypeError(f"a handler returns None, not {type(result).__name__}; it is a plain function")


def _ends(savepoint: NestedTransaction, end: Callable[[], None]) -> bool:
    """Release a savepoint or go back to it, and say whether it was still there."""
    if not savepoint.is_active:
        return False
    try:
        end()
    except Exception as error:
        if patience(error) is Patience.FOREVER:
            raise
        return False
    return True


def refuse_to_commit(connection: Connection) -> None:
    """Refuse a commit inside a handler; a listener of SQLAlchemy's `commit` event."""
    if connection.info.get(IN_HANDLER, False):
        raise RuntimeError("a handler must not commit: the store commits its changes together with the cursor")
