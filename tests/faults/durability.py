"""Whether a trace keeps the promise: nothing is acknowledged, and no cursor said, before what it claims is on disk.

Pure. A disk that is told by the calls alone: what is written is on it once a sync of that file has returned that began
after the write. What a failed sync was to write is lost, whatever a later sync says, until it is written again: the
kernel may report such a failure once, and keep the page as if it were clean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from .trace import Call

_SAID = re.compile(r"(RESUME|ACK) (-?\d+)\n")
_HEARD = re.compile(r"EVENT (\d+) -?\d+\n")

LOGS = ("-journal", "-wal")
"""What SQLite puts behind a database's name for the files that hold what is not in it yet, or no more."""


@dataclass(slots=True)
class _Range:
    """Bytes that were written and are not on disk."""

    start: float
    end: float
    write: Call
    lost: bool = False


@dataclass
class _Disk:
    """What is not on disk yet, by file; and names that are not in their folder yet."""

    database: str
    ranges: dict[str, list[_Range]] = field(default_factory=dict)
    names: list[Call] = field(default_factory=list)
    synced: int = -1
    """When the last write began that is on disk."""

    @property
    def folder(self) -> str:
        return self.database.rpartition("/")[0]

    def counts(self, file: str) -> bool:
        """Say whether a file holds what is committed. The index of the log (`-shm`) does not, it is made anew."""
        return file == self.database or file in (self.database + log for log in LOGS)

    def missing(self) -> Iterator[str]:
        """Tell what a power cut would take."""
        for file, ranges in self.ranges.items():
            for one in ranges:
                yield f"{one.end - one.start:g} bytes at {one.start:g} of {file}{', lost by a failed sync' * one.lost}"
        for call in self.names:
            yield f"{call.name} of {call.file}"

    def write(self, call: Call, start: float, end: float) -> None:
        kept: list[_Range] = []
        for one in self.ranges.get(call.file, []):
            if one.start < start:
                kept.append(_Range(one.start, min(one.end, start), one.write, one.lost))
            if one.end > end:
                kept.append(_Range(max(one.start, end), one.end, one.write, one.lost))
        self.ranges[call.file] = [*kept, _Range(start, end, call)]

    def sync(self, call: Call) -> None:
        if call.file == self.folder:
            if call.result is not None:
                self.names = [name for name in self.names if name.began > call.began]
            return
        left = []
        for one in self.ranges.get(call.file, []):
            covered = one.write.ended is not None and one.write.ended < call.began
            if covered and not one.lost and call.result is not None:
                self.synced = max(self.synced, one.write.began)
                continue
            left.append(_Range(one.start, one.end, one.write, one.lost or (covered and call.result is None)))
        self.ranges[call.file] = left


def violations(calls: Iterable[Call], database: str, present: Iterable[str] = ()) -> Iterator[str]:
    """Check a trace of a consumer, or of several one after the other.

    Args:
        calls: see `trace.parse`.
        database: the path of the SQLite file.
        present: the files that were there, and on disk, before.

    Yields:
        What does not hold.
    """
    promise = _Promise(_Disk(database), set(present))
    for place, call in _moments(calls):
        handle = promise.handlers.get(call.name)
        if handle is not None:
            yield from handle(call, place) or ()


class _Promise:
    """What has been heard, written and said so far. A call of each kind counts at its beginning or at its end."""

    def __init__(self, disk: _Disk, present: set[str]) -> None:
        self.handlers: dict[str, Callable[[Call, int], Iterable[str] | None]] = {
            **dict.fromkeys(("pwrite64", "write", "ftruncate"), self._write),
            **dict.fromkeys(("fsync", "fdatasync"), self._sync),
            **dict.fromkeys(("unlink", "unlinkat"), self._remove),
            "openat": self._make,
            "recvfrom": self._hear,
            "sendto": self._say,
        }
        self._disk = disk
        self._present = present
        self._heard: dict[int, int] = {}
        self._acknowledged = -1
        self._acknowledged_at = -1

    def _sync(self, call: Call, place: int) -> None:
        if place == call.ended and (self._disk.counts(call.file) or call.file == self._disk.folder):
            self._disk.sync(call)

    def _write(self, call: Call, place: int) -> Iterator[str]:
        disk = self._disk
        if place != call.began or not disk.counts(call.file):
            return
        if call.file == disk.database:  # what is not safe in a log must not be overwritten
            for log in LOGS:  # what is lost is of a commit that has failed, unless somebody claims it later on
                if any(not one.lost for one in disk.ranges.get(disk.database + log, ())):
                    yield f"the database was written to before its {log[1:]} was on disk"
        disk.write(call, call.offset, inf if call.name == "ftruncate" else call.offset + (call.result or 0))

    def _make(self, call: Call, place: int) -> None:
        is_made = place == call.ended and call.result is not None and "O_CREAT" in call.flags
        if is_made and self._disk.counts(call.file) and call.file not in self._present:
            self._present.add(call.file)
            self._disk.names.append(call)

    def _remove(self, call: Call, place: int) -> None:
        if place == call.ended and call.result is not None and self._disk.counts(call.file):
            self._present.discard(call.file)
            self._disk.ranges.pop(call.file, None)
            self._disk.names.append(call)

    def _hear(self, call: Call, place: int) -> None:
        if place == call.ended:
            self._heard |= dict.fromkeys(map(int, _HEARD.findall(call.text)), place)

    def _say(self, call: Call, place: int) -> Iterator[str]:
        said = _SAID.findall(call.text)
        if place != call.began or not said:
            return
        word, last = said[-1][0], int(said[-1][1])
        yield from (f"{word} {last} left without {what}" for what in self._disk.missing())
        if word == "ACK" and last > self._acknowledged:
            if self._disk.synced < max(self._acknowledged_at, self._heard.get(last, place)):
                yield f"ACK {last} left without a commit of its own"
            self._acknowledged_at = place
        self._acknowledged = max(self._acknowledged, last)


def _moments(calls: Iterable[Call]) -> list[tuple[int, Call]]:
    """Every beginning and every end in their order; one moment where they are the same."""
    moments = [(call.began, call) for call in calls]
    moments += [(call.ended, call) for call in calls if call.ended is not None and call.ended != call.began]
    return sorted(moments, key=lambda moment: moment[0])
