"""A durable, resumable consumer of one sequenced event stream: every event changes the database exactly once.

`Consumer` and `Store` are the production consumer; the seven functions `parse_line` to `run_client` are the contract it
grew from, in plain sqlite3. `consumer.migrate` upgrades a store, and is not loaded before it is imported.
Nothing is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer import lazy

if TYPE_CHECKING:
    from consumer.errors import (
        Conflict,
        ConnectFailed,
        ConsumerError,
        CursorAhead,
        Fenced,
        Gap,
        GaveUp,
        HandlerFailed,
        InvalidOption,
        InvalidURL,
        MalformedFrame,
        NotReady,
        ResyncRequired,
        Retry,
        SchemaMismatch,
        StoppedByForce,
        TLSRefused,
        UnsafeDurability,
    )
    from consumer.events import Event
    from consumer.handlers import Handler
    from consumer.history import replay
    from consumer.lab.session import consume_session, run_client
    from consumer.lab.shim import apply_event, consume_line, open_store, state
    from consumer.outcome import Outcome, State
    from consumer.schema import owns_table
    from consumer.service import Consumer
    from consumer.store import Store
    from consumer.tls import TLS
    from consumer.wire import parse_line

__all__ = [
    "TLS",
    "Conflict",
    "ConnectFailed",
    "Consumer",
    "ConsumerError",
    "CursorAhead",
    "Event",
    "Fenced",
    "Gap",
    "GaveUp",
    "Handler",
    "HandlerFailed",
    "InvalidOption",
    "InvalidURL",
    "MalformedFrame",
    "NotReady",
    "Outcome",
    "ResyncRequired",
    "Retry",
    "SchemaMismatch",
    "State",
    "StoppedByForce",
    "Store",
    "TLSRefused",
    "UnsafeDurability",
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

if not TYPE_CHECKING:  # to a type checker any name would seem to be there
    __getattr__, __dir__ = lazy.names_of(
        __name__,
        __all__,
        (
            "consumer.errors",
            "consumer.events",
            "consumer.history",
            "consumer.wire",
            "consumer.tls",
            "consumer.schema",
            "consumer.outcome",
            "consumer.handlers",
            "consumer.store",
            "consumer.service",
            "consumer.lab.shim",
            "consumer.lab.session",
        ),
    )
