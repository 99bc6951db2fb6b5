"""What opening for append makes of a damaged end: nothing that was reported or sent is gone, and no byte is destroyed."""

# ruff: noqa: ASYNC240 - files are small here

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core import disk
from consumer.core.errors import JournalUnusable
from consumer.publisher import Appender
from consumer.publisher.journal import files
from consumer.publisher.journal.extent import APPEND_BYTES_MAX
from consumer.publisher.journal.reader import JournalReader
from consumer.publisher.journal.repair import KEPT_MAX

from .helpers import events, lines

SCRIPT = Path(__file__).with_name("die_in_repair.py")
BAD = b"EVENT 3\0\0\0\0\0\n"
TORN = lines(0, 3) + BAD + lines(4, 5)
"""A journal in whose last append one line is damaged, with good ones behind it."""


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.cut-*"))


# What a power cut leaves: everything that was synced, whoever did so, and of the rest anything.

PAGE = 4096
damages = st.one_of(
    st.tuples(st.just("cut short"), st.integers(0, 2**20), st.just(0)),
    st.tuples(st.just("zeros"), st.integers(0, 2**20), st.integers(1, 5)),
    st.tuples(st.just("garbage"), st.integers(0, 2**20), st.integers(1, 5)),
)


def damage(append: bytes, at_offset: int, kind: str, at: int, pages: int) -> bytes:
    at %= len(append) + 1
    if kind == "cut short":
        return append[:at]
    at = max((at_offset + at) // PAGE * PAGE - at_offset, 0)  # what is lost is lost by the page
    lost = append[at : at + pages * PAGE]
    return append[:at] + (bytes(len(lost)) if kind == "zeros" else os.urandom(len(lost))) + append[at + len(lost) :]


@settings(max_examples=100)
@given(st.integers(1, 70_000), st.sampled_from([1, 50, 3000, 45_000]), st.integers(0, 2**20), st.booleans(), damages)
def test_after_a_power_cut_what_was_reported_or_sent_is_there_and_the_rest_is_consecutive(
    tmp_path_factory: pytest.TempPathFactory,
    reported: int,
    unreported: int,
    written: int,
    looked: bool,
    harm: tuple[str, int, int],
) -> None:
    path = tmp_path_factory.mktemp("power") / "journal"
    sound = lines(0, reported)
    append = lines(reported, unreported)[:APPEND_BYTES_MAX]
    written = written % (len(append) + 1) if looked else 0
    path.write_bytes(sound + append[:written])
    before = JournalReader(path)  # who serves while the append is under way: what it shows, it has synced
    seen = before.extent.head
    before.close()
    synced, lost = sound + append[:written], append[written:]
    path.write_bytes(synced + damage(lost, len(synced), *harm))
    damaged = path.read_bytes()

    shown = JournalReader(path)
    may_be_sent = shown.extent  # by a publisher that starts before the writer
    with Appender(path) as appender:
        assert appender.extent == may_be_sent
        assert appender.head >= max(reported - 1, seen)
        assert path.read_bytes() == lines(0, appender.head + 1)
        gone = damaged[appender.extent.end :]
        assert (appender.cut is None) == (gone == b"")
        if appender.cut is not None:
            assert (appender.cut.offset, appender.cut.size) == (may_be_sent.end, len(gone))
            assert appender.cut.lines == gone.count(b"\n")
        assert [file.read_bytes() for file in aside(path)] == [gone] * (gone != b"")
        appender.append(events(appender.head + 1, 2))
    assert shown.look().grew
    assert path.read_bytes() == lines(0, shown.extent.head + 1)
    shown.close()


@pytest.mark.parametrize(
    "torn",
    [
        *(b"EVENT 17 -3"[:size] for size in range(1, 12)),
        b"EVENT 0",
        b"EVENT 2147483647",
        b"EVENT 0 0",
        b"EVENT 0 -1000",
        b"SNAPSHOT -",
    ],
)
def test_the_beginning_of_a_first_line_is_kept_and_cut(path: Path, torn: bytes) -> None:
    path.write_bytes(torn)
    with Appender(path) as appender:
        assert appender.head == -1
        assert appender.append(events(5, 1)) == 5
    assert [file.read_bytes() for file in aside(path)] == [torn]


def test_damage_that_no_append_explains_is_not_cut(path: Path) -> None:
    data = lines(0, 200_000)
    damaged = data[:500_000] + b"\0" * (len(data) - 500_000)
    path.write_bytes(damaged)
    with pytest.raises(JournalUnusable, match="nothing was cut"):
        Appender(path)
    assert path.read_bytes() == damaged
    assert not aside(path)


@pytest.mark.parametrize(
    "other",
    [
        b"EVENT LOG of a birthday\n",
        "EVENT of the year was…".encode(),  # without a newline it is no line yet, and still none of ours
        b"EVENT 1 02",
        b"EVENT 1 -0",
        b"EVENT 2147483648",
        b"EVENT -1",
        b"SNAPSHOT -2",
        bytes(20) + b"some text\n",
        bytes(PAGE),  # a first append that was lost, or anything else
        bytes(PAGE) + lines(0, 1000)[PAGE:],
        b"\n" + lines(0, 3),
        b"x" * 3 * APPEND_BYTES_MAX,
    ],
)
def test_what_does_not_begin_as_a_journal_is_left_alone(path: Path, other: bytes) -> None:
    path.write_bytes(other)
    with pytest.raises(JournalUnusable, match=r"does not begin with a line of a journal.*it was left as it is"):
        Appender(path)
    assert path.read_bytes() == other
    assert not aside(path)


def test_what_another_program_adds_meanwhile_is_not_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(TORN)

    def add(_: str) -> None:
        with path.open("ab") as file:
            file.write(b"of another program\n")

    monkeypatch.setattr(disk, "sync_folder", add)
    with pytest.raises(JournalUnusable, match="another program writes without the lock"):
        Appender(path)
    assert path.read_bytes() == TORN + b"of another program\n"


# What is kept aside.


def test_what_is_cut_is_kept_in_a_file_that_the_message_names(path: Path) -> None:
    path.write_bytes(TORN)
    path.chmod(0o640)
    with Appender(path) as appender:
        assert appender.cut is not None
        kept = Path(f"{path}.cut-{len(lines(0, 3))}")
        assert appender.cut.kept == str(kept)
        assert f"kept in {kept}" in str(appender.cut)
    assert kept.read_bytes() == BAD + lines(4, 5)
    assert kept.stat().st_mode & 0o777 == 0o640 & ~current_umask()
    assert path.read_bytes() == lines(0, 3)


def current_umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


@pytest.mark.parametrize("end", [b"EVENT 3", b"E", bytes(100), b"\xff" * 5000])
def test_an_end_in_which_there_is_no_whole_line_is_kept_too(path: Path, end: bytes) -> None:
    path.write_bytes(lines(0, 3) + end)
    with Appender(path) as appender:
        assert appender.cut is not None
        assert (appender.cut.size, appender.cut.lines) == (len(end), 0)
        assert "look there" not in str(appender.cut)  # no event can be in it
    assert path.read_bytes() == lines(0, 3)
    assert [file.read_bytes() for file in aside(path)] == [end]


def test_a_file_that_is_there_is_never_changed_and_the_same_content_is_kept_once(path: Path) -> None:
    first = Path(f"{path}.cut-{len(lines(0, 3))}")
    first.write_bytes(b"of another time\n")
    for number, end in enumerate([BAD, BAD + lines(4, 1), BAD, BAD + lines(4, 1)]):
        path.write_bytes(lines(0, 3) + end)
        with Appender(path) as appender:
            assert appender.cut is not None
            assert appender.cut.kept == f"{first}.{2 + number % 2}"
    assert [file.read_bytes() for file in aside(path)] == [b"of another time\n", BAD, BAD + lines(4, 1)]


def test_where_too_much_is_kept_already_nothing_is_cut(path: Path) -> None:
    path.write_bytes(TORN)
    for name in ("", *(f".{number}" for number in range(2, KEPT_MAX + 1))):
        Path(f"{path}.cut-{len(lines(0, 3))}{name}").write_bytes(b"something else")
    with pytest.raises(JournalUnusable, match=f"is there {KEPT_MAX} times with other content: nothing was cut"):
        Appender(path)
    assert path.read_bytes() == TORN
    assert len(aside(path)) == KEPT_MAX
    aside(path)[-1].unlink()
    Appender(path).close()
    assert path.read_bytes() == lines(0, 3)


@pytest.mark.parametrize(("room", "place"), [(files, "write_all"), (disk, "sync_file"), (disk, "sync_folder")])
def test_where_the_disk_is_full_nothing_is_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch, room: ModuleType, place: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path.write_bytes(TORN)
    with monkeypatch.context() as patch:
        patch.setattr(room, place, fail)
        with pytest.raises(JournalUnusable, match=r"cannot be kept in .*No space left on device\): nothing was cut"):
            Appender(path)
    assert path.read_bytes() == TORN
    assert all(file.read_bytes() == BAD + lines(4, 5) for file in aside(path))  # nothing that is only a part of it
    with Appender(path) as appender:
        assert appender.head == 2
    assert [file.read_bytes() for file in aside(path)] == [BAD + lines(4, 5)]


def test_what_is_kept_is_beside_the_name_that_was_given_where_that_is_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real").write_bytes(TORN)
    path.symlink_to(tmp_path / "disk" / "real")
    with Appender(path):
        assert (tmp_path / "disk" / "real").read_bytes() == lines(0, 3)
    assert [file.read_bytes() for file in aside(path)] == [BAD + lines(4, 5)]


def open_and_die(path: Path, step: int, patience_s: float) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), str(step)], stdout=subprocess.PIPE, check=False, timeout=patience_s
    )
    return done.returncode, done.stdout.decode().split()


