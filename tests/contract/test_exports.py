"""The names, their parameters, and what importing them costs."""

import asyncio
import importlib.util
import inspect
import json
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

import consumer

from .helpers import ROOT, run_python

# Parameter names, their order, and the defaults, as the contract's headings give them.
SIGNATURES = {
    "parse_line": "(line)",
    "open_store": "(path)",
    "state": "(con)",
    "apply_event": "(con, seq, delta, fault=None)",
    "replay": "(events, last, limit)",
    "consume_line": "(con, line, fault=None)",
    "consume_session": "(reader, writer, con, timeout, before_ack=None)",
    "run_client": "(host, port, path, timeout, before_ack=None)",
}
ERRORS = ["Gap", "Conflict", "ResyncRequired"]
NAMES = [*SIGNATURES, *ERRORS]


def bare_signature(function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(plain))


def load(path: Path) -> ModuleType:
    """A learner's file, loaded the way a checker does it."""
    spec = importlib.util.spec_from_file_location("learners_client", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_importable_from_consumer_itself(name) -> None:
    assert callable(getattr(consumer, name))


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameter_names_order_and_defaults_are_the_contracts(name) -> None:
    assert bare_signature(getattr(consumer, name)) == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_only_the_two_last_steps_are_coroutine_functions(name) -> None:
    asynchronous = name in {"consume_session", "run_client"}
    assert inspect.iscoroutinefunction(getattr(consumer, name)) is asynchronous


@pytest.mark.parametrize("name", ERRORS)
def test_the_errors_are_exceptions_and_no_value_errors(name) -> None:
    error = getattr(consumer, name)
    assert issubclass(error, Exception)
    assert not issubclass(error, ValueError)


def test_the_three_errors_are_told_apart() -> None:
    for one in ERRORS:
        for other in ERRORS:
            if one != other:
                assert not issubclass(getattr(consumer, one), getattr(consumer, other))


def test_a_learners_file_of_one_line_has_every_name(tmp_path) -> None:
    file = tmp_path / "client.py"
    file.write_text("from consumer import *\n")
    client = load(file)
    for name in NAMES:
        assert getattr(client, name) is getattr(consumer, name)


def test_the_example_is_such_a_file_and_imports_asyncio_and_sqlite3(monkeypatch) -> None:
    client = load(ROOT / "examples" / "client.py")
    assert client.asyncio is asyncio
    assert client.sqlite3 is sqlite3
    for name in NAMES:
        assert getattr(client, name) is getattr(consumer, name)


def test_a_checker_patches_connect_through_the_example(monkeypatch, tmp_path) -> None:
    client = load(ROOT / "examples" / "client.py")

    def refuse(*args, **kwargs) -> None:
        raise sqlite3.OperationalError("patched")

    monkeypatch.setattr(client.sqlite3, "connect", refuse)
    with pytest.raises(sqlite3.OperationalError, match="patched"):
        client.open_store(tmp_path / "store.db")


async def test_a_checker_patches_open_connection_through_the_example(monkeypatch, tmp_path) -> None:
    client = load(ROOT / "examples" / "client.py")

    async def refuse(*args, **kwargs) -> None:
        raise ConnectionRefusedError("patched")

    monkeypatch.setattr(client.asyncio, "open_connection", refuse)
    with pytest.raises(ConnectionRefusedError, match="patched"):
        await client.run_client("127.0.0.1", 9, tmp_path / "store.db", 1)


LOOK_AT_AN_IMPORT = """
import json, signal, sys, threading
before = {number: signal.getsignal(number) for number in signal.valid_signals()}
{line}
after = {number: signal.getsignal(number) for number in signal.valid_signals()}
print(json.dumps({
    "modules": sorted(sys.modules),
    "threads": threading.active_count(),
    "handlers": before == after,
}))
"""


@pytest.mark.parametrize("line", ["import consumer", "from consumer import *"])
def test_importing_loads_no_alembic_and_no_command_line(line) -> None:
    seen = json.loads(run_python("-c", LOOK_AT_AN_IMPORT.replace("{line}", line)))
    assert "consumer" in seen["modules"]
    for unwanted in ["alembic", "typer", "click", "consumer.cli.app"]:
        assert unwanted not in seen["modules"]
    assert seen["threads"] == 1
    assert seen["handlers"]
