"""A durable, resumable consumer of one sequenced event stream: every event changes the database exactly once."""

from __future__ import annotations

from consumer.errors import Conflict, ConsumerError, CursorAhead, Gap, MalformedFrame, ResyncRequired
from consumer.history import replay
from consumer.lab.session import consume_session, run_client
from consumer.lab.shim import apply_event, consume_line, open_store, state
from consumer.schema import owns_table
from consumer.wire import parse_line

__all__ = [
    "Conflict",
    "ConsumerError",
    "CursorAhead",
    "Gap",
    "MalformedFrame",
    "ResyncRequired",
    "apply_event",
    "consume_line",
    "consume_session",
    "open_store",
    "owns_table",
    "parse_line",
    "replay",
    "run_client",
    "state",
]
