"""Fixtures of the contract tests."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer import open_store

from .helpers import Connects, WatchedConnection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made; nothing is there yet."""
    return tmp_path / "store.db"


@pytest.fixture
def con(path: Path) -> Iterator[sqlite3.Connection]:
    """A new store at ``path``, opened."""
    con = open_store(path)
    yield con
    con.close()


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connects]:
    """``sqlite3.connect`` watched; whatever it made is closed in the end."""
    connects = Connects()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connects)
        yield connects
    for con in connects.made:
        con.close()


@pytest.fixture
def watched(connects: Connects, path: Path) -> WatchedConnection:
    """A new store at ``path``, opened on a connection that can be told to fail."""
    con = open_store(path)
    assert isinstance(con, WatchedConnection)
    return con
