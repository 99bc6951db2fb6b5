"""What `consumer journal append` does: it appends what comes on standard input, until that ends or a signal comes."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console

from consumer.cli import stops
from consumer.cli.output import tell
from consumer.core.errors import BadInput, InvalidOption, JournalUnusable
from consumer.core.words import counted, last_event, why
from consumer.publisher.journal.append import Appender
from consumer.publisher.journal.extent import APPEND_BYTES_MAX
from consumer.publisher.journal.intake import append_all


def append_input(journal: str, *, number: bool) -> str:
    """Append.

    Args:
        journal: the file.
        number: whether the lines are bare deltas, which get the next numbers.

    Returns:
        What has been appended, in words.

    Raises:
        InvalidOption: standard input cannot be read.
        BadInput, JournalUnusable: as `append_all` and `Appender` have it.
    """
    console = Console(stderr=True, highlight=False)
    if sys.stdin is None:
        raise InvalidOption("standard input is closed; the lines are read from there")
    given = Input(sys.stdin.fileno())
    with Appender(journal) as appender:
        if appender.cut is not None:
            tell(f"repaired {journal}: {appender.cut}")
            if number and appender.cut.lines:
                reason = "nothing was appended, since other events would get the numbers that were cut off; look first"
                raise JournalUnusable(journal, f"{reason}, then call this again")
        before = appender.extent.events
        with _progress(console) as show, given.until_signalled():
            try:
                append_all(
                    appender,
                    given.read,
                    number=number,
                    progress=lambda events: show(f"{counted(events, 'event')} appended"),
                )
            except BadInput as error:
                if error.is_other_kind:
                    error.add_note("--number is for lines that are deltas alone")
                raise
        return f"{counted(appender.extent.events - before, 'event')} appended, {last_event(appender.head)}"


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show how far it is, on a terminal. Elsewhere nothing is written that could fail before what is done is said."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("waiting for lines") as status:
        yield status.update


class Input:
    """Standard input, which SIGINT and SIGTERM end: while it is waited for, and never within an append."""

    def __init__(self, descriptor: int) -> None:
        """Name its descriptor."""
        self._descriptor = descriptor
        self._waiting = False
        self._ended = False

    @contextmanager
    def until_signalled(self) -> Iterator[None]:
        """Do something that reads, and be done with it when a signal comes."""
        with stops.handled_by(self._end), suppress(KeyboardInterrupt):
            yield

    def _end(self, *_: object) -> None:
        self._ended = True
        if self._waiting:
            raise KeyboardInterrupt

    def read(self) -> bytes:
        """Wait for input, then take what is there, up to a limit, so that one sync serves much of it."""
        try:
            return self._read()
        except OSError as error:
            raise InvalidOption(f"standard input cannot be read: {why(error)}") from error

    def _read(self) -> bytes:
        self._waiting = True
        try:
            if self._ended:
                raise KeyboardInterrupt
            select.select([self._descriptor], [], [])
        finally:
            self._waiting = False
        pieces = [os.read(self._descriptor, APPEND_BYTES_MAX)]
        size = len(pieces[0])
        while pieces[-1] and size < APPEND_BYTES_MAX and select.select([self._descriptor], [], [], 0)[0]:
            pieces.append(os.read(self._descriptor, APPEND_BYTES_MAX - size))
            size += len(pieces[-1])
        return b"".join(pieces)
