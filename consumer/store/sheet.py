"""What one transaction does with a batch, as `transaction.py` sees it: the same steps for both kinds of numbering.

The contract's pair (`pair.py`) and streams of records (`streams.py`) differ in their tables and in what they sum up.
What they have in common is written once: the transaction, the savepoint, the halving of a batch, and durability.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, Self, TypeVar

from consumer.core.words import one_line


class Outcome(Protocol):
    """What became of a batch."""

    @property
    def error(self) -> Exception | None:
        """What kept the rest of it from being applied."""

    def followed_by(self, other: Self) -> Self:
        """Put what became of the next items behind this."""

    def ended_by(self, error: Exception) -> Self:
        """Say that what would have come next has failed."""


Result = TypeVar("Result", bound=Outcome)
Done = TypeVar("Done")


class Batch(ABC, Generic[Result]):
    """Events or records in the order in which they came, that can be cut in two."""

    @abstractmethod
    def __len__(self) -> int:
        """Give how many events or records it has."""

    @abstractmethod
    def halves(self, failure: HandlerRaised) -> tuple[Self, Self]:
        """Cut it in two that are not empty, so that what failed is found."""

    @abstractmethod
    def after(self, outcome: Result) -> Self:
        """Leave out what need not be tried any more once what is before it has come to this."""

    @abstractmethod
    def failed(self, failure: HandlerRaised) -> Result:
        """Say what it comes to that the handler fails on it, where that is all that is known."""


class Sheet(ABC, Generic[Done]):
    """One transaction's work."""

    @abstractmethod
    def judge(self, cursor: Any) -> None:
        """Lock where the store stands, and find out what is new."""

    def claimed(self) -> Mapping[str, object]:
        """Give the cursors, as they were found, that are going to be acknowledged or built on.

        For each name that is something which equals no other place that this cursor has ever stood at.
        """
        return {}

    @abstractmethod
    def changes(self) -> bool:
        """Say whether there is anything to write."""

    def new(self) -> Sequence[Any]:
        """Give what the handler is called with; it is not called where that is nothing."""
        return ()

    @abstractmethod
    def write(self, cursor: Any) -> Mapping[str, object]:
        """Write all but what the handler writes, and give the cursors that hold once that is committed, as above."""

    @abstractmethod
    def outcome(self) -> Done:
        """Say what became of it, once it is committed."""


class HandlerRaised(Exception):
    """A handler failed on what was new, for a reason that is no failure of the database.

    Attributes:
        sheet: the work that it was a part of.
        cause: what was raised.
        ended: the handler has ended the transaction, so that what it did may be committed.
    """

    def __init__(self, sheet: Sheet[Any], cause: BaseException, *, ended: bool) -> None:
        super().__init__(sheet)
        self.sheet = sheet
        self.cause = cause
        self.ended = ended

    def reason(self) -> str:
        """Say what happened, on one line."""
        name = type(self.cause).__name__
        with suppress(Exception):  # a user's own error, which may be unable to say anything
            return one_line(f"{name}: {self.cause}")
        return name
