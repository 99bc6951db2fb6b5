"""What the commands over streams do: one transaction by `Store.move`, and a line for each stream."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Sequence

import typer

from consumer.cli.output import printable
from consumer.cli.place import Place
from consumer.core.errors import InvalidOption
from consumer.core.streams import Override
from consumer.store import moves
from consumer.store.moves import Move
from consumer.store.transaction import Store


def pause(place: Place, streams: Sequence[str], *, every: bool, reason: str) -> None:
    """Pause streams."""
    for done in _move(place, lambda name: moves.pause(name, reason, who()), streams, every=every):
        _say(f"{done.stream} is paused behind {done.to_through}")


def resume(place: Place, streams: Sequence[str], *, every: bool, reason: str) -> None:
    """Resume streams."""
    for done in _move(place, lambda name: moves.resume(name, reason, who()), streams, every=every):
        _say(f"{done.stream} goes on behind {done.to_through}")


def skip(place: Place, stream: str, record: int, *, expect_last: int, reason: str) -> None:
    """Skip a record."""
    for done in _move(place, lambda name: moves.skip(name, record, expect_last, reason, who()), [stream]):
        _say(f"{done.stream} goes on behind {done.to_through}: record {record} was passed over")


def trust(place: Place, stream: str, at: int | None, *, expect_last: int, reason: str) -> None:
    """Trust what is there now."""
    for done in _move(place, lambda name: moves.trust(name, at, expect_last, reason, who()), [stream]):
        _say(f"{done.stream} goes on behind {done.to_through}, whatever its identity is now")


def who() -> str:
    """Give who does it, as it goes on record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _move(place: Place, make: Callable[[str], Move], streams: Sequence[str], *, every: bool = False) -> list[Override]:
    if every == bool(streams):
        raise InvalidOption("give the names of streams, or --all")
    with place.named(), Store(place.db, prefix=place.prefix, schema=place.schema) as store:
        known = [stream.name for stream in store.streams()]
        try:
            return store.move([make(name) for name in (known if every else dict.fromkeys(streams))])
        except ValueError as error:
            raise InvalidOption(str(error)) from error


def _say(text: str) -> None:
    typer.echo(printable(text))
