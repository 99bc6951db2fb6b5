"""Which source a URL names: built-in ones, and those of other packages by their entry points.

A package offers a source by an entry point of the group `consumer.sources`, whose name is the scheme and whose object
is called with the URL and the options. Only the one that is asked for is loaded, and none can take a built-in scheme.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from consumer.core.errors import InvalidOption, InvalidURL, SourceUnusable
from consumer.core.words import why
from consumer.sources.base import Source

GROUP = "consumer.sources"
"""The group of entry points."""

FILE = "file"
"""The scheme of what has none: a path."""

BUILT_IN: Mapping[str, str] = {FILE: "consumer.sources.file.source:FileSource"}
"""For each scheme of ours where its source is defined."""

OF_EVENTS = ("tcp", "tls")
"""Schemes of the publisher's protocol. It carries events, which are no records, so these are no sources of any."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_source(url: str, **options: object) -> Source:
    """Make the source that a URL names. Nothing is connected or opened yet; `Source.open` does that.

    Args:
        url: `SCHEME://…`, or a path, which stands for a file.
        options: what that kind of source takes, such as `once`.

    Raises:
        InvalidURL: there is no such scheme, or the source cannot use the URL.
        InvalidOption: the source does not take an option, or not that value.
        SourceUnusable: the package that offers the source cannot be loaded.
    """
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else FILE
    factory = _factory(scheme)
    taken = inspect.signature(factory).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    known = [name for name, parameter in taken.items() if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known and not takes_any:
            raise InvalidOption(f"{scheme}:// takes no {name!r}; it takes {', '.join(known) or 'no options'}")
    return factory(url, **options)


def schemes() -> list[str]:
    """Give the schemes of all sources that are installed, without loading any."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP) if point.name not in OF_EVENTS)})


def _factory(scheme: str) -> Callable[..., Source]:
    if scheme in BUILT_IN:
        module, name = BUILT_IN[scheme].split(":")
        return _checked(scheme, getattr(importlib.import_module(module), name))
    if scheme in OF_EVENTS:
        raise InvalidURL(f"{scheme}:// carries events, which are no records: a consumer takes its URL itself")
    found = tuple(entry_points(group=GROUP, name=scheme))
    if not found:
        raise InvalidURL(
            f"there is no source for {scheme}://; there are {', '.join(f'{one}://' for one in schemes())}, "
            "and what has no :// is a path"
        )
    if len(found) > 1:
        raise InvalidURL(
            f"more than one package offers {scheme}://: {', '.join(map(_package, found))}; remove all but one"
        )
    try:
        loaded = found[0].load()
    except Exception as error:
        raise SourceUnusable(f"{scheme}://", f"{_package(found[0])} cannot be loaded: {why(error)}") from error
    return _checked(scheme, loaded)


def _checked(scheme: str, loaded: object) -> Callable[..., Source]:
    if not callable(loaded):
        raise SourceUnusable(f"{scheme}://", f"what its entry point names is no class or function but {loaded!r}")
    return loaded


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
