"""File systems of a test's own: small ones, and ones that turn read-only or lose their power. Needs root and mount."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IMAGE_BYTES = 16 * 1024 * 1024

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = (2).to_bytes(4, "little")
"""From linux/fs/ext4: nothing more reaches the disk, neither dirty pages nor the file system's own journal."""


def run(*command: str | Path) -> None:
    """Run a program of the system's, which must succeed."""
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def mounted(folder: Path, *arguments: str | Path) -> Iterator[None]:
    """Mount something for a while; the test is skipped where that is not allowed."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("a file system can be mounted by root only")
    try:
        done = subprocess.run(["mount", *arguments, folder], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        run("umount", folder)


class Disk:
    """An ext4 in a file.

    Args:
        folder: where the file and the place to mount it are made.
    """

    def __init__(self, folder: Path) -> None:
        self._image = folder / "image"
        self.path = folder / "disk"
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        try:
            run("mkfs.ext4", "-q", self._image)
        except FileNotFoundError:
            pytest.skip("there is no mkfs.ext4 here")

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Have it mounted for a while. After a cut this recovers it, as after one of the power."""
        with mounted(self.path, "-o", "loop,errors=remount-ro", self._image):
            yield

    def cut_power(self) -> None:
        """Nothing that is not on disk gets there any more."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(descriptor)

    def turn_read_only(self) -> None:
        """As the kernel does when it finds an error, with whatever is open."""
        source = next(
            line.split()[0]
            for line in Path("/proc/mounts").read_text().splitlines()
            if line.split()[1] == str(self.path)
        )
        device = source.removeprefix("/dev/")
        assert device.startswith("loop"), "and no other disk"
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("an error that a test has made")
