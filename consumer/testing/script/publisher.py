"""A publisher that plays a script: whatever a consumer may meet, on a real socket, and a record of what it answers."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeAlias

from consumer.core.errors import MalformedFrame
from consumer.sources.tcp.wire import LINE_BYTES_MAX, parse_resume
from consumer.testing.script.conversation import READ_BYTES, Session
from consumer.testing.script.steps import Step

STEP_LIMIT_S = 30.0
"""How long a step, or the consumer's RESUME, may take. Far beyond any of them: a script fails, it never hangs."""

END_LIMIT_S = 1.0
"""How long a script may take to end whose consumer has left: it may have to say that it should not have."""

HEARD_MAX = 1_000_000
"""How many RESUMEs and ACKs are kept in all: more is a consumer that runs wild."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A RESUME that was heard.

    Attributes:
        connection: which one said it, counted from 0.
        last: the cursor that it said.
        seen: what `observe` gave at that moment.
    """

    connection: int
    last: int
    seen: object


@dataclass(frozen=True, slots=True)
class Acked:
    """An ACK that was heard.

    Attributes:
        connection: which one said it, counted from 0.
        seq: the event that it acknowledges.
        seen: what `observe` gave at that moment, once for all that came in one read.
    """

    connection: int
    seq: int
    seen: object


Heard: TypeAlias = Resumed | Acked


class ScriptedPublisher:
    """An async context manager that listens on 127.0.0.1 and plays a script on each connection.

    Attributes:
        url, port: where it listens, `tcp://…` or `tls://…`.
        heard: every RESUME and ACK, in the order in which they came.
        sessions: the connections that have said RESUME.
    """

    def __init__(
        self,
        *scripts: Sequence[Step],
        observe: Callable[[], object] | None = None,
        tls: ssl.SSLContext | None = None,
        step_limit_s: float = STEP_LIMIT_S,
        receive_bytes: int | None = None,
        port: int = 0,
    ) -> None:
        """Write the play. Nothing listens yet.

        Args:
            scripts: the steps for the first connection, for the second and so on; the last one for all that follow.
                Where a script has come to its end, acknowledgements are read until the consumer leaves.
            observe: called in the event loop at each RESUME and each read of ACKs; what it gives is kept beside them.
                Have it read the database over a connection of its own, and quickly.
            tls: a server's context, for `tls://`.
            step_limit_s: how long any step may take, in seconds, those excepted that wait on purpose.
            receive_bytes: how much is taken in unread, by the system and by us; None leaves it to them.
            port: where to listen, to be back where another one was; 0 takes a free one.
        """
        if not scripts:
            raise ValueError("give a script: a list of steps for each connection")
        self._scripts = [tuple(script) for script in scripts]
        self._observe = observe or (lambda: None)
        self._tls = tls
        self._step_limit_s = step_limit_s
        self._receive_bytes = receive_bytes
        self.port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._played: list[tuple[asyncio.Task[None], Session]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._news = asyncio.Event()
        self.heard: list[Heard] = []
        self.sessions: list[Session] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        """Listen."""
        listener = socket.create_server(("127.0.0.1", self.port))
        if self._receive_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        limit = READ_BYTES if self._receive_bytes is None else max(LINE_BYTES_MAX, self._receive_bytes)
        self._server = await asyncio.start_server(self._accept, sock=listener, ssl=self._tls, limit=limit)
        host, self.port = listener.getsockname()
        self.url = f"{'tcp' if self._tls is None else 'tls'}://{host}:{self.port}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End every script and connection.

        Raises:
            TimeoutError: a step took too long.
            AssertionError: the consumer left where a step waited for its ACK.
            MalformedFrame: the consumer sent something that it may not.
            Exception: what a step or `observe` raised. None of these replaces an error from inside the `async with`.
        """
        self._server.close()
        ending = {task for task, session in self._played if session.has_left.is_set()}
        if kind is None and ending:
            await asyncio.wait(ending, timeout=END_LIMIT_S)
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()
        for result in results:
            if kind is None and isinstance(result, Exception):
                raise result

    @property
    def resumes(self) -> list[int]:
        """The cursors that RESUME said, in order."""
        return [heard.last for heard in self.heard if isinstance(heard, Resumed)]

    @property
    def acks(self) -> list[int]:
        """The numbers that were acknowledged, in order, of all connections."""
        return [heard.seq for heard in self.heard if isinstance(heard, Acked)]

    async def session(self, number: int) -> Session:
        """Wait for a connection to say RESUME.

        Args:
            number: which one, counted from 0.

        Raises:
            TimeoutError: it did not come within the limit of a step.
        """
        async with asyncio.timeout(self._step_limit_s):
            while len(self.sessions) <= number:
                self._news.clear()
                await self._news.wait()
        return self.sessions[number]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = b""
            async with asyncio.timeout(self._step_limit_s):
                with suppress(ConnectionError, ssl.SSLError):
                    line = await _read_line(reader)
            if line:  # otherwise it left without a word, as after a certificate that it does not take
                await self._converse(Session(len(self.sessions), parse_resume(line), reader, writer))
        finally:
            writer.close()

    async def _converse(self, session: Session) -> None:
        self._keep(Resumed(session.number, session.last, self._observe()))
        self.sessions.append(session)
        self._news.set()
        task = asyncio.current_task()
        assert task is not None  # a coroutine is in one
        self._played.append((task, session))
        listening = asyncio.create_task(session.listen(self._hear))
        try:
            with suppress(ConnectionError, ssl.SSLError):  # the consumer left in the middle of the script
                await self._play(session)
            await listening
        finally:
            listening.cancel()
            await asyncio.wait({listening})
            if not listening.cancelled():
                listening.result()

    async def _play(self, session: Session) -> None:
        for place, step in enumerate(self._scripts[min(session.number, len(self._scripts) - 1)]):
            limit_s = None if getattr(step, "is_patient", False) else self._step_limit_s
            try:
                async with asyncio.timeout(limit_s) as limit:
                    await step.play(session)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                where = f"connection {session.number}, step {place}: {step}"
                raise TimeoutError(f"{where} was not over after {limit_s:g} s") from error

    def _hear(self, session: Session, seqs: list[int]) -> None:
        seen = self._observe() if seqs else None
        for seq in seqs:
            self._keep(Acked(session.number, seq, seen))

    def _keep(self, heard: Heard) -> None:
        if len(self.heard) >= HEARD_MAX:
            raise AssertionError(f"the consumer has said more than {HEARD_MAX} things")
        self.heard.append(heard)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Read RESUME, or nothing at all."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise MalformedFrame(error.partial) from error
        return b""
    except asyncio.LimitOverrunError as error:
        raise MalformedFrame(await reader.read(LINE_BYTES_MAX)) from error
