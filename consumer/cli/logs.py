"""How the command writes log lines: as text or as JSON, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


class _JSONLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one JSON object, its time with a zone."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Write one record; what a peer or a file's name may contain cannot move the cursor of a terminal."""
        text = super().format(record)
        return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def formatter(log_format: LogFormat) -> logging.Formatter:
    """Give the formatter of a kind of log lines."""
    if log_format is LogFormat.JSON:
        return _JSONLines()
    return _TextLines("%(asctime)s %(levelname)s %(message)s")


@contextmanager
def written(log_format: LogFormat) -> Iterator[None]:
    """Have log lines written to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(log_format))
    with written_by(handler):
        yield


@contextmanager
def written_by(handler: logging.Handler) -> Iterator[None]:
    """Have log lines written by a handler: ours from INFO on, a user's own as they have set them."""
    root, ours = logging.getLogger(), logging.getLogger("consumer")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.INFO)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # every failure has a line of ours already
    try:
        yield
    finally:
        root.removeHandler(handler)
        ours.setLevel(before)
