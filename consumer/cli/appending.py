"""`consumer journal append` at work: standard input goes into a journal until it ends, or a signal comes."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import typer
from rich.console import Console

from consumer.cli.output import complain
from consumer.core.errors import InvalidOption, JournalUnusable
from consumer.core.words import counted, last_event, why
from consumer.publisher.journal.append import Appender
from consumer.publisher.journal.extent import APPEND_BYTES_MAX
from consumer.publisher.journal.intake import append_all


def append_input(journal: str, *, number: bool) -> None:
    """Append what standard input gives, and say how much that was."""
    console = Console(stderr=True, highlight=False)
    if sys.stdin is None:
        raise InvalidOption("standard input is closed; the lines are read from there")
    given = _Input(sys.stdin.fileno())
    with Appender(journal) as appender:
        if appender.cut is not None:
            complain(f"repaired {journal}: {appender.cut}")
            if number and appender.cut.kept is not None:
                reason = "nothing was appended, since other events would get the numbers that were cut off; look first"
                raise JournalUnusable(journal, f"{reason}, then call this again")
        before = appender.extent.events
        with _progress(console) as show, given.until_signalled():
            append_all(
                appender,
                given.read,
                number=number,
                progress=lambda events: show(f"{counted(events, 'event')} appended"),
            )
        events, head = appender.extent.events - before, appender.head
    typer.echo(f"{counted(events, 'event')} appended, {last_event(head)}")


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show how far it is, on a terminal. Elsewhere nothing is written that could fail before what is done is said."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("waiting for lines") as status:
        yield status.update


class _Input:
    """Standard input, which SIGINT and SIGTERM end: while it is waited for, and never within an append."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = False
        self._ended = False

    @contextmanager
    def until_signalled(self) -> Iterator[None]:
        """Do something that reads, and be done with it when a signal comes."""
        before = {number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with suppress(KeyboardInterrupt):
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

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
