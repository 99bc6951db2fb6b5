"""The clock on the wall may say anything, and go backwards: nothing in the consumer goes by it."""

import ast
import signal
from pathlib import Path

import pytest
from runtime.databases import check_store
from runtime.scripted import history

import consumer
from consumer.testing.script.conversation import Session

CONVERTING = {"records.py", "starts.py"}
"""They say in words, or read, a time that a record carries; they ask no clock."""

SOURCES = [
    path
    for path in Path(consumer.__file__).parent.rglob("*.py")
    if not {"testing"} & set(path.parts) and path.name not in CONVERTING
]
WALL_CLOCKS = {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime", "now", "utcnow", "today"}
"""Names of `time` and `datetime` that tell the time of day."""

GOING_BACK = '''
import datetime, time

_hour_ns = 3_600_000_000_000
_said_ns = time.time_ns()

def time_ns():
    """An hour less each time it is asked."""
    global _said_ns
    _said_ns -= _hour_ns
    return _said_ns

time.time_ns = time_ns
time.time = lambda: time_ns() / 1e9

class Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

datetime.datetime = Datetime
'''


def wall_clocks(source: str) -> list[str]:
    """Find where a module asks for the time of day."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in WALL_CLOCKS:
            if isinstance(node.value, ast.Name) and node.value.id in ("time", "datetime", "date"):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
            found += [alias.name for alias in node.names if alias.name in WALL_CLOCKS | {"datetime", "date"}]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name == "datetime"]
    return found


@pytest.mark.parametrize("source", ["time.time()", "import datetime", "from time import time_ns", "datetime.now()"])
def test_the_search_finds_a_wall_clock(source):
    assert wall_clocks(source)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_nothing_asks_for_the_time_of_day(path):
    """Log lines have it from `logging`."""
    assert wall_clocks(path.read_text()) == []


async def test_with_a_clock_that_goes_back_all_the_time_everything_is_consumed(
    store_url, serve, start, environment, tmp_path
):
    """Connections end meanwhile, so that its waits are waited, and one is silent, so that its timeout passes."""
    count = 300
    (tmp_path / "sitecustomize.py").write_text(GOING_BACK)

    async def in_parts(session: Session) -> None:
        upto = session.last + 101
        await session.send_events(history(count)[session.last + 1 : upto])
        await session.acked(upto - 1)
        if upto < 200:
            session.reset()
        elif upto < count:
            await session.has_left.wait()

    options = "--db", store_url, "--timeout", "0.5"
    async with serve(in_parts) as publisher, start(publisher.url, *options, PYTHONPATH=str(tmp_path)) as command:
        await (await publisher.session(2)).acked(count - 1)
        command.send(signal.SIGTERM)
        assert await command.end() == 0
        times = [line.split(",")[0] for line in command.lines]
    assert times == sorted(times, reverse=True)  # the clock did go back
    assert len(set(times)) > 3
    assert publisher.resumes == [-1, 99, 199]
    check_store(store_url, history(count))
