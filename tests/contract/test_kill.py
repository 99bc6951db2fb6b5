"""The proof: a process that dies between commit and ACK, and a new one on the same file.

The processes are real, and die by SIGKILL or by os._exit: no `finally` of theirs runs.
"""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer import apply_event

from .helpers import GUARD_S, HERE, child_environment, contents, holding, stored

EVENTS = [(0, 5), (1, -7), (2, 100), (3, -1000), (4, 1)]
TOTAL = sum(delta for _, delta in EVENTS)

DEATHS = {"kill": -signal.SIGKILL, "exit": 42}


@contextlib.contextmanager
def child(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A victim at work; it does not outlive the block."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "victim.py"), *map(str, arguments)],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=GUARD_S)
    return process.returncode, out, err


class Publisher:
    """Sends EVENTS to one connection after the other, and keeps what it was told."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.resumes: list[int] = []
        self.acks: list[int] = []
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.settimeout(GUARD_S)
        self.port: int = self.sock.getsockname()[1]

    def first(self) -> int:
        """Where to begin this time: the seq is the place in EVENTS."""
        if self.kind == HONOURS:
            return self.resumes[-1] + 1
        if self.kind == REPEATS:
            return max(self.acks, default=-1) + 1
        return 0

    def serve(self) -> list[int]:
        """Serve one connection to its end, whichever side ends it; what was acknowledged on it."""
        accepted, _ = self.sock.accept()
        with accepted, accepted.makefile("rb") as lines:
            accepted.settimeout(GUARD_S)
            word, last = lines.readline().split()
            assert word == b"RESUME"
            self.resumes.append(int(last))
            acks = []
            with contextlib.suppress(ConnectionError):
                for event in EVENTS[self.first() :]:
                    accepted.sendall(b"EVENT %d %d\n" % event)
                accepted.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                for line in lines:
                    assert line.startswith(b"ACK ")
                    acks.append(int(line[4:]))
        self.acks += acks
        return acks


HONOURS, REPEATS, IGNORES = "honours RESUME", "repeats what was not acknowledged", "ignores RESUME"


@pytest.fixture
def publisher(kind: str) -> Iterator[Publisher]:
    publisher = Publisher(kind)
    yield publisher
    publisher.sock.close()


def well_ended(publisher: Publisher, path: Path) -> list[int]:
    """A run that nothing kills; its ACKs."""
    with child("client", publisher.port, path, "never", -1) as process:
        acks = publisher.serve()
        assert ended(process) == (0, f"{len(EVENTS) - 1} {TOTAL}\n", "")
    return acks


def killed(publisher: Publisher, path: Path, how: str, at: int) -> list[int]:
    """A run that dies between commit ``at`` and its ACK; the ACKs before it."""
    with child("client", publisher.port, path, how, at) as process:
        acks = publisher.serve()
        code, out, err = ended(process)
    assert (code, out) == (DEATHS[how], ""), err
    assert at not in acks
    # Committed, and the publisher does not know.
    assert stored(path) == holding(*EVENTS[: at + 1])
    return acks


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("at", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("kind", [HONOURS, IGNORES])
def test_an_event_committed_before_the_death_is_acknowledged_and_not_counted_twice(at, how, publisher, path) -> None:
    assert killed(publisher, path, how, at) == list(range(at))
    begin = at + 1 if publisher.kind == HONOURS else 0
    assert well_ended(publisher, path) == list(range(begin, len(EVENTS)))
    assert publisher.resumes == [-1, at]
    assert stored(path) == holding(*EVENTS)
    # All are acknowledged: by an ACK, or by the RESUME that followed the death.
    assert {*publisher.acks, *range(begin)} == set(range(len(EVENTS)))


@pytest.mark.parametrize("kind", [REPEATS])
def test_killed_between_commit_1_and_ack_1_the_event_sent_again_is_acknowledged(publisher, path) -> None:
    assert killed(publisher, path, "kill", 1) == [0]
    assert well_ended(publisher, path) == [1, 2, 3, 4]
    assert publisher.resumes == [-1, 1]
    assert stored(path) == holding(*EVENTS)


@pytest.mark.parametrize("kind", [IGNORES])
def test_deaths_at_every_event_in_a_row_lose_and_double_nothing(publisher, path) -> None:
    for at, _ in enumerate(EVENTS):
        killed(publisher, path, "kill", at)
    assert well_ended(publisher, path) == [seq for seq, _ in EVENTS]
    assert publisher.resumes == [-1, *range(len(EVENTS))]
    assert stored(path) == holding(*EVENTS)


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_inside_the_transaction_leaves_nothing_of_the_event(how, path, con) -> None:
    """A connection that stays open beside it is what the next process would find."""
    assert apply_event(con, 0, 5) is True
    with child("apply", path, how, 1, -7) as process:
        code, out, err = ended(process)
    assert (code, out) == (DEATHS[how], ""), err
    assert contents(con) == stored(path) == holding(EVENTS[0])
    assert apply_event(con, 1, -7) is True
    assert stored(path) == holding(*EVENTS[:2])
