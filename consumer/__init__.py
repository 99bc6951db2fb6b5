"""A durable, resumable consumer of one sequenced event stream: every event changes the database exactly once.

`Consumer` and `Store` are the production consumer; the seven functions `parse_line` to `run_client` are the contract it
grew from, in plain sqlite3. `consumer.store.migrate` upgrades a store, and is not loaded before it is imported.
Nothing is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.core import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from consumer.core.errors import BadRecord as BadRecord
    from consumer.core.errors import Conflict as Conflict
    from consumer.core.errors import ConnectFailed as ConnectFailed
    from consumer.core.errors import ConsumerError as ConsumerError
    from consumer.core.errors import CursorAhead as CursorAhead
    from consumer.core.errors import Fenced as Fenced
    from consumer.core.errors import Gap as Gap
    from consumer.core.errors import GaveUp as GaveUp
    from consumer.core.errors import GroupShared as GroupShared
    from consumer.core.errors import HandlerFailed as HandlerFailed
    from consumer.core.errors import InvalidOption as InvalidOption
    from consumer.core.errors import InvalidURL as InvalidURL
    from consumer.core.errors import MalformedFrame as MalformedFrame
    from consumer.core.errors import NotReady as NotReady
    from consumer.core.errors import RecordTooLarge as RecordTooLarge
    from consumer.core.errors import ResyncRequired as ResyncRequired
    from consumer.core.errors import Retry as Retry
    from consumer.core.errors import SchemaMismatch as SchemaMismatch
    from consumer.core.errors import SourceChanged as SourceChanged
    from consumer.core.errors import SourceUnusable as SourceUnusable
    from consumer.core.errors import StoppedByForce as StoppedByForce
    from consumer.core.errors import TLSRefused as TLSRefused
    from consumer.core.errors import UnfinishedRecord as UnfinishedRecord
    from consumer.core.errors import UnsafeDurability as UnsafeDurability
    from consumer.core.events import Event as Event
    from consumer.core.history import replay as replay
    from consumer.core.outcome import Outcome as Outcome
    from consumer.core.outcome import State as State
    from consumer.core.records import Record as Record
    from consumer.core.runs import Assigned as Assigned
    from consumer.core.runs import Failed as Failed
    from consumer.core.runs import Lost as Lost
    from consumer.core.runs import Offer as Offer
    from consumer.core.runs import Position as Position
    from consumer.core.runs import Run as Run
    from consumer.lab.session import consume_session as consume_session
    from consumer.lab.session import run_client as run_client
    from consumer.lab.shim import apply_event as apply_event
    from consumer.lab.shim import consume_line as consume_line
    from consumer.lab.shim import open_store as open_store
    from consumer.lab.shim import state as state
    from consumer.runtime.consumer import Consumer as Consumer
    from consumer.sources.base import Source as Source
    from consumer.sources.registry import open_source as open_source
    from consumer.sources.tcp.tls import TLS as TLS
    from consumer.sources.tcp.wire import parse_line as parse_line
    from consumer.store import migrate as migrate
    from consumer.store.handlers import Handler as Handler
    from consumer.store.schema import owns_table as owns_table
    from consumer.store.transaction import Store as Store

_NAMES = {
    "Assigned": "consumer.core.runs",
    "BadRecord": "consumer.core.errors",
    "Conflict": "consumer.core.errors",
    "ConnectFailed": "consumer.core.errors",
    "Consumer": "consumer.runtime.consumer",
    "ConsumerError": "consumer.core.errors",
    "CursorAhead": "consumer.core.errors",
    "Event": "consumer.core.events",
    "Failed": "consumer.core.runs",
    "Fenced": "consumer.core.errors",
    "Gap": "consumer.core.errors",
    "GaveUp": "consumer.core.errors",
    "GroupShared": "consumer.core.errors",
    "Handler": "consumer.store.handlers",
    "HandlerFailed": "consumer.core.errors",
    "InvalidOption": "consumer.core.errors",
    "InvalidURL": "consumer.core.errors",
    "Lost": "consumer.core.runs",
    "MalformedFrame": "consumer.core.errors",
    "NotReady": "consumer.core.errors",
    "Offer": "consumer.core.runs",
    "Outcome": "consumer.core.outcome",
    "Position": "consumer.core.runs",
    "Record": "consumer.core.records",
    "RecordTooLarge": "consumer.core.errors",
    "ResyncRequired": "consumer.core.errors",
    "Retry": "consumer.core.errors",
    "Run": "consumer.core.runs",
    "SchemaMismatch": "consumer.core.errors",
    "Source": "consumer.sources.base",
    "SourceChanged": "consumer.core.errors",
    "SourceUnusable": "consumer.core.errors",
    "State": "consumer.core.outcome",
    "StoppedByForce": "consumer.core.errors",
    "Store": "consumer.store.transaction",
    "TLS": "consumer.sources.tcp.tls",
    "TLSRefused": "consumer.core.errors",
    "UnfinishedRecord": "consumer.core.errors",
    "UnsafeDurability": "consumer.core.errors",
    "apply_event": "consumer.lab.shim",
    "consume_line": "consumer.lab.shim",
    "consume_session": "consumer.lab.session",
    "open_source": "consumer.sources.registry",
    "open_store": "consumer.lab.shim",
    "owns_table": "consumer.store.schema",
    "parse_line": "consumer.sources.tcp.wire",
    "replay": "consumer.core.history",
    "run_client": "consumer.lab.session",
    "state": "consumer.lab.shim",
}
"""Where each public name is defined. The imports above say the same to type checkers, and a test compares the two."""

if not TYPE_CHECKING:  # a type checker would take it that any name is there
    __all__ = list(_NAMES)
    __getattr__, __dir__ = lazy.names_of(__name__, _NAMES, {"migrate": "consumer.store.migrate"})
