"""`consumer serve` and `consumer journal append`, as processes."""

# ruff: noqa: ASYNC240, ASYNC220 - what is waited for is the process

import asyncio
import os
import pty
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme
from rich.console import Console

from consumer import run_client, state
from consumer.cli.appending import Input
from consumer.cli.publisher import serve
from consumer.cli.publisher_view import ROWS_MAX, draw
from consumer.core.errors import InvalidOption
from consumer.publisher import Appender, Extent, Served

from .helpers import COMMAND, Peer, Serve, acks, events, lines

NETCAT = shutil.which("nc.openbsd") or shutil.which("nc")
Meet = Callable[..., Awaitable[Peer]]
Serving = Callable[..., Serve]


def command(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, str(COMMAND), *arguments], input=given, capture_output=True, check=False, timeout=60
    )


def append(path: Path, given: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return command("journal", "append", str(path), *options, given=given)


# serve


@pytest.mark.skipif(NETCAT is None, reason="netcat is not installed (package netcat-openbsd)")
async def test_run_client_consumer_run_and_netcat_are_served_at_once(
    path: Path, tmp_path: Path, serving: Serving, patience_s: float
) -> None:
    assert NETCAT is not None
    first, second = 300, 200
    path.write_bytes(b"")
    served = serving()
    port = await served.port()
    stores = [tmp_path / "lab.db", tmp_path / "run.db"]
    address = f"tcp://127.0.0.1:{port}"
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, str(COMMAND), "run", address, "--db", f"sqlite:///{stores[1]}", "--once"),
        stderr=subprocess.DEVNULL,
    )
    netcat = await asyncio.create_subprocess_exec(
        *(NETCAT, "127.0.0.1", str(port)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        netcat.stdin.write(b"RESUME -1\n")
        lab = asyncio.create_task(run_client("127.0.0.1", port, stores[0], patience_s))
        await served.wait_for_log("resumes after event -1 of -1", 3)  # so that all of them are there
        with Appender(path) as appender:
            appender.append(events(0, first))
            heard = await asyncio.wait_for(netcat.stdout.readexactly(len(lines(0, first))), patience_s)
            appender.append(events(first, second))
        heard += await asyncio.wait_for(netcat.stdout.readexactly(len(lines(first, second))), patience_s)
        assert heard == lines(0, first + second)
        netcat.stdin.write(acks(range(first + second)))
        async with asyncio.timeout(patience_s):
            while [last_of(store) for store in stores] != [first + second - 1] * 2:  # noqa: ASYNC110 - of others
                await asyncio.sleep(0.01)
        assert "closed" not in served.log.read_text()
        assert served.end() == 0
        wanted = (first + second - 1, sum(delta for _, delta in events(0, first + second)))
        assert await lab == wanted
        assert await asyncio.wait_for(run.wait(), patience_s) == 0
        netcat.stdin.close()  # it waits for that too
        assert await asyncio.wait_for(netcat.stdout.read(), patience_s) == b""
    finally:
        for process in (run, netcat):
            if process.returncode is None:
                process.kill()
        await asyncio.wait_for(netcat.communicate(), patience_s)
    ended = served.log.read_text().count(f"the publisher stops (event {wanted[0]} acknowledged, {wanted[0]} sent)")
    assert ended == 3
    for store in stores:
        con = sqlite3.connect(store)
        assert con.execute("SELECT seq, delta FROM ledger ORDER BY seq").fetchall() == events(0, first + second)
        assert state(con) == wanted
        con.close()


def last_of(store: Path) -> int:
    con = sqlite3.connect(store)
    try:
        return int(con.execute("SELECT last FROM checkpoint").fetchone()[0])
    finally:
        con.close()


async def test_a_signal_ends_it_in_good_order(path: Path, serving: Serving, meet: Meet) -> None:
    path.write_bytes(lines(0, 3))
    served = serving()
    peer = await meet(await served.port(), b"RESUME 2\n")
    await served.wait_for_log("resumes after event 2 of 2")
    served.process.send_signal(signal.SIGINT)
    assert await peer.hear_all() == b""
    assert served.process.wait(served.patience_s) == 0
    text = served.log.read_text()
    assert "stopping" in text
    assert "the publisher stops (event 2 acknowledged, 2 sent)" in text
    assert "Traceback" not in text


async def test_a_second_signal_ends_it_at_once(path: Path, serving: Serving, meet: Meet) -> None:
    path.write_bytes(lines(0, 3))
    served = serving(limits={"linger_s": 30})
    peer = await meet(await served.port(), b"RESUME -1\n")
    await peer.hear_line()
    served.process.terminate()
    await served.wait_for_log("stopping")
    served.process.terminate()
    assert served.process.wait(served.patience_s) == 21


async def test_options_come_from_the_environment_too(
    path: Path, serving: Serving, meet: Meet, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(lines(0, 9))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("CONSUMER_SERVE_PORT", str(port))
        ended = command("serve", str(path))
        assert ended.returncode == 22
        assert str(port) in ended.stderr.decode()
    monkeypatch.delenv("CONSUMER_SERVE_PORT")
    monkeypatch.setenv("CONSUMER_PORT", "1")  # what container platforms set is not ours
    monkeypatch.setenv("CONSUMER_SERVE_WINDOW", "2")
    monkeypatch.setenv("CONSUMER_SERVE_NO_FOLLOW", "1")
    served = serving()
    peer = await meet(await served.port(), b"RESUME 4\n")
    peer.writer.write_eof()
    assert await peer.hear_all() == lines(5, 2)


def test_an_error_is_one_line_and_an_exit_code(path: Path) -> None:
    ended = command("serve", str(path))
    text = ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (19, b"")
    assert text.startswith("consumer: ")
    assert "consumer journal append" in text
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"host": "192.0.2.1"}, "192.0.2.1"),
        ({"host": "no.such.host.invalid"}, "no.such.host.invalid"),
        ({"host": "no..host"}, "no..host"),
        ({"host": "\udcff"}, "cannot listen"),
        ({"tls_cert": "x.pem"}, "--tls-key"),
        ({"tls_client_ca": "x.pem"}, "--tls-cert"),
        ({"tls_cert": "x.pem", "tls_key": "y.pem"}, "x.pem"),
    ],
)
def test_options_that_cannot_be_used_are_named(path: Path, options: dict[str, str], named: str) -> None:
    path.write_bytes(b"")
    with pytest.raises(InvalidOption, match=named):
        serve(str(path), port=0, **options)


