"""What differs between two looks at a database, in a few lines that can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

SHOWN_MAX = 3
"""How many rows, or entries, are shown of each kind."""

SHOWN_CHARS_MAX = 160
"""How much is shown of a single value."""


def describe(expected: object, found: object) -> list[str]:
    """Say what differs.

    Args:
        expected: what a run that nothing disturbed left behind: rows by table, or what the user's `observe` gives.
        found: the same of another run.

    Returns:
        Lines, none where nothing differs.
    """
    if expected == found:
        return []
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return _describe_tables(expected, found)
    if isinstance(expected, list) and isinstance(found, list):
        return _describe_rows("observed", expected, found)
    return [f"observed: {_short(found)}, undisturbed {_short(expected)}"]


def _describe_tables(expected: Mapping[object, object], found: Mapping[object, object]) -> list[str]:
    lines: list[str] = []
    for name in [*expected, *(name for name in found if name not in expected)]:
        if name not in found:
            lines.append(f"{name}: not there at all")
        elif name not in expected:
            lines.append(f"{name}: there, and undisturbed it is not")
        elif expected[name] != found[name]:
            one, other = expected[name], found[name]
            if isinstance(one, list) and isinstance(other, list):
                lines += _describe_rows(str(name), one, other)
            else:
                lines.append(f"{name}: {_short(other)}, undisturbed {_short(one)}")
    return lines


def _describe_rows(name: str, expected: list[object], found: list[object]) -> list[str]:
    wanted, there = Counter(map(_text, expected)), Counter(map(_text, found))
    lines = [f"{name}: {_rows(len(found))}, undisturbed {len(expected)}"]
    for title, rows in (("too much", there - wanted), ("missing", wanted - there)):
        if rows:
            shown = [f"{_cut(row)}{f' x{times}' if times > 1 else ''}" for row, times in list(rows.items())[:SHOWN_MAX]]
            more = ["…"] if len(rows) > SHOWN_MAX else []
            lines.append(f"  {title}: {', '.join(shown + more)}")
    if len(lines) == 1:
        lines.append("  the same ones in another order")
    return lines


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _text(row: object) -> str:
    return row if isinstance(row, str) else repr(row)


def _short(value: object) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"
