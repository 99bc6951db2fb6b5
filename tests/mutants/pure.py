"""`python -m tests.mutants.pure`: every small mistake that mutmut can think of, in the rooms that are pure.

Ends with 1 where one is noticed by no test and does not stand below with the reason why none could notice it. mutmut
works in a copy of the tree; what it mutates, and with which tests, stands in `pyproject.toml`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from .trial import Copy

LIMIT_S = 1800.0
"""How long all of it may take. It only guards."""

WORKERS = 2

MEMORY_BYTES_MAX = 4 * 1024**3
"""How much each process may have: some mistakes make lists of two thousand million numbers."""

SLOWER_ONLY = "the acknowledgements are the same, only put together one by one"

EQUIVALENT = {
    'seqs, rest = _read_numbers(_acks, b"XXACKXX", buffer, per_line=1)': "which letters are left out, not in which order",
    "is_run = None": SLOWER_ONLY,
    "is_run = last + first == len(seqs) - 1 and seqs == list(range(first, last + 1))": SLOWER_ONLY,
    "is_run = last - first != len(seqs) - 1 and seqs == list(range(first, last + 1))": SLOWER_ONLY,
    "is_run = last - first == len(seqs) + 1 and seqs == list(range(first, last + 1))": SLOWER_ONLY,
    "is_run = last - first == len(seqs) - 2 and seqs == list(range(first, last + 1))": SLOWER_ONLY,
    "is_run = last - first == len(seqs) - 1 and seqs == list(range(first, last - 1))": SLOWER_ONLY,
    "is_run = last - first == len(seqs) - 1 and seqs == list(range(first, last + 2))": SLOWER_ONLY,
    "if first <= len(_LAST_DIGITS) or not is_run:": SLOWER_ONLY,
}
"""What the changed line says, and why that is no mistake."""

console = Console()


def main() -> int:
    """Do it, and give the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    with tempfile.TemporaryDirectory(prefix="consumer-mutmut-") as folder:
        copy = Copy(Path(folder) / "copy", {})
        mutmut(copy.folder, "run", "--max-children", f"{WORKERS}", *sys.argv[1:])
        ignored = {"timeout", "not checked"} if sys.argv[1:] else {"timeout"}  # words choose mutants by their names
        left = [line.strip().split(": ") for line in mutmut(copy.folder, "results").splitlines() if ": " in line]
        survivors = [
            (name, verdict, changed_line(copy.folder, name)) for name, verdict in left if verdict not in ignored
        ]
    unknown = [one for one in survivors if one[2] not in EQUIVALENT]
    for name, verdict, line in unknown:
        console.print(f"{verdict}: {name}: {line}", markup=False)
    console.print(f"mutmut: {len(survivors) - len(unknown)} that are no mistakes, {len(unknown)} that no test notices")
    return 1 if unknown else 0


def mutmut(folder: Path, *arguments: str) -> str:
    """Call mutmut in a copy, and give what it says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"mutmut {' '.join(arguments)} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def changed_line(folder: Path, name: str) -> str:
    """What a mutant's changed lines say."""
    shown = mutmut(folder, "show", name).splitlines()
    return " ".join(line[1:].strip() for line in shown if line.startswith("+") and not line.startswith("+++"))


if __name__ == "__main__":
    sys.exit(main())
