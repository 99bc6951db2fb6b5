"""What our code meets here, where it would meet threads, the disk and the clock."""

import atexit
import logging
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from consumer.core import points
from consumer.runtime import calls, supervision
from consumer.sources.tcp import connection
from consumer.store import transaction
from consumer.store.transaction import Store

from .disk import Disk
from .process import Process

CONSUMERS = 2
"""On one database. More would not meet in other ways."""

UNSENT_BYTES_MAX, CHUNK_BYTES = 32, 128
"""The consumer's own limits, so small that a short history meets them."""


FOLDER = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""Where the database's files are: in memory. None of it need outlive the process."""


@cache
def made() -> tuple[Disk, list[Store]]:
    """What is dear to make, once for all histories of this process: a store, and an engine for each consumer."""
    folder = tempfile.mkdtemp(prefix="consumer-simulation-", dir=FOLDER)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    disk = Disk(Path(folder))
    return disk, [Store(f"sqlite:///{disk.path}") for _ in range(CONSUMERS)]


def database_error() -> OperationalError:
    """What passes by itself: the disk could not be read, or the answer did not come."""
    cause = sqlite3.OperationalError("disk I/O error")
    cause.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return OperationalError("COMMIT", {}, cause)


@contextmanager
def simulated(disk: Disk, running: Callable[[], Process], reach: Callable[..., None]) -> Iterator[None]:
    """Have our code meet the simulated world, where it would meet threads, the disk and the clock."""
    put_back: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        put_back.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    replace(points, "reach", reach)
    replace(calls, "Worker", lambda _: running())
    replace(calls, "STALL_S", math.inf)  # a timer that is always there would hide a deadlock
    replace(os, "fsync", disk.fsync)
    replace(transaction, "HANDLER_WAIT_S", 0.0)
    replace(supervision, "chance", max)
    replace(connection, "UNSENT_BYTES_MAX", UNSENT_BYTES_MAX)
    replace(connection, "CHUNK_BYTES", CHUNK_BYTES)
    replace(logging.getLogger("consumer"), "disabled", True)
    try:
        yield
    finally:
        for owner, name, value in reversed(put_back):
            setattr(owner, name, value)
