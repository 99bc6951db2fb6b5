"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Database = Annotated[
    str,
    typer.Option("--db", envvar="CONSUMER_DB", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
]
DEFAULT_DATABASE = "sqlite:///consumer.db"
