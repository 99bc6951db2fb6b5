"""The other side: a journal of events in a file, and a publisher that serves it over TCP."""

from __future__ import annotations

from consumer.publish.append import Appender
from consumer.publish.extent import Extent
from consumer.publish.limits import Limits
from consumer.publish.listen import server_tls
from consumer.publish.repair import Cut
from consumer.publish.server import Publisher, Served

__all__ = ["Appender", "Cut", "Extent", "Limits", "Publisher", "Served", "server_tls"]
