"""The long form: as many histories as wanted, in batches with a seed each, and what came of them.

    python -m tests.simulation [--histories 100000] [--processes 2] [--seed N]
    python -m tests.simulation --breakages

A failure is shortened, printed with its seed, and ends the run with 1. The same seed gives the same histories again.
"""

import argparse
import logging
import multiprocessing
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import breakages, surroundings
from .machine import Simulation

STEPS = 8
"""How many things are done in a history, after its beginning and before everything is put right."""

BATCH_HISTORIES = 200
"""Histories under one seed. Hypothesis remembers all of them while it chooses the next."""

SEED_MAX = 2**32
"""Below this are the seeds that are chosen."""

BREAKAGE_HISTORIES_MAX = 2_000
"""How soon a breakage must be found."""

LOG_INTERVAL_S = 10.0
"""How often a line is written about progress where there is no terminal."""

OPTIONS = settings(
    database=None,
    deadline=None,
    stateful_step_count=STEPS,
    suppress_health_check=list(HealthCheck),  # a history takes what it takes
    report_multiple_bugs=False,
    print_blob=False,
    phases=[Phase.generate, Phase.shrink],
)

log = logging.getLogger("simulation")


@dataclass(frozen=True)
class Batch:
    """What came of the histories under one seed."""

    seed: int
    figures: Counter[str]
    failure: str | None


def run_batch(number: int, histories: int) -> Batch:
    """Run histories until one fails."""
    Simulation.figures.clear()
    failure = None
    try:
        run_state_machine_as_test(seed(number)(Simulation), settings=settings(OPTIONS, max_examples=histories))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
        failure = "\n".join([*getattr(error, "__notes__", []), f"{type(error).__name__}: {error}"])
    return Batch(number, Counter(Simulation.figures), failure)


def run_batches(histories: int, processes: int, first: int, folder: str) -> Iterator[Batch]:
    """Run as many histories as wanted, in some processes. None of those is left when this ends."""
    seeds = range(first, first + -(-histories // BATCH_HISTORIES))
    with multiprocessing.get_context("spawn").Pool(processes, _begin, (folder,)) as pool:
        yield from pool.imap_unordered(partial(run_batch, histories=min(histories, BATCH_HISTORIES)), seeds)


def _begin(folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that has started these
    surroundings.FOLDER = Path(folder)


def find(name: str, histories_max: int = BREAKAGE_HISTORIES_MAX) -> tuple[int, str] | None:
    """Break our code, and say how many histories it took to notice, and by what. None: it was not."""
    made = 0

    class Counted(Simulation):
        def __init__(self) -> None:
            nonlocal made
            made += 1
            super().__init__()

    with pytest.MonkeyPatch.context() as patch:
        breakages.ALL[name](patch)
        try:
            only = settings(OPTIONS, max_examples=histories_max, phases=[Phase.generate], derandomize=True)
            run_state_machine_as_test(Counted, settings=only)
        except AssertionError as error:
            return made, str(error)
    return None


@contextmanager
def progress(total: int, console: Console) -> Iterator[Progress | None]:
    """A bar on a terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("histories"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        bar.add_task("histories", total=total)
        yield bar


def simulate(histories: int, processes: int, first: int) -> int:
    """Run the histories and print the figures. Gives the exit code."""
    figures: Counter[str] = Counter()
    code = 0
    began = logged = time.monotonic()
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="consumer-simulation-", dir=surroundings.FOLDER) as folder:
        try:
            with progress(histories, console) as bar:
                for batch in run_batches(histories, processes, first, folder):
                    figures += batch.figures
                    if bar is not None:
                        bar.update(bar.task_ids[0], completed=figures["histories"])
                    elif time.monotonic() - logged >= LOG_INTERVAL_S:
                        logged = time.monotonic()
                        log.info("%d histories", figures["histories"])
                    if batch.failure is not None:
                        console.print(f"seed {batch.seed} fails:\n{batch.failure}", markup=False)
                        console.print(
                            f"again: python -m tests.simulation --seed {batch.seed} --histories {BATCH_HISTORIES}"
                        )
                        code = 1
                        break
        except KeyboardInterrupt:
            code = 130
    seconds = time.monotonic() - began
    for name, count in sorted(figures.items()):
        console.print(f"{count:>12,} {name}")
    minutes = seconds / 60
    console.print(
        f"in {seconds:.0f} s, {figures['histories'] / minutes:,.0f} histories a minute, "
        f"seeds {first} and following, {processes} processes"
    )
    return code


def find_breakages(names: Iterable[str]) -> int:
    """Print how soon each breakage is found, and by what. Gives the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    code = 0
    for name in names:
        found = find(name)
        by = (
            f"NOT FOUND in {BREAKAGE_HISTORIES_MAX} histories"
            if found is None
            else f"in history {found[0]}: {found[1][:100]}"
        )
        console.print(f"{name.replace('_', ' ')}: {by}", markup=False)
        code = code or int(found is None)
    return code


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="of the first batch, each has the next; random unless given")
    parser.add_argument("--breakages", action="store_true", help="break our code on purpose, and see it found")
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if options.breakages:
        sys.exit(find_breakages(breakages.ALL))
    log.setLevel(logging.INFO)
    first = secrets.randbelow(SEED_MAX) if options.seed is None else options.seed
    log.info("seeds %d and following", first)
    sys.exit(simulate(options.histories, options.processes, first))
