"""The packages that load their names when they are asked for them."""

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import consumer
import consumer.publisher
import consumer.testing

ROOT = Path(consumer.__file__).parent.parent

PACKAGES = [consumer, consumer.publisher, consumer.testing]

MODULES: dict[ModuleType, set[str]] = {consumer: {"migrate"}, consumer.publisher: set(), consumer.testing: set()}
"""Names that stand for whole modules, which `import *` leaves out."""


def shown_to_type_checkers(package: ModuleType) -> dict[str, str]:
    """Where the imports say that each name comes from, which only a type checker reads."""
    assert package.__file__ is not None
    (guarded,) = (node for node in ast.parse(Path(package.__file__).read_text()).body if is_guard(node))
    return {
        alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_what_a_type_checker_takes_it_for(package) -> None:
    shown = shown_to_type_checkers(package)
    assert sorted(shown) == sorted({*package.__all__, *MODULES[package]})
    for name, room in shown.items():
        if name in MODULES[package]:
            assert getattr(package, name) is importlib.import_module(f"{room}.{name}")
        else:
            assert getattr(package, name) is getattr(importlib.import_module(room), name)


def test_the_migrations_are_a_module_that_is_loaded_when_it_is_asked_for() -> None:
    code = "import sys, consumer; assert 'alembic' not in sys.modules; print(consumer.migrate.upgrade.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "consumer.store.migrate"


@pytest.mark.parametrize("package", PACKAGES)
def test_whoever_looks_around_sees_every_name(package) -> None:
    assert set(package.__all__) <= set(dir(package))
    assert set(package.__all__) <= {name for name, _ in inspect.getmembers(package)}


@pytest.mark.parametrize("package", PACKAGES)
def test_there_is_no_other_name(package) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Nothing'"):
        _ = package.Nothing


def test_an_error_survives_being_pickled() -> None:
    error = pickle.loads(pickle.dumps(consumer.Gap(1, 2)))
    assert type(error) is consumer.Gap
    assert (error.expected, error.received) == (1, 2)


def loaded_by(code: str) -> set[str]:
    code = f"import pytest, sys; before = set(sys.modules); {code}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_plugin_of_every_pytest_run_loads_nothing_but_itself() -> None:
    assert loaded_by("import resumable_consumer_pytest") == {"resumable_consumer_pytest"}


def test_an_error_to_catch_loads_no_database() -> None:
    loaded = loaded_by("from consumer import Gap, parse_line")
    assert "consumer.sources.tcp.wire" in loaded
    assert "sqlalchemy" not in loaded
