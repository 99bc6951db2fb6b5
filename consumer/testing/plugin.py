"""The pytest plugin: the fixture `exactly_once`. Every run of pytest loads it, and so it loads nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from consumer.core.events import Event
    from consumer.testing.proof.proof import Proof


class ExactlyOnce(Protocol):
    """`assert_exactly_once` with a database of its own."""

    def __call__(
        self,
        handler: str | Callable[..., None],
        events: Sequence[Event],
        *,
        url: str | None = None,
        observe: Callable[[Connection], object] | None = None,
        setup: Callable[[Connection], None] | None = None,
    ) -> Proof:
        """Prove it; see `consumer.testing.assert_exactly_once`."""


@pytest.fixture
def exactly_once(tmp_path: Path) -> ExactlyOnce:
    """Prove that a handler's effect is there exactly once: `exactly_once(handler, events)`.

    The arguments are those of `consumer.testing.assert_exactly_once`, but that `url` may be left out: then the database
    is a SQLite file in the test's temporary folder.
    """

    def prove(
        handler: str | Callable[..., None],
        events: Sequence[Event],
        *,
        url: str | None = None,
        observe: Callable[[Connection], object] | None = None,
        setup: Callable[[Connection], None] | None = None,
    ) -> Proof:
        from consumer.testing.proof.proof import assert_exactly_once  # noqa: PLC0415 - only where it is used

        database = url or f"sqlite:///{tmp_path / 'exactly_once.db'}"
        return assert_exactly_once(handler, events, database, observe=observe, setup=setup)

    return prove
