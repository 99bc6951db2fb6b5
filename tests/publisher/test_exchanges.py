"""docs/exchanges.md, replayed byte for byte."""

# ruff: noqa: ASYNC240 - files are small here

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from .helpers import Peer

PAGE = Path(__file__).parents[2] / "docs" / "exchanges.md"
EXCHANGES = re.findall(r"^```exchange\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def options_of(line: str) -> dict[str, Any]:
    """What `consumer serve` makes of its options, for those that the page uses."""
    words = line.split()[1:]
    options: dict[str, Any] = {}
    while words:
        match words.pop(0):
            case "--window":
                options["window"] = int(words.pop(0))
            case "--no-follow":
                options["follow"] = False
            case unknown:
                raise AssertionError(unknown)
    return options


def test_the_page_shows_what_there_is_to_show() -> None:
    assert len(EXCHANGES) >= 12
    said = "".join(EXCHANGES)
    for word in ("RESUME", "EVENT", "ACK", "SNAPSHOT", "TRUNCATED", "AHEAD"):
        assert f": {word} " in said


@pytest.mark.parametrize("exchange", EXCHANGES)
async def test_an_exchange_is_what_happens(
    publishing: Callable[..., Any], meet: Callable[..., Awaitable[Peer]], path: Path, exchange: str
) -> None:
    steps = exchange.splitlines()
    assert steps.pop(0) == "journal"
    path.write_bytes(take_indented(steps))
    options = options_of(steps.pop(0)) if steps[0].startswith("options") else {}
    async with publishing(**options) as publisher:
        peer = await meet(publisher.port)
        while steps:
            step = steps.pop(0)
            if step == "appended":
                with path.open("ab") as file:
                    file.write(take_indented(steps))
            elif step.startswith("C: "):
                peer.say(step[3:].encode() + b"\n")
            elif step.startswith("P: "):
                assert await peer.hear_line() == step[3:].encode() + b"\n"
            elif step == "C closes":
                peer.writer.write_eof()
            else:
                assert step == "P closes"
                assert await peer.hear_all() == b""
                return
        peer.writer.write_eof()
        assert await peer.hear_all() == b""  # and not a byte more


def take_indented(steps: list[str]) -> bytes:
    taken = b""
    while steps and steps[0].startswith("  "):
        taken += steps.pop(0)[2:].encode() + b"\n"
    return taken
