"""Publishers that are not ours: `openssl s_server`, netcat, and what they say to a client without a certificate."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from socket import create_server

import pytest
from runtime.certificates import Files
from runtime.databases import check_store
from runtime.scripted import history, lines

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
NETCAT = shutil.which("nc.openbsd") or shutil.which("nc")


class Foreign:
    """A publisher's process, which sends what is typed and prints what comes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed = ""

    def type(self, text: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)

    async def prints(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        while (match := re.search(pattern, self.printed, re.MULTILINE)) is None:
            data = await self.process.stdout.read(65536)
            assert data, self.printed
            self.printed += data.decode(errors="replace")
        return match


@asynccontextmanager
async def foreign(*command: str) -> AsyncIterator[Foreign]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Foreign(process)
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        await process.communicate()


@asynccontextmanager
async def s_server(files: Files, *options: str) -> AsyncIterator[tuple[Foreign, str]]:
    """OpenSSL's test server, on a port of its choice."""
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", files.cert, "-key", files.key, *options]
    async with foreign(*command) as server:
        port = (await server.prints(r"^ACCEPT 127\.0\.0\.1:(\d+)"))[1]
        yield server, f"tls://127.0.0.1:{port}"


@openssl
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
async def test_openssl_as_a_publisher(store_url, start, authority, version):
    async with (
        s_server(authority.issue("127.0.0.1"), version) as (server, url),
        start(url, "--db", store_url, "--once", "--tls-ca", authority.ca) as command,
    ):
        await server.prints("^RESUME -1$")
        server.type(lines(history(1_000)))
        await server.prints("^ACK 999$")
        server.type(b"Q\n")  # how it is told to close
        assert await command.end() == 0
    assert re.findall(r"^ACK (\d+)$", server.printed, re.MULTILINE) == [str(seq) for seq in range(1_000)]
    check_store(store_url, history(1_000))


@openssl
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
async def test_openssl_that_wants_a_client_certificate_and_gets_it(ready_sqlite_url, start, authority, version):
    mine = authority.issue("consumer.test")
    options = "--tls-ca", authority.ca, "--tls-cert", mine.cert, "--tls-key", mine.key
    wants = "-Verify", "1", "-verify_return_error", "-CAfile", authority.ca
    async with (
        s_server(authority.issue("127.0.0.1"), version, *wants) as (server, url),
        start(url, "--db", ready_sqlite_url, "--once", *options) as command,
    ):
        await server.prints("^RESUME -1$")
        server.type(lines(history(3)))
        await server.prints("^ACK 2$")
        server.type(b"Q\n")
        assert await command.end() == 0


@openssl
async def test_openssl_that_wants_a_client_certificate_and_gets_none(ready_sqlite_url, start, authority):
    wants = "-Verify", "1", "-verify_return_error", "-CAfile", authority.ca
    async with (
        s_server(authority.issue("127.0.0.1"), "-tls1_3", *wants) as (_, url),
        start(url, "--db", ready_sqlite_url, "--tls-ca", authority.ca) as command,
    ):
        assert await command.end() == 20
        assert "does not accept our certificate" in command.error
        assert "--tls-cert" in command.error


@openssl
@pytest.mark.parametrize("why", ["expired", "other name", "unknown authority"])
async def test_a_certificate_that_is_not_accepted(ready_sqlite_url, start, authority, why):
    files = authority.issue("other.test" if why == "other name" else "127.0.0.1", expired=why == "expired")
    trust = [] if why == "unknown authority" else ["--tls-ca", authority.ca]
    async with s_server(files) as (_, url), start(url, "--db", ready_sqlite_url, *trust) as command:
        assert await command.end() == 20
        assert f"the certificate of {url} is not accepted" in command.error


@pytest.mark.skipif(NETCAT is None, reason="netcat is not installed (package netcat-openbsd)")
async def test_netcat_as_a_publisher(store_url, start):
    assert NETCAT is not None
    with closing(create_server(("127.0.0.1", 0))) as unused:
        port = unused.getsockname()[1]
    async with (
        foreign(NETCAT, "-N", "-l", "127.0.0.1", str(port)) as server,
        start(f"tcp://127.0.0.1:{port}", "--db", store_url, "--once") as command,
    ):
        await server.prints("^RESUME -1$")
        server.type(lines(history(1_000)))
        assert server.process.stdin is not None
        server.process.stdin.close()
        await server.prints("^ACK 999$")
        assert await command.end() == 0
    check_store(store_url, history(1_000))
