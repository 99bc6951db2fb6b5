"""Where the command begins: signals first, then what is typed, then one line and an exit code.

An error is one line on standard error that says what to do, never a traceback. What each error means is in `exits.py`.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from consumer.cli.early import leave_at_once


def main() -> NoReturn:
    """Run the command and leave with its exit code."""
    leave_at_once()
    if sys.argv[1:] == ["--version"]:
        from consumer.cli.version import say_version  # noqa: PLC0415 - this command needs nothing else, Typer included

        sys.exit(say_version())
    from consumer.cli import exits  # noqa: PLC0415 - only now are signals looked after
    from consumer.cli.app import app  # noqa: PLC0415 - the same
    from consumer.cli.output import abandon, complain, watched_stdout, write_any_text  # noqa: PLC0415 - the same
    from consumer.core.words import why  # noqa: PLC0415 - the same

    complaint: str | None = None
    write_any_text()
    with watched_stdout() as output:
        try:
            code = app(standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - whatever it was, it ends in one line and an exit code
            code, complaint = exits.exit_code(error), exits.explain(error)
    if output is not None and output.failure is not None:
        abandon(sys.stdout)
        if code in (0, None, exits.UNEXPECTED):
            code, complaint = exits.UNEXPECTED, f"standard output cannot be written: {why(output.failure)}"
    if complaint is not None:
        complain(f"consumer: {complaint}")
    sys.exit(code)
