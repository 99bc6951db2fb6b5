"""`consumer upgrade` and `consumer status`: exit codes, one-line errors, and what they leave alone."""

import json
import os
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trustme
from sqlalchemy import create_engine, make_url, pool

from consumer import apply_event, open_store
from consumer.store import migrate
from consumer.store.databases import choice, sqlite

USAGE, NOT_READY, UNUSABLE, INTERRUPTED = 2, 16, 19, 130
SECRET = "s3cr3t"

COMMANDS = ["upgrade", "status"]


def check_that_it_failed(done, code: int, reason: str) -> None:
    """An exit code, one line on standard error that names the reason, and no traceback anywhere."""
    assert (done.code, done.out) == (code, ""), done
    assert re.fullmatch(r"consumer: [^\n]+\n", done.err), done.err
    assert reason in done.err
    assert "Traceback" not in done.err


def execute(url: str, statement: str) -> None:
    engine = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)


# --- what works ----------------------------------------------------------------------------------


def test_upgrade_makes_a_store_and_status_shows_it(consumer, url: str):
    done = consumer("upgrade", "--db", url)
    assert (done.code, done.out, done.err) == (0, "the store is at revision 0002: it was created\n", "")
    done = consumer("status", "--db", url, "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert re.fullmatch("[0-9a-f]{32}", told.pop("store_id"))
    assert told == {"last": -1, "total": 0, "ledger_rows": 0, "revision": "0002", "head": "0002", "streams": []}
    execute(url, "UPDATE checkpoint SET last = 1, total = 9")
    execute(url, "INSERT INTO ledger VALUES (0, 12), (1, -3)")
    done = consumer("status", "--db", url)
    assert (done.code, done.err) == (0, "")
    assert done.out == "last 1, total 9, 2 ledger rows\nrevision 0002, head 0002\n"


def test_upgrade_says_what_it_has_done(consumer, url: str):
    def says() -> str:
        done = consumer("upgrade", "--db", url)
        assert (done.code, done.err) == (0, "")
        return done.out.removeprefix("the store is at revision ").rstrip()

    assert says() == "0002: it was created"
    assert says() == "0002: it was there already"
    execute(url, "UPDATE checkpoint SET last = 3")
    assert says() == "0002: it was there already"
    execute(url, "DROP TABLE consumer_alembic_version")
    assert says() == "0002: it was adopted with what it holds, the last event is 3"
    execute(url, "DROP TABLE consumer_alembic_version")
    execute(url, "DROP TABLE ledger")
    assert says() == "0002: it was adopted with what it holds, the last event is 3"
    migrate.downgrade(url, "0001")
    assert says() == "0002: it was upgraded from 0001"


def test_the_command_is_a_process_too_and_so_is_the_package(process, tmp_path: Path):
    assert process("upgrade").code == 0
    assert (tmp_path / "consumer.db").is_file()
    done = process("status", "--json")
    assert done.code == 0
    assert json.loads(done.out)["revision"] == "0002"


def test_the_database_comes_from_the_option_then_the_environment_then_the_default(
    consumer, tmp_path: Path, monkeypatch
):
    def files() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    monkeypatch.setenv("CONSUMER_DB", "sqlite:///environment.db")
    consumer("upgrade", "--db", "sqlite:///option.db")
    assert files() == {"option.db"}
    consumer("upgrade")
    assert files() == {"option.db", "environment.db"}
    assert consumer("status").code == 0
    monkeypatch.delenv("CONSUMER_DB")
    consumer("upgrade")
    assert files() == {"option.db", "environment.db", "consumer.db"}


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_may_be_spelled_in_three_ways(consumer, postgres_url: str, scheme: str):
    url = scheme + postgres_url.removeprefix("postgresql+psycopg")
    assert consumer("upgrade", "--db", url).code == 0
    assert consumer("status", "--db", url).code == 0


def test_upgrade_sql_prints_the_script_and_touches_nothing(consumer, tmp_path: Path):
    url = "postgresql://nobody@nowhere.invalid/x"
    done = consumer("upgrade", "--sql", "--db", url)
    assert (done.code, done.out, done.err) == (0, migrate.upgrade_sql(url), "")
    assert "BIGINT" in done.out
    done = consumer("upgrade", "--sql")
    assert (done.code, done.out, done.err) == (0, migrate.upgrade_sql("sqlite://"), "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_the_commands(consumer, arguments: tuple[str, ...]):
    done = consumer(*arguments)
    assert (done.code, done.err) == (0, "")
    for command in ("demo", "upgrade", "status"):
        assert re.search(rf"^ +{command} ", done.out, re.MULTILINE), done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_names_its_options_and_its_variable(consumer, command: str):
    done = consumer(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "--db" in done.out
    assert "CONSUMER_DB" in done.out


# --- no store, or another version ----------------------------------------------------------------


@pytest.mark.parametrize(
    "database", ["sqlite:///store.db", "sqlite:///file:store.db?uri=true", "sqlite:///no/folder/x.db", "sqlite://"]
)
def test_no_store_is_said_and_no_file_is_made(consumer, database: str, tmp_path: Path):
    check_that_it_failed(consumer("status", "--db", database), NOT_READY, "there is no store in")
    assert not list(tmp_path.iterdir())


def test_no_store_in_a_database_that_is_there(consumer, url: str):
    execute(url, "CREATE TABLE notes(id INTEGER PRIMARY KEY)")
    check_that_it_failed(consumer("status", "--db", url), NOT_READY, "run consumer upgrade")


def test_an_empty_file_holds_no_store_and_stays_empty(consumer, tmp_path: Path):
    (tmp_path / "store.db").touch()
    check_that_it_failed(consumer("status", "--db", "sqlite:///store.db"), NOT_READY, "there is no store")
    assert (tmp_path / "store.db").stat().st_size == 0


def test_a_store_without_a_recorded_version_is_shown_and_not_ready(consumer, tmp_path: Path):
    with closing(open_store(tmp_path / "store.db")) as con:
        apply_event(con, 0, 5)
    before = (tmp_path / "store.db").read_bytes()
    done = consumer("status", "--db", "sqlite:///store.db", "--json")
    assert (done.code, json.loads(done.out)) == (
        NOT_READY,
        {
            "last": 0,
            "total": 5,
            "ledger_rows": 1,
            "revision": None,
            "head": "0002",
            "store_id": None,
            "streams": [],
        },
    )
    assert done.err.startswith("consumer: ")
    assert "run consumer upgrade" in done.err
    assert consumer("status", "--db", "sqlite:///store.db").out.endswith("revision none recorded, head 0002\n")
    assert (tmp_path / "store.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_a_store_of_a_newer_version_is_shown_and_not_upgraded(consumer, url: str):
    consumer("upgrade", "--db", url)
    execute(url, "UPDATE consumer_alembic_version SET version_num = '9999'")
    assert consumer("status", "--db", url).code == NOT_READY
    check_that_it_failed(consumer("upgrade", "--db", url), NOT_READY, "9999")


# --- what was typed ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "database",
    [
        f"mysql://somebody:{SECRET}@nowhere.invalid/x",
        f"tcp://somebody:{SECRET}@nowhere.invalid/x",
        f"postgresql+psycopg2://somebody:{SECRET}@nowhere.invalid/x",
        f"postgresql://somebody:{SECRET}@nowhere.invalid:port/x",
        f"postgresql://somebody:half@{SECRET}@nowhere.invalid/x",  # a bare @ in the password
        f"sqlite://somebody:{SECRET}@nowhere.invalid/x",
        "sqlite+aiosqlite:///x.db",
        "sqlite://x.db",
        "nonsense",
        "x.db",
        "",
    ],
)
def test_a_url_that_is_none_is_a_usage_error(consumer, command: str, database: str, tmp_path: Path):
    done = consumer(command, "--db", database)
    check_that_it_failed(done, USAGE, "give sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    assert SECRET not in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("database", "reason"),
    [
        ("sqlite:///is it?/s.db", "write a ? in a file's name as %3F"),
        ("sqlite:///x.db?mode=ro", "mode is for file: URIs"),  # SQLAlchemy would warn, ignore it and write
        ("sqlite:///x.db?timeout=1&timeout=2", "timeout stands there twice"),
        (f"postgresql://somebody:{SECRET}%00@nowhere.invalid/x", "zero byte (%00) in its password"),
        (f"postgresql://somebody:{SECRET}@nowhere.invalid/x?sslmode=", "write sslmode=VALUE"),
        (f"postgresql://somebody:{SECRET}@nowhere.invalid/x?prepare_threshold=0", "prepare_threshold is not needed"),
    ],
)
def test_an_option_of_a_url_is_refused_by_name(consumer, command: str, database: str, reason: str, tmp_path: Path):
    done = consumer(command, "--db", database)
    check_that_it_failed(done, USAGE, reason)
    assert SECRET not in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("update",),
        ("status", "--jason"),
        ("upgrade", "--db"),
        ("upgrade", "sqlite:///x.db"),
        ("demo", "--fast"),
        ("--verbose", "status"),
    ],
)
def test_what_there_is_not_is_a_usage_error(consumer, arguments: tuple[str, ...], tmp_path: Path):
    check_that_it_failed(consumer(*arguments), USAGE, "")
    assert not list(tmp_path.iterdir())


# --- a database that cannot be used --------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_no_database(consumer, command: str, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    check_that_it_failed(consumer(command, "--db", "sqlite:///folder"), UNUSABLE, "unable to open database file")
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_database_is_left_alone(consumer, command: str, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("what somebody wrote down\n" * 100)
    before = (tmp_path / "notes.txt").read_bytes()
    check_that_it_failed(consumer(command, "--db", "sqlite:///notes.txt"), UNUSABLE, "file is not a database")
    assert (tmp_path / "notes.txt").read_bytes() == before


def test_a_missing_folder_is_not_made(consumer, tmp_path: Path):
    check_that_it_failed(consumer("upgrade", "--db", "sqlite:///no/folder/x.db"), UNUSABLE, "unable to open")
    check_that_it_failed(consumer("upgrade", "--db", f"sqlite:///{'x' * 300}"), UNUSABLE, "unable to open")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_locked_database_is_waited_for_as_long_as_the_url_says(consumer, command: str, tmp_path: Path):
    open_store(tmp_path / "store.db").close()
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = consumer(command, "--db", "sqlite:///store.db?timeout=0.1")
        check_that_it_failed(done, UNUSABLE, "database is locked")
        other.execute("ROLLBACK")
    assert consumer("upgrade", "--db", "sqlite:///store.db?timeout=0.1").code == 0


def test_status_waits_for_no_writer(consumer, url: str):
    consumer("upgrade", "--db", url)
    other = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    with other.connect() as writer:
        begin = "BEGIN IMMEDIATE" if writer.dialect.name == "sqlite" else "BEGIN"
        for statement in (begin, "UPDATE checkpoint SET last = 0", "INSERT INTO ledger VALUES (0, 5)"):
            writer.exec_driver_sql(statement)
        query = "timeout=0" if writer.dialect.name == "sqlite" else "options=-c%20statement_timeout%3D1000"
        done = consumer("status", "--db", f"{url}{'&' if '?' in url else '?'}{query}", "--json")
        assert (done.code, json.loads(done.out)["last"]) == (0, -1), done
        writer.exec_driver_sql("ROLLBACK")


@pytest.mark.parametrize(("query", "waited_ms"), [("", 1000 * sqlite.BUSY_TIMEOUT_S), ("?timeout=0.25", 250)])
def test_the_wait_for_a_lock_is_ours_unless_the_url_has_one(query: str, waited_ms: int):
    with choice.make_short_engine(f"sqlite:///store.db{query}").connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == waited_ms


def test_a_read_only_database_can_be_looked_at_and_is_not_upgraded(consumer, tmp_path: Path):
    open_store(tmp_path / "store.db").close()
    before = (tmp_path / "store.db").read_bytes()
    database = "sqlite:///file:store.db?mode=ro&uri=true"
    check_that_it_failed(consumer("upgrade", "--db", database), UNUSABLE, "readonly database")
    assert json.loads(consumer("status", "--db", database, "--json").out)["last"] == -1
    assert (tmp_path / "store.db").read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_of_another_shape_is_named(consumer, command: str, url: str):
    execute(url, "CREATE TABLE ledger(seq BIGINT PRIMARY KEY, delta TEXT)")
    done = consumer(command, "--db", url)
    check_that_it_failed(done, UNUSABLE, "a table ledger exists with other columns")
    assert "delta TEXT" in done.err
    assert "rename that table, or use another database" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_postgresql_that_is_not_there(consumer, command: str):
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        done = consumer(command, "--db", f"postgresql://somebody:{SECRET}@127.0.0.1:{port}/x")
    check_that_it_failed(done, UNUSABLE, "Connection refused")
    assert SECRET not in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_postgresql_database_that_is_not_there(consumer, command: str, postgres_url: str):
    url = make_url(postgres_url).set(database="nowhere").render_as_string(hide_password=False)
    check_that_it_failed(consumer(command, "--db", url), UNUSABLE, 'database "nowhere" does not exist')


# --- passwords -----------------------------------------------------------------------------------


@contextmanager
def server_that_refuses(passwords: list[str]) -> Iterator[int]:
    """The first words of PostgreSQL's protocol: ask for a password, and refuse whichever comes."""

    def read(connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = connection.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def read_message(connection: socket.socket) -> bytes:
        return read(connection, struct.unpack("!I", read(connection, 4))[0] - 4)

    def refuse(connection: socket.socket) -> None:
        while struct.unpack("!I", read_message(connection)[:4])[0] >> 16 != 3:
            connection.sendall(b"N")  # neither TLS nor GSSAPI
        connection.sendall(b"R" + struct.pack("!II", 8, 3))  # the password in clear
        assert read(connection, 1) == b"p"
        passwords.append(read_message(connection).rstrip(b"\0").decode())
        fields = b"SFATAL\0C28P01\0Mpassword authentication failed for user\0\0"
        connection.sendall(b"E" + struct.pack("!I", 4 + len(fields)) + fields)

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                try:
                    refuse(connection)
                except EOFError:
                    return  # the call that ends it

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            socket.create_connection(listener.getsockname()).close()
            thread.join()


URLS_WITH_A_PASSWORD: list[tuple[Callable[[int], str], str]] = [
    (lambda port: f"postgresql://somebody:{SECRET}@127.0.0.1:{port}/x", SECRET),
    (lambda port: f"postgresql://somebody:%40{SECRET}%25%2F@127.0.0.1:{port}/x", f"@{SECRET}%/"),
    (lambda port: f"postgresql://somebody@127.0.0.1:{port}/x?password={SECRET}", SECRET),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("make", "meant"), URLS_WITH_A_PASSWORD)
def test_a_password_that_is_refused_is_not_shown(consumer, command: str, make: Callable[[int], str], meant: str):
    passwords: list[str] = []
    with server_that_refuses(passwords) as port:
        done = consumer(command, "--db", make(port))
        check_that_it_failed(done, UNUSABLE, "password authentication failed")
        assert SECRET not in done.err
        with pytest.raises(Exception, match="password authentication failed") as error:
            getattr(migrate, command)(make(port))
        assert SECRET not in "".join(traceback.format_exception(error.value))
    assert set(passwords) == {meant}  # more than once: a second try tells with which code it is refused


def test_a_password_is_not_shown_where_there_is_no_store(consumer, postgres_url: str):
    for add in ({"password": SECRET}, {"sslpassword": SECRET}):
        url = make_url(postgres_url).update_query_dict(add).render_as_string(hide_password=False)
        done = consumer("status", "--db", url)
        check_that_it_failed(done, NOT_READY, "there is no store in")
        assert SECRET not in done.err
    url = make_url(postgres_url).set(password=SECRET).render_as_string(hide_password=False)
    done = consumer("status", "--db", url)
    assert done.code == NOT_READY
    assert SECRET not in done.err


# --- what nobody expected ------------------------------------------------------------------------


def test_an_unexpected_error_is_one_line_and_code_1(consumer, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("something\nquite else")

    monkeypatch.setattr(migrate, "looking", fail)
    check_that_it_failed(consumer("status"), 1, "something quite else")


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


@FULL
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("status",), ("--help",), ("upgrade", "--sql"), ("demo",)])
def test_output_that_cannot_be_written_is_said(
    arguments: tuple[str, ...], unbuffered: str, sqlite_url: str, patience_s: float
):
    migrate.upgrade(sqlite_url)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "consumer", *arguments],
            env={**os.environ, "CONSUMER_DB": sqlite_url, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=patience_s,
            check=False,
        )
    said = "consumer: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@FULL
def test_an_exit_code_needs_nobody_who_can_be_told(tmp_path: Path, patience_s: float):
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "consumer", "status", "--db", f"sqlite:///{tmp_path / 'none'}"]
        assert (
            subprocess.run(command, stdout=full, stderr=full, timeout=patience_s, check=False).returncode == NOT_READY
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--db", "sqlite:///\udcff.db"),
        ("upgrade", "--db", "postgresql://\udcff@h/d"),
        ("run", "tcp://\udcff:1"),
    ],
)
def test_a_url_that_is_no_text_is_a_usage_error(consumer, arguments: tuple[str, ...]):
    check_that_it_failed(consumer(*arguments), USAGE, "")


