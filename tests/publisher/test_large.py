"""A journal of millions of events: what a RESUME reads, and how much memory it takes."""

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from consumer.publisher.journal.reader import JournalReader

from .helpers import Peer, Serve, acks, write_large

EVENTS = int(os.environ.get("CONSUMER_TEST_JOURNAL_EVENTS", "5000000"))
"""How many, a multiple of 1000; fifty million of them are 900 MB."""

READS_MAX = 64
SMALL_BYTES = 4096
MEMORY_KIB_MAX = 4 * 1024


@pytest.fixture
def large(path: Path) -> Path:
    write_large(path, EVENTS)
    return path


async def test_a_resume_in_the_middle_reads_a_handful_of_small_pieces_and_takes_no_memory(
    large: Path,
    serving: Callable[..., Serve],
    meet: Callable[..., Awaitable[Peer]],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    journal = JournalReader(large)
    sizes: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", counted)
        middle = EVENTS // 2
        offset = journal.find(middle)
        journal.cut(offset, middle, journal.extent.head, 256 * 1024)
    assert journal.read(offset, 64).startswith(b"EVENT %d " % middle)
    journal.close()
    assert len(sizes) <= READS_MAX
    assert max(sizes) <= SMALL_BYTES

    serve = serving()
    port = await serve.port()
    before = serve.peak_kib()
    peer = await meet(port, b"RESUME %d\n" % (middle - 1))
    assert (await peer.hear_line()).startswith(b"EVENT %d " % middle)
    peer.say(acks(range(middle, middle + 1000)))
    end = await meet(port, b"RESUME %d\n" % (EVENTS - 2))
    assert (await end.hear_line()).startswith(b"EVENT %d " % (EVENTS - 1))
    grown = serve.peak_kib() - before
    assert grown < MEMORY_KIB_MAX
    record_property("reads", len(sizes))
    record_property("grown_kib", grown)
    sys.stdout.write(f"{EVENTS} events: {len(sizes)} reads of at most {max(sizes)} bytes, {grown} KiB more memory\n")
