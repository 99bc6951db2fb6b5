"""The command's first lines and its last: it can be stopped before anything is loaded, and ends with one exit code.

An error is one line on standard error that says what to do, never a traceback. What each error means is in `exits.py`.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from consumer.cli import stops


def main() -> NoReturn:
    """Run the command and leave with its exit code."""
    stops.leave_at_once(sys.argv[1:])
    # Only now, since loading this takes long enough for a signal to come.
    from consumer.cli import exits  # noqa: PLC0415
    from consumer.cli.app import app  # noqa: PLC0415
    from consumer.cli.output import abandon, complain, watched_stdout, write_any_text  # noqa: PLC0415
    from consumer.core.words import why  # noqa: PLC0415

    complaint: str | None = None
    write_any_text()
    with watched_stdout() as output:
        try:
            code = app(prog_name="consumer", standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - whatever it was, it ends in one line and an exit code
            code, complaint = exits.exit_code(error), exits.explain(error)
    if output is not None and output.failure is not None:
        abandon(sys.stdout)
        if code in (0, None, exits.UNEXPECTED):
            code, complaint = exits.UNEXPECTED, f"standard output cannot be written: {why(output.failure)}"
    if complaint is not None:
        complain(complaint)
    sys.exit(code)
