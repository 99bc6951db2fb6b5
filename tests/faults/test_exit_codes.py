"""What `consumer run` ends with: one row of the failure table each, as a process and with a real publisher."""

import os
import socket
import sqlite3
import sys
from contextlib import closing

import pytest
from runtime.databases import check_store, execute
from runtime.scripted import history, lines, sending, serving, silence
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from consumer.cli import exits, main, stops
from consumer.store import migrate
from consumer.testing.script.conversation import Session


def unused_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


async def close(session: Session) -> None:
    session.close()


async def test_a_publisher_that_closes_is_a_good_end_where_once_was_said(store_url, serve, start):
    events = history(2_000)
    async with (
        serve(serving(events, close=True)) as publisher,
        start(publisher.url, "--db", store_url, "--once") as command,
    ):
        assert await command.end() == 0
        assert publisher.sessions[0].acks == [seq for seq, _ in events]
        assert command.out == b""
    check_store(store_url, events)


ROWS = [
    pytest.param(b"EVENT 2 999\n", 10, "conflict at event 2: delta 999 came", id="conflict"),
    pytest.param(
        b"EVENT 4 1\n", 12, "event 3 is no longer at the publisher: its history starts at 4", id="first beyond"
    ),
    pytest.param(b"TRUNCATED 9\n", 12, "its history starts at 9", id="truncated"),
    pytest.param(b"SNAPSHOT 8 15\n", 12, "snapshot with last 8 and total 15", id="snapshot"),
    pytest.param(b"AHEAD 1\n", 13, "at the publisher the last event is 1", id="ahead"),
    pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", 15, "malformed frame 'HTTP/1.1 400", id="garbage"),
    pytest.param(lines([(0, -1000), (1, -993), (2, -986), (4, 1)]), 11, "gap: event 4 came where 3 was due", id="gap"),
]


@pytest.mark.parametrize(("said", "code", "reason"), ROWS)
async def test_an_answer_that_cannot_be_consumed(ready_sqlite_url, serve, start, said, code, reason):
    url = ready_sqlite_url
    events = history(3)
    execute(url, *[f"INSERT INTO ledger VALUES ({seq}, {delta})" for seq, delta in events])
    execute(url, f"UPDATE checkpoint SET last = 2, total = {sum(delta for _, delta in events)}")
    async with (
        serve(sending(said, close=False)) as publisher,
        start(publisher.url, "--db", url) as command,
    ):
        assert await command.end() == code
        assert reason in command.error
        assert publisher.resumes == [2] * (3 if code in {11, 15} else 1)
    check_store(url, events)


async def test_a_handler_that_fails(store_url, serve, start):
    async with (
        serve(serving(history(5))) as publisher,
        start(publisher.url, "--db", store_url, "--handler", "handlers:failing") as command,
    ):
        assert await command.end() == 14
        assert "event 2: LookupError: no such slot" in command.error
        assert publisher.sessions[0].acks == [0, 1]
    check_store(store_url, history(2))


async def test_a_server_without_a_store_is_not_upgraded_by_itself(postgres_url, serve, start):
    async with serve(silence) as publisher, start(publisher.url, "--db", postgres_url) as command:
        assert await command.end() == 16
        assert "consumer upgrade" in command.error
        assert publisher.sessions == []


async def test_a_sqlite_store_is_made_by_itself(sqlite_url, serve, start):
    async with (
        serve(serving(history(3), close=True)) as publisher,
        start(publisher.url, "--db", sqlite_url, "--once") as command,
    ):
        assert await command.end() == 0
    check_store(sqlite_url, history(3))


async def test_a_database_that_could_lose_commits(postgres_url, serve, start):
    migrate.upgrade(postgres_url)
    execute(postgres_url, "ALTER TABLE checkpoint SET UNLOGGED")
    async with serve(silence) as publisher, start(publisher.url, "--db", postgres_url) as command:
        assert await command.end() == 17
        assert "checkpoint is not logged" in command.error
        assert publisher.sessions == []


async def test_a_database_in_memory(serve, start):
    async with serve(silence) as publisher, start(publisher.url, "--db", "sqlite:///:memory:") as command:
        assert await command.end() == 17
        assert publisher.sessions == []


async def test_nobody_listens(ready_sqlite_url, start):
    url = f"tcp://127.0.0.1:{unused_port()}"
    async with start(url, "--db", ready_sqlite_url, "--max-attempts", "2") as command:
        assert await command.end() == 18
        assert f"gave up after 2 attempts to connect: {url} cannot be reached" in command.error
        assert len([line for line in command.lines if "trying again" in line]) == 1


async def test_a_host_that_is_not_known(ready_sqlite_url, start):
    async with start("tcp://publisher.invalid:7000", "--db", ready_sqlite_url, "--max-attempts", "1") as command:
        assert await command.end() == 18
        assert "tcp://publisher.invalid:7000 cannot be reached" in command.error


