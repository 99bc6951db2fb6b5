"""A bounded queue of events between the socket and the database: while a batch commits, the next is being read."""

from __future__ import annotations

import asyncio

from consumer.core.events import Events


class Inbox:
    """Events in the order of their arrival, for one reader task and one committing task."""

    def __init__(self, events_max: int) -> None:
        """Make an empty one.

        Args:
            events_max: from how many waiting events on `put` waits. One more chunk may stand on top of them.
        """
        self._events_max = events_max
        self._numbers: list[int] = []
        self._room = asyncio.Event()
        self._news = asyncio.Event()
        self._ended = False
        self.is_awaited = False
        """Whether the committing task waits for events: nothing is queued and nothing is being committed."""
        self.error: Exception | None = None

    async def put(self, events: Events) -> None:
        """Add what has arrived, then wait until there is room for more."""
        self._numbers += events.numbers
        self._news.set()
        while len(self._numbers) >= 2 * self._events_max:
            self._room.clear()
            await self._room.wait()

    def close(self, error: Exception | None = None, *, drop: bool = False) -> None:
        """Say that nothing more comes, and why; `drop` forgets what is still waiting."""
        if drop:
            self._numbers.clear()
        self.error = error
        self._ended = True
        self._news.set()

    async def take(self, count_max: int) -> Events:
        """Give what is there, up to a number; wait where nothing is. Where nothing more comes, that is none."""
        while not self._numbers and not self._ended:
            self._news.clear()
            self.is_awaited = True
            await self._news.wait()
            self.is_awaited = False
        if len(self._numbers) <= 2 * count_max:
            taken, self._numbers = self._numbers, []
        else:
            taken = self._numbers[: 2 * count_max]
            del self._numbers[: 2 * count_max]
        self._room.set()
        return Events(taken)