def test_whoever_dies_in_a_repair_leaves_every_line_and_the_next_one_ends_it(tmp_path: Path, patience_s: float) -> None:
    for step in range(20):
        path = tmp_path / f"journal-{step}"
        path.write_bytes(TORN)
        code, steps = open_and_die(path, step, patience_s)
        kept = [file.read_bytes() for file in aside(path)]
        if "cut" in steps:
            assert steps.index("sync_file") < steps.index("sync_folder") < steps.index("cut")
            assert (path.read_bytes(), kept) == (lines(0, 3), [BAD + lines(4, 5)])
        else:
            assert path.read_bytes() == TORN
        if code == 0:
            break
        assert code == -signal.SIGKILL
        with Appender(path) as appender:
            assert (appender.head, path.read_bytes()) == (2, lines(0, 3))
            assert (appender.cut is None) == ("cut" in steps)
            assert appender.append(events(3, 1)) == 3
        assert BAD + lines(4, 5) in [file.read_bytes() for file in aside(path)]
    else:
        pytest.fail("it never came to its end")
    assert step >= 8


async def test_who_serves_meanwhile_sends_what_is_appended_afterwards(path: Path, publishing, meet) -> None:
    path.write_bytes(TORN)
    async with publishing() as publisher:
        peer = await meet(publisher.port, b"RESUME -1\n")
        assert await peer.hear(len(lines(0, 3))) == lines(0, 3)
        with Appender(path) as appender:
            appender.append(events(3, 4))
        assert await peer.hear(len(lines(3, 4))) == lines(3, 4)


def test_opening_writes_the_end_once_more_before_it_syncs_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that failed in a process that is dead may have lost it, and the next one may say yes all the same."""
    count = 2 * APPEND_BYTES_MAX // len(lines(100_000, 1)) + 1000
    data = lines(0, count)
    path.write_bytes(data + b"EVENT torn")
    done: list[tuple[int, int] | str] = []
    pwrite, sync_file = os.pwrite, disk.sync_file

    def write(descriptor: int, left: bytes, offset: int) -> int:
        done.append((offset, pwrite(descriptor, left[:500_000], offset)))  # it may take less than it is given
        return done[-1][1]

    def sync(descriptor: int) -> None:
        done.append("synced")
        sync_file(descriptor)

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(disk, "sync_file", sync)
    with Appender(path) as appender:
        assert appender.head == count - 1
        assert done.pop(0) == "synced"  # the file aside
        assert done.pop() == "synced"
        assert path.read_bytes() == data
        assert done[0][0] == len(data) - APPEND_BYTES_MAX
        assert sum(size for _, size in done) == APPEND_BYTES_MAX
        appender.append(events(count, 2))
    assert path.read_bytes() == lines(0, count + 2)
