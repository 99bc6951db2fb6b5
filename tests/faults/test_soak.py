"""The soak in its short form: each crash point and each victim once, on both databases."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from consumer.core.points import Point
from consumer.testing import Moment

ROOT = Path(__file__).parents[2]
KILLS = {"sqlite": 17, "postgres": 18}
"""As many as there are kinds, each of which comes once before any comes again."""

LIMIT_S = 240.0
"""How long it may take on a machine that does other things too."""


@contextmanager
def soak(*options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.soak", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("database", KILLS)
def test_killed_at_every_point_and_at_random_nothing_differs(database: str) -> None:
    with soak("--db", database, "--kills", str(KILLS[database]), "--seed", "1") as process:
        out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out
    assert "differences: 0" in out
    assert re.search(rf"all .* {KILLS[database]} ", out), out
    for kind in (*Point, *Moment, "appender", "consumer", "publisher"):
        assert re.search(rf"^│ {kind} ", out, re.MULTILINE), (kind, out)


def test_ctrl_c_ends_it_and_leaves_no_process_behind(patience_s: float) -> None:
    with soak("--db", "sqlite", "--kills", "100000", "--seed", "3") as process:
        soaking = psutil.Process(process.pid)
        found: set[psutil.Process] = set()
        while len(found) < 6:  # the four, and two that came after some who were killed
            found |= set(soaking.children(recursive=True))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=patience_s)
    assert process.returncode == 130, out
    assert "interrupted" in out
    assert "Traceback" not in out
    assert psutil.wait_procs(found, timeout=patience_s)[1] == []
