"""What a breakage is, and how it is put into a copy of the tree.

A breakage names a function, and code that stands in it. It is found by its syntax, not by its text, in whichever module
the function is: a move, a comment or another way to break lines changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PLACES = ("consumer", "migrations", ".")
"""The folders of the code that breakages are about: two with all that is in them, and what is at the top."""


class OutOfDateError(Exception):
    """An entry of the list no longer says what stands in the code."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """A plausible mistake.

    Attributes:
        name: the promise that is broken, as its user would notice.
        where: a function by its qualified name, such as `Store.apply`, with its module and a colon before it where there
            is another one of that name. What stands outside of functions is `module:` alone.
        old: code that stands there, once: an expression, or statements that follow each other.
        new: what would stand there by mistake; nothing where it is left out.
        test: the node id of the test that must fail.
    """

    name: str
    where: str
    old: str
    new: str
    test: str

    def find(self, root: Path) -> tuple[Path, str]:
        """Give the file that the breakage is about, and its text with the mistake in it."""
        path, body = self._place(root)
        source = path.read_bytes()
        nodes = _matches(body, self.old)
        if len(nodes) != 1:
            raise OutOfDateError(f"{self.name}: {self.where} has {self.old!r} {len(nodes)} times, not once")
        broken = _replaced(source, nodes[0], self.new).decode()
        try:
            compile(broken, str(path), "exec")
        except SyntaxError as error:
            raise OutOfDateError(f"{self.name}: {path.name} is no Python any longer: {error}") from error
        return path, broken

    @contextmanager
    def applied(self, root: Path) -> Iterator[None]:
        """Have the mistake in a tree for a while."""
        path, broken = self.find(root)
        text = path.read_text()
        path.write_text(broken)
        try:
            yield
        finally:
            path.write_text(text)

    def _place(self, root: Path) -> tuple[Path, list[ast.stmt]]:
        module, _, function = self.where.rpartition(":")
        found = [
            (path, body)
            for path in _files(root)
            if not module or f".{'.'.join(path.relative_to(root).with_suffix('').parts)}".endswith(f".{module}")
            for name, body in _bodies(path.read_text())
            if name == function
        ]
        if len(found) != 1:
            raise OutOfDateError(f"{self.name}: there are {len(found)} places {self.where!r}, not one")
        return found[0]


def _files(root: Path) -> list[Path]:
    return [path for place in PLACES for path in sorted((root / place).glob("*.py" if place == "." else "**/*.py"))]


@cache
def _bodies(text: str) -> list[tuple[str, list[ast.stmt]]]:
    """The functions of a module by their qualified names, and what is outside of them under no name."""
    found: list[tuple[str, list[ast.stmt]]] = []

    def walk(statements: list[ast.stmt], prefix: str) -> None:
        for statement in statements:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{statement.name}"
                if not isinstance(statement, ast.ClassDef):
                    found.append((name, [statement]))
                walk(statement.body, f"{name}.")

    tree = ast.parse(text)
    walk(tree.body, "")
    found.append(("", [statement for statement in tree.body if not _is_function(statement)]))
    return found


def _is_function(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)


def _matches(body: list[ast.stmt], old: str) -> list[list[ast.AST]]:
    """Each place where this code stands: one expression, or statements that follow each other."""
    wanted = ast.parse(old).body
    if len(wanted) == 1 and isinstance(wanted[0], ast.Expr):
        expression = _shape(wanted[0].value)
        return [[node] for node in _inside(body) if isinstance(node, ast.expr) and _shape(node) == expression]
    shapes = [_shape(statement) for statement in wanted]
    found: list[list[ast.AST]] = []
    for statements in _lists(body):
        for start in range(len(statements) - len(shapes) + 1):
            here = statements[start : start + len(shapes)]
            if [_shape(statement) for statement in here] == shapes:
                found.append(list(here))
    return found


def _inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from _walk(statement)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a node; in a formatted string nothing, since Python 3.11 does not say where its parts stand."""
    yield node
    if not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


def _lists(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for node in _inside(body):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and all(isinstance(item, ast.stmt) for item in value):
                yield value


def _shape(node: ast.AST) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()").replace("ctx=Del()", "ctx=Load()")


def _replaced(source: bytes, nodes: list[ast.AST], new: str) -> bytes:
    lines = source.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + column

    first, last = nodes[0], nodes[-1]
    start = offset(first.lineno, first.col_offset)  # type: ignore[attr-defined]  # statements and expressions have it
    end = offset(last.end_lineno, last.end_col_offset)  # type: ignore[attr-defined]  # the same
    if isinstance(first, ast.stmt):
        indent = " " * first.col_offset
        replacement = ("\n" + indent).join((new or "pass").splitlines())
    else:
        replacement = f"({new})"
    return source[:start] + replacement.encode() + source[end:]