def test_ctrl_c_ends_it_without_a_traceback(consumer, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(migrate, "upgrade", interrupt)
    done = consumer("upgrade")
    assert done.code == INTERRUPTED
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("database", "code"),
    [("sqlite:///store.db", NOT_READY), ("sqlite:///.", UNUSABLE), ("nonsense", USAGE)],
)
def test_a_process_ends_with_these_codes(process, database: str, code: int):
    check_that_it_failed(process("status", CONSUMER_DB=database), code, "")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
@pytest.mark.parametrize("command", [("upgrade",), ("run", "tcp://127.0.0.1:1")], ids=lambda command: command[0])
def test_a_database_in_memory_is_refused_since_it_keeps_nothing(consumer, command: tuple[str, ...], url: str):
    check_that_it_failed(consumer(*command, "--db", url), 17, "in memory")


def test_a_store_at_head_that_lost_its_cursor_or_a_table_is_not_made_anew(consumer, url: str):
    for loss in ("DELETE FROM checkpoint", "DROP TABLE ledger"):
        assert consumer("upgrade", "--db", url).code == 0
        execute(url, loss)
        check_that_it_failed(consumer("upgrade", "--db", url), 19, "restore it")
        execute(url, "DROP TABLE consumer_alembic_version")  # an unversioned one is completed, as open_store does


