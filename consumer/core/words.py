"""How messages put things: a count with its noun, the last event, an error's own words, several lines as one."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Say how many there are: `1 event`, `2 events`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def last_event(head: int) -> str:
    """Say which event is the last, where -1 stands for none."""
    return "there is no event yet" if head < 0 else f"the last event is {head}"


def one_line(text: object) -> str:
    """Fold a text that may have several lines."""
    return " ".join(str(text).split())


def why(error: BaseException) -> str:
    """Say what an error is about: the system's words, or its own, or its kind where it has none."""
    strerror = getattr(error, "strerror", None)
    return one_line(strerror or error) or type(error).__name__
