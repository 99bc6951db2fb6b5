"""What the tests of the publisher share: journals, peers that say what they are told, and a real `serve` process."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

COMMAND = Path(__file__).with_name("command.py")
LINE = re.compile(rb"EVENT ([0-9]+) (-?[0-9]+)\n")


def events(first: int, count: int) -> list[tuple[int, int]]:
    return [(seq, seq % 2001 - 1000) for seq in range(first, first + count)]


def lines(first: int, count: int) -> bytes:
    return b"".join(b"EVENT %d %d\n" % event for event in events(first, count))


def acks(seqs: Iterable[int]) -> bytes:
    return b"".join(b"ACK %d\n" % seq for seq in seqs)


def seqs_in(data: bytes) -> list[int]:
    """The numbers of EVENT lines, which must be all that there is."""
    found = LINE.findall(data)
    assert sum(len(b"EVENT  \n") + len(seq) + len(delta) for seq, delta in found) == len(data)
    return [int(seq) for seq, _ in found]


def write_large(path: Path, count: int) -> None:
    """Write a journal of many events, in blocks of a thousand lines that differ in what precedes the last digits."""
    block = b"".join(b"EVENT @%03d %d\n" % (n, n - 500) for n in range(1000))
    with path.open("wb") as file:
        file.write(b"".join(b"EVENT %d %d\n" % (n, n - 500) for n in range(1000)))
        for thousands in range(1, count // 1000):
            file.write(block.replace(b"@", b"%d" % thousands))


class Peer:
    """One connection to a publisher, as a program that knows nothing but the text of the protocol has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience_s: float) -> None:
        self.reader = reader
        self.writer = writer
        self.patience_s = patience_s

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def hear(self, size: int) -> bytes:
        async with asyncio.timeout(self.patience_s):
            return await self.reader.readexactly(size)

    async def hear_line(self) -> bytes:
        async with asyncio.timeout(self.patience_s):
            return await self.reader.readline()

    async def hear_all(self) -> bytes:
        """Everything up to the publisher's close, or up to its reset."""
        heard = b""
        async with asyncio.timeout(self.patience_s):
            while True:
                try:
                    data = await self.reader.read(65536)
                except ConnectionError:
                    return heard
                if not data:
                    return heard
                heard += data

    async def close(self) -> None:
        self.writer.close()
        try:
            async with asyncio.timeout(self.patience_s):
                await self.writer.wait_closed()
        except OSError:
            pass


class Serve:
    """A `consumer serve` process on a free port. Its log goes to a file."""

    def __init__(
        self, journal: Path, *options: str, log: Path, patience_s: float, limits: dict[str, float] | None = None
    ) -> None:
        self.log = log
        self.patience_s = patience_s
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, str(COMMAND), "serve", str(journal), "--port", "0", *options],
                stdout=subprocess.DEVNULL,
                stderr=file,
                env={**os.environ, **({"TEST_LIMITS": json.dumps(limits)} if limits else {})},
            )

    async def port(self) -> int:
        found = await self.wait_for_log(r"serving .*://127\.0\.0\.1:([0-9]+)")
        return int(found[1])

    async def wait_for_log(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until something stands in the log, and give where it does so for that many a time."""
        async with asyncio.timeout(self.patience_s):
            while True:
                text = self.log.read_text()
                found = list(re.finditer(pattern, text))
                if len(found) >= times:
                    return found[times - 1]
                assert self.process.poll() is None, text
                await asyncio.sleep(0.01)

    def peak_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    def end(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        return self.process.wait(self.patience_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(self.patience_s)


def connect(port: int, patience_s: float) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.settimeout(patience_s)
    return sock
