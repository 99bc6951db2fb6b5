"""The single techniques that a fast consumer is made of, each measured by itself.

    python -m benchmarks.techniques [decode] [ack] [sqlite] [postgres] [--rows 1 10 100 1000 10000]

CPU microseconds per event at several batch sizes, for PostgreSQL the elapsed time of a whole
transaction as well (the server does most of the work). It is here so that a choice in the product
can be checked again on another machine, or with another SQLite.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.databases import Postgres
from benchmarks.peers import LINE, ROWS, SPACE_TO_COMMA, WHOLE, open_sqlite
from benchmarks.report import WIDTH_PIPED

FIRST = 5_000_000  # seqs of seven digits, as after a while
ROUNDS = 15
EVENTS_A_ROUND = 2_000
ROWS_A_METHOD = 100_000
GREEDY = re.compile(rb"(?:EVENT (?:0|[1-9][0-9]{0,9}) (?:0|-?[1-9][0-9]{0,3})\n)+")

Numbers = list[int]


def numbers_of(first: int, rows: int) -> Numbers:
    """`rows` events as a flat list: seq, delta, seq, delta."""
    deltas = random.choices(range(-1000, 1001), k=rows)
    return list(chain.from_iterable(enumerate(deltas, first)))


def chunk_of(numbers: Numbers) -> bytes:
    return (b"EVENT %d %d\n" * (len(numbers) // 2)) % tuple(numbers)


# Decoding: bytes to numbers. The two fullmatches are what a bulk reader needs in front of it.


def translate_json(chunk: bytes) -> Numbers:
    commas = chunk.translate(SPACE_TO_COMMA, b"EVNT\n").decode("ascii")
    found: Numbers = json.loads(f"[{commas[1:]}]")
    return found


DECODE: dict[str, Callable[[bytes], Any]] = {
    "line by line: split, int, int": lambda c: [
        (int(seq), int(delta)) for _, seq, delta in map(bytes.split, c.splitlines())
    ],
    "findall, int, int": lambda c: [(int(seq), int(delta)) for seq, delta in LINE.findall(c)],
    "translate, split, map(int)": lambda c: list(map(int, c.translate(None, b"EVNT").split())),
    "translate, json": translate_json,
    "fullmatch alone, greedy": GREEDY.fullmatch,
    "fullmatch alone, possessive": WHOLE.fullmatch,
}

# ACK lines from the seqs.

ACK: dict[str, Callable[[Numbers], bytes]] = {
    "join of b'%d'": lambda seqs: b"".join([b"ACK %d\n" % seq for seq in seqs]),
    "join of str": lambda seqs: ("ACK " + "\nACK ".join(map(str, seqs)) + "\n").encode(),
    "repr of the list, replaced": lambda seqs: f"ACK {repr(seqs)[1:-1]}\n".replace(", ", "\nACK ").encode(),
    "one format, repeated": lambda seqs: (b"ACK %d\n" * len(seqs)) % tuple(seqs),
}


def timed_cpu(function: Callable[[Any], Any], argument: Any, rows: int) -> float:
    """Median CPU microseconds per event of one call."""
    calls = max(1, EVENTS_A_ROUND // rows)
    times = []
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        for _ in range(calls):
            function(argument)
        times.append((time.process_time_ns() - began) / 1000 / calls / rows)
    return statistics.median(times)


# SQLite: rows into the ledger, inside a transaction; the commit is not counted.

SqliteInsert = Callable[[sqlite3.Connection, Numbers], object]
INSERT_ROW = "INSERT INTO ledger VALUES (?, ?)"


def sqlite_many(con: sqlite3.Connection, numbers: Numbers) -> None:
    con.executemany(INSERT_ROW, zip(numbers[::2], numbers[1::2], strict=True))


def sqlite_values(rows: int) -> SqliteInsert:
    """`rows` rows a statement, and executemany for what is left over."""
    statement = "INSERT INTO ledger VALUES " + ",".join(["(?,?)"] * rows)

    def insert(con: sqlite3.Connection, numbers: Numbers) -> None:
        whole = len(numbers) - len(numbers) % (2 * rows)
        for at in range(0, whole, 2 * rows):
            con.execute(statement, numbers[at : at + 2 * rows])
        if whole < len(numbers):
            sqlite_many(con, numbers[whole:])

    return insert


def sqlite_json(con: sqlite3.Connection, numbers: Numbers) -> None:
    con.execute(
        "INSERT INTO ledger SELECT ? + key, value FROM json_each(?)",
        (numbers[0], json.dumps(numbers[1::2])),
    )


SQLITE: dict[str, SqliteInsert] = {
    "executemany": sqlite_many,
    **{f"VALUES, {rows} rows": sqlite_values(rows) for rows in (50, 100, ROWS, 1000, 5000, 16383)},
    "json_each": sqlite_json,
}


def time_sqlite(insert: SqliteInsert, rows: int, folder: Path) -> float:
    times, first = [], 0
    with closing(open_sqlite(str(folder / "techniques.db"))) as con:
        for _ in range(max(5, min(1000, ROWS_A_METHOD // rows))):
            numbers = numbers_of(first, rows)
            first += rows
            con.execute("BEGIN IMMEDIATE")
            began = time.process_time_ns()
            insert(con, numbers)
            times.append((time.process_time_ns() - began) / 1000 / rows)
            con.execute("COMMIT")
    for file in folder.glob("techniques.db*"):
        file.unlink()
    return statistics.median(times)


# PostgreSQL: one transaction with the cursor's update, elapsed.

PostgresInsert = Callable[[Any, Numbers], object]
ROW = struct.Struct("!hiqii")
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def copy_text(cursor: Any, numbers: Numbers) -> None:
    with cursor.copy("COPY ledger FROM STDIN (DELIMITER ' ')") as copy:
        copy.write((b"%d %d\n" * (len(numbers) // 2)) % tuple(numbers))


def copy_binary(cursor: Any, numbers: Numbers) -> None:
    rows = map(ROW.pack, repeat(2), repeat(8), numbers[::2], repeat(4), numbers[1::2])
    with cursor.copy("COPY ledger FROM STDIN (FORMAT binary)") as copy:
        copy.write(b"".join((HEADER, *rows, b"\xff\xff")))


def unnest_binary(cursor: Any, numbers: Numbers) -> None:
    """psycopg's own binary arrays."""
    statement = "INSERT INTO ledger SELECT * FROM unnest(%b::int8[], %b::int4[])"
    cursor.execute(statement, (numbers[::2], numbers[1::2]))


