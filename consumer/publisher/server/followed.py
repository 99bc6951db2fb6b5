"""The journal that is being served, kept up with: it grows, and it may be replaced by another file of the same name.

All looks at the file happen one after the other in a worker thread, since a sync takes as long as the disk needs; what
is found is published in the loop, and whoever listens is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from consumer.publisher.journal.reading import Journal, Look

_log = logging.getLogger("consumer.publisher")

CATCH_UP_LOOKS = 2
"""How many complete looks must end before all that was in the file when one began to wait is known: the first of them
may have begun earlier."""


class Source:
    """A journal and what is new in it.

    Args:
        path: the journal's file.
        poll_s: how long to wait between two looks at a file in which nothing is new.

    Raises:
        JournalUnusable: as `Journal`.

    Attributes:
        journal: the file as it is now. It is another one when the file was replaced.
        generation: counts the replacements. An offset is good for one generation.
    """

    def __init__(self, path: str, poll_s: float) -> None:
        self.journal = Journal(path)
        self.generation = 0
        self._poll_s = poll_s
        self._looking = False
        self._listeners: set[Callable[[], None]] = set()
        self._completed = asyncio.Event()  # set for a moment by every complete look

    def listen(self, heard: Callable[[], None]) -> None:
        """Have a function called, in the loop, whenever there is something new."""
        self._listeners.add(heard)

    def unlisten(self, heard: Callable[[], None]) -> None:
        """No longer."""
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
            renewed = await asyncio.to_thread(Journal, self.journal.path)
            self.journal = renewed  # the old file is closed when the last slice of it is sent
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
