"""For tests of what is built on this package: a publisher that plays a script, places to die at, and the proof.

`docs/testing.md` shows how. Nothing is loaded before it is used: pytest loads the plugin beside this file in every run
of whoever has this package installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer import lazy

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

if not TYPE_CHECKING:  # to a type checker any name would seem to be there
    __getattr__, __dir__ = lazy.names_of(
        __name__,
        __all__,
        (
            "consumer.points",
            "consumer.wire",
            "consumer.testing.steps",
            "consumer.testing.publisher",
            "consumer.testing.session",
            "consumer.testing.crash",
            "consumer.testing.proof",
        ),
    )
