"""What a source is: the interface that each kind of source has, ours and other people's.

`consumer.testing.check_source` tries a source against what is said here; docs/sources/own.md shows how to write one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from consumer.core.runs import Happening, Offer, Position

BATCH_BYTES = 16 * 1024 * 1024
"""How much one batch may hold in memory, unless the caller says otherwise."""

RECORD_BYTES_MAX = 1024 * 1024
"""How large a record may be, unless the caller says otherwise: what Kafka and NATS allow by default."""


class Source(Protocol):
    """Numbered records in one stream or many.

    One task at a time calls `read`; the other methods may be called while it waits. All are called from one event loop,
    and none of them may block it: whoever has to wait for a disk or a blocking client does that in a thread. Each
    `async` method may be cancelled at every place where it waits, without a record being lost or doubled by that.

    A session begins with `open` and ends with `close`. What was placed and assigned in one session is forgotten in the
    next. Nothing of the source's own decides where consuming goes on: that is said by `place` alone, from the store.

    What goes wrong is raised by `open`, `read`, `place` and `ask`:

    - `ConnectFailed`: it is not there, or not reached. Opened again after a wait.
    - `ConnectionError`, `TimeoutError`: the session broke. Opened again.
    - `SourceUnusable`, `TLSRefused` and other errors: final.

    What belongs to one stream only is not raised, but given by `read` as `Failed`, behind what precedes it.
    """

    @property
    def has_many_streams(self) -> bool:
        """Whether it can have more than one stream. With one, that stream's failure ends the process."""

    async def open(self) -> None:
        """Begin a session: connect, and find out which streams there are.

        Called once before anything else, and again after `close` for another session. It need not wait until streams
        are known: `read` gives them.
        """

    async def read(self) -> Sequence[Happening]:
        """Wait until something has happened, and give it, in order.

        - `Assigned`: streams that may be placed. A session begins with one. Where something else holds of a stream than
          was offered (it was made anew, has lost its end, or what comes next was deleted), the source offers it again
          instead of going on.
        - `Run`: records of a placed stream. Its `after` is at most the `through` of its predecessor, or of the position
          at the beginning; `through` never falls within a placement. It carries the placement's generation. Where a
          position says `overlap`, the record at `last` comes first, if it is still there; otherwise the first record
          above `through`. Each record's content, timestamp and subject are the same whenever it is read.
        - `Failed`: a stream that cannot go on.
        - `Lost`: streams that went.

        Nothing of a stream is given that is not placed. Records of one call take up no more memory than the source was
        told as `batch_bytes`, unless one alone is larger; none is larger than `record_max`, or its stream has failed.

        Returns:
            At least one, or nothing at all for the end: the source was told to read what was there when it was opened,
            and has given all of that, or nothing of what is left is placed.
        """

    async def place(self, positions: Mapping[str, Position | None]) -> None:
        """Start streams at positions, or stop feeding them: the first start, pause, resume, skip and replay.

        Each offer is answered by a call, with None where the stream is not to be fed. When it has returned, a `read`
        that begins afterwards gives nothing of a former placement of these streams. A stream that was lost meanwhile is
        passed over, and so is a position for a stream whose newer offer has not been read yet.

        Args:
            positions: where to start each stream, None to stop feeding it. The others go on as they are.
        """

    async def ask(self, streams: Collection[str]) -> Sequence[Offer]:
        """Say what holds of some streams now, whether they are placed or not, without changing anything.

        Before a stream that was halted or paused is placed again, or where a head was not firm.

        Args:
            streams: names. One that is not ours, or not there, is left out of the answer.
        """

    def acknowledge(self, committed: Mapping[str, int]) -> None:
        """Note that everything up to a number is committed, for the engine's own displays and cleaning up.

        It returns at once and raises nothing. It may come late, for streams that were lost, or never: nothing that the
        source hands out may depend on it.

        Args:
            committed: for each stream the number up to which everything is settled in the store.
        """

    async def close(self) -> None:
        """End the session, within a bound, whatever state it is in: never opened, broken, or closed before.

        No `read` is under way when it is called.
        """
