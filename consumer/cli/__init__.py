"""The command `consumer`: what is typed, what is printed, and with which exit code it ends.

Typer and Rich are used in this wing only. What a command does is written in the other wings, and is loaded when that
command runs: `consumer --help` and completion in a shell load neither a database nor the network.
"""

from consumer.cli.start import main

__all__ = ["main"]
