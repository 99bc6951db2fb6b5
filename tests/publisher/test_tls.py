"""TLS: who is let in, and that nobody can hold up its end."""

# ruff: noqa: ASYNC240, ASYNC110 - files are small here, and what is waited for is somebody else's doing

import asyncio
import logging
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from consumer.core.errors import InvalidOption
from consumer.publisher import Limits, server_tls

from .helpers import Peer, acks, lines

Publishing = Callable[..., Any]
Meet = Callable[..., Awaitable[Peer]]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> tuple[str, str]:
    issued = authority.issue_cert("localhost")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return str(chain), str(key)


@pytest.fixture
def authority_file(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


@pytest.fixture
def client(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_events_are_sent_and_acknowledged_over_tls(
    publishing: Publishing, path: Path, meet: Meet, certificate: tuple[str, str], client: ssl.SSLContext
) -> None:
    data = lines(0, 100_000)
    path.write_bytes(data)
    async with publishing(tls=server_tls(*certificate), follow=False) as publisher:
        assert publisher.addresses == [f"tls://127.0.0.1:{publisher.port}"]
        peer = await meet(publisher.port, b"RESUME -1\n", client)
        first = len(lines(0, 65_536))
        assert await peer.hear(first) == data[:first]
        peer.say(acks(range(65_536)))
        assert await peer.hear(len(data) - first) == data[first:]
        peer.say(acks([99_999]))
        assert await peer.hear_all() == b""


async def test_a_consumer_without_a_certificate_of_the_right_authority_is_refused(
    publishing: Publishing,
    path: Path,
    meet: Meet,
    certificate: tuple[str, str],
    authority_file: str,
    authority: trustme.CA,
    client: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "consumer.publisher")
    path.write_bytes(lines(0, 3))
    async with publishing(tls=server_tls(*certificate, authority_file)) as publisher:
        for issuer in (None, trustme.CA()):
            context = ssl.create_default_context()
            authority.configure_trust(context)
            if issuer is not None:
                issuer.issue_cert("consumer").configure_cert(context)
            with pytest.raises(OSError):  # under TLS 1.3 the refusal comes after the client's own handshake
                refused = await meet(publisher.port, b"RESUME -1\n", context)
                if await refused.hear_line() == b"":
                    raise ConnectionError
        authority.issue_cert("consumer").configure_cert(client)
        peer = await meet(publisher.port, b"RESUME -1\n", client)
        assert await peer.hear(len(lines(0, 3))) == lines(0, 3)
    assert caplog.text.count("TLS refused") == 2


async def test_a_consumer_that_distrusts_our_certificate_and_one_that_wants_tls_are_named_in_the_log(
    publishing: Publishing,
    path: Path,
    meet: Meet,
    certificate: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    patience_s: float,
) -> None:
    caplog.set_level(logging.INFO, "consumer.publisher")
    path.write_bytes(lines(0, 3))
    for options, error, reason in (
        ({"tls": server_tls(*certificate)}, ssl.SSLCertVerificationError, "perhaps it does not accept our certificate"),
        ({}, ConnectionResetError, "it speaks TLS, which is not served here"),
    ):
        async with publishing(**options) as publisher:
            with pytest.raises(error):
                await meet(publisher.port, b"RESUME -1\n", ssl.create_default_context())
            async with asyncio.timeout(patience_s):
                while reason not in caplog.text:
                    await asyncio.sleep(0.001)
    assert not re.search(r"connection lost: *\n", caplog.text)


async def test_who_speaks_no_tls_or_says_nothing_is_closed(
    publishing: Publishing,
    path: Path,
    meet: Meet,
    certificate: tuple[str, str],
    limits: Limits,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "consumer.publisher")
    path.write_bytes(lines(0, 3))
    async with publishing(tls=server_tls(*certificate), limits=replace(limits, handshake_s=0.3)) as publisher:
        plain = await meet(publisher.port, b"RESUME -1\n")
        silent = await meet(publisher.port)
        assert b"EVENT" not in await plain.hear_all()
        await silent.hear_all()
    assert "TLS refused: it speaks none" in caplog.text
    assert "no RESUME within 0.3 s" in caplog.text


async def test_a_consumer_that_never_answers_close_notify_holds_up_nothing(
    publishing: Publishing,
    path: Path,
    certificate: tuple[str, str],
    client: ssl.SSLContext,
    limits: Limits,
    patience_s: float,
) -> None:
    path.write_bytes(lines(0, 3))
    over = threading.Event()
    limits = replace(limits, close_s=0.1)

    def consume(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port), patience_s) as plain,
            client.wrap_socket(plain, server_hostname="localhost") as peer,
        ):
            peer.sendall(b"RESUME 2\n")
            over.wait(patience_s)  # and never reads, so that it answers nothing

    async with publishing(tls=server_tls(*certificate), follow=False, limits=limits) as publisher:
        consuming = asyncio.create_task(asyncio.to_thread(consume, publisher.port))
        async with asyncio.timeout(patience_s):
            while not publisher._deliveries:
                await asyncio.sleep(0.001)
            while publisher._deliveries:
                await asyncio.sleep(0.001)
        over.set()
        await consuming


def test_tls_before_1_2_is_not_spoken(certificate: tuple[str, str]) -> None:
    assert server_tls(*certificate).minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("broken", ["missing", "no certificate", "encrypted key", "client authority"])
def test_a_file_that_cannot_be_used_is_named(
    certificate: tuple[str, str], tmp_path: Path, authority: trustme.CA, broken: str
) -> None:
    chain, key = certificate
    other = tmp_path / "other.pem"
    files = {"missing": (str(other), key), "no certificate": (str(other), key), "encrypted key": (chain, str(other))}
    if broken in ("no certificate", "client authority"):
        other.write_text("nothing of the kind\n")
    if broken == "encrypted key":
        private = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
        encryption = serialization.BestAvailableEncryption(b"secret")
        formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        other.write_bytes(private.private_bytes(*formats, encryption))
    arguments = (chain, key, str(other)) if broken == "client authority" else files[broken]
    with pytest.raises(InvalidOption, match="pem cannot be used"):
        server_tls(*arguments)
