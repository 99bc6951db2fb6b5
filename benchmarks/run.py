"""Run product and hand-written peer in turn, check what both leave, and print one table.

    python -m benchmarks [--quick] [--only NAME …] [--pairs 5] [--folder DIR] [--without-product]

A pair is one run of each side, product first, against the same events; pairs follow one another
(A B A B), so that a machine that slows down slows both. Reported are medians. Before each scenario
every side runs a few times with no events: what that costs, start-up and imports, is taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import machine, product, report
from benchmarks.databases import Postgres, Sqlite, Target

HERE = Path(__file__).parent
RUN_S_MAX = 900
STREAMING = 65536
# About 1 us each: longer than a commit, so that a publisher with window 1 never has to be woken.
SPINS = 3000
# Start-up is most of a short run's CPU, and its jitter would pass for CPU per event.
EMPTY_RUNS = 3
PRODUCT = "product"


@dataclass(frozen=True)
class Scenario:
    """One comparison; `least` is the ratio of rates that issue 3 asks for, `aim` what it hopes for."""

    name: str
    database: str
    peer: str | None
    events: int
    peer_events: int | None = None  # where the peer is too slow for as many
    window: int = STREAMING
    handler: bool = False
    least: float | None = None
    aim: float | None = None


SCENARIOS = (
    Scenario("sqlite", "sqlite", "sqlite-chunks", 2_000_000, least=1.0),
    Scenario("sqlite-tuned", "sqlite", "sqlite-tuned", 2_000_000, aim=0.8),
    Scenario("sqlite-single", "sqlite", "sqlite-single", 2_000_000, 20_000, least=100),
    Scenario("postgres", "postgres", "postgres-copy", 2_000_000, least=0.85),
    Scenario("stop-and-wait", "sqlite", "sqlite-single", 20_000, window=1, least=0.5, aim=0.7),
    Scenario("handler", "sqlite", "sqlite-handler", 1_000_000, handler=True, least=0.85),
    Scenario("memory", "sqlite", None, 10_000_000),
)
MEMORY_SMALL = 1_000_000
QUICK_PAIRS, QUICK_SHARE = 3, 5  # three pairs with a fifth of the events,
QUICK_EVENTS_MIN = 10_000  # but no run so short that the clock decides


@dataclass(frozen=True)
class Run:
    """What one run of one side has shown."""

    side: str
    events: int
    seconds: float
    cpu_s: float
    peak_mib: float
    commits: int
    first_million_per_s: float | None = None
    last_million_per_s: float | None = None

    @property
    def rate(self) -> float:
        return self.events / self.seconds


class Failed(Exception):
    """A run that did not end well, or left wrong tables: there is no figure, and this says why."""


class Bench:
    """Starts publisher and consumer, each on its core, and reads what they cost."""

    def __init__(self, folder: Path, cores: machine.Cores) -> None:
        self.folder, self.cores = folder, cores
        self.databases: dict[str, Sqlite | Postgres] = {}
        self.runs: list[dict[str, Any]] = []

    def database(self, name: str) -> Sqlite | Postgres:
        if name not in self.databases:
            self.databases[name] = Sqlite(self.folder) if name == "sqlite" else Postgres(self.folder)
        return self.databases[name]

    def close(self) -> None:
        for database in self.databases.values():
            if isinstance(database, Postgres):
                database.close()

    @contextmanager
    def publisher(self, events: int, window: int) -> Iterator[subprocess.Popen[str]]:
        """The publisher's process; killed if it is still there at the end."""
        spins = SPINS if window == 1 and self.cores.apart else 0
        command = [sys.executable, "-m", "benchmarks.publisher", f"--events={events}"]
        command += [f"--window={window}", f"--spins={spins}"]
        if self.cores.apart:
            command.append(f"--core={self.cores.publisher}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as process:
            try:
                yield process
            finally:
                process.kill()

    def command(self, side: str, port: int, db: str, *, handler: bool, events: int) -> list[str]:
        module = "benchmarks.product" if side == PRODUCT else "benchmarks.peers"
        command = [sys.executable, "-m", module, f"--port={port}", f"--db={db}"]
        if side == PRODUCT:
            return [*command, "--handler"] if handler else command
        return [*command, f"--events={events}", side]

    def consume(self, command: list[str]) -> dict[str, Any]:
        """Run a consumer on its core; what it cost, or Failed with its last words."""
        measure = [sys.executable, "-S", "-E", str(HERE / "measure.py")]
        done = subprocess.run(
            [*measure, self.cores.consumer, str(RUN_S_MAX), *command],
            capture_output=True,
            text=True,
            cwd=HERE.parent,
            check=False,
        )
        *words, last = done.stderr.splitlines() or [""]
        cost: dict[str, Any] = json.loads(last) if last.startswith("{") else {"exit": "unknown"}
        if cost["exit"] != 0:
            raise Failed(f"exit code {cost['exit']}: {' | '.join(words[-3:])}")
        return cost

    def run(self, scenario: Scenario, side: str, events: int) -> Run:
        """One run on a fresh database; Failed unless the tables say what the publisher sent."""
        database = self.database(scenario.database)
        with (
            database.fresh(handler=scenario.handler) as target,
            self.publisher(events, scenario.window) as publisher,
        ):
            assert publisher.stdout is not None
            port = json.loads(publisher.stdout.readline())["port"]
            db = target.product_db if side == PRODUCT else target.peer_db
            if side == PRODUCT:
                product.prepare(db)
            handler = scenario.handler
            cost = self.consume(self.command(side, port, db, handler=handler, events=events))
            line = publisher.stdout.readline()
            if not line:
                raise Failed("the publisher gave up")
            sent = json.loads(line)
            commits = target.commits()
            if side != "null":
                self.check(target, sent)
        result = Run(
            side=side,
            events=events,
            seconds=sent["seconds"],
            cpu_s=cost["cpu_s"],
            peak_mib=cost["peak_kib"] / 1024,
            commits=commits,
            first_million_per_s=sent.get("first_million_per_s"),
            last_million_per_s=sent.get("last_million_per_s"),
        )
        self.runs.append({"scenario": scenario.name, **asdict(result)})
        return result

    def check(self, target: Target, sent: dict[str, Any]) -> None:
        """Both sides of a pair are compared with the same figures, and so with each other."""
        try:
            found = target.facts()
        except Exception as error:  # two drivers' errors, and tables that contradict each other
            raise Failed(f"the tables are wrong: {error}") from error
        for name, value in found.items():
            if sent[name] != value:
                raise Failed(f"the tables say {name}={value}, the publisher {sent[name]}")
        if sent["connections"] != 1:
            raise Failed(f"{sent['connections']} connections instead of one")


def summary(runs: list[Run], empty: list[Run]) -> report.Side:
    """The medians of one side, without what a run with no events costs."""
    start_cpu_s = statistics.median(run.cpu_s for run in empty)
    start_commits = statistics.median(run.commits for run in empty)
    commits = statistics.median(max(1, run.commits - start_commits) for run in runs)
    return report.Side(
        name=runs[0].side,
        events=runs[0].events,
        rate=statistics.median(run.rate for run in runs),
        cpu_us=statistics.median((run.cpu_s - start_cpu_s) * 1e6 / run.events for run in runs),
        per_commit=runs[0].events / commits,
        peak_mib=statistics.median(run.peak_mib for run in runs),
    )


def compare(bench: Bench, scenario: Scenario, pairs: int, *, alone: bool) -> report.Comparison:
    """The pairs of one scenario; with `alone`, the peer without the product."""
    assert scenario.peer is not None
    sides = {PRODUCT: scenario.events, scenario.peer: scenario.peer_events or scenario.events}
    if alone:
        del sides[PRODUCT]
    empty = {side: [bench.run(scenario, side, 0) for _ in range(EMPTY_RUNS)] for side in sides}
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for _ in range(pairs):
        for side, events in sides.items():
            runs[side].append(bench.run(scenario, side, events))
    ratios = []
    if not alone:
        both = zip(runs[PRODUCT], runs[scenario.peer], strict=True)
        ratios = [ours.rate / theirs.rate for ours, theirs in both]
    found = [summary(runs[side], empty[side]) for side in sides]
    return report.Comparison(scenario.name, found, ratios, scenario.least, scenario.aim)


def memory(bench: Bench, scenario: Scenario, pairs: int, small: int) -> report.Memory:
    """The product alone: ten million events against one, in peak memory and in pace."""
    peaks, paces, runs = [], [], []
    for _ in range(pairs):
        few = bench.run(scenario, PRODUCT, small)
        many = bench.run(scenario, PRODUCT, scenario.events)
        assert many.first_million_per_s is not None
        assert many.last_million_per_s is not None
        peaks.append(many.peak_mib / few.peak_mib)
        paces.append(many.last_million_per_s / many.first_million_per_s)
        runs += [few, many]
    sizes = {
        events: statistics.median(run.peak_mib for run in runs if run.events == events)
        for events in (small, scenario.events)
    }
    return report.Memory(sizes, statistics.median(peaks), statistics.median(paces))


def ceiling(bench: Bench, window: int, events: int) -> float:
    """The publisher's own rate, against a consumer that only counts lines."""
    scenario = Scenario("ceiling", "sqlite", "null", events, window=window)
    return statistics.median(bench.run(scenario, "null", events).rate for _ in range(3))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="fewer pairs, fewer events")
    parser.add_argument("--pairs", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=Path(), help="where the databases go")
    parser.add_argument("--without-product", action="store_true", help="the peers alone")
    parser.add_argument("--json", type=Path, default=None, help="write every single run there")
    options = parser.parse_args()
    if not options.without_product and find_spec("consumer") is None:
        parser.error("there is no package `consumer` here; --without-product measures the peers")
    return options


