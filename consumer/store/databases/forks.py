"""What becomes of open connections where a process forks: they stay the parent's, and the child never touches them.

A child that ends a connection, or only lets it be collected, says ROLLBACK in its parent's session on PostgreSQL. On
SQLite it takes back what its parent has written to the log's index but not committed yet, and the parent's next COMMIT
leaves a file that is damaged. An exit of the child is enough for both. So the child takes them out of the pools that
would close them, and holds them for ever.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import WeakSet

from sqlalchemy import Engine, event

_entries: WeakSet[Any] = WeakSet()
"""The places in pools that have had a connection in this process."""


def watched(engine: Engine) -> Engine:
    """Have an engine's connections left to this process when it forks."""
    event.listen(engine, "connect", _note, insert=True)
    return engine


def _note(_connection: Any, entry: Any) -> None:
    _entries.add(entry)


def _leave_to_the_parent() -> None:
    """Forget the parent's connections; called in a child. It takes no lock, since a thread that is gone may hold it."""
    for entry in _entries:
        # One reference too many: at its end an interpreter clears whatever else could hold the connection.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry.dbapi_connection))
        entry.dbapi_connection = None


if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
    os.register_at_fork(after_in_child=_leave_to_the_parent)
