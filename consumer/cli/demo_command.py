"""`consumer demo`."""

from __future__ import annotations

import typer

from consumer.cli.early import leave_signals_alone


def demo() -> None:
    """Watch a consumer being killed between commit and ACK, and nothing counted twice."""
    from rich.console import Console  # noqa: PLC0415 - as all that a command needs beyond Typer

    from consumer.cli.demo import run_demo  # noqa: PLC0415 - the same

    leave_signals_alone()  # the processes and the folder of the story are cleared up
    if not run_demo(Console()):
        raise typer.Exit(1)
