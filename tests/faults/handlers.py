"""Handlers for processes. A test copies this into their working folder; what happens there is said on standard error."""

import sys
import threading
from pathlib import Path


def say(text):
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def stuck(connection, events):
    """Never return."""
    say("entered")
    threading.Event().wait()


def slow(connection, events):
    """Return once somebody writes to the named pipe."""
    say("entered")
    Path("leave").read_bytes()


def failing(connection, events):
    """Fail on one event."""
    if any(seq == 2 for seq, _ in events):
        raise LookupError("no such slot")


def endless(connection, events):
    """Run a statement that only ends when it is interrupted."""
    say("entered")
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        )
    else:
        connection.exec_driver_sql("SELECT pg_sleep(1000)")


def counting(connection, events):
    """Keep what was handed over, in a table of the user's own."""
    connection.exec_driver_sql(
        "INSERT INTO handled VALUES " + ", ".join(f"({seq}, {delta})" for seq, delta in events),
    )


def filling(connection, events):
    """Need a lot of room."""
    connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS bulk (filling BLOB)")
    connection.exec_driver_sql("INSERT INTO bulk VALUES (zeroblob(200000))")
