"""The other side: a journal of events in a file, and a publisher that serves it over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.core import lazy

if TYPE_CHECKING:
    from consumer.publisher.journal.append import Appender as Appender
    from consumer.publisher.journal.extent import Extent as Extent
    from consumer.publisher.journal.repair import Cut as Cut
    from consumer.publisher.server.limits import Limits as Limits
    from consumer.publisher.server.listen import server_tls as server_tls
    from consumer.publisher.server.publisher import Publisher as Publisher
    from consumer.publisher.server.publisher import Served as Served

_NAMES = {
    "Appender": "consumer.publisher.journal.append",
    "Cut": "consumer.publisher.journal.repair",
    "Extent": "consumer.publisher.journal.extent",
    "Limits": "consumer.publisher.server.limits",
    "Publisher": "consumer.publisher.server.publisher",
    "Served": "consumer.publisher.server.publisher",
    "server_tls": "consumer.publisher.server.listen",
}
"""Where each public name is defined. The imports above say the same to type checkers, and a test compares the two."""

if not TYPE_CHECKING:  # a type checker would take it that any name is there
    __all__ = list(_NAMES)
    __getattr__, __dir__ = lazy.names_of(__name__, _NAMES)
