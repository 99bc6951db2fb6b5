"""Listening sockets, and the TLS that is spoken on what they accept."""

from __future__ import annotations

import errno
import socket
import ssl
from contextlib import suppress

from consumer.core.errors import AddressInUse, InvalidOption
from consumer.core.keepalive import KeepAlive
from consumer.sources.tcp.streams import keep_alive
from consumer.sources.tcp.tls import no_passphrase

BACKLOG = 128
"""How many connections may wait to be accepted."""

KEEPALIVE = KeepAlive(idle_s=60, interval_s=15, count=4)
"""After a minute of silence a consumer's host is asked, four times in another minute: an idle consumer that is gone is
found out, where the system knows these options."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen at every address of a host.

    Args:
        host: a name or an address; empty for all addresses.
        port: the port; 0 for any that is free, the same at all addresses.

    Returns:
        The sockets, not blocking.

    Raises:
        AddressInUse: somebody listens there already.
        OSError: there is no such address here, or it may not be listened at.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            at = (address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:])
            made = socket.create_server(at, family=family, backlog=BACKLOG)
            made.setblocking(False)
            sockets.append(made)
    except OSError as error:
        for made in sockets:
            made.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(host, port) from error
        raise
    return sockets


def tune(sock: socket.socket) -> None:
    """Have a connection send a single event at once, and find out whether a silent consumer is still there."""
    with suppress(OSError):  # a connection that is gone already
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(sock, KEEPALIVE)


def server_tls(certificate: str, key: str, client_ca: str | None = None) -> ssl.SSLContext:
    """Make the publisher's side of TLS, 1.2 at least.

    Args:
        certificate: the file of the certificate and its chain.
        key: the file of its private key, which must not ask for a passphrase.
        client_ca: the file of the authorities whose certificates consumers must show; None to ask for none.

    Returns:
        The context.

    Raises:
        InvalidOption: a file cannot be read or does not hold what it should.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    file = certificate
    try:
        context.load_cert_chain(certificate, key, password=no_passphrase)
        if client_ca is not None:
            file = client_ca
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
    except (OSError, ValueError) as error:
        raise InvalidOption(f"the TLS file {file} cannot be used: {error}") from error
    return context
