"""What the pytest fixture `exactly_once` gives: the proof, with a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from consumer.core.events import Event
from consumer.testing.proof.databases import Observe, Setup
from consumer.testing.proof.proof import Proof, assert_exactly_once


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """`assert_exactly_once` for one test.

    Attributes:
        folder: the test's temporary folder; the database is a SQLite file there unless the test names another one.
    """

    folder: Path

    def __call__(
        self,
        handler: str | Callable[..., None],
        events: Sequence[Event],
        *,
        url: str | None = None,
        observe: Observe | None = None,
        setup: Setup | None = None,
    ) -> Proof:
        """Prove that a handler's effect is there exactly once.

        Arguments, result and errors are those of `assert_exactly_once`, except that `url` may be left out.
        """
        __tracebackhide__ = True  # pytest shows the line of the test that failed
        database = url or f"sqlite:///{self.folder / 'exactly_once.db'}"
        return assert_exactly_once(handler, events, database, observe=observe, setup=setup)
