"""In what order the system calls of a consumer come, as strace sees it: what is acknowledged is on disk by then."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from runtime.databases import check_store
from runtime.scripted import history

from consumer.store import migrate

from .durability import violations
from .traced import BATCH, LINE, Mode, need_strace, run_traced, sending

EVENTS = {LINE: int(os.environ.get("CONSUMER_TEST_TRACED_EVENTS", "600")), BATCH: 10_000}
"""How many events are traced. A line at a time 10,000 take about a minute, so that is the long form."""

LIMIT_S = 300.0
"""How long a trace may take on a machine that does other things too."""

DYING = """
import signal, sys
from consumer import Store
from consumer.testing import Moment, crash_at

with Store(sys.argv[1]) as store:
    store.resume()
    with crash_at(Moment.IN_COMMIT, signal.SIGKILL, times=2):
        for first in (0, 5):
            store.apply([(seq, seq * 7 % 2001 - 1000) for seq in range(first, first + 5)])
"""


@pytest.fixture(autouse=True)
def _strace() -> None:
    need_strace()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.mark.parametrize("mode", [LINE, BATCH], ids=lambda mode: mode.name)
async def test_no_acknowledgement_leaves_before_its_commit_is_synced(mode: Mode, database: Path) -> None:
    events = history(EVENTS[mode])
    async with asyncio.timeout(LIMIT_S), sending(events, mode) as publisher:
        command = mode.command(publisher.port, database)
        run = await run_traced(command, database.parent, shown_bytes=mode.shown_bytes)
    assert run.code == 0, run.said
    assert list(violations(run.calls, str(database))) == []
    acks = [int(seq) for call in run.calls if call.name == "sendto" for seq in re.findall(r"ACK (\d+)\n", call.text)]
    assert sorted(set(acks)) == list(range(len(events)))
    pieces = -(-len(events) // mode.piece)
    assert len(acks) == len(events) + (pieces - 1) * mode.again + min(
        mode.again, len(events) - (pieces - 1) * mode.piece
    )
    check_store(f"sqlite:///{database}", events)


async def test_killed_inside_the_sync_of_its_commit_the_next_one_syncs_before_it_says_resume(
    database: Path, patience_s: float
) -> None:
    """The commit can be read, by whoever comes next, and nothing has synced it."""
    url = f"sqlite:///{database}"
    migrate.upgrade(url)
    present = [str(database)]
    async with asyncio.timeout(2 * patience_s), sending(history(20), BATCH) as publisher:
        died = await run_traced([sys.executable, "-c", DYING, url], database.parent)
        place = died.calls[-1].began + 1000
        command = BATCH.command(publisher.port, database)
        went_on = await run_traced(command, database.parent, shown_bytes=BATCH.shown_bytes, first=place)
    assert died.code == -signal.SIGSYS
    assert went_on.code == 0, went_on.said
    assert publisher.resumes == [9]  # both commits are there
    assert list(violations(died.calls + went_on.calls, str(database), present)) == []
    check_store(url, history(20))
