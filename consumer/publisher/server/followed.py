"""The journal that is being served: it is followed as it grows, and when another file of the same name replaces it.

All looks at the file happen one after the other in a worker thread, since a sync takes as long as the disk needs. The
listeners are called in the loop when something new was found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from consumer.publisher.journal.reader import JournalReader, Look

_log = logging.getLogger("consumer.publisher")

CATCH_UP_LOOKS = 2
"""How many looks at the whole file must end before everything is known that was in it when the wait began. One is not
enough, since it may have begun before that."""


class FollowedJournal:
    """A journal whose file is looked at again and again.

    Args:
        path: the journal's file.
        poll_s: how long to wait between two looks at a file in which nothing is new.

    Raises:
        JournalUnusable: as `JournalReader`.

    Attributes:
        journal: the file as it is now. It is another one when the file was replaced.
        generation: counts the replacements. An offset is good for one generation.
    """

    def __init__(self, path: str, poll_s: float) -> None:
        self.journal = JournalReader(path)
        self.generation = 0
        self._poll_s = poll_s
        self._looking = False
        self._listeners: set[Callable[[], None]] = set()
        self._completed = asyncio.Event()  # set for a moment by every complete look

    def listen(self, heard: Callable[[], None]) -> None:
        """Call a function, in the loop, whenever something new was found, until `unlisten`."""
        self._listeners.add(heard)

    def unlisten(self, heard: Callable[[], None]) -> None:
        """Stop calling a function that was given to `listen`; one that was not is ignored."""
        self._listeners.discard(heard)

    async def catch_up(self) -> None:
        """Wait until everything that is in the file now is known. `follow` must be running."""
        for _ in range(CATCH_UP_LOOKS):
            await self._completed.wait()

    async def follow(self, stop: asyncio.Event) -> None:
        """Look at the file again and again until `stop` is set. A look that has begun is waited for.

        Raises:
            JournalUnusable: the file, or the one that replaced it, can no longer be used.
        """
        fault: str | None = None
        while not stop.is_set():
            if self.journal.fault != fault:
                fault = self.journal.fault
                self._say(fault)
            look = await self._look()
            if look.grew or look.replaced:
                for heard in tuple(self._listeners):
                    heard()
            if look.complete:
                self._completed.set()
                self._completed.clear()
                await _sleep_unless(stop, self._poll_s)

    async def _look(self) -> Look:
        self._looking = True
        look = await asyncio.to_thread(self._look_in_thread)
        if look.replaced:
            renewed = await asyncio.to_thread(JournalReader, self.journal.path)
            self.journal = renewed  # the old file is closed once its last slice is sent and nobody holds it
            self.generation += 1
            _log.warning("the journal was replaced; it holds %s now", renewed.extent)
        return look

    def _look_in_thread(self) -> Look:
        try:
            return self.journal.look()
        finally:
            self._looking = False

    def _say(self, fault: str | None) -> None:
        extent = self.journal.extent
        if fault is None:
            _log.info("the journal's end is in order again at event %d", extent.head)
        else:
            _log.warning(
                "after event %d, at byte %d of the journal, %s: nothing beyond is sent until "
                "`consumer journal append` has repaired it",
                extent.head,
                extent.end,
                fault,
            )

    def close(self) -> None:
        """Close the file, unless a look still waits for the disk: then it stays open for as long as the process."""
        if not self._looking:
            self.journal.close()


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
