"""Log lines on standard error, as text or as JSON: set up in one way for every command that writes them.

A record may carry two attributes of ours: `event`, the name of what has happened, and `fields`, a dict of its facts.
What a user's handler writes to a logger of its own is shown like everything else.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from consumer.cli import exits
from consumer.cli.options import LogFormat, LogLevel
from consumer.cli.output import complain, printable
from consumer.core.errors import HandlerFailed

NAMELESS = "log"
"""The event name of a line whose record has none."""

QUIET = {"psycopg": logging.ERROR, "alembic": logging.WARNING}
"""Libraries of which less is written, unless everything is: every failure that they report has a line of ours."""


class TextLines(logging.Formatter):
    """One line for each record, whatever is in it, so that no line is another's; a traceback is indented below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write one."""
        record = copy(record)
        record.exc_text = None  # another handler may have left a traceback there that is not indented
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging calls
        """Write the line itself."""
        return printable(super().formatMessage(record))

    def formatException(self, exc_info: Any) -> str:  # noqa: N802 - as above
        """Write a traceback."""
        return _indented(super().formatException(exc_info))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - as above
        """Write where a line comes from, which its writer may have asked for."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.splitlines())


class JSONLines(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one."""
        zone = self.formatTime(record, "%z")
        line = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03}{zone[:3]}:{zone[3:]}",
            "level": record.levelname,
            "logger": record.name,
            "event": getattr(record, "event", NAMELESS),
            "message": record.getMessage(),
            "fields": getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class ConsoleHandler(logging.Handler):
    """Prints lines above what is drawn on a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        try:
            self._console.print(Text(self.format(record)), soft_wrap=True)
        except Exception:  # noqa: BLE001 - as every handler of logging: what cannot be said must stop nothing
            self.handleError(record)


@contextmanager
def logged(console: Console | None, log_format: LogFormat, log_level: LogLevel) -> Iterator[None]:
    """Have log lines written for a while, and in JSON the error too that ends it.

    Args:
        console: the terminal on which something is drawn meanwhile, None where nothing is.
        log_format: how they are written.
        log_level: from which level on.

    Raises:
        typer.Exit: an error ended it, which has been written, since the format is JSON.
        Exception: what ended it otherwise.
    """
    handler = logging.StreamHandler(sys.stderr) if console is None else ConsoleHandler(console)
    handler.setFormatter(JSONLines() if log_format is LogFormat.JSON else TextLines())
    root = logging.getLogger()
    levels = {root: getattr(logging, log_level.upper())}
    if log_level is not LogLevel.DEBUG:
        levels |= {logging.getLogger(name): level for name, level in QUIET.items()}
    before = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
    root.addHandler(handler)
    try:
        yield
    except Exception as error:
        if log_format is LogFormat.TEXT:
            raise
        raise typer.Exit(write_end(error, log_format)) from error
    finally:
        root.removeHandler(handler)
        for logger, level in before.items():
            logger.setLevel(level)


def write_end(error: Exception, log_format: LogFormat) -> int:
    """Write the last line, the one that says why the command ends.

    As JSON it has the error's facts as fields, and the traceback of what nobody expected or a handler raised.

    Returns:
        The exit code.
    """
    code = exits.exit_code(error)
    if log_format is LogFormat.TEXT:
        complain(exits.explain(error))
        return code
    facts = {name: fact for name, fact in vars(error).items() if not name.startswith("_")}
    if facts.get("stream", error) is None:  # an event belongs to no stream
        del facts["stream"]
    logging.getLogger("consumer").error(
        "%s",
        exits.explain(error),
        exc_info=error if code == exits.UNEXPECTED else error.__cause__ if isinstance(error, HandlerFailed) else None,
        extra={"event": "failed", "fields": {"error": type(error).__name__, "exit_code": code, **facts}},
    )
    return code
