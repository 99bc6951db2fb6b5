"""The story that this package exists for: a consumer is killed between commit and ACK, and nothing is counted twice.

A journal is served by this package's publisher; a consumer is killed, and the next one goes on where its database is.
At last a publisher that knows no RESUME sends everything once more. All of them are real processes on loopback; each
tells what it does through one pipe, in the order in which it happens, and this process puts it into words, sends the
SIGKILL and compares journal and database at the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from consumer.core.events import Event
from consumer.lab.session import run_client
from consumer.lab.shim import open_store, state
from consumer.publisher import Appender, Publisher
from consumer.publisher.server.observations import Closed, Observation, Resumed
from consumer.sources.tcp.wire import decode

EVENTS: list[Event] = [(0, 12), (1, -3), (2, 7), (3, -5), (4, 1)]
"""What the journal holds."""

FATAL_SEQ = 1
"""The event after whose commit, and before whose ACK, the first consumer is killed."""

STEP_TIMEOUT_S = 30.0
"""How long any step may take: the story ends or fails, it never hangs."""

_processes = get_context("spawn")


def run_demo(console: Console) -> bool:
    """Tell the story.

    Args:
        console: where to.

    Returns:
        Whether the database held the journal's events, each once, at the end.

    Raises:
        TimeoutError: a process did not do its part in time.
    """
    with TemporaryDirectory(prefix="consumer-demo-") as folder:
        journal, store = Path(folder) / "events.journal", Path(folder) / "store.db"
        with Appender(journal) as appender:
            appender.append(EVENTS)
        heard, told = _processes.Pipe(duplex=False)
        with heard, told:
            with _process(_publish, journal, told):
                port = _retell(heard, console, "listens")
                with _process(_consume, "consumer 1", port, store, FATAL_SEQ, told) as first:
                    _retell(heard, console, "waits")
                    first.kill()
                    first.join(STEP_TIMEOUT_S)
                    _say(
                        console,
                        "consumer 1",
                        f"[bold red]killed with SIGKILL[/] after commit {FATAL_SEQ}, before its ACK",
                    )
                    _retell(heard, console, "closed")
                with _process(_consume, "consumer 2", port, store, None, told):
                    _retell(heard, console, "ended", "closed")
            with _process(_publish_plainly, journal, told):
                port = _retell(heard, console, "listens")
                with _process(_consume, "consumer 3", port, store, None, told):
                    _retell(heard, console, "ended", "closed")
        return _check(console, journal, store)


def _check(console: Console, journal: Path, store: Path) -> bool:
    """Compare the database with the journal, from outside of all processes."""
    con = sqlite3.connect(store)
    try:
        rows = con.execute("SELECT seq, delta FROM ledger ORDER BY seq").fetchall()
        last, total = state(con)
    finally:
        con.close()
    events, _, _ = decode(journal.read_bytes())
    wanted_last, wanted_total = events[-1][0], sum(delta for _, delta in events)
    table = Table("", "journal", "database", title="check")
    table.add_row("events", _show(events), _show(rows))
    table.add_row("last", str(wanted_last), str(last))
    table.add_row("total", str(wanted_total), str(total))
    console.print(table)
    holds = rows == events and (last, total) == (wanted_last, wanted_total)
    console.print(
        "[bold green]holds[/]: every event is there, each counted once"
        if holds
        else "[bold red]does not hold[/]: please report this"
    )
    return holds


def _show(events: list[Event]) -> str:
    return ", ".join(f"{seq}:{delta:+}" for seq, delta in events)


def _say(console: Console, who: str, what: str) -> None:
    console.print(f"[bold]{who:<11}[/]  {what}", soft_wrap=True, highlight=False)


def _retell(heard: Connection, console: Console, *wanted: str) -> int:
    """Retell what the processes tell until all that is wanted has happened, and give the last one's number."""
    missing = set(wanted)
    while heard.poll(STEP_TIMEOUT_S):
        who, text, what, number = heard.recv()
        _say(console, who, text)
        missing.discard(what)
        if not missing:
            return int(number)
    raise TimeoutError(f"the demo came to a halt: nothing was heard for {STEP_TIMEOUT_S:.0f} s")


