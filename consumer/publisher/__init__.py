"""The other side: a journal of events in a file, and a publisher that serves it over TCP."""

from __future__ import annotations

from consumer.publisher.journal.append import Appender
from consumer.publisher.journal.extent import Extent
from consumer.publisher.journal.repair import Cut
from consumer.publisher.server.limits import Limits
from consumer.publisher.server.listen import server_tls
from consumer.publisher.server.publisher import Publisher, Served

__all__ = ["Appender", "Cut", "Extent", "Limits", "Publisher", "Served", "server_tls"]
