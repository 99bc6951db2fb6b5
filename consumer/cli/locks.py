"""The wait for a SQLite file that another process has locked: it says that it waits, and a signal ends it.

SQLite's own wait says nothing and, being in C, answers to no signal. So each try is short, and the waiting is done
here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from consumer.store.databases.choice import is_busy
from consumer.store.databases.sqlite import BUSY_TIMEOUT_S
from consumer.store.databases.url import parse_url, show_url, write_url

TRY_S = 0.2
"""How long one try waits for the lock, within SQLite: how late a signal may be answered."""

PAUSE_S = 0.1
"""How long the next try is put off, so that others find the file free as well."""

SAY_AFTER_S, SAY_EVERY_S = 1.0, 30.0
"""When it is first said that something is waited for, and how often after that. Most locks are gone sooner."""

Result = TypeVar("Result")


def wait_for_lock(db: str, action: Callable[[str], Result], say: Callable[[str], None], *, for_ever: bool) -> Result:
    """Do something to a database, and do it again where another process has a SQLite file locked.

    Args:
        db: the database's URL.
        action: called with a URL for the same database.
        say: is told what is waited for.
        for_ever: wait until the lock is gone; otherwise as long as the URL's `timeout` says, or `BUSY_TIMEOUT_S`.

    Returns:
        What the action returned.

    Raises:
        sqlalchemy.exc.DBAPIError: it was locked for all that time.
        Exception: what else the action raised.
    """
    url = parse_url(db)
    if url.get_backend_name() != "sqlite":
        return action(db)
    limit_s = float(str(url.query.get("timeout", BUSY_TIMEOUT_S)))
    each = write_url(url.update_query_dict({"timeout": str(min(TRY_S, limit_s))}))
    began = time.monotonic()
    say_at_s = SAY_AFTER_S
    while True:
        try:
            return action(each)
        except Exception as error:
            waited_s = time.monotonic() - began
            if not is_busy(error) or (waited_s >= limit_s and not for_ever):
                raise
        if waited_s >= say_at_s:
            say(f"{show_url(url)} is locked by another process: waiting for it")
            say_at_s += SAY_EVERY_S
        time.sleep(PAUSE_S)
