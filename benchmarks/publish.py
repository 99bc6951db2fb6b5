"""How fast `Publisher` sends, beside `cat file` through the same kind of socket.

Both sides send the same file over TCP on loopback to the same peer, a process of its own that takes chunks and reads
the number of the last whole line in each. It answers by one ACK a chunk (`bulk`, and to `cat`, which never reads it) or
by one for every event (`each`).

    python -m benchmarks.publish [--events 50000000] [--folder FOLDER] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from consumer.publisher.server.publisher import Publisher

THOUSAND = 1000
CHUNK_BYTES = 256 * 1024
PATIENCE_S = 600.0


def write_journal(path: Path, events: int) -> None:
    """Write a journal in blocks of a thousand lines, which differ in what stands before the last three digits."""
    block = b"".join(b"EVENT @%03d %d\n" % (n, n - 500) for n in range(THOUSAND))
    with path.open("wb") as file:
        file.write(b"".join(b"EVENT %d %d\n" % (n, n - 500) for n in range(THOUSAND)))
        for first in range(THOUSAND, events, THOUSAND):
            file.write(block.replace(b"@", b"%d" % (first // THOUSAND)))


def receive(port: int, last: int, final: int, acks: str, results: multiprocessing.SimpleQueue[float]) -> None:
    """Be the peer: take everything up to event `final`, and tell how long it took from RESUME on."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.settimeout(PATIENCE_S)
        began = time.perf_counter()
        peer.sendall(b"RESUME %d\n" % last)
        rest = b""
        while last < final:
            data = peer.recv(CHUNK_BYTES)
            if not data:
                break
            end = data.rfind(b"\n")
            if end < 0:
                rest += data
                continue
            begin = data.rfind(b"\n", 0, end) + 1
            line = data[begin:end] if begin else rest + data[:end]
            rest = data[end + 1 :]
            seq = int(line.split(b" ")[1])
            if acks == "each":
                peer.sendall((b"ACK %d\n" * (seq - last)) % tuple(range(last + 1, seq + 1)))
            elif acks == "bulk":
                peer.sendall(b"ACK %d\n" % seq)
            last = seq
        results.put(time.perf_counter() - began if last == final else float("nan"))


def run_peer(port: int, last: int, final: int, acks: str) -> float:
    """Start a peer, wait for it, and give its time in seconds."""
    processes = multiprocessing.get_context("spawn")
    results = processes.SimpleQueue()
    peer = processes.Process(target=receive, args=(port, last, final, acks, results))
    peer.start()
    peer.join(PATIENCE_S)
    return results.get()


def measure_cat(path: Path, final: int) -> float:
    """Send the file by `cat`, whose standard output is the socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def send() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(64)
                subprocess.run(["cat", str(path)], stdout=peer.fileno(), check=True)
                while peer.recv(CHUNK_BYTES):
                    pass  # the ACKs, which `cat` did not read

        sender = threading.Thread(target=send)
        sender.start()
        seconds = run_peer(listener.getsockname()[1], -1, final, "bulk")
        sender.join()
    return seconds


def serve(path: str, ports: multiprocessing.SimpleQueue[int], ended: multiprocessing.SimpleQueue[object]) -> None:
    """Be the publisher, in a process of its own, until `ended` says so; then tell its peak memory there."""

    async def run(publisher: Publisher) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        threading.Thread(target=lambda: (ended.get(), loop.call_soon_threadsafe(stop.set)), daemon=True).start()
        await publisher.run(stop)

    with Publisher(path) as publisher:
        ports.put(publisher.port)
        asyncio.run(run(publisher))


def measure(path: Path, events: int, rounds: int) -> dict[str, object]:
    """Measure `cat` and the publisher in turn, so that both meet the same weather."""
    final = events - 1
    processes = multiprocessing.get_context("spawn")
    ports, ended = processes.SimpleQueue(), processes.SimpleQueue()
    publisher = processes.Process(target=serve, args=(str(path), ports, ended))
    publisher.start()
    port = ports.get()
    seconds: dict[str, list[float]] = {"cat": [], "bulk": [], "each": []}
    for _ in range(rounds):
        seconds["cat"].append(measure_cat(path, final))
        for acks in ("bulk", "each"):
            seconds[acks].append(run_peer(port, -1, final, acks))
    status = Path(f"/proc/{publisher.pid}/status").read_text(encoding="ascii")
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    ended.put(None)
    publisher.join(PATIENCE_S)
    size = path.stat().st_size
    best = {name: min(times) for name, times in seconds.items()}
    return {
        "events": events,
        "file_mb": round(size / 1e6),
        "mb_per_s": {name: round(size / 1e6 / time) for name, time in best.items()},
        "events_per_s": {name: round(events / time) for name, time in best.items()},
        "median_s": {name: round(statistics.median(times), 3) for name, times in seconds.items()},
        "bulk_to_cat": round(best["cat"] / best["bulk"], 2),
        "each_to_cat": round(best["cat"] / best["each"], 2),
        "publisher_peak_mib": round(peak_kib / 1024, 1),
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=5_000_000, help="a multiple of 1000")
    parser.add_argument("--folder", default=None, help="where the journal is made; a temporary one by default")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "journal"
        write_journal(path, options.events)
        print(json.dumps(measure(path, options.events, options.rounds), indent=1))


if __name__ == "__main__":
    main()