@contextmanager
def _process(part: Callable[..., None], *args: object) -> Iterator[BaseProcess]:
    process = _processes.Process(target=_play, args=(part, *args))
    resource_tracker.ensure_running()  # which unblocks the signal on its own start
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process.start()  # it inherits the mask: Ctrl-C goes to the whole group, and only this process answers to it
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if process.pid is not None:
            process.kill()
            process.join()


# What the other processes do.


def _play(part: Callable[..., None], *args: object) -> None:
    """Play a part, and do not outlive the process that tells the story, however that ends."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(OSError):  # its other side was killed a moment before it; otherwise the story comes to a halt
        part(*args)


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # called in a child only
    parent.join()
    os._exit(0)


def _tell(told: Connection, who: str, text: str, what: str = "", number: int = 0) -> None:
    with suppress(BrokenPipeError):  # nobody listens any more
        told.send((who, text, what, number))


def _consume(name: str, port: int, store: Path, fatal_seq: int | None, told: Connection) -> None:
    """Run the contract's client. The first one stops between commit and ACK, to be killed right there."""
    con = open_store(store)
    last, _ = state(con)
    con.close()
    file = "a new file" if last < 0 else "the same file"
    _tell(told, name, f"starts as process {os.getpid()} on {file}, says RESUME {last}: that is what the file holds")
    known: list[str] = []

    def before_ack(seq: int) -> None:
        if seq <= last:
            known.append(str(seq))
        elif seq == fatal_seq:
            _tell(told, name, f"has committed event {seq}, is about to send ACK {seq} …", "waits")
            signal.pause()  # until the SIGKILL
        else:
            _tell(told, name, f"has committed event {seq}")

    last_now, total = asyncio.run(run_client("127.0.0.1", port, store, STEP_TIMEOUT_S, before_ack))
    if known:
        _tell(told, name, f"[bold]recognises events {', '.join(known)}[/], acknowledges each, counts none again")
    _tell(told, name, f"ends in good order: last {last_now}, total {total}", "ended")


def _publish(journal: Path, told: Connection) -> None:
    """Serve the journal, as `consumer serve --no-follow --window 1` does."""

    def observe(observation: Observation) -> None:
        match observation:
            case Resumed(last=last):
                _tell(told, "publisher", f"hears RESUME {last}, sends event {last + 1} next")
            case Closed(acknowledged=int(acknowledged), sent=sent) if acknowledged == sent:
                _tell(told, "publisher", f"has ACK {acknowledged}, the last: [bold]nothing was sent twice[/]", "closed")
            case Closed(acknowledged=int(acknowledged), sent=sent):
                text = f"lost its consumer: event {sent} was sent, but ACK {acknowledged} is the last that came"
                _tell(told, "publisher", text, "closed")

    with Publisher(journal, window=1, follow=False, observers=[observe]) as publisher:
        text = f"serves {publisher.extent} of its journal, one at a time, at 127.0.0.1:{publisher.port}"
        _tell(told, "publisher", text, "listens", publisher.port)
        asyncio.run(publisher.run(asyncio.Event()))


def _publish_plainly(journal: Path, told: Connection) -> None:
    """Be a publisher that knows no RESUME: the journal's file from its first line, for whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        text = "knows no RESUME, sends the journal [bold]from its first line again[/]"
        _tell(told, "publisher 2", text, "listens", door.getsockname()[1])
        peer, _ = door.accept()
    with peer, peer.makefile("rb") as said:
        said.readline()  # RESUME, whatever that may be
        peer.sendall(journal.read_bytes())
        peer.shutdown(socket.SHUT_WR)
        acks = said.read().decode().splitlines()
        _tell(told, "publisher 2", f"has {', '.join(acks)}", "closed")
