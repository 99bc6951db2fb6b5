"""Signals before a command looks after them itself: while modules are imported and a database is waited for.

Nothing is under way then that would have to end in good order, so the process just leaves. It is loaded before anything
else and loads nothing itself. A process that is a container's first one ignores every signal without a handler.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

STOPPED, INTERRUPTED = 0, 130
"""The exit codes: a supervisor that stops us is no failure; 130 is what shells expect of Ctrl-C."""


def leave_at_once() -> None:
    """Have SIGTERM and SIGINT end the process, without a word."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)


def leave_signals_alone() -> None:
    """Take that back."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, _frame: FrameType | None) -> None:
    os._exit(STOPPED if number == signal.SIGTERM else INTERRUPTED)