def unnest_repr(cursor: Any, numbers: Numbers) -> None:
    """Arrays as text, by repr() of the lists: an array literal but for its brackets."""
    seqs, deltas = repr(numbers[::2])[1:-1], repr(numbers[1::2])[1:-1]
    statement = "INSERT INTO ledger SELECT * FROM unnest(%s::int8[], %s::int4[])"
    cursor.execute(statement, (f"{{{seqs}}}", f"{{{deltas}}}"))


def ordinality(cursor: Any, numbers: Numbers) -> None:
    """Only the first seq and the deltas travel; the server counts."""
    statement = (
        "INSERT INTO ledger SELECT %s::int8 + nth - 1, delta FROM unnest(%s::int4[]) WITH ORDINALITY AS new(delta, nth)"
    )
    cursor.execute(statement, (numbers[0], f"{{{repr(numbers[1::2])[1:-1]}}}"))


def postgres_many(cursor: Any, numbers: Numbers) -> None:
    rows = zip(numbers[::2], numbers[1::2], strict=True)
    cursor.executemany("INSERT INTO ledger VALUES (%s, %s)", rows)


POSTGRES: dict[str, PostgresInsert] = {
    "COPY, text": copy_text,
    "COPY, binary": copy_binary,
    "unnest, psycopg's binary arrays": unnest_binary,
    "unnest, arrays as text": unnest_repr,
    "unnest of deltas WITH ORDINALITY": ordinality,
    "executemany": postgres_many,
}


def time_postgres(insert: PostgresInsert, rows: int, server: Postgres) -> tuple[float, float]:
    """Elapsed and client CPU microseconds per event."""
    elapsed, cpu, last = [], [], -1
    with server.fresh(handler=False) as target, server.connect(target.peer_db) as con:
        con.execute("CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, last BIGINT, total BIGINT)")
        con.execute("CREATE TABLE ledger(seq BIGINT PRIMARY KEY, delta INTEGER NOT NULL)")
        con.execute("INSERT INTO checkpoint VALUES (1, -1, 0)")
        con.commit()
        for _ in range(max(15, min(300, ROWS_A_METHOD // rows))):
            numbers = numbers_of(last + 1, rows)
            began, busy = time.perf_counter_ns(), time.process_time_ns()
            with con.cursor() as cursor:
                insert(cursor, numbers)
                new = last + rows
                cursor.execute("UPDATE checkpoint SET last=%s WHERE id=1 AND last=%s", (new, last))
                con.commit()
            elapsed.append((time.perf_counter_ns() - began) / 1000 / rows)
            cpu.append((time.process_time_ns() - busy) / 1000 / rows)
            last = new
    return statistics.median(elapsed), statistics.median(cpu)


def table(title: str, cells: dict[str, list[str]], rows: list[int]) -> Table:
    drawn = Table(title=title)
    drawn.add_column("technique", no_wrap=True)
    for size in rows:
        drawn.add_column(f"{size:,}", justify="right")
    for name, row in cells.items():
        drawn.add_row(name, *row)
    return drawn


def measure_postgres(rows: list[int], folder: Path) -> dict[str, list[str]]:
    server = Postgres(folder)
    try:
        return {
            name: ["{:.2f} / {:.2f}".format(*time_postgres(insert, size, server)) for size in rows]
            for name, insert in POSTGRES.items()
        }
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = ["decode", "ack", "sqlite", "postgres"]
    parser.add_argument("parts", nargs="*", default=parts, metavar="|".join(parts))
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    rows, console = options.rows, Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_PIPED)
    samples = {size: numbers_of(FIRST, size) for size in rows}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as name:
        folder = Path(name).resolve()
        machine.refuse_memory(folder)
        if "decode" in options.parts:
            cells = {name: [f"{timed_cpu(f, chunk_of(samples[n]), n):.3f}" for n in rows] for name, f in DECODE.items()}
            console.print(table("Decoding, CPU us per event at lines a chunk", cells, rows))
        if "ack" in options.parts:
            cells = {name: [f"{timed_cpu(f, samples[n][::2], n):.3f}" for n in rows] for name, f in ACK.items()}
            console.print(table("ACK lines, CPU us per event at lines a write", cells, rows))
        if "sqlite" in options.parts:
            cells = {name: [f"{time_sqlite(f, n, folder):.3f}" for n in rows] for name, f in SQLITE.items()}
            console.print(table("SQLite insert, CPU us per row at rows a batch", cells, rows))
        if "postgres" in options.parts:
            title = "PostgreSQL transaction, elapsed / client CPU us per row at rows a batch"
            console.print(table(title, measure_postgres(rows, folder), rows))


if __name__ == "__main__":
    main()
