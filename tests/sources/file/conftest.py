"""A file that can be written, and a source that reads it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from .driver import Reading, open_reading


@pytest.fixture
def reading(patience_s: float) -> Callable[..., AbstractAsyncContextManager[Reading]]:
    return partial(open_reading, patience_s)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.jsonl"
