"""Standard output and error as a command needs them: what can be written there, and what follows where it cannot."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

Result = TypeVar("Result")


class Output:
    """A stream that remembers why it could not be written. Everything else is the stream's."""

    def __init__(self, stream: TextIO) -> None:
        self.failure: OSError | None = None
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """Give what the stream has under this name."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write."""
        return self._noting(lambda: self._stream.write(text))

    def flush(self) -> None:
        """Flush."""
        self._noting(self._stream.flush)

    def _noting(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except OSError as error:
            self.failure = error
            raise


@contextmanager
def watched_stdout() -> Iterator[Output | None]:
    """Have standard output remember; None where there is none, since it was closed from the start."""
    if sys.stdout is None:
        yield None
        return
    output = Output(sys.stdout)
    with redirect_stdout(cast(TextIO, output)):
        yield output


def write_any_text() -> None:
    """Have replaced what an encoding lacks: a message with a question mark in it is better than none."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def printable(text: str) -> str:
    """Write control characters as escapes: what others have said must not steer the terminal that shows it."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode() for one in text
    )


def complain(text: str) -> None:
    """Write a line to standard error that says what the command has to complain of."""
    tell(f"consumer: {text}")


def tell(text: str) -> None:
    """Write a line to standard error. Where nobody can be told, the exit code still says what happened."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """Lead a stream to nowhere: at its end Python would stumble over what is left in it."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
