"""The publisher that a consumer connects to again and again: where it is, how TLS is used, and for how long to wait."""

from __future__ import annotations

from consumer.core.errors import ConnectFailed, InvalidOption
from consumer.sources.tcp.address import Address
from consumer.sources.tcp.connection import PublisherConnection
from consumer.sources.tcp.tls import TLS


class Endpoint:
    """One publisher.

    Args:
        url: `tcp://HOST:PORT` or `tls://HOST:PORT`.
        tls: certificates, for `tls://`.
        timeout: the longest single wait, in seconds.

    Raises:
        InvalidURL, InvalidOption: the URL or a TLS file cannot be used.
    """

    def __init__(self, url: str, tls: TLS, timeout: float) -> None:
        self._address = Address.parse(url)
        self._tls = tls
        self._timeout = timeout
        if self._address.uses_tls:
            tls.context()  # a wrong file is found here, where somebody has just typed its name
        elif tls != TLS():
            raise InvalidOption("TLS options need an address that uses TLS: tls://HOST:PORT")

    async def connect(self, last: int) -> PublisherConnection:
        """Connect and say RESUME. The TLS files are read anew each time, so that a renewed certificate is used.

        Args:
            last: the cursor.

        Raises:
            ConnectFailed: the publisher was not reached, or a TLS file cannot be read just now.
            TLSRefused: one side refused the other's certificate.
        """
        context = None
        if self._address.uses_tls:
            try:
                context = self._tls.context()
            except InvalidOption as error:  # it could be used at the start, and may be in the middle of its renewal
                raise ConnectFailed(f"{self._address} cannot be reached: {error}") from error
        return await PublisherConnection.connect(self._address, last, self._timeout, context, self._tls.name)

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is secured."""
        return self._address.uses_tls

    def __str__(self) -> str:
        return str(self._address)
