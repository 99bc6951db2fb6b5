"""For tests of what is built on this package: a publisher that plays a script, places to die at, and the proof.

`docs/testing.md` shows how. Nothing is loaded before it is used: pytest loads the plugin beside this file in every run
of whoever has this package installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumer.points import MigrationPoint, Point
    from consumer.testing.crash import Crash, CrashPoint, Moment, crash_at
    from consumer.testing.proof import Proof, assert_exactly_once
    from consumer.testing.publisher import Acked, Heard, Resumed, ScriptedPublisher
    from consumer.testing.session import Session
    from consumer.testing.steps import (
        AwaitAck,
        Close,
        Finish,
        FinishWithoutNotify,
        HalfOpen,
        KeepSilent,
        ReadSlowly,
        Reset,
        Say,
        Send,
        SendAgain,
        SendByteByByte,
        SendConflict,
        SendGap,
        SendGarbage,
        SendSplit,
        SendTorn,
        Serve,
        Step,
    )
    from consumer.wire import Ahead, Snapshot, Truncated

__all__ = [
    "Acked",
    "Ahead",
    "AwaitAck",
    "Close",
    "Crash",
    "CrashPoint",
    "Finish",
    "FinishWithoutNotify",
    "HalfOpen",
    "Heard",
    "KeepSilent",
    "MigrationPoint",
    "Moment",
    "Point",
    "Proof",
    "ReadSlowly",
    "Reset",
    "Resumed",
    "Say",
    "ScriptedPublisher",
    "Send",
    "SendAgain",
    "SendByteByByte",
    "SendConflict",
    "SendGap",
    "SendGarbage",
    "SendSplit",
    "SendTorn",
    "Serve",
    "Session",
    "Snapshot",
    "Step",
    "Truncated",
    "assert_exactly_once",
    "crash_at",
]

_ROOMS = (
    "consumer.testing.steps",
    "consumer.testing.publisher",
    "consumer.testing.session",
    "consumer.testing.crash",
    "consumer.testing.proof",
    "consumer.wire",
)


def __getattr__(name: str) -> object:
    """Find a public name in its room."""
    if name in __all__:
        for room in map(importlib.import_module, _ROOMS):
            if hasattr(room, name):
                return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
