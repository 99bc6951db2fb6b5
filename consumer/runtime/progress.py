"""How far a consumer has come, and who waits for it to come further."""

from __future__ import annotations

import asyncio

from consumer.core.errors import ConsumerError
from consumer.core.words import one_line


class Progress:
    """The cursor as the consumer knows it. For one event loop.

    Attributes:
        last: the cursor, None before it is known.
        commits: how many batches with new events were committed.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self.commits = 0
        self._has_ended = False
        self._error: BaseException | None = None
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()

    def note(self, last: int) -> None:
        """Take in where the cursor is, and wake those who have waited for it."""
        self.last = last
        for seq, future in self._waiting:
            if seq <= last and not future.done():
                future.set_result(None)

    def end(self, error: BaseException | None = None) -> None:
        """Say that nothing more comes, and which error has ended it; those who still wait get an error."""
        self._has_ended = True
        self._error = error
        for seq, future in self._waiting:
            if not future.done():
                future.set_exception(self._never_came(seq))

    async def wait_for(self, seq: int) -> None:
        """Wait until an event is committed.

        Raises:
            ConsumerError: the consumer has ended without it.
        """
        if self.last is not None and self.last >= seq:
            return
        if self._has_ended:
            raise self._never_came(seq)
        waiting = (seq, asyncio.get_running_loop().create_future())
        self._waiting.add(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.discard(waiting)

    def _never_came(self, seq: int) -> ConsumerError:
        why = "" if self._error is None else f": {one_line(self._error) or type(self._error).__name__}"
        never_came = ConsumerError(f"the consumer ended before event {seq}{why}")
        never_came.__cause__ = self._error
        return never_came
