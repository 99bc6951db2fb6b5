"""`consumer demo`: watch what this package exists for."""

# ruff: noqa: PLC0415 - what a command works with is loaded when it runs

from __future__ import annotations

import typer


def demo() -> None:
    """Watch a consumer being killed, and nothing counted twice.

    It is killed between commit and ACK, with SIGKILL; the next one goes on where the database is.
    """
    from rich.console import Console

    from consumer.cli import stops, story
    from consumer.cli.exits import UNEXPECTED

    with stops.raised():
        holds = story.tell_story(Console())
    if not holds:
        raise typer.Exit(UNEXPECTED)
