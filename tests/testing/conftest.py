"""Fixtures of the tests of `consumer.testing`: what the handlers know of the outside; nothing is left."""

import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from consumer.store import migrate, transaction
from consumer.store.transaction import Store


def children() -> set[str]:
    """The processes of proofs that this one has started and not seen ending."""
    pids = {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
    return {pid for pid in pids if b"consumer.testing" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def open_files() -> set[str]:
    files = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists the folder
            files.add(f"{link.name} {link.readlink()}")
    return {name for name in files if "socket:" in name or ".db" in name}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process, connection or database stays open. It looks last."""
    before = open_files()
    yield
    gc.collect()  # an error that a test has kept refers to itself by its traceback, and to the cursors in its frames
    assert children() == set()
    assert open_files() <= before


@pytest.fixture(autouse=True)
def no_waits(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "HANDLER_WAIT_S", 0.0)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that handlers write to although it is in no transaction."""
    path = tmp_path / "outside"
    path.touch()
    monkeypatch.setenv("CONSUMER_TEST_OUTSIDE", str(path))
    return path


@pytest.fixture
def proof_url(url: str, outside: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database for a proof, on both databases in turn; the handlers know where it is."""
    monkeypatch.setenv("CONSUMER_TEST_URL", url)
    return url


@pytest.fixture
def sqlite_proof_url(sqlite_url: str, outside: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CONSUMER_TEST_URL", sqlite_url)
    return sqlite_url


@pytest.fixture
def sqlite_store(sqlite_url: str, nothing_is_left: None) -> Iterator[Store]:
    migrate.upgrade(sqlite_url)
    with Store(sqlite_url) as store:
        store.resume()
        yield store
