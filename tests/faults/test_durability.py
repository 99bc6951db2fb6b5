"""The reader of traces and the checker of the promise, on traces small enough to be judged by eye."""

import pytest

from .durability import violations
from .trace import parse

DB = "/d/store.db"
SOCKET = "7<TCP:[127.0.0.1:1000->127.0.0.1:7000]>"
PRESENT = [DB, f"{DB}-wal"]

RESUME = f'1 sendto({SOCKET}, "RESUME -1\\n", 10, 0, NULL, 0) = 10'
HEAR = f'1 recvfrom({SOCKET}, "EVENT 0 5\\nEVENT 1 -3\\n", 262144, 0, NULL, NULL) = 21'
WRITE = f'2 pwrite64(5<{DB}-wal>, "\\0\\1"..., 4096, 32) = 4096'
SYNC = f"2 fdatasync(5<{DB}-wal>) = 0"
FAILED_SYNC = f"2 fdatasync(5<{DB}-wal>) = -1 EIO (Input/output error) (INJECTED)"
ACK = f'1 sendto({SOCKET}, "ACK 0\\nACK 1\\n", 12, 0, NULL, 0) = 12'
ACK_0, ACK_1 = (f'1 sendto({SOCKET}, "ACK {seq}\\n", 6, 0, NULL, 0) = 6' for seq in (0, 1))
MAKE = f'2 openat(AT_FDCWD</d>, "{DB}-journal", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 8<{DB}-journal>'
WRITE_JOURNAL = f'2 pwrite64(8<{DB}-journal>, "x", 512, 0) = 512'
SYNC_JOURNAL = f"2 fdatasync(8<{DB}-journal>) = 0"
WRITE_DB = f'2 pwrite64(6<{DB}>, "x", 4096, 4096) = 4096'
SYNC_DB = f"2 fdatasync(6<{DB}>) = 0"
REMOVE = f'2 unlink("{DB}-journal") = 0'
SYNC_FOLDER = "2 fsync(9</d>) = 0"

BEGUN_SYNC = f"2 fdatasync(5<{DB}-wal> <unfinished ...>"
ENDED_SYNC = "2 <... fdatasync resumed>) = 0"


def found(*lines: str) -> list[str]:
    return list(violations(parse(lines), DB, PRESENT))


@pytest.mark.parametrize(
    "lines",
    [
        [RESUME, HEAR, WRITE, SYNC, ACK],
        [RESUME, HEAR, WRITE, SYNC, ACK_0, WRITE, SYNC, ACK_1],
        [RESUME, HEAR, WRITE, SYNC, ACK, HEAR, ACK],  # duplicates
        [RESUME, HEAR, WRITE, BEGUN_SYNC, ENDED_SYNC, ACK],
        [RESUME, HEAR, WRITE, FAILED_SYNC, WRITE, SYNC, ACK],
        [RESUME, HEAR, MAKE, WRITE_JOURNAL, SYNC_JOURNAL, SYNC_FOLDER, WRITE_DB, SYNC_DB, REMOVE, SYNC_FOLDER, ACK],
        [RESUME, HEAR, WRITE, SYNC, WRITE_DB, SYNC_DB, ACK],  # with a checkpoint
        [RESUME, HEAR, WRITE, FAILED_SYNC, WRITE_DB, SYNC_DB, WRITE, SYNC, ACK],  # of what was committed before
    ],
)
def test_what_keeps_the_promise_passes(lines):
    assert found(*lines) == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([RESUME, HEAR, ACK], "ACK 1 left without a commit of its own"),
        ([RESUME, HEAR, ACK, WRITE, SYNC], "ACK 1 left without a commit of its own"),
        ([RESUME, WRITE, SYNC, HEAR, ACK], "ACK 1 left without a commit of its own"),
        ([RESUME, HEAR, WRITE, SYNC, ACK_0, ACK_1], "ACK 1 left without a commit of its own"),
        ([RESUME, HEAR, WRITE, ACK], "ACK 1 left without 4096 bytes at 32 of /d/store.db-wal"),
        ([RESUME, HEAR, WRITE, SYNC, WRITE, ACK], "ACK 1 left without 4096 bytes at 32 of /d/store.db-wal"),
        ([RESUME, HEAR, WRITE, BEGUN_SYNC, ACK, ENDED_SYNC], "ACK 1 left without 4096 bytes at 32 of /d/store.db-wal"),
        ([RESUME, HEAR, BEGUN_SYNC, WRITE, ENDED_SYNC, ACK], "ACK 1 left without 4096 bytes at 32 of /d/store.db-wal"),
        ([WRITE, BEGUN_SYNC, RESUME], "RESUME -1 left without 4096 bytes at 32 of /d/store.db-wal"),  # it was killed
        (
            [RESUME, HEAR, WRITE, FAILED_SYNC, SYNC, ACK],
            "ACK 1 left without 4096 bytes at 32 of /d/store.db-wal, lost by a failed sync",
        ),
        (
            [RESUME, HEAR, MAKE, WRITE_JOURNAL, SYNC_JOURNAL, SYNC_FOLDER, WRITE_DB, SYNC_DB, REMOVE, ACK],
            "ACK 1 left without unlink of /d/store.db-journal",
        ),
        (
            [RESUME, HEAR, MAKE, WRITE_JOURNAL, SYNC_FOLDER, WRITE_DB, SYNC_DB, REMOVE, SYNC_FOLDER, ACK],
            "the database was written to before its journal was on disk",
        ),
        ([RESUME, HEAR, WRITE, SYNC, WRITE_DB, ACK], "ACK 1 left without 4096 bytes at 4096 of /d/store.db"),
        ([RESUME, HEAR, WRITE, WRITE_DB, SYNC, SYNC_DB, ACK], "the database was written to before its wal was on disk"),
    ],
)
def test_what_breaks_it_is_found(lines, fault):
    assert fault in found(*lines)


def test_only_what_was_not_written_again_stays_lost():
    part = f'2 pwrite64(5<{DB}-wal>, "x", 4000, 32) = 4000'
    assert found(RESUME, HEAR, WRITE, FAILED_SYNC, part, SYNC, ACK) == [
        "ACK 1 left without 96 bytes at 4032 of /d/store.db-wal, lost by a failed sync"
    ]


def test_a_trace_with_too_little_in_it_is_no_proof():
    with pytest.raises(ValueError, match="too little"):
        parse([f'1 sendto({SOCKET}, "ACK 0\\nACK"..., 12, 0, NULL, 0) = 12'])
