"""The limits on what a peer, a disk or a stop may take of time, memory and places, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 65536
"""How many events a connection may have unacknowledged: over a MB, enough to fill a fast line across an ocean. It also
bounds what the kernel keeps for a consumer that does not read."""

SLICE_BYTES = 1024 * 1024
"""How much of the file is sent to one plain socket before the others have their turn: a millisecond's work at most."""

PIECE_BYTES = 512 * 1024
"""How much of that is read and handed to the socket at once. With a quarter of it a sixth of the speed is lost."""

TLS_SLICE_BYTES = 64 * 1024
"""How much is read and encrypted at once for TLS, and so the memory that a slow consumer holds there, twice over."""

RECEIVE_BYTES = 64 * 1024
"""How many bytes of ACKs are taken in at once. asyncio reads up to twice that ahead."""

ACKS_SPARE = 65536
"""How many ACK lines more than events sent a connection may say. Repeated ones are harmless, and may be a consumer's
sign of life; a flood of them is only work."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a `Publisher` can be given others of; all times in seconds.

    Attributes:
        connections: how many consumers at once. What comes beyond is closed at once, so that those who are served have
            descriptors and memory for certain (a few KiB each, under TLS less than 1 MiB).
        handshake_s: how long TLS and RESUME may take together. A consumer says RESUME at once.
        silence_s: how long a consumer may leave events unacknowledged without acknowledging any. Long, since one of its
            transactions may be; without end, a dead one would hold its place.
        linger_s: how long a stop waits for the ACKs of what was sent.
        close_s: how long a close waits for the peer's part, under TLS its close_notify.
        poll_s: how often the file is looked at. It costs three system calls; being told by inotify would not work on
            every file system and not outside of Linux, and would save a consumer at most this much latency.
        accept_pause_s: how long nobody is accepted after the system refused, for want of descriptors mostly.
    """

    connections: int = 1000
    handshake_s: float = 10.0
    silence_s: float = 300.0
    linger_s: float = 2.0
    close_s: float = 2.0
    poll_s: float = 0.05
    accept_pause_s: float = 0.5
