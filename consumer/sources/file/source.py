"""A file as a source: one stream, looked at again and again by a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from consumer.core.errors import InvalidOption
from consumer.core.runs import Assigned, Failed, Happening, Offer, Position, Run
from consumer.sources.base import BATCH_BYTES, RECORD_BYTES_MAX
from consumer.sources.file.address import FileAddress
from consumer.sources.file.reader import Nothing, Placed, Reader
from consumer.sources.thread import Thread

POLL_S = 0.1
"""How long after a look that found nothing the next one follows. A look costs some 10 us of CPU."""

CLOSE_TIMEOUT_S = 2.0
"""How long a close waits for a look under way; on a network's file system one may never end."""

Result = TypeVar("Result")


class FileSource:
    """A file of lines, each of which is a record numbered by the byte where it begins.

    Args:
        url: `file:///PATH`, in which percent signs stand for bytes, or a path.
        name: the stream's name, instead of `file/PATH`.
        once: read what is there when it is opened, instead of waiting for more.
        batch_bytes: how much memory the records of one `read` may take up.
        record_max: how many bytes a line may have, without its newline.

    Raises:
        InvalidURL: it is no file's address.
        InvalidOption: a number is out of range, or the name is empty.
    """

    has_many_streams = False

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        once: bool = False,
        batch_bytes: int = BATCH_BYTES,
        record_max: int = RECORD_BYTES_MAX,
    ) -> None:
        if batch_bytes < 1 or record_max < 1:
            raise InvalidOption("a batch and a record must be allowed at least 1 byte")
        if name is not None and not name:
            raise InvalidOption("a stream's name must not be empty")
        self._address = FileAddress.parse(url)
        self._stream = self._address.stream if name is None else name
        self._once = once
        self._batch_bytes = batch_bytes
        self._record_max = record_max
        self._session: _Session | None = None

    async def open(self) -> None:
        """Open the file; as `Source.open`."""
        reader = Reader(
            self._address,
            self._stream,
            once=self._once,
            batch_bytes=self._batch_bytes,
            record_max=self._record_max,
        )
        self._session = _Session(self._stream, reader)
        await self._session.opened()

    async def read(self) -> Sequence[Happening]:
        """Give what has happened; as `Source.read`."""
        return await self._open_session().read()

    async def place(self, positions: Mapping[str, Position | None]) -> None:
        """Start or stop reading; as `Source.place`."""
        if self._stream in positions:
            self._open_session().place(positions[self._stream])

    async def ask(self, streams: Collection[str]) -> Sequence[Offer]:
        """Say what the file holds now; as `Source.ask`."""
        return await self._open_session().ask() if self._stream in streams else ()

    def acknowledge(self, committed: Mapping[str, int]) -> None:
        """Do nothing: a file has no place for that."""

    async def close(self) -> None:
        """Close the file; as `Source.close`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> _Session:
        if self._session is None:
            raise RuntimeError("the source is not open")
        return self._session


class _Session:
    """One session: what has been offered and placed in it, and the call to the reader that is under way."""

    def __init__(self, stream: str, reader: Reader) -> None:
        self._stream = stream
        self._reader = reader
        self._thread = Thread(f"source {stream}")
        self._opening: asyncio.Future[Offer] | None = None  # whose offer is not given out yet
        self._placed: Placed | None = None
        self._is_decided = False  # whether somebody has answered the last offer
        self._moved = asyncio.Event()  # set by each placement
        self._look: tuple[Placed, asyncio.Future[Sequence[Run | Failed] | Nothing]] | None = None
        self._offer()

    def _offer(self) -> None:
        """Have the file opened that has the name now, to be offered."""
        self._placed, self._is_decided = None, False
        self._opening = self._thread.call(self._reader.open)

    async def opened(self) -> None:
        """Wait until it is open."""
        if self._opening is not None:
            await asyncio.wait((self._opening,))  # which leaves it alone where it is cancelled
            self._opening.result()

    async def read(self) -> Sequence[Happening]:
        """Give what has happened; as `Source.read`."""
        while True:
            if self._opening is not None:
                await asyncio.wait((self._opening,))
                offer = self._opening.result()
                self._opening = None
                return (Assigned((offer,)),)
            placed = self._placed
            if placed is None:
                if self._is_decided and self._reader.is_once:
                    return ()
                await self._wait_for_placement(None)
                continue
            found = await self._look_at(placed)
            if placed is not self._placed:
                continue  # it was placed anew meanwhile
            if found is Nothing.LEFT:
                return ()
            if found is Nothing.CHANGED:
                self._offer()
            elif found is Nothing.NEW:
                await self._wait_for_placement(POLL_S)
            else:
                if isinstance(found[-1], Failed):
                    self._placed = None
                return found

    def place(self, position: Position | None) -> None:
        """Start or stop reading."""
        if self._opening is None:  # otherwise it answers an offer that is out of date
            self._placed = None if position is None else Placed.start(position)
            self._is_decided = True
            self._moved.set()

    async def ask(self) -> Sequence[Offer]:
        """Say what the file holds now."""
        offer = await self._thread.call(self._reader.ask)
        return () if offer is None else (offer,)

    async def close(self) -> None:
        """Close the file, and end the thread."""
        closing = self._thread.call(self._reader.close)
        self._thread.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await closing

    async def _look_at(self, placed: Placed) -> Sequence[Run | Failed] | Nothing:
        """Have the reader look. A look that is not waited for to its end is waited for by the next read."""
        if self._look is None or self._look[0] is not placed:
            self._look = placed, self._thread.call(lambda: self._reader.look(placed))
        looking = self._look[1]
        await asyncio.wait((looking,))  # which leaves it alone where it is cancelled
        self._look = None
        return looking.result()

    async def _wait_for_placement(self, seconds: float | None) -> None:
        self._moved.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._moved.wait()
