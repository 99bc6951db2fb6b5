"""What a consumer goes by unless its caller says otherwise. The command line shows these numbers in its help."""

from __future__ import annotations

TIMEOUT_S = 30.0
"""The longest single wait for the publisher."""

STOP_TIMEOUT_S = 20.0
"""How long a stop waits for the commit in flight. Supervisors kill after 30 s."""

BATCH_EVENTS = 8192
"""The most events of one transaction: more gains little and holds the lock longer."""
