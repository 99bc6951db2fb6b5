"""What `consumer run` shows: log lines where nobody looks, a live line on a terminal; and where its options come from."""

import asyncio
import json
import os
import pty
import re
import signal
import sys
from contextlib import suppress
from datetime import datetime

import pytest
from runtime.databases import check_store, execute
from runtime.scripted import history, in_turn, serving

from consumer.testing.script.conversation import Session


async def close(session: Session) -> None:
    session.close()


async def test_log_lines_are_text(ready_sqlite_url, serve, start):
    async with (
        serve(in_turn(close, serving(history(3)))) as publisher,
        start(publisher.url, "--db", ready_sqlite_url) as command,
    ):
        await (await publisher.session(1)).acked(2)
        command.send(signal.SIGTERM)
        assert await command.end() == 0
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert all(re.fullmatch(rf"{when} (INFO|WARNING) \S.*", line) for line in command.lines), command.lines
    shown = [line.split(" ", 3)[2:] for line in command.lines]
    connected = ["INFO", f"connected to {publisher.url}, resuming after -1"]
    assert shown == [
        connected,
        ["WARNING", shown[1][1]],
        connected,
        ["INFO", "ended at event 2"],
    ]
    closed = (
        f"{publisher.url} closed the connection without a word: it has nothing after event -1, or it is no publisher"
    )
    assert re.fullmatch(rf"{re.escape(closed)} or speaks TLS: see tls://; trying again in \d\.\d s", shown[1][1])


async def test_log_lines_are_json_where_that_was_asked_for(store_url, serve, start):
    async with (
        serve(in_turn(close, serving(history(3)))) as publisher,
        start(publisher.url, "--db", store_url, "--log-format", "json", "--handler", "handlers:failing") as command,
    ):
        assert await command.end() == 14
    *log, end = (json.loads(line) for line in command.lines)
    assert [line["level"] for line in log] == ["INFO", "WARNING", "INFO"]
    assert all({"time", "level", "logger", "event", "message", "fields"} <= set(line) for line in log)
    assert all(datetime.fromisoformat(line["time"]).tzinfo is not None for line in log)
    assert (end["level"], end["event"]) == ("ERROR", "failed")
    assert end["fields"] == {"error": "HandlerFailed", "exit_code": 14, "seq": 2, "reason": "LookupError: no such slot"}
    assert "event 2: LookupError: no such slot" in end["message"]
    assert "in failing" in end["exception"]


async def test_options_come_from_the_environment(ready_sqlite_url, serve, start, authority):
    mine = authority.issue("consumer.test")
    context = authority.context("publisher.test", client_ca=authority.ca)
    execute(ready_sqlite_url, "CREATE TABLE handled (seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL)")
    async with (
        serve(serving(history(3), close=True), tls=context) as publisher,
        start(
            "--once",
            CONSUMER_URL=publisher.url,
            CONSUMER_DB=ready_sqlite_url,
            CONSUMER_HANDLER="handlers:counting",
            CONSUMER_TIMEOUT="7",
            CONSUMER_STOP_TIMEOUT="7",
            CONSUMER_BATCH="2",
            CONSUMER_MAX_ATTEMPTS="1",
            CONSUMER_TLS_CA=authority.ca,
            CONSUMER_TLS_CERT=mine.cert,
            CONSUMER_TLS_KEY=mine.key,
            CONSUMER_TLS_NAME="publisher.test",
            CONSUMER_LOG_FORMAT="json",
            CONSUMER_PORT="tcp://10.0.0.1:80",  # as container platforms set it
        ) as command,
    ):
        assert await command.end() == 0
    assert all(json.loads(line) for line in command.lines)
    assert execute(ready_sqlite_url, "SELECT seq, delta FROM handled ORDER BY seq") == history(3)
    check_store(ready_sqlite_url, history(3))


async def test_the_help_names_every_option_and_its_variable(environment, patience_s):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "consumer", "run", "--help", env=environment, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(patience_s):
        out, _ = await process.communicate()
    text = " ".join(out.decode().split())
    assert process.returncode == 0
    for option in (
        "db",
        "handler",
        "timeout",
        "stop-timeout",
        "batch",
        "max-attempts",
        "tls-ca",
        "tls-cert",
        "tls-key",
        "tls-name",
        "log-format",
    ):
        assert f"--{option} " in text
        assert f"CONSUMER_{option.replace('-', '_').upper()}" in text.replace(" ", "")
    assert "--once " in text
    assert "CONSUMER_URL" in text.replace(" ", "")
    assert "CONSUMER_PORT" not in text


class Terminal:
    """A terminal that a process is run on, and what it has shown."""

    def __init__(self, ours: int) -> None:
        self.shown = ""
        self._ours = ours
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(ours, self._read)

    def _read(self) -> None:
        data = b""
        with suppress(OSError):  # the other end is closed
            data = os.read(self._ours, 65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._ours)
        self.shown += data.decode(errors="replace")
        self._news.set()

    async def shows(self, text: str) -> None:
        while text not in self.shown:
            self._news.clear()
            await self._news.wait()


@pytest.mark.parametrize("end", ["signal", "error", "force"])
async def test_on_a_terminal_there_is_a_live_line_and_the_terminal_is_left_as_it_was(
    ready_sqlite_url, serve, environment, patience_s, tmp_path, end, start
):
    ours, theirs = pty.openpty()
    options = {
        "signal": ["--batch", "10"],
        "error": ["--batch", "10", "--handler", "handlers:failing"],
        "force": ["--handler", "handlers:stuck", "--stop-timeout", "0.1"],
    }[end]
    try:
        async with serve(in_turn(close, serving(history(3)))) as publisher:
            terminal = Terminal(ours)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "consumer", "run", publisher.url, "--db", ready_sqlite_url, *options),
                env=environment | {"TERM": "xterm", "COLUMNS": "200"},
                cwd=tmp_path,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
            )
            try:
                if end == "signal":
                    await terminal.shows("last 2")
                    process.send_signal(signal.SIGINT)
                elif end == "force":
                    await terminal.shows("entered")
                    process.send_signal(signal.SIGINT)
                code = await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            os.close(theirs)
            theirs = -1
            hidden, shown = "\x1b[?25l", "\x1b[?25h"
            assert code == {"signal": 0, "error": 14, "force": 21}[end]
            await terminal.shows(shown)
            text = terminal.shown
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    assert text.rindex(shown) > text.rindex(hidden)
    assert "connected" in text
    assert "events/s" in text
    assert "1 reconnects" in text
    assert "Traceback" not in text
    if end != "signal":
        assert re.search(r"(^|\n)consumer: [^\n]+\n", text.replace("\r", "").replace("\x1b[?25h", "\n")), text
