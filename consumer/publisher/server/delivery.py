"""The delivery of a journal to one consumer: its RESUME, the answer, the events that follow, the ACKs that come back.

One task sends while another one reads ACKs. A single task that did both in turn would come to a halt with a consumer
that reads nothing more before its ACKs are taken. Whatever ends the connection raises `Ended`, whose text goes to the
log.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from consumer.core.errors import JournalUnusable, MalformedFrame
from consumer.core.words import why
from consumer.publisher.journal.extent import answer
from consumer.publisher.server.channel import Channel, open_channel
from consumer.publisher.server.followed import FollowedJournal
from consumer.publisher.server.limits import ACKS_SPARE, Limits
from consumer.publisher.server.notices import Observer, Resumed
from consumer.sources.tcp.tls import begins_handshake, is_plain
from consumer.sources.tcp.wire import LINE_BYTES_MAX, Snapshot, decode_acks, encode_control, parse_resume


class Ended(Exception):
    """The connection is at its end; the text says why."""


class Delivery:
    """One connection, and which events its consumer has.

    Args:
        journal: the journal that is served.
        limits: how long anything may take.
        window: how many events may be unacknowledged.
        peer: its address, for the log.
        follow: whether to wait for new events once all is acknowledged.
        tell: called when the consumer has said RESUME.

    Attributes:
        peer: its address.
        cursor: the consumer has committed every event up to this one; None before its RESUME.
        sent: the highest event that was sent, or that the consumer had before.
    """

    def __init__(
        self, journal: FollowedJournal, limits: Limits, window: int, *, peer: str, follow: bool, tell: Observer
    ) -> None:
        self.peer = peer
        self.cursor: int | None = None
        self.sent = -1
        self._followed = journal
        self._limits = limits
        self._window = window
        self._follow = follow
        self._tell = tell
        self._offset = 0  # where the line after `sent` begins, in the file of this generation:
        self._generation = 0
        self._acks_left = ACKS_SPARE
        self._left = False  # the consumer has closed its side: no more ACKs
        self._stopping = False
        self._news = asyncio.Event()
        self._rest = b""  # the beginning of an ACK
        self._now = asyncio.get_running_loop().time
        self._owing_since = 0.0  # the last progress of a consumer that has not acknowledged everything

    def stop(self) -> bool:
        """Send nothing new. Gives whether the delivery can end by itself, by the ACKs of what it has sent."""
        self._stopping = True
        self._news.set()
        return self.cursor is not None

    async def run(self, sock: socket.socket, tls: ssl.SSLContext | None) -> str:
        """Serve one consumer until it, or its time, is at an end.

        Args:
            sock: its socket, connected and not blocking. It is closed afterwards.
            tls: how to speak TLS, None for plain TCP.

        Returns:
            Why it ended.
        """
        reason = "ended"
        channel: Channel | None = None
        try:
            async with asyncio.timeout(self._limits.handshake_s):
                channel = await open_channel(sock, tls, self._limits)
                rest = await self._resume(channel)
            self._followed.listen(self._news.set)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(channel, rest))
                tasks.create_task(self._send(channel))
                tasks.create_task(self._watch())
        except* (Ended, JournalUnusable) as ended:
            reason = str(ended.exceptions[0])
        except* OSError as failed:
            reason = self._explain(failed.exceptions[0], in_handshake=channel is None)
        finally:
            self._followed.unlisten(self._news.set)
            if channel is not None:
                await channel.close()
        return reason

    def _explain(self, error: BaseException, *, in_handshake: bool) -> str:
        if self.cursor is None and type(error) is TimeoutError:
            return f"no RESUME within {self._limits.handshake_s:g} s"
        if is_plain(error):
            return "TLS refused: it speaks none"
        if isinstance(error, ssl.SSLError):
            return f"TLS refused: {why(error)}"
        if in_handshake:
            return f"connection lost in the TLS handshake: {why(error)}; perhaps it does not accept our certificate"
        return f"connection lost: {why(error)}"

    # What the consumer says.

    async def _resume(self, channel: Channel) -> bytes:
        """Read RESUME, answer it, and give what was received beyond it."""
        buffer = b""
        while b"\n" not in buffer and len(buffer) < LINE_BYTES_MAX:
            data = await channel.receive()
            if not data:
                raise Ended("it left without a RESUME")
            buffer += data
        line, newline, rest = buffer.partition(b"\n")
        try:
            last = parse_resume(line + newline)
        except MalformedFrame as error:
            if begins_handshake(error.line):
                raise Ended("it speaks TLS, which is not served here") from None
            raise Ended(f"it said {error.line[:LINE_BYTES_MAX]!r} instead of RESUME") from None
        if last > self._followed.journal.extent.head or not self._follow:
            await self._followed.catch_up()  # the journal may be ahead of what we know of it
        extent = self._followed.journal.extent
        control = answer(extent, last)
        if control is not None:
            await channel.send(encode_control(control))
        if isinstance(control, Snapshot):
            last = control.last
        elif control is not None:
            raise Ended(f"RESUME {last} answered by {encode_control(control).decode().rstrip()}")
        self.sent = last
        self._place()
        self.cursor = last
        self._tell(Resumed(self.peer, last, extent.head))
        return rest

    async def _receive(self, channel: Channel, buffer: bytes) -> None:
        """Read ACKs until the consumer closes its side."""
        self._take(buffer)
        await channel.receive_all(self._take)
        self._left = True
        self._news.set()

    def _take(self, data: bytes) -> None:
        """Take in what the consumer says. ACKs stand for all events before them too, and may be said again."""
        assert self.cursor is not None  # RESUME came first
        seqs, self._rest, malformed = decode_acks(self._rest + data)
        highest = max(seqs, default=self.cursor)
        if highest > self.sent:
            raise Ended(f"it acknowledged event {highest}, but {self.sent} was the last that it was sent")
        self._acks_left -= len(seqs)
        if self._acks_left < 0:
            raise Ended("it said many more ACKs than it was sent events")
        if highest > self.cursor:
            self.cursor = highest
            self._owing_since = self._now()
            self._news.set()
        if malformed is not None:
            raise Ended(f"it said {malformed.line[:LINE_BYTES_MAX]!r} instead of an ACK")

    async def _watch(self) -> None:
        """End the connection when its consumer owes ACKs and none has come for too long.

        It sleeps until that may be the case, so that an ACK costs no more than noting the time.
        """
        while True:
            silent_s = self._now() - self._owing_since if self.sent != self.cursor else 0.0
            if silent_s >= self._limits.silence_s:
                raise Ended(f"no ACK for {self._limits.silence_s:g} s while events were unacknowledged")
            await asyncio.sleep(self._limits.silence_s - silent_s)

    # What the consumer is sent.

    async def _send(self, channel: Channel) -> None:
        """Send what the journal has and the window allows, until there is a reason to end."""
        assert self.cursor is not None  # RESUME came first
        others_had_a_turn = True
        while True:
            self._news.clear()
            if self._generation != self._followed.generation:
                self._place()
            journal = self._followed.journal
            last = min(journal.extent.head, self.cursor + self._window)
            if self._stopping or self.sent >= last:
                self._end_if_due()
                await self._news.wait()
                others_had_a_turn = True
                continue
            if not others_had_a_turn:
                await asyncio.sleep(0)  # a socket that takes everything never makes us wait
            others_had_a_turn = False
            begin = self._offset
            self._offset, reached = journal.cut(begin, self.sent + 1, last, channel.slice_bytes)
            if self.sent == self.cursor:
                self._owing_since = self._now()
            self._acks_left += reached - self.sent
            self.sent = reached
            await channel.send_slice(journal, begin, self._offset)

    def _place(self) -> None:
        """Find in the journal, as it is now, what comes after what was sent."""
        journal = self._followed.journal
        if answer(journal.extent, self.sent) is not None:
            raise Ended(f"the journal was replaced by one that does not go on after event {self.sent}")
        self._generation = self._followed.generation
        self._offset = journal.find(self.sent + 1)

    def _end_if_due(self) -> None:
        """Called when there is nothing to send. Raises `Ended` where that is the end."""
        if self._left:
            raise Ended("it closed the connection")
        if self.sent != self.cursor:
            return
        if self._stopping:
            raise Ended("the publisher stops")
        if not self._follow and self.sent == self._followed.journal.extent.head:
            raise Ended("all is acknowledged")
