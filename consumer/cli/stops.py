"""SIGTERM and SIGINT, from the command's first line to its last. Nothing else here sets what a signal does.

Until a command takes them, a signal ends the process at once, as it stands: nothing has been begun that would have to
be ended in order, and an exception could be caught by a module of the user's that is just being imported. What is in
the database is safe from that, as it is from a SIGKILL. As process 1 of a container too: there a signal that has no
handler is ignored by the system.

A command that goes on until it is stopped has done what it was asked for, and its exit code is 0. Any other was broken
off, and its exit code says so as a shell does: 143 for SIGTERM, 130 for SIGINT.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeAlias

UNTIL_STOPPED = ("run", "serve", "journal")
"""The commands that go on until they are stopped."""

BROKEN_OFF = 128
"""What the exit code is of a command that a signal has broken off, beside the signal's number."""

Handler: TypeAlias = Callable[[int, FrameType | None], object]

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


def leave_at_once(arguments: Sequence[str]) -> None:
    """From now on, have a signal end the process. One that is ignored, as `nohup` and `&` have it, stays so.

    Args:
        arguments: what was typed after `consumer`, since no more is known yet of the command.
    """
    good_end = bool(arguments) and arguments[0] in UNTIL_STOPPED

    def leave(number: int, _: FrameType | None) -> None:
        os._exit(0 if good_end else BROKEN_OFF + number)

    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Have signals handled otherwise for a while."""
    before = {number: signal.signal(number, handler) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def raised() -> Iterator[None]:
    """Have signals raise an exception, for a command that has something to tidy up."""

    def interrupt(number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(BROKEN_OFF + number)

    with handled_by(interrupt):
        yield


@contextmanager
def asking(stop: Callable[[], None], again: Callable[[], None] | None, force_s: float) -> Iterator[None]:
    """Have signals ask for a stop, in the event loop that runs here.

    Args:
        stop: called in the loop at the first signal.
        again: called in the loop at each further one; None to leave by force instead.
        force_s: after how many seconds the process leaves by force in any case. That holds after the loop has ended
            too, where something out of our reach may hold up the end, such as the system's look-up of a host's name.
    """
    import asyncio  # noqa: PLC0415 - not before it is needed: this module is loaded before anything else
    import threading  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    asked = False

    def ask(_number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked and again is None:
            leave_by_force()
        action = again if asked and again is not None else stop
        if not asked:
            asked = True
            force = threading.Timer(force_s, leave_by_force)
            force.daemon = True
            force.start()
        with suppress(RuntimeError):  # the loop is closed: it has ended already
            loop.call_soon_threadsafe(action)

    with handled_by(ask):
        yield


def leave_by_force() -> None:
    """Leave at once, with the exit code that says so."""
    from consumer.cli.exits import STOPPED_BY_FORCE  # noqa: PLC0415 - as above

    os._exit(STOPPED_BY_FORCE)
