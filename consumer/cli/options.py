"""The options that several commands have, each described once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

DEFAULT_DATABASE = "sqlite:///consumer.db"


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From which level on log lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


Database = Annotated[
    str,
    typer.Option("--db", envvar="CONSUMER_DB", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
]

Prefix = Annotated[
    str,
    typer.Option(envvar="CONSUMER_PREFIX", metavar="PREFIX", help="What the names of our tables begin with."),
]

Schema = Annotated[
    str | None,
    typer.Option(envvar="CONSUMER_SCHEMA", metavar="SCHEMA", help="The schema of our tables, on PostgreSQL."),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", envvar="CONSUMER_LOG_FORMAT", metavar="FORMAT", help="How log lines are written: text or json."
    ),
]

LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        envvar="CONSUMER_LOG_LEVEL",
        metavar="LEVEL",
        case_sensitive=False,
        help="From which level on: debug, info, warning or error.",
    ),
]

JournalPath = Annotated[str, typer.Argument(metavar="JOURNAL", help="The file of events.")]
