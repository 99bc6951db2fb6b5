"""A publisher's address as somebody types it: `tcp://HOST:PORT` or `tls://HOST:PORT`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from consumer.core.errors import InvalidURL
from consumer.sources.tcp import tls

_ADDRESS = re.compile(r"(tcp|tls)://(?:\[([^\[\]/]+)\]|([^\[\]/:@?#\s]+)):([0-9]{1,5})")
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a publisher is."""

    host: str
    port: int
    uses_tls: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `tcp://HOST:PORT` or `tls://HOST:PORT`, an IPv6 address in brackets, and nothing after the port.

        Raises:
            InvalidURL: it is something else.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None or not 0 < int(match[4]) <= _PORT_MAX or not tls.is_host_name(match[2] or match[3]):
            shown = text.rpartition("@")[2]  # whatever somebody may have put before it is not to be repeated
            raise InvalidURL(f"{shown!r} is no publisher's address: give tcp://HOST:PORT or tls://HOST:PORT")
        return cls(match[2] or match[3], int(match[4]), match[1] == "tls")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.uses_tls else 'tcp'}://{host}:{self.port}"
