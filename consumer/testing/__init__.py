"""For tests of what is built on this package: the proof, places to die at, a scripted publisher, checks for sources.

`docs/testing.md` shows how. Nothing is loaded before it is used. The pytest fixture `exactly_once` is in
`resumable_consumer_pytest`, a module beside this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.core import lazy

if TYPE_CHECKING:
    from consumer.core.points import MigrationPoint as MigrationPoint
    from consumer.core.points import Point as Point
    from consumer.sources.tcp.wire import Ahead as Ahead
    from consumer.sources.tcp.wire import Snapshot as Snapshot
    from consumer.sources.tcp.wire import Truncated as Truncated
    from consumer.testing.conformance.checks import check_source as check_source
    from consumer.testing.crash import Crash as Crash
    from consumer.testing.crash import CrashPoint as CrashPoint
    from consumer.testing.crash import Moment as Moment
    from consumer.testing.crash import crash_at as crash_at
    from consumer.testing.memory.engine import MemoryEngine as MemoryEngine
    from consumer.testing.memory.source import MemorySource as MemorySource
    from consumer.testing.proof.fixture import ExactlyOnce as ExactlyOnce
    from consumer.testing.proof.proof import Proof as Proof
    from consumer.testing.proof.proof import assert_exactly_once as assert_exactly_once
    from consumer.testing.script.conversation import Session as Session
    from consumer.testing.script.publisher import Acked as Acked
    from consumer.testing.script.publisher import Heard as Heard
    from consumer.testing.script.publisher import Resumed as Resumed
    from consumer.testing.script.publisher import ScriptedPublisher as ScriptedPublisher
    from consumer.testing.script.steps import AwaitAck as AwaitAck
    from consumer.testing.script.steps import Close as Close
    from consumer.testing.script.steps import Finish as Finish
    from consumer.testing.script.steps import FinishWithoutNotify as FinishWithoutNotify
    from consumer.testing.script.steps import HalfOpen as HalfOpen
    from consumer.testing.script.steps import KeepSilent as KeepSilent
    from consumer.testing.script.steps import ReadSlowly as ReadSlowly
    from consumer.testing.script.steps import Reset as Reset
    from consumer.testing.script.steps import Say as Say
    from consumer.testing.script.steps import Send as Send
    from consumer.testing.script.steps import SendAgain as SendAgain
    from consumer.testing.script.steps import SendByteByByte as SendByteByByte
    from consumer.testing.script.steps import SendConflict as SendConflict
    from consumer.testing.script.steps import SendGap as SendGap
    from consumer.testing.script.steps import SendGarbage as SendGarbage
    from consumer.testing.script.steps import SendSplit as SendSplit
    from consumer.testing.script.steps import SendTorn as SendTorn
    from consumer.testing.script.steps import Serve as Serve
    from consumer.testing.script.steps import Step as Step

_NAMES = {
    "Acked": "consumer.testing.script.publisher",
    "Ahead": "consumer.sources.tcp.wire",
    "AwaitAck": "consumer.testing.script.steps",
    "Close": "consumer.testing.script.steps",
    "Crash": "consumer.testing.crash",
    "CrashPoint": "consumer.testing.crash",
    "ExactlyOnce": "consumer.testing.proof.fixture",
    "Finish": "consumer.testing.script.steps",
    "FinishWithoutNotify": "consumer.testing.script.steps",
    "HalfOpen": "consumer.testing.script.steps",
    "Heard": "consumer.testing.script.publisher",
    "KeepSilent": "consumer.testing.script.steps",
    "MemoryEngine": "consumer.testing.memory.engine",
    "MemorySource": "consumer.testing.memory.source",
    "MigrationPoint": "consumer.core.points",
    "Moment": "consumer.testing.crash",
    "Point": "consumer.core.points",
    "Proof": "consumer.testing.proof.proof",
    "ReadSlowly": "consumer.testing.script.steps",
    "Reset": "consumer.testing.script.steps",
    "Resumed": "consumer.testing.script.publisher",
    "Say": "consumer.testing.script.steps",
    "ScriptedPublisher": "consumer.testing.script.publisher",
    "Send": "consumer.testing.script.steps",
    "SendAgain": "consumer.testing.script.steps",
    "SendByteByByte": "consumer.testing.script.steps",
    "SendConflict": "consumer.testing.script.steps",
    "SendGap": "consumer.testing.script.steps",
    "SendGarbage": "consumer.testing.script.steps",
    "SendSplit": "consumer.testing.script.steps",
    "SendTorn": "consumer.testing.script.steps",
    "Serve": "consumer.testing.script.steps",
    "Session": "consumer.testing.script.conversation",
    "Snapshot": "consumer.sources.tcp.wire",
    "Step": "consumer.testing.script.steps",
    "Truncated": "consumer.sources.tcp.wire",
    "assert_exactly_once": "consumer.testing.proof.proof",
    "check_source": "consumer.testing.conformance.checks",
    "crash_at": "consumer.testing.crash",
}
"""Where each public name is defined. The imports above say the same to type checkers, and a test compares the two."""

if not TYPE_CHECKING:  # a type checker would take it that any name is there
    __all__ = list(_NAMES)
    __getattr__, __dir__ = lazy.names_of(__name__, _NAMES)
