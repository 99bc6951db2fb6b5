"""TLS contexts: certificates and host names are verified, and there is no switch to turn that off."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from consumer.core.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class TLS:
    """How a consumer uses TLS.

    Attributes:
        ca: a file of certificates to trust instead of the system's.
        cert: a file with the client's certificate, for publishers that want one.
        key: the file with its key, where that is not in `cert` too.
        name: the name that the publisher's certificate must carry, where that is not the host of the URL.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    name: str | None = None

    def context(self) -> ssl.SSLContext:
        """Make the context.

        Raises:
            InvalidOption: a file is missing or is not what it should be.
        """
        if self.key is not None and self.cert is None:
            raise InvalidOption("a TLS key needs its certificate: give both")
        if self.name is not None and not is_host_name(self.name):
            raise InvalidOption(f"{self.name!r} is no host name that a certificate could carry")
        file: str | None = self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert is not None:
                file = self.cert
                context.load_cert_chain(self.cert, self.key, password=no_passphrase)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise InvalidOption(f"the TLS file {file} cannot be used: {error}") from error
        return context


def is_host_name(text: str) -> bool:
    """Say whether this may be a host's name: what cannot be is no network failure to Python."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return not text.startswith(".")


def no_passphrase() -> str:
    """Be what OpenSSL asks for a key's passphrase: it would ask on the terminal otherwise, and wait there."""
    raise ValueError("the key is encrypted, and nobody is there to ask for its password")


_ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


def is_refusal(error: BaseException) -> bool:
    """Say whether a certificate is what a TLS connection failed for, on either side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    return "ALERT" in reason and any(word in reason for word in _ABOUT_CERTIFICATES)


def is_plain(error: BaseException) -> bool:
    """Say whether what the peer sent to begin with is no TLS."""
    return isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER"


def begins_handshake(data: bytes) -> bool:
    """Say whether this is how a TLS client begins."""
    return data.startswith(b"\x16\x03")


def is_alert(data: bytes) -> bool:
    """Say whether this is what a TLS server says to whom it does not understand."""
    return data.startswith(b"\x15\x03")


def was_closed_properly(ssl_object: ssl.SSLObject) -> bool:
    """Say whether the peer ended the connection with a close_notify, and not merely by its disappearance."""
    try:
        return ssl_object.read(1) == b""
    except ssl.SSLZeroReturnError:  # the same, once asyncio has answered it
        return True
    except ssl.SSLError:
        return False
