"""Fixtures of the tests that use the project as its users do: through its command."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from consumer.cli import main, stops


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def handled_signals() -> Iterator[None]:
    """What signals do in this process, as it was before a command changed it."""
    with stops.raised():
        yield


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder where nothing of the project is, and nothing that a developer has set."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("CONSUMER_") and name != "CONSUMER_TEST_POSTGRES":
            monkeypatch.delenv(name)


@pytest.fixture
def consumer(handled_signals: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: what it prints, and what it would end with."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["consumer", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return Done(end.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def process(patience_s: float) -> Run:
    """The command as a process."""

    def run(*arguments: str, **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "consumer", *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
