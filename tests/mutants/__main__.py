"""`python -m tests.mutants`: put one mistake after the other into a copy of the tree, and see its test fail.

Ends with 1 where a mistake is noticed by no test, or where the list is out of date. Words given to it choose the
breakages whose names or places have one of them in it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.conftest import started_postgres

from .breakage import Breakage, OutOfDateError
from .breakages import BREAKAGES
from .trial import BASELINE_LIMIT_S, PATIENCE_S, ROOT, Copy, Verdict

WORKERS = 2
"""How many breakages at once."""

OUTPUT_LINES = 12
"""How much is shown of what a test has printed that did not notice a breakage."""

Row = tuple[Breakage, Verdict, float, str]

console = Console()


def main() -> int:
    """Do it, and give the exit code."""
    chosen = [
        one for one in BREAKAGES if not sys.argv[1:] or any(word in f"{one.name} {one.where}" for word in sys.argv[1:])
    ]
    try:
        for one in chosen:
            one.find(ROOT)
    except OutOfDateError as error:
        console.print(f"the list is out of date: {error}")
        return 1
    if not chosen:
        console.print("no breakage has such a word in it")
        return 2
    with tempfile.TemporaryDirectory(prefix="consumer-mutants-") as folder, started_postgres() as server:
        environment = {"CONSUMER_TEST_POSTGRES": server.get_uri(), "CONSUMER_TEST_PATIENCE_S": str(PATIENCE_S)}
        copies = [Copy(Path(folder) / f"copy-{n}", environment) for n in range(min(WORKERS, len(chosen)))]
        try:
            return _try_all(chosen, copies)
        except KeyboardInterrupt:
            console.print("stopped")
            return 130
        finally:
            for copy in copies:
                copy.stop()


def _try_all(chosen: Sequence[Breakage], copies: Sequence[Copy]) -> int:
    for copy in copies:
        assert copy.which_consumer() == str(copy.folder / "consumer" / "__init__.py"), "a child would run another tree"
    began = time.monotonic()
    console.print(f"{len(chosen)} breakages; first their tests without any")
    code, failures, printed = copies[0].run([one.test for one in chosen], BASELINE_LIMIT_S, "-n", f"{WORKERS}")
    if code != 0:
        console.print(printed, markup=False)
        console.print(f"without any breakage the tests must pass; failed: {failures}")
        return 1
    with _progress(len(chosen)) as advance:
        rows = _in_turn(chosen, copies, advance)
    _show(rows, time.monotonic() - began)
    return 0 if all(verdict is Verdict.KILLED for _, verdict, _, _ in rows) else 1


def _in_turn(chosen: Sequence[Breakage], copies: Sequence[Copy], advance: Callable[[Row], None]) -> list[Row]:
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def try_one(breakage: Breakage) -> Row:
        copy = free.get()
        began = time.monotonic()
        try:
            verdict, printed = copy.try_one(breakage)
        finally:
            free.put(copy)
        return breakage, verdict, time.monotonic() - began, printed

    rows = []
    with ThreadPoolExecutor(len(copies)) as threads:
        futures = [threads.submit(try_one, breakage) for breakage in chosen]
        try:
            for future in as_completed(futures):
                rows.append(future.result())
                advance(rows[-1])
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()
            raise
    return rows


@contextmanager
def _progress(count: int) -> Iterator[Callable[[Row], None]]:
    """Show how far it is: a bar on a terminal, a line for each breakage elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("breakages", total=count)
        done = 0

        def advance(row: Row) -> None:
            nonlocal done
            done += 1
            breakage, verdict, took_s, _ = row
            if not console.is_terminal or verdict is not Verdict.KILLED:
                console.print(f"{done:3}/{count} {verdict.value:10} {took_s:5.1f} s  {breakage.name}", markup=False)
            progress.advance(task)

        yield advance


def _show(rows: Sequence[Row], took_s: float) -> None:
    """Say what became of them, and what the tests said of those that nobody noticed."""
    table = Table(title=f"{len(rows)} breakages in {took_s:.0f} s", title_justify="left")
    files = {breakage.name: str(breakage.find(ROOT)[0].relative_to(ROOT)) for breakage, *_ in rows}
    for name in ("file", *(verdict.value for verdict in Verdict)):
        table.add_column(name, justify="left" if name == "file" else "right")
    for file in sorted(set(files.values())):
        verdicts = [verdict for breakage, verdict, *_ in rows if files[breakage.name] == file]
        table.add_row(file, *(f"{verdicts.count(verdict) or ''}" for verdict in Verdict))
    console.print(table)
    for breakage, verdict, _, printed in rows:
        if verdict is not Verdict.KILLED:
            console.rule(f"{verdict.value}: {breakage.name}")
            console.print(f"{breakage.where}: {breakage.old!r} → {breakage.new!r}\n{breakage.test}", markup=False)
            console.print("\n".join(printed.splitlines()[-OUTPUT_LINES:]), markup=False)


if __name__ == "__main__":
    sys.exit(main())
