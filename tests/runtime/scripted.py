"""Scripts for the tests of the consumer: coroutine functions that `consumer.testing.ScriptedPublisher` plays.

A script gets the `Session` of each connection after its RESUME was read; the acknowledgements are read beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from consumer.core.events import Event
from consumer.sources.tcp.wire import encode_event
from consumer.testing import ScriptedPublisher
from consumer.testing.script.conversation import Session

Script = Callable[[Session], Awaitable[None]]


def lines(events: Iterable[Event]) -> bytes:
    return b"".join(encode_event(seq, delta) for seq, delta in events)


def history(count: int, first: int = 0) -> list[Event]:
    """Events whose deltas differ, so that one in the place of another is noticed."""
    return [(seq, seq * 7 % 2001 - 1000) for seq in range(first, first + count)]


@dataclass(frozen=True)
class Play:
    """The step that runs a script; where acknowledgements are not read, the connection ends with it."""

    is_patient: ClassVar[bool] = True  # the test has a limit of its own
    script: Script
    reads_acks: bool

    async def play(self, session: Session) -> None:
        if not self.reads_acks:
            session.may_read.clear()
        await self.script(session)
        if not self.reads_acks:
            session.close()


def playing(script: Script, *, reads_acks: bool = True, **options) -> ScriptedPublisher:
    """A publisher that runs a script for each connection."""
    return ScriptedPublisher([Play(script, reads_acks)], **options)


def serving(events: Sequence[Event], *, close: bool = False) -> Script:
    """A script that behaves: it sends what comes after the cursor; `close`: and closes once that is acknowledged."""

    async def script(session: Session) -> None:
        rest = [event for event in events if event[0] > session.last]
        await session.send_events(rest)
        if close:
            if rest:
                await session.acked(rest[-1][0])
            session.close()

    return script


def sending(what: bytes, *, close: bool = True) -> Script:
    """A script that sends the same bytes whatever RESUME says; `close`: and nothing after them."""

    async def script(session: Session) -> None:
        await session.send(what)
        if close:
            session.finish()

    return script


def in_turn(*scripts: Script) -> Script:
    """A script that does one thing on the first connection, another on the second; the last one stays."""
    rest = list(scripts)

    async def script(session: Session) -> None:
        await (rest.pop(0) if len(rest) > 1 else rest[0])(session)

    return script


async def silence(session: Session) -> None:
    """Say nothing and keep the connection."""
    await session.has_left.wait()
