"""How far streams are behind their source: what the source itself says of them, asked without consuming anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from urllib.parse import quote

from consumer.core.errors import InvalidOption
from consumer.core.runs import Assigned, Offer
from consumer.sources.base import Source
from consumer.sources.registry import open_source

ASK_TIMEOUT_S = 10.0
"""How long a source may take to say what it has."""

FILE_PREFIX = "file/"
"""What the names of streams begin with that are files under their own paths."""


def heads(streams: Iterable[str], url: str | None, name: str | None) -> dict[str, int]:
    """Ask sources for the last numbers that they have.

    Args:
        streams: the names of the streams.
        url: the source to ask; where it is not given, the files whose paths the names say.
        name: the name that the source's stream was given, where it was.

    Returns:
        For each stream that its source has the last number there.

    Raises:
        InvalidURL, InvalidOption: the source cannot be one.
        Exception: it cannot be asked.
    """
    streams = set(streams)
    if url is not None:
        options = {} if name is None else {"name": name}
        return {k: v for k, v in asyncio.run(_ask(open_source(url, **options))).items() if k in streams}
    files = sorted(stream for stream in streams if stream.startswith(FILE_PREFIX))
    if not files:
        raise InvalidOption("the names of these streams do not say where their source is: give its URL by --url")
    found: dict[str, int] = {}
    for stream in files:
        path = stream.removeprefix(FILE_PREFIX.rstrip("/"))
        found.update(asyncio.run(_ask(open_source(f"file://{quote(path)}", name=stream))))
    return found


async def _ask(source: Source) -> dict[str, int]:
    """Open a session, take in what is offered, and end it. A source that is not there has nothing to say."""
    offers: list[Offer] = []
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            await source.open()
            while not offers:
                happened = await source.read()
                offers += [offer for one in happened if isinstance(one, Assigned) for offer in one.offers]
                if not happened:
                    break
    finally:
        await source.close()
    return {offer.stream: offer.head for offer in offers}
