"""The story that `consumer demo` tells: a consumer is killed between commit and ACK, and nothing is counted twice.

A journal is served by this package's publisher, one event at a time. The production consumer is killed at the named
point before an ACK, and the next one goes on where its database is. At last a publisher that knows no RESUME sends
everything once more. All of them are real processes on loopback; each tells what it does through one pipe, in the order
in which it happens, and this process prints it, sends the SIGKILL and compares journal and database at the end.
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

from consumer.core import points
from consumer.core.events import Event
from consumer.core.points import MigrationPoint, Point
from consumer.observe.observations import Committed
from consumer.observe.observations import Observation as OfConsumer
from consumer.publisher.journal.append import Appender
from consumer.publisher.server.notices import Closed, Notice, Resumed
from consumer.publisher.server.publisher import Publisher
from consumer.sources.tcp.wire import decode

EVENTS: list[Event] = [(0, 12), (1, -3), (2, 7), (3, -5), (4, 1)]
"""What the journal holds."""

FATAL_SEQ = 1
"""The event after whose commit, and before whose ACK, the first consumer is killed."""

STEP_TIMEOUT_S = 30.0
"""How long any step may take: the story ends or fails, it never hangs."""

_processes = get_context("spawn")


def tell_story(console: Console) -> bool:
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
        last, total = con.execute("SELECT last, total FROM checkpoint").fetchone()
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


def _consume(name: str, port: int, file: Path, fatal_seq: int | None, told: Connection) -> None:
    """Consume, as `consumer run --once` does. The first one stops between commit and ACK, to be killed right there."""
    # Loaded in this process only: the others have nothing to do with a database, and it takes long to load.
    from consumer.runtime.consumer import Consumer  # noqa: PLC0415
    from consumer.store import migrate  # noqa: PLC0415
    from consumer.store.transaction import Store  # noqa: PLC0415

    is_new = not file.exists()
    if is_new:
        migrate.upgrade(f"sqlite:///{file}")
    known = 0

    def observe(observation: OfConsumer) -> None:
        nonlocal known
        if isinstance(observation, Committed):
            known += observation.acked - observation.new
            for seq in range(observation.last - observation.new + 1, observation.last + 1):
                _tell(told, name, f"has committed event {seq}")

    if fatal_seq is not None:
        _stop_before_ack(name, fatal_seq, told)
    with Store(f"sqlite:///{file}") as store:
        last, which = store.state().last, "a new file" if is_new else "the same file"
        _tell(
            told, name, f"starts as process {os.getpid()} on {which}, says RESUME {last}: that is what the file holds"
        )
        consumer = Consumer(
            f"tcp://127.0.0.1:{port}", store, once=True, timeout=STEP_TIMEOUT_S, max_attempts=1, observers=[observe]
        )
        asyncio.run(consumer.run())
        if known:
            seqs = ", ".join(map(str, range(known)))
            _tell(told, name, f"[bold]recognises events {seqs}[/], acknowledges each, counts none again")
        state = store.state()
        _tell(told, name, f"ends in good order: last {state.last}, total {state.total}", "ended")


def _stop_before_ack(name: str, seq: int, told: Connection) -> None:
    """Have this process stop at the named point before an ACK. Events come one at a time, so that ACKs are counted."""
    acks = 0

    def reach(point: Point | MigrationPoint) -> None:
        nonlocal acks
        if point is Point.BEFORE_ACK:
            if acks == seq:
                _tell(told, name, f"has committed event {seq}, is about to send ACK {seq} …", "waits")
                signal.pause()  # until the SIGKILL
            acks += 1

    points.reach = reach


def _publish(journal: Path, told: Connection) -> None:
    """Serve the journal, as `consumer serve --no-follow --window 1` does."""

    def observe(observation: Notice) -> None:
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
