"""What a scripted publisher can do on a connection: each step a small plain object, played one after the other.

A step is anything with `async play(session)`, so a test can add its own. Steps that send need no pause between them;
those that wait end when the consumer leaves, and all of them are bounded by the publisher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from consumer.core.events import DELTA_MAX, SEQ_MAX, Event
from consumer.sources.tcp.wire import Control, encode_control, encode_event
from consumer.testing.script.conversation import Session


class Step(Protocol):
    """One thing that a publisher does."""

    async def play(self, session: Session) -> None:
        """Do it on a connection."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send these events, whatever RESUME said: those that the consumer has are duplicates."""

    events: Sequence[Event]

    async def play(self, session: Session) -> None:
        """Send them in one write."""
        await session.send_events(self.events)


@dataclass(frozen=True, slots=True)
class Serve:
    """Send what of these events comes after the cursor that RESUME said, as a publisher should."""

    events: Sequence[Event]

    async def play(self, session: Session) -> None:
        """Send them in one write."""
        await session.send_events(event for event in self.events if event[0] > session.last)


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Send the last event once more, some times: duplicates."""

    times: int = 1

    async def play(self, session: Session) -> None:
        """Send them in one write."""
        await session.send_events([_last_of(session)] * self.times)


@dataclass(frozen=True, slots=True)
class SendConflict:
    """Send the number of the last event with another delta."""

    async def play(self, session: Session) -> None:
        """Send it."""
        seq, delta = _last_of(session)
        await session.send(encode_event(seq, delta - 1 if delta > -DELTA_MAX else delta + 1))


@dataclass(frozen=True, slots=True)
class SendGap:
    """Leave some events out, and send the one after them."""

    missing: int = 1
    delta: int = 0

    async def play(self, session: Session) -> None:
        """Send it."""
        last = session.last if session.sent is None else session.sent[0]
        await session.send_events([(min(SEQ_MAX, last + 1 + self.missing), self.delta)])


@dataclass(frozen=True, slots=True)
class Say:
    """Send a control frame: `Truncated(first)`, `Snapshot(last, total)` or `Ahead(head)`."""

    frame: Control

    async def play(self, session: Session) -> None:
        """Send it."""
        await session.send(encode_control(self.frame))


@dataclass(frozen=True, slots=True)
class SendGarbage:
    """Send bytes that are no frame."""

    data: bytes = b"\x00\xffEVENT 0\r\n"

    async def play(self, session: Session) -> None:
        """Send them as they are."""
        await session.send(self.data)


@dataclass(frozen=True, slots=True)
class SendTorn:
    """Send the first bytes of an event's line and nothing of the rest."""

    event: Event
    bytes_kept: int = 7

    async def play(self, session: Session) -> None:
        """Send them."""
        line = encode_event(*self.event)
        await session.send(line[: min(self.bytes_kept, len(line) - 1)])


@dataclass(frozen=True, slots=True)
class SendByteByByte:
    """Send events with a write for each byte."""

    events: Sequence[Event]

    async def play(self, session: Session) -> None:
        """Send them."""
        for byte in b"".join(encode_event(*event) for event in self.events):
            await session.send(bytes([byte]))
        if self.events:
            session.sent = self.events[-1]


@dataclass(frozen=True, slots=True)
class SendSplit:
    """Send events in two writes, cut after so many bytes."""

    events: Sequence[Event]
    at_byte: int

    async def play(self, session: Session) -> None:
        """Send them."""
        data = b"".join(encode_event(*event) for event in self.events)
        await session.send(data[: self.at_byte])
        await session.send(data[self.at_byte :])
        if self.events:
            session.sent = self.events[-1]


@dataclass(frozen=True, slots=True)
class AwaitAck:
    """Wait until an event, or a later one, is acknowledged; without a number the one that was sent last."""

    seq: int | None = None

    async def play(self, session: Session) -> None:
        """Wait."""
        await session.acked(_last_of(session)[0] if self.seq is None else self.seq)


@dataclass(frozen=True, slots=True)
class KeepSilent:
    """Say nothing until the consumer leaves, or for so many seconds. Acknowledgements are still read."""

    is_patient: ClassVar[bool] = True
    seconds: float | None = None

    async def play(self, session: Session) -> None:
        """Wait."""
        await _wait(session.has_left, self.seconds)


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Behave like a peer that is gone without a word: the connection stays, nothing is read and nothing is sent.

    The system under it still takes what fits its buffers, which a peer whose power is gone would not.
    """

    is_patient: ClassVar[bool] = True
    seconds: float | None = None

    async def play(self, session: Session) -> None:
        """Wait, for so many seconds or until the publisher is closed."""
        session.may_read.clear()
        await _wait(asyncio.Event(), self.seconds)
        session.may_read.set()


@dataclass(frozen=True, slots=True)
class ReadSlowly:
    """From now on read so many bytes at once, and nothing for some time after them.

    Give the publisher a small `receive_bytes`, or the system's buffers hide it from the consumer.
    """

    read_bytes: int = 16
    pause_s: float = 0.01

    async def play(self, session: Session) -> None:
        """Say so, and go on."""
        session.read_bytes, session.read_pause_s = self.read_bytes, self.pause_s


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection."""

    async def play(self, session: Session) -> None:
        """Have the consumer get a reset."""
        session.reset()


@dataclass(frozen=True, slots=True)
class Finish:
    """Say that nothing more comes, and read on. Over TLS this closes."""

    async def play(self, session: Session) -> None:
        """End our direction."""
        session.finish()


@dataclass(frozen=True, slots=True)
class FinishWithoutNotify:
    """End the TCP connection below TLS, without close_notify. Without TLS it is `Finish`."""

    async def play(self, session: Session) -> None:
        """End our direction."""
        session.finish_without_notice()


@dataclass(frozen=True, slots=True)
class Close:
    """Close both directions: acknowledgements that come later are answered by a reset."""

    async def play(self, session: Session) -> None:
        """Close."""
        session.close()


def _last_of(session: Session) -> Event:
    if session.sent is None:
        raise ValueError("this step is about the last event that was sent, and none was: send one before it")
    return session.sent


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