@pytest.mark.parametrize("content", ["import sys; sys.exit(0)", "raise RuntimeError('no')", "handler = 3"])
def test_a_handler_that_cannot_be_loaded_is_a_usage_error(consumer, tmp_path: Path, content: str):
    (tmp_path / "odd.py").write_text(content)
    check_that_it_failed(consumer("run", "tcp://127.0.0.1:1", "--handler", "odd:handler"), 2, "handler")
    sys.modules.pop("odd", None)


def test_tls_options_without_tls_are_a_usage_error(consumer):
    check_that_it_failed(consumer("run", "tcp://127.0.0.1:1", "--tls-ca", "ca.pem"), 2, "tls://")


@pytest.mark.parametrize("options", [("--tls-cert", "own.pem"), ("--tls-key", "own.pem")])
@pytest.mark.parametrize("command", [("run", "tls://127.0.0.1:9"), ("serve", "journal")], ids=["run", "serve"])
def test_a_certificate_and_its_key_belong_together(
    consumer, tmp_path: Path, command: tuple[str, ...], options: tuple[str, ...]
):
    trustme.CA().issue_cert("consumer").cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    check_that_it_failed(consumer(*command, *options), USAGE, "--tls-cert and --tls-key belong together")


def test_a_file_with_a_certificate_and_its_key_is_enough_for_run(consumer, tmp_path: Path):
    own = trustme.CA().issue_cert("consumer")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    options = ("--tls-cert", "own.pem", "--max-attempts", "1")
    check_that_it_failed_last(consumer("run", "tls://127.0.0.1:9", *options), 18, "gave up")


def check_that_it_failed_last(done, code: int, reason: str) -> None:
    """As above, after log lines."""
    assert (done.code, done.out) == (code, ""), done
    assert re.search(rf"^consumer: [^\n]*{reason}", done.err, re.MULTILINE), done.err


def test_an_unusable_database_is_named(consumer, tmp_path: Path):
    check_that_it_failed(consumer("upgrade", "--db", f"sqlite:///{tmp_path}"), 19, f"sqlite:///{tmp_path}")
