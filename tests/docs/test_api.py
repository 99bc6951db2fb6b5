"""The page of the library's names, and the page on a consumer inside one's own program."""

import asyncio
import inspect
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from alembic import command
from alembic.config import Config

import consumer
from consumer.publisher import Appender, Publisher

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "api.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", (DOCS / "embedding.md").read_text(), re.MULTILINE | re.DOTALL)
EVENTS = [(0, 5), (1, -3), (2, 7)]


def test_every_public_name_has_one_row_and_every_row_is_a_public_name():
    rows = re.findall(r"^\| `(\w+)` \|", API, re.MULTILINE)
    assert sorted(rows) == sorted([*consumer.__all__, "migrate"])


@pytest.mark.parametrize("name", ["Consumer", "Store"])
def test_the_arguments_are_those_of_the_code(name: str):
    (shown,) = re.findall(rf"^`{name}\((.*)\)`", API, re.MULTILINE)
    assert shown.split(", ") == list(inspect.signature(getattr(consumer, name)).parameters)


@pytest.mark.parametrize("name", ["Consumer", "Store", "migrate"])
def test_the_methods_that_are_named_are_there(name: str):
    (row,) = re.findall(rf"^\| `{name}` \|(.*)$", API, re.MULTILINE)
    methods = re.findall(r"`(\w+)\(", row)
    assert methods
    for method in methods:
        assert callable(getattr(getattr(consumer, name), method))


@asynccontextmanager
async def publishing(folder: Path) -> AsyncIterator[int]:
    """The port of a publisher of three events."""
    with Appender(folder / "journal") as appender:
        appender.append(EVENTS)
    stop = asyncio.Event()
    with Publisher(folder / "journal") as publisher:
        running = asyncio.create_task(publisher.run(stop))
        try:
            yield publisher.port
        finally:
            stop.set()
            await running


async def test_the_asyncio_service_consumes_until_it_is_stopped(tmp_path: Path, patience_s: float):
    async with publishing(tmp_path) as port, asyncio.timeout(patience_s):
        (tmp_path / "service.py").write_text(EXAMPLES[0].replace("7000", str(port)))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "service.py", cwd=tmp_path, env={**os.environ}, stderr=asyncio.subprocess.PIPE
        )
        try:
            while (await asyncio.to_thread(status, tmp_path)).partition(",")[0] != "last 2":
                assert process.returncode is None
            process.send_signal(signal.SIGTERM)
            _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert (process.returncode, err) == (0, b"")


def status(folder: Path) -> str:
    command = [sys.executable, "-m", "consumer", "status", "--db", "sqlite:///service.db"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


class FastAPI:
    """As much of FastAPI as the example uses: it is no dependency of this package's."""

    def __init__(self, lifespan: Any) -> None:
        self.lifespan = lifespan
        self.state = ModuleType("state")
        self.routes: dict[str, Any] = {}

    def get(self, path: str) -> Any:
        return lambda function: self.routes.setdefault(path, function)


class HTTPException(Exception):
    """Of FastAPI too."""


@pytest.fixture
def fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fastapi")
    module.FastAPI, module.HTTPException = FastAPI, HTTPException
    monkeypatch.setitem(sys.modules, "fastapi", module)


async def test_the_fastapi_service_consumes_for_as_long_as_it_lives(
    fastapi: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
):
    monkeypatch.chdir(tmp_path)
    async with publishing(tmp_path) as port, asyncio.timeout(patience_s):
        example: dict[str, Any] = {}
        exec(compile(EXAMPLES[1].replace("7000", str(port)), "embedding.md", "exec"), example)
        app = example["app"]
        async with app.lifespan(app):
            assert await app.routes["/after/{seq}"](2) == {"last": 2}
            assert await app.routes["/health"]() == {"last": 2}
        assert app.state.running.result() is None
        with pytest.raises(HTTPException):
            await app.routes["/health"]()
        with pytest.raises(HTTPException):
            await app.routes["/after/{seq}"](3)


def test_the_migration_that_is_shown_makes_the_store_and_takes_it_back(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'service.db'}"
    (example,) = (text for text in EXAMPLES if "op.get_bind()" in text)
    command.init(Config(str(tmp_path / "alembic.ini"), stdout=io.StringIO()), str(tmp_path / "theirs"))
    config = Config()  # without the file, which would configure the logging of all other tests
    config.set_main_option("script_location", str(tmp_path / "theirs"))
    config.set_main_option("sqlalchemy.url", url)
    (tmp_path / "theirs" / "versions" / "first.py").write_text(example)
    command.upgrade(config, "head")
    assert consumer.migrate.status(url).revision == consumer.migrate.head()
    command.downgrade(config, "base")
    with pytest.raises(consumer.NotReady):
        consumer.migrate.status(url)


def test_the_store_over_an_engine_that_is_shown_can_be_consumed_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (text,) = (text for text in EXAMPLES if "Store(engine=engine)" in text)
    example: dict[str, Any] = {}
    exec(compile(text, "embedding.md", "exec"), example)
    with example["store"] as store:
        assert store.resume() == -1
        assert store.apply(EVENTS).last == 2
    example["engine"].dispose()