async def test_tls_and_client_certificates(path: Path, tmp_path: Path, serving: Serving, meet: Meet) -> None:
    path.write_bytes(lines(0, 3))
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    own = str(tmp_path / "own.pem")
    served = serving("--tls-cert", own, "--tls-key", own, "--tls-client-ca", str(tmp_path / "ca.pem"))
    port = await served.port()
    assert "tls://127.0.0.1" in served.log.read_text()
    run = (sys.executable, str(COMMAND), "run", f"tls://localhost:{port}", "--tls-ca", str(tmp_path / "ca.pem"))
    store = f"sqlite:///{tmp_path / 'run.db'}"
    refused = await asyncio.create_subprocess_exec(
        *run, "--db", store, "--once", "--max-attempts", "1", stderr=subprocess.DEVNULL
    )
    assert await asyncio.wait_for(refused.wait(), served.patience_s) in (18, 20)
    consumer = authority.issue_cert("consumer")
    consumer.private_key_and_cert_chain_pem.write_to_path(tmp_path / "consumer.pem")
    accepted = await asyncio.create_subprocess_exec(
        *run, "--db", store, "--tls-cert", str(tmp_path / "consumer.pem"), stderr=subprocess.DEVNULL
    )
    await served.wait_for_log("resumes after event -1 of 2")
    assert served.end() == 0
    accepted.terminate()
    assert await asyncio.wait_for(accepted.wait(), served.patience_s) == 0


async def test_on_a_terminal_a_table_shows_the_consumers(path: Path, meet: Meet, patience_s: float) -> None:
    path.write_bytes(lines(0, 5))
    ours, theirs = pty.openpty()
    shown = b""
    process = subprocess.Popen(
        [sys.executable, str(COMMAND), "serve", str(path), "--port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm"},
    )
    os.close(theirs)
    os.set_blocking(ours, False)

    async def show(pattern: bytes) -> re.Match[bytes]:
        nonlocal shown
        async with asyncio.timeout(patience_s):
            while (found := re.search(pattern, shown)) is None:
                await asyncio.sleep(0.01)
                try:
                    shown += os.read(ours, 65536)
                except BlockingIOError:
                    continue
        return found

    try:
        port = int((await show(rb"127\.0\.0\.1:([0-9]+)"))[1])
        await show(rb"events 0 to 4, 0 consumers")
        peer = await meet(port, b"RESUME -1\n")
        await peer.hear(len(lines(0, 5)))
        peer.say(acks([2]))
        await show(rb"events 0 to 4, 1 consumer\b")
        await show(r"127\.0\.0\.1:[0-9]+ │ +2 │ +2 │".encode())
        process.terminate()
        await show(b"stopping")
        peer.say(acks([4]))
        await show(b"the publisher stops")
        assert process.wait(patience_s) == 0
    finally:
        process.kill()
        process.wait(patience_s)
        os.close(ours)


def test_the_table_shows_those_who_lag_most_and_counts_the_others() -> None:
    class Publisher:
        extent = Extent(head=100)

        def consumers(self) -> list[Served]:
            return [Served(f"10.0.0.{lag}:1", 100 - lag, lag) for lag in range(40, 0, -1)]

    console = Console(width=80)
    with console.capture() as captured:
        console.print(draw(Publisher()))
    text = captured.get()
    assert "10.0.0.40:1" in text
    assert f"and {40 - ROWS_MAX} more" in text
    assert text.count("10.0.0.") == ROWS_MAX


# journal append


