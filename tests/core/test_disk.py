"""What "on disk" means, and whether a name still leads to the file that is open."""

import errno
import fcntl
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.core import disk

FULL_SYNC = 51
"""What macOS calls F_FULLFSYNC."""


class MacOS:
    """A system that knows F_FULLFSYNC: which calls it was asked for, and how that one fails."""

    def __init__(self, folder: Path) -> None:
        self.calls: list[str] = []
        self.error: OSError | None = None
        self._folder = folder

    def fcntl(self, descriptor: int, command: int) -> None:
        assert command == FULL_SYNC
        if self.error is not None:
            raise self.error
        self.calls.append(f"full {name(descriptor, self._folder)}")

    def fsync(self, descriptor: int) -> None:
        self.calls.append(f"plain {name(descriptor, self._folder)}")


@pytest.fixture
def macos(tmp_path: Path) -> Iterator[MacOS]:
    system = MacOS(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
        patch.setattr(fcntl, "fcntl", system.fcntl)
        patch.setattr(os, "fsync", system.fsync)
        importlib.reload(disk)
        yield system
    importlib.reload(disk)


def name(descriptor: int, folder: Path) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(folder)


def open_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_where_fsync_stops_at_the_drives_cache_files_and_folders_are_synced_beyond_it(
    tmp_path: Path, macos: MacOS
) -> None:
    descriptor = open_file(tmp_path / "file")
    disk.sync_file(descriptor)
    disk.sync_folder(tmp_path / "file")
    os.close(descriptor)
    assert macos.calls == ["full file", "full ."]


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL])
def test_a_file_system_that_knows_no_more_than_fsync_gets_that(tmp_path: Path, macos: MacOS, code: int) -> None:
    macos.error = OSError(code, os.strerror(code))
    descriptor = open_file(tmp_path / "file")
    disk.sync_file(descriptor)
    os.close(descriptor)
    assert macos.calls == ["plain file"]


def test_a_disk_that_fails_is_an_error_and_not_asked_in_another_way(tmp_path: Path, macos: MacOS) -> None:
    """After a sync that failed the next one may succeed without having written anything."""
    macos.error = OSError(errno.EIO, "Input/output error")
    descriptor = open_file(tmp_path / "file")
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_file(descriptor)
    os.close(descriptor)
    assert macos.calls == []


def test_of_a_link_the_folder_of_what_it_leads_to_is_synced(tmp_path: Path, macos: MacOS) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    disk.sync_folder(str(tmp_path / "link"))
    assert macos.calls == ["full real"]


def test_a_name_leads_to_the_open_file_until_another_one_has_it_or_none(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    descriptor = open_file(path)
    (tmp_path / "link").symlink_to(path)
    assert disk.is_at(descriptor, str(path))
    assert disk.is_at(descriptor, str(tmp_path / "link"))
    path.rename(other)
    assert not disk.is_at(descriptor, str(path))
    assert disk.is_at(descriptor, str(other))
    path.touch()
    assert not disk.is_at(descriptor, str(path))
    os.close(descriptor)


def test_it_can_be_imported_where_there_is_no_fcntl(tmp_path: Path) -> None:
    code = "import sys; sys.modules['fcntl'] = None; from consumer.core import disk; disk.sync_folder(sys.argv[1]); print(1)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