async def test_a_peer_that_accepts_and_says_nothing_is_asked_anew_for_ever(ready_sqlite_url, serve, start):
    async with (
        serve(silence) as publisher,
        start(publisher.url, "--db", ready_sqlite_url, "--timeout", "0.1", "--max-attempts", "1") as command,
    ):
        await publisher.session(3)
        await command.says("was silent for 0.1 s", 3)
        assert command.process.returncode is None


async def test_a_file_that_is_no_database(tmp_path, start):
    (tmp_path / "text.db").write_text("this is text, and more of it than a header of SQLite has " * 100)
    async with start("tcp://127.0.0.1:7000", "--db", "sqlite:///text.db") as command:
        assert await command.end() == 19
        assert "text.db cannot be used: file is not a database" in command.error


def test_a_refusing_server_has_its_exit_code():
    assert exits.exit_code(OperationalError("", {}, Exception("FATAL: no such user"))) == 19


# --- wrong words on the command line: nothing is started ------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "URL"),
        (["http://127.0.0.1:7000"], "no publisher's address"),
        (["tcp://127.0.0.1"], "no publisher's address"),
        (["tcp://127.0.0.1:0"], "no publisher's address"),
        (["tcp://127.0.0.1:65536"], "no publisher's address"),
        (["tcp://127.0.0.1:7000/path"], "no publisher's address"),
        (["tcp://::1:7000"], "no publisher's address"),
        (["tcp://a..b:7000"], "no publisher's address"),
        (["tcp://" + "a" * 64 + ":7000"], "no publisher's address"),
        (["tcp://somebody:s3cr3t@127.0.0.1:7000"], "no publisher's address"),
        (["tcp://127.0.0.1:7000", "--db", "mysql://somebody:s3cr3t@host/db"], "cannot be used"),
        (["tcp://127.0.0.1:7000", "--timeout", "0"], "timeout"),
        (["tcp://127.0.0.1:7000", "--timeout", "nan"], "timeout"),
        (["tcp://127.0.0.1:7000", "--timeout", "soon"], "--timeout"),
        (["tcp://127.0.0.1:7000", "--stop-timeout", "-1"], "timeout"),
        (["tcp://127.0.0.1:7000", "--batch", "0"], "batch"),
        (["tcp://127.0.0.1:7000", "--max-attempts", "0"], "max-attempts"),
        (["tcp://127.0.0.1:7000", "--log-format", "xml"], "xml"),
        (["tcp://127.0.0.1:7000", "--handler", "nothing"], "cannot be loaded"),
        (["tcp://127.0.0.1:7000", "--handler", "nothing:handler"], "cannot be loaded"),
        (["tcp://127.0.0.1:7000", "--handler", "broken:handler"], "ZeroDivisionError"),
        (["tcp://127.0.0.1:7000", "--handler", "os:nothing"], "cannot be loaded"),
        (["tcp://127.0.0.1:7000", "--handler", "os:sep"], "plain function"),
        (["tcp://127.0.0.1:7000", "--handler", "asyncio:sleep"], "plain function"),
        (["tls://127.0.0.1:7000", "--tls-ca", "missing.pem"], "missing.pem"),
        (["tls://127.0.0.1:7000", "--tls-key", "missing.pem"], "--tls-cert and --tls-key belong together"),
        (["tls://127.0.0.1:7000", "--tls-name", ".test"], "host name"),
        (["tls://127.0.0.1:7000", "--insecure"], "--insecure"),
    ],
)
def test_bad_usage_is_one_line_and_starts_nothing(tmp_path, monkeypatch, capfd, arguments, reason):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("CONSUMER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["consumer", "run", *arguments])
    (tmp_path / "broken.py").write_text("1 / 0")
    with stops.raised(), pytest.raises(SystemExit) as end:
        main()
    out, err = capfd.readouterr()
    assert (end.value.code, out) == (2, "")
    assert err.startswith("consumer: ")
    assert err.count("\n") == 1
    assert reason in err
    assert "s3cr3t" not in err
    assert {path.name for path in tmp_path.iterdir()} <= {"broken.py", "__pycache__"}


async def test_a_password_is_never_shown(postgres_url, start, tmp_path):
    """The server refuses what was typed, which is final; the last line says so."""
    wrong = make_url(postgres_url).set(username="nobody", password="s3cr3t", database="nowhere")
    text = wrong.render_as_string(hide_password=False)
    async with start("tcp://127.0.0.1:1", "--db", text) as command:
        assert await command.end() == 19
        assert "does not exist" in command.lines[-1]
        assert "s3cr3t" not in "\n".join(command.lines)


async def test_a_sqlite_file_that_is_locked_at_the_start_is_waited_for(ready_sqlite_url, serve, start):
    with closing(sqlite3.connect(ready_sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with (
            serve(serving(history(3), close=True)) as publisher,
            start(publisher.url, "--db", ready_sqlite_url, "--once") as command,
        ):
            await command.says("locked")
            other.execute("ROLLBACK")
            assert await command.end() == 0
    check_store(ready_sqlite_url, history(3))
