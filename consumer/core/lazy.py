"""Packages whose names are loaded when they are first asked for: what is not used costs nothing to import.

A checker of the contract starts many short processes, and SQLAlchemy alone takes longer to import than most of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def names_of(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make what a package needs to find its public names: its `__getattr__` and its `__dir__`.

    Args:
        package: the package's name.
        names: for each public name the module that defines it.
        modules: for each public name that stands for a whole module that module.

    Returns:
        The two functions; PEP 562 says how Python uses them.
    """
    found = vars(sys.modules[package])
    modules = modules or {}

    def get(name: str) -> object:
        if name in modules:
            value: object = importlib.import_module(modules[name])
        elif name in names:
            value = getattr(importlib.import_module(names[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return found.setdefault(name, value)

    return get, lambda: sorted({*found, *names, *modules})