def test_event_lines_are_appended_and_counted_after_a_repair_that_is_said(path: Path) -> None:
    path.write_bytes(lines(0, 3) + b"EVENT 3")
    ended = append(path, lines(3, 200_000))
    assert (ended.returncode, ended.stdout) == (0, b"200000 events appended, the last event is 200002\n")
    assert ended.stderr.decode().startswith(f"repaired {path}: cut 7 bytes at byte {len(lines(0, 3))} (b'EVENT 3')")
    assert path.read_bytes() == lines(0, 200_003)


def test_where_standard_error_is_full_it_says_what_it_has_done_all_the_same(path: Path) -> None:
    """Otherwise whoever gives again what was not reported would count it twice."""
    command = [sys.executable, "-m", "consumer", "journal", "append", str(path), "--number"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, input=b"5\n", stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout) == (0, b"1 event appended, the last event is 0\n")


def test_a_standard_input_that_is_closed_or_cannot_be_read_is_named(path: Path) -> None:
    for given, words in (("<&-", "standard input is closed"), ("0>/dev/null", "standard input cannot be read")):
        command = f"exec {sys.executable} -m consumer journal append {path} {given}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert words in done.stderr


def test_numbers_of_lines_that_were_cut_off_are_not_given_anew_before_somebody_has_looked(path: Path) -> None:
    """Lines that carry their numbers may follow at once: whoever gives them again knows which they are."""
    damaged = lines(0, 3) + b"EVENT 3 XX\n" + lines(4, 5)
    path.write_bytes(damaged)
    ended = append(path, b"1\n2\n", "--number")
    assert (ended.returncode, ended.stdout) == (19, b"")
    repaired, refused = ended.stderr.decode().splitlines()
    assert repaired.startswith(f"repaired {path}: cut ")
    assert "nothing was appended" in refused
    assert path.read_bytes() == lines(0, 3)
    assert append(path, b"7\n", "--number").returncode == 0  # they have looked
    assert path.read_bytes() == lines(0, 3) + b"EVENT 3 7\n"
    path.write_bytes(damaged)
    assert append(path, lines(3, 6)).returncode == 0
    assert path.read_bytes() == lines(0, 9)
    path.write_bytes(lines(0, 3) + b"EVENT 3")  # no event can be in that
    assert append(path, b"7\n", "--number").returncode == 0
    assert path.read_bytes() == lines(0, 3) + b"EVENT 3 7\n"


def test_a_bad_line_is_named_by_its_number_and_nothing_after_it_is_written(path: Path) -> None:
    ended = append(path, b"1\n" * 300_000 + b"x\n" + b"1\n" * 10, "--number")
    text = ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert text.startswith("consumer: line 300001: b'x\\n' is no delta")
    assert "300000 events appended before it" in text
    assert text.count("\n") == 1
    assert path.read_bytes().count(b"\n") == 300_000


@pytest.mark.parametrize(
    ("before", "given", "said"),
    [
        (b"", b"", "0 events appended, there is no event yet"),
        (b"", lines(0, 1), "1 event appended, the last event is 0"),
        (lines(0, 2), b"", "0 events appended, the last event is 1"),
    ],
)
def test_what_was_appended_is_counted_as_people_do(path: Path, before: bytes, given: bytes, said: str) -> None:
    path.write_bytes(before)
    assert append(path, given).stdout.decode() == f"{said}\n"


def test_a_whole_file_of_another_system_is_named_as_such(path: Path) -> None:
    path.write_bytes(lines(0, 3).replace(b"\n", b"\r\n"))
    for ended in (append(path, lines(3, 1)), command("serve", str(path), "--port", "0")):
        assert ended.returncode == 19
        assert "there is b'EVENT 0 -1000\\r\\n' where an event was due; it ends in CRLF" in ended.stderr.decode()


def test_a_journal_that_is_being_written_is_an_error(path: Path) -> None:
    with Appender(path):
        ended = append(path, lines(0, 1))
    assert ended.returncode == 19
    assert b"another program is appending" in ended.stderr


def test_a_signal_ends_an_append_between_two_and_not_within_one() -> None:
    done: list[str] = []
    readable, writable = os.pipe()
    os.write(writable, b"1\n")
    given = Input(readable)
    before = signal.getsignal(signal.SIGTERM)
    with given.until_signalled():
        assert given.read() == b"1\n"
        signal.raise_signal(signal.SIGTERM)
        done.append("this append")
        os.write(writable, b"2\n")
        given.read()
        done.append("another")
    assert done == ["this append"]
    assert signal.getsignal(signal.SIGTERM) is before
    os.close(readable)
    os.close(writable)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_what_comes_is_appended_at_once_and_a_signal_ends_it(
    path: Path, patience_s: float, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, str(COMMAND), "journal", "append", str(path), "--number"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(b"5\n6\n")
    process.stdin.flush()
    async with asyncio.timeout(patience_s):
        while not path.exists() or path.read_bytes() != b"EVENT 0 5\nEVENT 1 6\n":  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=patience_s)
    assert (process.returncode, out, err) == (0, b"2 events appended, the last event is 1\n", b"")
