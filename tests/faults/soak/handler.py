"""A user's handler: a table with a row for each event, and one row that counts them."""

from __future__ import annotations

from sqlalchemy import Connection, text

from consumer import Event

TABLES = (
    "CREATE TABLE handled (seq BIGINT NOT NULL, delta BIGINT NOT NULL)",  # no key: twice is to be seen, not refused
    "CREATE TABLE tally (events BIGINT NOT NULL, total BIGINT NOT NULL)",
    "INSERT INTO tally VALUES (0, 0)",
)


def keep(connection: Connection, events: list[Event]) -> None:
    rows = [{"seq": seq, "delta": delta} for seq, delta in events]
    connection.execute(text("INSERT INTO handled VALUES (:seq, :delta)"), rows)
    added = {"events": len(events), "total": sum(delta for _, delta in events)}
    connection.execute(text("UPDATE tally SET events = events + :events, total = total + :total"), added)
