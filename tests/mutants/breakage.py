"""What a breakage is, and how it is put into a copy of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class OutOfDateError(Exception):
    """An entry of the list no longer says what stands in the code."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """A plausible mistake.

    Attributes:
        name: the promise that is broken, as its user would notice.
        file: where, from the root of the tree.
        old: what stands there, once.
        new: what would stand there by mistake.
        test: the node id of the test that must fail.
    """

    name: str
    file: str
    old: str
    new: str
    test: str

    def broken(self, root: Path) -> str:
        """The file's text with the mistake in it."""
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise OutOfDateError(f"{self.name}: {self.file} has {self.old!r} {text.count(self.old)} times, not once")
        broken = text.replace(self.old, self.new)
        try:
            compile(broken, self.file, "exec")
        except SyntaxError as error:
            raise OutOfDateError(f"{self.name}: {self.file} is no Python any longer: {error}") from error
        return broken

    @contextmanager
    def applied(self, root: Path) -> Iterator[None]:
        """Have the mistake in a tree for a while."""
        path = root / self.file
        text, broken = path.read_text(), self.broken(root)
        path.write_text(broken)
        try:
            yield
        finally:
            path.write_text(text)
