"""`consumer --version`."""

from __future__ import annotations

from consumer.cli.output import watched_stdout


def say_version() -> int:
    """Print which version this is, and give the exit code."""
    from importlib import metadata  # noqa: PLC0415 - it takes longer to import than most commands' own modules

    with watched_stdout() as output:
        if output is not None:
            print(f"consumer {metadata.version('resumable-consumer')}")  # noqa: T201 - this is a command's output
    return 0
