"""How messages put things: a count with its noun, an error that says nothing of itself, several lines as one."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Say how many there are: `1 event`, `2 events`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: object) -> str:
    """Fold a text that may have several lines."""
    return " ".join(str(text).split())


def why(error: BaseException) -> str:
    """Say what an error is about: the system's words, or its own, or its kind where it has none."""
    strerror = getattr(error, "strerror", None)
    return one_line(strerror or error) or type(error).__name__
