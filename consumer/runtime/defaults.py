"""What a consumer does unless its user says otherwise."""

from __future__ import annotations

TIMEOUT_S = 30.0
"""The longest single wait for the publisher, unless the caller says otherwise."""

STOP_TIMEOUT_S = 20.0
"""How long a stop waits for the commit in flight, unless the caller says otherwise. Supervisors kill after 30 s."""

BATCH_EVENTS = 8192
"""The most events of one transaction, unless the caller says otherwise: more gains little and holds the lock longer."""
