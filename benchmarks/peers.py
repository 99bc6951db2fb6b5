"""The hand-written consumers that the product is measured against. Nothing here uses the product.

Each is what a good engineer writes in an afternoon: one loop that reads a chunk, checks it, applies
it in one transaction, commits, and answers. None of them reconnects, knows duplicates, survives a
failing database or offers anything to a user; each does refuse what is not the next event, so that
all sides of a comparison do the same honest work. They leave the tables that the product leaves.

    python -m benchmarks.peers NAME --port PORT --db PATH_OR_URL
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

CHUNK_BYTES = 256 * 1024
LINE_BYTES_MAX = 64
DELTA_MAX = 1000
SEQ_MAX = 2**31 - 1

# What a peer does with a chunk of whole lines: apply it, and yield the ACKs after each commit.
Apply = Callable[[bytes], Iterator[bytes]]


async def consume(port: int, last: int, apply: Apply) -> None:
    """The socket side of every peer: RESUME, whole lines of a chunk to `apply`, its ACKs back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=CHUNK_BYTES)
    writer.write(b"RESUME %d\n" % last)
    rest = b""
    while data := await reader.read(CHUNK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        if len(rest) >= LINE_BYTES_MAX:
            raise ValueError(f"a line of more than {LINE_BYTES_MAX} bytes")
        if end:
            for acks in apply(data[:end]):
                writer.write(acks)
            await writer.drain()
    writer.close()
    await writer.wait_closed()


def check(last: int, seqs: Sequence[int], deltas: Sequence[int]) -> None:
    """The verdict for the one case that a peer knows: these are the next events, and none is wrong."""
    if seqs != list(range(last + 1, last + 1 + len(seqs))) or seqs[-1] > SEQ_MAX:
        raise ValueError(f"not the events that follow {last}: {seqs[0]}..{seqs[-1]}")
    if min(deltas) < -DELTA_MAX or max(deltas) > DELTA_MAX:
        raise ValueError(f"a delta out of range in {seqs[0]}..{seqs[-1]}")


# SQLite


def open_sqlite(path: str) -> sqlite3.Connection:
    """The tables, in a database that syncs its log at every commit."""
    con = sqlite3.connect(path, isolation_level=None)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("PRAGMA synchronous=FULL")
    con.execute(
        "CREATE TABLE IF NOT EXISTS checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), "
        "last INTEGER NOT NULL, total INTEGER NOT NULL)"
    )
    con.execute("CREATE TABLE IF NOT EXISTS ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL)")
    con.execute("INSERT OR IGNORE INTO checkpoint VALUES (1, -1, 0)")
    return con


def move(con: sqlite3.Connection, last: int, new: int, added: int) -> None:
    """Move cursor and total on, provided that nobody else has."""
    moved = con.execute("UPDATE checkpoint SET last=?, total=total+? WHERE id=1 AND last=?", (new, added, last))
    if moved.rowcount != 1:
        raise RuntimeError(f"the cursor is no longer at {last}")


LINE = re.compile(rb"^EVENT (0|[1-9][0-9]{0,9}) (0|-?[1-9][0-9]{0,3})\n", re.MULTILINE)


def parse_lines(chunk: bytes) -> tuple[list[bytes], list[int], list[int]]:
    """The numbers of every line, and the seqs as they were written, for the ACKs."""
    found = LINE.findall(chunk)
    if len(found) != chunk.count(b"\n"):
        raise ValueError("a line that is no EVENT")
    return (
        [seq for seq, _ in found],
        [int(seq) for seq, _ in found],
        [int(delta) for _, delta in found],
    )


def sqlite_chunks(con: sqlite3.Connection, last: int) -> Apply:
    """(a) The loop that most would write: findall, executemany, one commit per chunk."""

    def apply(chunk: bytes) -> Iterator[bytes]:
        nonlocal last
        texts, seqs, deltas = parse_lines(chunk)
        check(last, seqs, deltas)
        con.execute("BEGIN IMMEDIATE")
        con.executemany("INSERT INTO ledger VALUES (?, ?)", zip(seqs, deltas, strict=True))
        move(con, last, seqs[-1], sum(deltas))
        con.execute("COMMIT")
        last = seqs[-1]
        yield b"ACK " + b"\nACK ".join(texts) + b"\n"

    return apply


# Possessive, so that a chunk of ten thousand lines leaves no ten thousand places to go back to.
WHOLE = re.compile(rb"(?:EVENT (?:[1-9][0-9]{0,9}+|0) (?:-?[1-9][0-9]{0,3}+|0)\n)++")
SPACE_TO_COMMA = bytes.maketrans(b" ", b",")
ROWS = 500
INSERT_ROWS = "INSERT INTO ledger VALUES " + ",".join(["(?,?)"] * ROWS)
FEW = 50
INSERT_FEW = "INSERT INTO ledger VALUES " + ",".join(["(?,?)"] * FEW)


def read_numbers(chunk: bytes) -> list[int]:
    """All numbers of a chunk, seq and delta in turn, by one match and one JSON array.

    Without the letters and newlines of EVENT, what is left of `EVENT 7 5\\nEVENT 8 -2\\n` is
    ` 7 5 8 -2`; the pattern allows exactly the integers that JSON writes.
    """
    if WHOLE.fullmatch(chunk) is None:
        raise ValueError("a line that is no EVENT")
    commas = chunk.translate(SPACE_TO_COMMA, b"EVNT\n").decode("ascii")
    numbers: list[int] = json.loads(f"[{commas[1:]}]")
    return numbers


def sqlite_tuned(con: sqlite3.Connection, last: int) -> Apply:
    """(b) The same after a day with a profiler: no Python object per event but its two numbers."""

    def insert(numbers: list[int]) -> None:
        at = 0
        for rows, statement in ((ROWS, INSERT_ROWS), (FEW, INSERT_FEW)):
            while len(numbers) - at >= 2 * rows:
                con.execute(statement, numbers[at : at + 2 * rows])
                at += 2 * rows
        rest = zip(numbers[at::2], numbers[at + 1 :: 2], strict=True)
        con.executemany("INSERT INTO ledger VALUES (?, ?)", rest)

    def apply(chunk: bytes) -> Iterator[bytes]:
        nonlocal last
        numbers = read_numbers(chunk)
        seqs, deltas = numbers[::2], numbers[1::2]
        check(last, seqs, deltas)
        con.execute("BEGIN IMMEDIATE")
        insert(numbers)
        move(con, last, seqs[-1], sum(deltas))
        con.execute("COMMIT")
        last = seqs[-1]
        yield (b"ACK %d\n" * len(seqs)) % tuple(seqs)

    return apply


def sqlite_single(con: sqlite3.Connection, last: int) -> Apply:
    """(c) One transaction per event, and its ACK at once. With window 1 this is stop-and-wait."""

    def apply(chunk: bytes) -> Iterator[bytes]:
        nonlocal last
        for line in chunk.splitlines(keepends=True):
            (text,), (seq,), (delta,) = parse_lines(line)
            if seq != last + 1 or seq > SEQ_MAX or not -DELTA_MAX <= delta <= DELTA_MAX:
                raise ValueError(f"not the event that follows {last}: {line!r}")
            con.execute("BEGIN IMMEDIATE")
            con.execute("INSERT INTO ledger VALUES (?, ?)", (seq, delta))
            move(con, last, seq, delta)
            con.execute("COMMIT")
            last = seq
            yield b"ACK %s\n" % text

    return apply


SLOTS = 60
MOVEMENT = (
    "CREATE TABLE IF NOT EXISTS movement(seq INTEGER PRIMARY KEY, slot INTEGER NOT NULL, amount INTEGER NOT NULL)"
)


def sqlite_handler(con: sqlite3.Connection, last: int) -> Apply:
    """(e) Like (a), with a bulk insert of the user's own in the same transaction."""
    con.execute(MOVEMENT)

    def handle(events: list[tuple[int, int]]) -> None:
        con.executemany(
            "INSERT INTO movement VALUES (?, ?, ?)",
            [(seq, seq % SLOTS, delta) for seq, delta in events],
        )

    def apply(chunk: bytes) -> Iterator[bytes]:
        nonlocal last
        texts, seqs, deltas = parse_lines(chunk)
        check(last, seqs, deltas)
        events = list(zip(seqs, deltas, strict=True))
        con.execute("BEGIN IMMEDIATE")
        con.executemany("INSERT INTO ledger VALUES (?, ?)", events)
        move(con, last, seqs[-1], sum(deltas))
        handle(events)
        con.execute("COMMIT")
        last = seqs[-1]
        yield b"ACK " + b"\nACK ".join(texts) + b"\n"

    return apply


SQLITE = {
    "sqlite-chunks": sqlite_chunks,
    "sqlite-tuned": sqlite_tuned,
    "sqlite-single": sqlite_single,
    "sqlite-handler": sqlite_handler,
}


def run_sqlite(name: str, port: int, path: str) -> None:
    """Consume into a SQLite file until the publisher closes."""
    with closing(open_sqlite(path)) as con:
        (last,) = con.execute("SELECT last FROM checkpoint WHERE id=1").fetchone()
        asyncio.run(consume(port, last, SQLITE[name](con, last)))


# PostgreSQL


def run_postgres(name: str, port: int, url: str) -> None:
    """(d) COPY a chunk, move the cursor, commit, answer; until the publisher closes.

    Once a chunk has matched, it is COPY's own text format but for the word in front of each line:
    with a space as the delimiter the server parses the numbers, and no row is built here.
    """
    import psycopg  # noqa: PLC0415 (the SQLite peers do not pay for it)

    if name != "postgres-copy":
        raise SystemExit(f"no peer of this name: {name}")
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(
            "CREATE TABLE IF NOT EXISTS checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), "
            "last BIGINT NOT NULL, total BIGINT NOT NULL)"
        )
        con.execute("CREATE TABLE IF NOT EXISTS ledger(seq BIGINT PRIMARY KEY, delta INTEGER NOT NULL)")
        con.execute("INSERT INTO checkpoint VALUES (1, -1, 0) ON CONFLICT DO NOTHING")
        row = con.execute("SELECT last FROM checkpoint WHERE id=1").fetchone()
        last: int = row[0] if row else -1

        def apply(chunk: bytes) -> Iterator[bytes]:
            nonlocal last
            numbers = read_numbers(chunk)
            seqs, deltas = numbers[::2], numbers[1::2]
            check(last, seqs, deltas)
            with con.transaction():
                with con.cursor().copy("COPY ledger FROM STDIN (DELIMITER ' ')") as copy:
                    copy.write(chunk.replace(b"EVENT ", b""))
                moved = con.execute(
                    "UPDATE checkpoint SET last=%s, total=total+%s WHERE id=1 AND last=%s",
                    (seqs[-1], sum(deltas), last),
                )
                if moved.rowcount != 1:
                    raise RuntimeError(f"the cursor is no longer at {last}")
            last = seqs[-1]
            yield (b"ACK %d\n" * len(seqs)) % tuple(seqs)

        asyncio.run(consume(port, last, apply))


# No database: the ceiling of the publisher.


def run_null(port: int, events: int) -> None:
    """Answer lines by counting them; the ACKs of every event are made beforehand."""
    lines = [b"ACK %d\n" % seq for seq in range(events)]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    acks, seen = memoryview(b"".join(lines)), 0

    def apply(chunk: bytes) -> Iterator[bytes]:
        nonlocal seen
        count = chunk.count(b"\n")
        yield bytes(acks[starts[seen] : starts[seen + count]])
        seen += count

    asyncio.run(consume(port, -1, apply))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=[*SQLITE, "postgres-copy", "null"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--db", default="", help="a path for SQLite, a URL for PostgreSQL")
    parser.add_argument("--events", type=int, default=0, help="for null alone")
    options = parser.parse_args()
    if options.name == "null":
        run_null(options.port, options.events)
    elif options.name in SQLITE:
        run_sqlite(options.name, options.port, options.db)
    else:
        run_postgres(options.name, options.port, options.db)


if __name__ == "__main__":
    main()
