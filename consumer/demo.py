"""The story that this package exists for: a consumer is killed between commit and ACK, and nothing is counted twice.

A publisher and two consumers in turn are real processes on loopback; each tells what it does through one pipe, in the
order in which it happens, and this process puts it into words, sends the SIGKILL and checks the database at the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from consumer.events import Event
from consumer.lab.session import run_client
from consumer.lab.shim import open_store, state
from consumer.wire import encode_event, parse_resume

EVENTS: list[Event] = [(0, 12), (1, -3), (2, 7), (3, -5), (4, 1)]
"""What the publisher has to say."""

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
        Whether the database held the publisher's events, each once, at the end.

    Raises:
        TimeoutError: a process did not do its part in time.
    """
    with TemporaryDirectory(prefix="consumer-demo-") as folder:
        path = str(Path(folder) / "store.db")
        heard, told = _processes.Pipe(duplex=False)
        with heard, told, _process(_publish, told) as publisher:
            port = _wait_for("listening", heard, console)
            with _process(_consume, port, path, FATAL_SEQ, told) as first:
                _say(console, "consumer 1", f"started as process {first.pid}, on a new file")
                _wait_for("parked", heard, console)
                first.kill()
                first.join(STEP_TIMEOUT_S)
                _say(
                    console, "consumer 1", f"[bold red]killed with SIGKILL[/] after commit {FATAL_SEQ}, before its ACK"
                )
            with _process(_consume, port, path, None, told) as second:
                _say(console, "consumer 2", f"started as process {second.pid}, on the same file")
                _wait_for("ended", heard, console)
                second.join(STEP_TIMEOUT_S)
            publisher.join(STEP_TIMEOUT_S)
        return _check(console, path)


def _check(console: Console, path: str) -> bool:
    """Compare the database with what the publisher sent, from outside of both."""
    con = sqlite3.connect(path)
    try:
        rows = con.execute("SELECT seq, delta FROM ledger ORDER BY seq").fetchall()
        last, total = state(con)
    finally:
        con.close()
    wanted_total = sum(delta for _, delta in EVENTS)
    table = Table("", "publisher", "database", title="check")
    table.add_row("events", _show(EVENTS), _show(rows))
    table.add_row("last", str(EVENTS[-1][0]), str(last))
    table.add_row("total", str(wanted_total), str(total))
    console.print(table)
    holds = rows == EVENTS and (last, total) == (EVENTS[-1][0], wanted_total)
    console.print(
        "[bold green]holds[/]: every event is there, each counted once"
        if holds
        else "[bold red]does not hold[/]: please report this"
    )
    return holds


def _show(events: list[Event]) -> str:
    return ", ".join(f"{seq}:{delta:+}" for seq, delta in events)


def _say(console: Console, who: str, what: str) -> None:
    console.print(f"[bold]{who:<10}[/]  {what}", soft_wrap=True, highlight=False)


def _wait_for(wanted: str, heard: Connection, console: Console) -> int:
    """Retell what the processes tell, up to a certain thing, and give its number."""
    while heard.poll(STEP_TIMEOUT_S):
        who, what, number, text = heard.recv()
        _say(console, who, text)
        if what == wanted:
            return int(number)
    raise TimeoutError(f"the demo came to a halt: nothing was heard for {STEP_TIMEOUT_S:.0f} s")


@contextmanager
def _process(target: object, *args: object) -> Iterator[BaseProcess]:
    process = _processes.Process(target=target, args=args)  # type: ignore[arg-type]  # two targets of unlike arguments
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


def _parent() -> BaseProcess:
    """The process that tells the story. The others do not outlive it, however it ends."""
    parent = parent_process()
    assert parent is not None, "called in a child only"
    return parent


# The consumer's process.


def _consume(port: int, path: str, fatal_seq: int | None, told: Connection) -> None:
    """Run the contract's client. The first one stops between commit and ACK, to be killed right there."""
    name = "consumer 1" if fatal_seq is not None else "consumer 2"
    con = open_store(path)
    last, _ = state(con)
    con.close()
    told.send((name, "started", last, f"says RESUME {last}: that is what its database holds"))

    def before_ack(seq: int) -> None:
        if seq <= last:
            told.send(
                (name, "known", seq, f"[bold]recognises event {seq}[/], does not count it again, acknowledges it")
            )
        else:
            told.send((name, "committed", seq, f"has committed event {seq}"))
        if seq == fatal_seq:
            told.send((name, "parked", seq, f"is about to send ACK {seq} …"))
            _parent().join(STEP_TIMEOUT_S)  # until the SIGKILL
            raise SystemExit  # left alone

    last_now, total = asyncio.run(run_client("127.0.0.1", port, path, STEP_TIMEOUT_S, before_ack))
    told.send((name, "ended", last_now, f"ends in good order: last {last_now}, total {total}"))


# The publisher's process: it sends again whatever was not acknowledged to it.


def _publish(told: Connection) -> None:
    asyncio.run(_serve(told))


async def _serve(told: Connection) -> None:
    unacknowledged = list(EVENTS)
    finished = asyncio.Event()
    sent: set[int] = set()

    def tell(text: str, what: str = "", number: int = 0) -> None:
        with suppress(BrokenPipeError):  # nobody listens any more
            told.send(("publisher", what, number, text))

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        with suppress(ConnectionError):
            said = await reader.readline()
        if not said:  # it was killed before it could say anything
            writer.close()
            return
        parse_resume(said)
        while unacknowledged:
            seq, delta = unacknowledged[0]
            again = "[bold]again[/], since no ACK came for it" if seq in sent else ""
            tell(f"sends EVENT {seq} {delta:+} {again}".rstrip())
            sent.add(seq)
            writer.write(encode_event(seq, delta))
            answer = b""
            with suppress(ConnectionError):
                answer = await reader.readline()
            if not answer:
                tell(f"lost its consumer; event {seq} is not acknowledged")
                break
            tell(f"has {answer.decode().strip()}")
            del unacknowledged[0]
        writer.close()
        if not unacknowledged:
            finished.set()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    tell(f"listens on 127.0.0.1:{port} with {len(EVENTS)} events", "listening", port)
    # Nobody is left to tell anything to: not even how this process ends.
    asyncio.get_running_loop().add_reader(_parent().sentinel, os._exit, 0)
    async with server:
        await finished.wait()
