"""Packages whose names are loaded when they are first asked for: what is not used costs nothing to import.

pytest imports the plugin in `consumer.testing`, and so the packages above it, in every run of whoever has this package
installed; SQLAlchemy alone would take longer than many a test suite.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence


def names_of(
    package: str, names: Sequence[str], rooms: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make what a package needs to find its public names: its `__getattr__` and its `__dir__`.

    Args:
        package: the package's name.
        names: its `__all__`.
        rooms: the modules where they are. They are looked at in this order, so those that are quick to load come first.

    Returns:
        The two functions; PEP 562 says how Python uses them.
    """
    found = vars(sys.modules[package])

    def get(name: str) -> object:
        if f"{package}.{name}" in rooms:  # as if the package had imported all of them
            return importlib.import_module(f"{package}.{name}")
        if name in names:
            for room in map(importlib.import_module, rooms):
                if hasattr(room, name):
                    return found.setdefault(name, getattr(room, name))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*found, *names})
