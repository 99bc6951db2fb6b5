"""What the machine is: a folder that really syncs, how long that takes, and which cores there are."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs", "devtmpfs"}
SYNCS = 200


def file_system(folder: Path) -> str:
    """The type of the file system that holds `folder`: its longest mount point decides."""
    found, longest = "unknown", -1
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        point = mount.split()[4].encode("ascii").decode("unicode_escape")
        # `>=`: of two mounts on one point, the later one covers the earlier.
        if folder.resolve().is_relative_to(point) and len(point) >= longest:
            found, longest = source.split()[0], len(point)
    return found


def refuse_memory(folder: Path) -> str:
    """The file system's type; SystemExit where syncing costs nothing and every figure would lie."""
    kind = file_system(folder)
    if kind in MEMORY_FILE_SYSTEMS:
        raise SystemExit(f"{folder} is on {kind}, where fsync does nothing: choose another --folder")
    return kind


def fdatasync_us(folder: Path) -> tuple[float, float]:
    """Median and 90th percentile of one fdatasync after appending 4 KiB, in microseconds."""
    path = folder / "fdatasync"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    times = []
    try:
        for _ in range(SYNCS):
            os.write(descriptor, bytes(4096))
            began = time.perf_counter()
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - began) * 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(times), statistics.quantiles(times, n=10)[-1]


@dataclass(frozen=True)
class Cores:
    """Where publisher and consumer run; `any` where they must share one core."""

    publisher: str
    consumer: str
    note: str

    @property
    def apart(self) -> bool:
        return self.publisher != self.consumer


def choose_cores() -> Cores:
    """The first and the last core that this process may use: not two threads of one, as a rule."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        return Cores("any", "any", "only one core: publisher and consumer share it, and it shows")
    note = f"publisher on core {cores[0]}, consumer on core {cores[-1]} of {len(cores)}"
    return Cores(str(cores[0]), str(cores[-1]), note)
