"""A few numbers in memory that the processes of a soak share: a killed one can say nothing any more."""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum, auto

_NUMBER = struct.Struct("q")


class Slot(IntEnum):
    """What each number is."""

    PLACE = 0
    """The last point that the consumer has passed, by its place in `Point`; -1: none yet."""
    BATCHES = auto()
    """How many batches all consumers have committed."""
    ARMED = auto()
    """The crash point that the consumer is to die at, by its place in `processes.CRASH_POINTS`; -1: none."""
    TIMES = auto()
    """And at which time of passing it from then on."""
    APPENDED = auto()
    """The last event that the appender has reported."""
    RESUMED = auto()
    """The highest cursor that was said."""
    ACKED = auto()
    """The highest event that was acknowledged."""
    UNTRUE = auto()
    """How often a consumer has said what cannot be: a RESUME below an ACK, an ACK out of turn."""
    ADVANCES = auto()
    """How many RESUMEs said more than any before: between them something was committed."""
    CALM = auto()
    """1: the proxy is to let nothing more happen, the appender to end."""
    RESETS = auto()
    STALLS = auto()
    SPLITS = auto()
    HALF_OPENS = auto()


class Board:
    """The numbers. It is made before the processes fork."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NUMBER.size * len(Slot))
        for slot in (Slot.PLACE, Slot.ARMED, Slot.APPENDED, Slot.RESUMED, Slot.ACKED):
            self[slot] = -1

    def __getitem__(self, slot: Slot) -> int:
        number: int = _NUMBER.unpack_from(self._memory, slot * _NUMBER.size)[0]
        return number

    def __setitem__(self, slot: Slot, number: int) -> None:
        _NUMBER.pack_into(self._memory, slot * _NUMBER.size, number)
