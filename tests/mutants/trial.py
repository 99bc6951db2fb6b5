"""Copies of the tree, and tests that are run in one of them: with a mistake in it, the right test must fail.

Whatever a test starts runs the copy too: it comes first on the path of every process, before the installed package.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree as ET

from .breakage import Breakage

ROOT = Path(__file__).parents[2]

COPIED = (
    *("consumer", "migrations", "tests", "examples", "docs"),
    *(
        "resumable_consumer_pytest.py",
        "pyproject.toml",
        "alembic.ini",
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "LICENSE",
    ),
)

LIMIT_S = 90.0
"""How long a test may take with a mistake in the code. It only guards: a mistake that hangs is none that was noticed."""

BASELINE_LIMIT_S = 600.0
"""How long all of them may take without one."""

PATIENCE_S = 8.0
"""What the tests wait for at most: they wait in vain where the mistake is that something never happens."""


class Verdict(Enum):
    """What became of a breakage."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "NO VERDICT"
    """Its test did not come to a verdict: it could not be collected or set up, or did not end."""


class Copy:
    """A copy of the tree. For one thread at a time, `stop` excepted.

    Args:
        folder: where it is made; nothing is there yet.
        environment: further variables for the tests.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._environment = {
            **os.environ,
            **environment,
            "PYTHONPATH": str(folder),
            # What was compiled before is told by its content: a mistake may have the size and the time of the original.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        folder.mkdir()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)
        compileall.compile_dir(folder, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def which_consumer(self) -> str:
        """The file of the package that a process finds, wherever it is started."""
        code = "import consumer; print(consumer.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd="/", env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def run(self, tests: Iterable[str], limit_s: float, *options: str) -> tuple[int | None, list[str], str]:
        """Run tests.

        Returns:
            The exit code, None where they did not end in time; the names of those that failed, and not in their
            preparation; and what was printed.
        """
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        # Without Hypothesis' plugin, which its tests can do without: to load it takes as long as all the rest.
        quick = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        command = [sys.executable, "-m", "pytest", "-q", "-x", *quick, f"--junitxml={report}"]
        if self._stopped.is_set():
            return None, [], ""
        self._process = subprocess.Popen(
            [*command, *options, *dict.fromkeys(tests)],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = self._process.communicate(timeout=limit_s)
            code: int | None = self._process.returncode
        except subprocess.TimeoutExpired:
            self._kill()
            printed, code = self._process.communicate()[0], None
        finally:
            self._kill()
        return code, _failures(report), printed

    def try_one(self, breakage: Breakage) -> tuple[Verdict, str]:
        """Make a mistake, run its test, and take the mistake back."""
        with breakage.applied(self.folder):
            code, failures, printed = self.run([breakage.test], LIMIT_S)
        if code == 0:
            return Verdict.SURVIVED, printed
        if code == 1 and failures:
            return Verdict.KILLED, printed
        return Verdict.BROKEN, printed

    def stop(self) -> None:
        """End what is running, and run nothing more."""
        self._stopped.set()
        self._kill()

    def _kill(self) -> None:
        """End the tests and whatever they have started."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


def _failures(report: Path) -> list[str]:
    """The tests in a report that came to their own verdict, and to a bad one."""
    if not report.exists():
        return []
    cases = ET.parse(report).getroot().iter("testcase")
    return [case.get("name", "") for case in cases if case.find("failure") is not None]