def measure(bench: Bench, options: argparse.Namespace, show: report.Report) -> bool:
    """Every chosen scenario; False if one of them failed."""
    pairs = options.pairs or (QUICK_PAIRS if options.quick else 5)
    good = True
    for scenario in SCENARIOS:
        if scenario.name not in options.only:
            continue
        sized = scenario
        if options.quick:
            events = max(scenario.events // QUICK_SHARE, QUICK_EVENTS_MIN)
            sized = replace(scenario, events=events)
        show.working(scenario.name)
        try:
            if scenario.peer is not None:
                show.add(compare(bench, sized, pairs, alone=options.without_product))
            elif not options.without_product:
                small = MEMORY_SMALL // (2 if options.quick else 1)
                show.add(memory(bench, sized, pairs, small))
        except (Failed, ValueError, subprocess.CalledProcessError) as error:
            show.failed(scenario.name, str(error))
            good = False
    return good


def main() -> None:
    """Measure and print; exit code 1 if a run failed or left wrong tables, not if it was slow."""
    options = parse()
    show = report.Report()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder))).resolve()
        kind = machine.refuse_memory(folder)
        cores = machine.choose_cores()
        bench = Bench(folder, cores)
        stack.callback(bench.close)
        syncs = [machine.fdatasync_us(folder)]
        load = os.getloadavg()[0]
        rates = ceiling(bench, STREAMING, 1_000_000), ceiling(bench, 1, 20_000)
        good = measure(bench, options, show)
        syncs.append(machine.fdatasync_us(folder))
        notes = [
            f"{folder.parent} on {kind}; {cores.note}",
            f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after (the run itself makes 1 to 2)",
            "fdatasync of 4 KiB, median and 90th percentile: "
            + "; ".join(f"{middle:.0f} and {high:.0f} us" for middle, high in syncs)
            + " (before; after)",
            f"publisher's ceiling: {rates[0]:,.0f} events/s, with window 1 {rates[1]:,.0f}",
            *(database.describe() for database in bench.databases.values()),
        ]
        show.print(notes)
    if options.json:
        options.json.write_text(json.dumps(bench.runs, indent=1))
    sys.exit(0 if good else 1)
