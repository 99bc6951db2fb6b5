"""The one table, drawn by Rich, and readable when it goes into a file."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

WIDTH_PIPED = 150  # Rich takes 80 columns for a pipe, and the table needs more
PEAK_RATIO_MAX = 1.2
PACE_RATIO_MIN = 0.8


@dataclass(frozen=True)
class Side:
    """The medians of one side of a comparison."""

    name: str
    events: int
    rate: float
    cpu_us: float
    per_commit: float
    peak_mib: float


@dataclass(frozen=True)
class Comparison:
    """Both sides of one scenario, and the ratio of their rates in each pair."""

    scenario: str
    sides: list[Side]
    ratios: list[float]
    least: float | None
    aim: float | None


@dataclass(frozen=True)
class Memory:
    """Peak memory by number of events, and how peak and pace compare."""

    peaks_mib: dict[int, float]
    peak_ratio: float
    pace_ratio: float


def verdict(ratio: float, least: float | None, aim: float | None) -> str:
    """What was asked for, and whether it is there."""
    words = []
    if least is not None:
        words.append(f"≥ {least:g} {'met' if ratio >= least else 'SHORT'}")
    if aim is not None:
        words.append(f"aim {aim:g} {'met' if ratio >= aim else 'missed'}")
    return ", ".join(words)


class Report:
    """Collects results and prints them once all are there."""

    def __init__(self) -> None:
        piped = not sys.stdout.isatty()
        self.console = Console(width=WIDTH_PIPED if piped else None)
        self.progress = Console(stderr=True)
        self.comparisons: list[Comparison] = []
        self.memories: list[Memory] = []
        self.failures: list[str] = []

    def working(self, scenario: str) -> None:
        self.progress.print(f"… {scenario}", style="dim")

    def add(self, result: Comparison | Memory) -> None:
        if isinstance(result, Comparison):
            self.comparisons.append(result)
        else:
            self.memories.append(result)

    def failed(self, scenario: str, why: str) -> None:
        self.failures.append(f"{scenario} FAILED: {why}")

    def table(self) -> Table:
        table = Table(title="Product and hand-written peer, medians")
        for column in ("scenario", "side"):
            table.add_column(column, no_wrap=True)
        for column in ("events", "events/s", "CPU us/event", "events/commit", "peak MiB", "ratio"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("asked for")
        for found in self.comparisons:
            ratio, words = "", ""
            if found.ratios:
                middle = statistics.median(found.ratios)
                ratio = f"{middle:.2f} ({min(found.ratios):.3g} to {max(found.ratios):.3g})"
                words = verdict(middle, found.least, found.aim)
            for at, side in enumerate(found.sides):
                table.add_row(
                    found.scenario if at == 0 else "",
                    side.name,
                    f"{side.events:,}",
                    f"{side.rate:,.0f}",
                    f"{side.cpu_us:.2f}",
                    f"{side.per_commit:,.0f}",
                    f"{side.peak_mib:.0f}",
                    ratio if at == 0 else "",
                    words if at == 0 else "",
                    end_section=at == len(found.sides) - 1,
                )
        return table

    def line(self, text: str, style: str | None = None) -> None:
        """One line as it is: no markup in a path or an error, no breaking in a file."""
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def print(self, notes: list[str]) -> None:
        for note in notes:
            self.line(note)
        if self.comparisons:
            self.console.print(self.table())
        for memory in self.memories:
            peaks = ", ".join(f"{mib:.0f} MiB at {n:,}" for n, mib in memory.peaks_mib.items())
            peak = "met" if memory.peak_ratio <= PEAK_RATIO_MAX else "SHORT"
            pace = "met" if memory.pace_ratio >= PACE_RATIO_MIN else "SHORT"
            self.line(
                f"memory: {peaks}: ratio {memory.peak_ratio:.2f} (≤ {PEAK_RATIO_MAX} {peak}); "
                f"last million against first {memory.pace_ratio:.2f} (≥ {PACE_RATIO_MIN} {pace})"
            )
        for failure in self.failures:
            self.line(failure, style="bold red")
