"""Certificates for the tests of TLS, as files and as contexts of a publisher."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Files:
    """A certificate with its key, and the authority that issued it, as files."""

    cert: str
    key: str
    ca: str

    def write_both(self, path: Path) -> Path:
        """Put the certificate and its key into one file."""
        path.write_bytes(Path(self.cert).read_bytes() + Path(self.key).read_bytes())
        return path


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._ca = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *, expired: bool = False) -> Files:
        """Issue a certificate for a host or an address."""
        yesterday = datetime.now(UTC) - timedelta(days=1)
        leaf = self._ca.issue_cert(name, not_after=yesterday) if expired else self._ca.issue_cert(name)
        cert, key = self._folder / f"{name}-{expired}.pem", self._folder / f"{name}-{expired}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(str(key))
        return Files(str(cert), str(key), self.ca)

    def context(
        self,
        name: str = "127.0.0.1",
        *,
        expired: bool = False,
        client_ca: str | None = None,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> ssl.SSLContext:
        """Give a publisher's context: this version only; with `client_ca` it wants a certificate of the consumer."""
        files = self.issue(name, expired=expired)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(files.cert, files.key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        return context
