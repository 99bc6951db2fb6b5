"""The publisher of a benchmark: serve prepared events as fast as a window allows, and time it.

A process of its own, so that its work costs the consumer nothing but the bytes. All bytes are made
before the port is announced. One thread and one socket: while the window is full it blocks on the
ACKs, and ACKs are counted by their newlines, so that the publisher is never what is measured
(`python -m benchmarks.peers null` shows its ceiling).

It prints two lines of JSON: `{"port": …}` when it is ready, and the result once all is acknowledged.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import select
import socket
import struct
import time
from array import array
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

RESUME = re.compile(rb"RESUME (-1|0|[1-9][0-9]{0,9})\n")
MILLION = 1_000_000
RECEIVE_BYTES = 256 * 1024
SEND_BYTES = 256 * 1024
# A consumer that neither acknowledges nor leaves ends the run, which would otherwise never end.
SILENCE_S = 120.0
SILENT = f"no ACK and no room for {SILENCE_S:.0f} s"
PREPARE_AT_ONCE = 100_000


@dataclass(frozen=True)
class Prepared:
    """Every event's line, one after the other, and where each begins."""

    lines: bytes
    starts: array[int]  # starts[seq] is where the line of `seq` begins; one more entry ends the last
    facts: dict[str, int]  # what the tables must say afterwards


def prepare(count: int, seed: int) -> Prepared:
    """Make `count` events with seqs from 0 and seeded deltas in -1000..1000.

    `weighted`, the sum of seq times delta, tells rows that were swapped, which a plain sum does not.
    """
    deltas_of = random.Random(seed)
    blocks, starts, total, weighted = [], array("q", [0]), 0, 0
    for first in range(0, count, PREPARE_AT_ONCE):
        size = min(PREPARE_AT_ONCE, count - first)
        deltas = deltas_of.choices(range(-1000, 1001), k=size)
        lines = [b"EVENT %d %d\n" % event for event in enumerate(deltas, first)]
        ends = accumulate(map(len, lines), initial=starts[-1])
        next(ends)
        starts.extend(ends)
        blocks.append(b"".join(lines))
        total += sum(deltas)
        weighted += sum(seq * delta for seq, delta in enumerate(deltas, first))
    facts = {"count": count, "last": count - 1, "total": total, "weighted": weighted}
    return Prepared(b"".join(blocks), starts, facts)


@dataclass(frozen=True)
class Pace:
    """How far the publisher runs ahead, and how it waits.

    With a window of 1 the waking up of two sleeping processes would be half of what is measured. A
    publisher with a core of its own looks `spins` times (about 1 us each) before it goes to sleep.
    """

    window: int
    spins: int


class Acks:
    """What has come back: the highest acknowledged seq, and when the milestones were passed.

    Counting newlines costs 5 ns a line. One number is read each time, the last one, and must be the
    one that the count gives; at the end the number of bytes must be right as well.
    """

    def __init__(self, last: int, milestones: list[int]) -> None:
        self.last = last
        self.received = 0
        self.rest = b""
        self.milestones = milestones
        self.times: list[float] = []

    def take(self, data: bytes) -> None:
        self.received += len(data)
        data = self.rest + data
        end = data.rfind(b"\n")
        if end < 0:
            self.rest = data
            return
        self.last += data.count(b"\n")
        line = data[data.rfind(b"\n", 0, end) + 1 : end]
        if line != b"ACK %d" % self.last:
            raise ValueError(f"expected ACK {self.last}, received {line!r}")
        self.rest = data[end + 1 :]
        while self.milestones and self.last + 1 >= self.milestones[0]:
            self.milestones.pop(0)
            self.times.append(time.perf_counter())


def ack_bytes(first: int, after: int) -> int:
    """How long the ACK lines of `first` up to but not including `after` are."""
    size, digits, low = 0, 1, 0
    while low < after:
        high = 10**digits
        size += max(0, min(high, after) - max(low, first)) * (5 + digits)
        low, digits = high, digits + 1
    return size


def read_resume(peer: socket.socket) -> int | None:
    """The cursor of the RESUME line, or None if the peer left before it had sent one."""
    line = b""
    while not line.endswith(b"\n"):
        data = peer.recv(64)
        if not data:
            return None
        line += data
    match = RESUME.fullmatch(line)
    if match is None:
        raise ValueError(f"expected RESUME, received {line!r}")
    return int(match[1])


def serve(peer: socket.socket, prepared: Prepared, pace: Pace, acks: Acks) -> None:
    """Send what follows `acks.last`, at most the window ahead of the ACKs, until the end.

    Returns early when the consumer closes. While there is nothing to send, the socket blocks on the
    next ACK, after `pace.spins` looks at it.
    """
    final = prepared.facts["last"]
    starts, view = prepared.starts, memoryview(prepared.lines)
    sent = starts[acks.last + 1]
    ready, readable = select.poll(), select.poll()
    ready.register(peer, select.POLLIN | select.POLLOUT)
    readable.register(peer, select.POLLIN)
    while acks.last < final:
        allowed = starts[min(acks.last + pace.window, final) + 1]
        if sent < allowed:
            try:
                sent += peer.send(view[sent : min(allowed, sent + SEND_BYTES)], socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not ready.poll(SILENCE_S * 1000):
                    raise TimeoutError(SILENT) from None
        spins = pace.spins if sent == allowed else 0
        while spins and not readable.poll(0):
            spins -= 1
        try:
            data = peer.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT if sent < allowed else 0)
        except BlockingIOError:
            if sent < allowed:
                continue
            raise TimeoutError(SILENT) from None  # SO_RCVTIMEO has passed
        if not data:
            return
        acks.take(data)


def serve_all(listener: socket.socket, prepared: Prepared, pace: Pace) -> dict[str, Any]:
    """Serve one consumer after the other until every event is acknowledged.

    The clock starts at the first RESUME and stops at the last ACK. A consumer that comes back is
    served again and counted, so that a reconnect never looks like a slow database.
    """
    count = prepared.facts["count"]
    milestones = [MILLION, count - MILLION] if count >= 2 * MILLION else []
    connections, began, first, acks = 0, 0.0, 0, None
    while acks is None or acks.last + 1 < count:
        peer, _ = listener.accept()
        with peer:
            # The kernel's own timeout: Python's would add a poll() before every call.
            peer.setblocking(True)
            limit = struct.pack("@ll", int(SILENCE_S), 0)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            last = read_resume(peer)
            if last is None:
                continue
            connections += 1
            if acks is None:
                began, first = time.perf_counter(), last + 1
                acks = Acks(last, milestones)
            acks.last, acks.rest = last, b""
            serve(peer, prepared, pace, acks)
    seconds = time.perf_counter() - began
    if connections == 1 and acks.received != ack_bytes(first, count):
        raise ValueError(f"{acks.received} bytes of ACKs, expected {ack_bytes(first, count)}")
    result = {**prepared.facts, "connections": connections, "seconds": seconds}
    if len(acks.times) == 2:
        result["first_million_per_s"] = MILLION / (acks.times[0] - began)
        result["last_million_per_s"] = MILLION / (began + seconds - acks.times[1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=MILLION)
    parser.add_argument("--window", type=int, default=65536, help="events that may be unacknowledged")
    parser.add_argument("--spins", type=int, default=0, help="looks for an ACK before sleeping")
    parser.add_argument("--core", type=int, default=None, help="run on this core alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    prepared = prepare(options.events, options.seed)
    pace = Pace(options.window, options.spins)
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        listener.settimeout(SILENCE_S)
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        print(json.dumps(serve_all(listener, prepared, pace)), flush=True)


if __name__ == "__main__":
    main()
