"""`consumer status` and `history` of streams, and `pause`, `resume`, `skip` and `trust`, as an operator uses them."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.core.records import Record
from consumer.core.runs import Offer, Run
from consumer.store import migrate
from consumer.store.transaction import Store

USAGE, FAILING = 2, 1
A, B = "mem/a", "mem/b"


def fail_on_bad(_connection, records):
    for record in records:
        if record.data == b"bad":
            raise ValueError("no such order")


@pytest.fixture
def store(url: str):
    """Two streams of five records; the second one is halted at its record 3."""
    migrate.upgrade(url)
    with Store(url) as store:
        claim(store)
        store.apply_runs(
            [
                Run(
                    name,
                    0,
                    -1,
                    [Record(name, seq, b"bad" if (name, seq) == (B, 3) else b"good") for seq in range(5)],
                    4,
                )
                for name in (A, B)
            ],
            fail_on_bad,
        )
        yield store


def claim(store: Store):
    return store.claim([Offer(name, f"id of {name}", 0, 4) for name in (A, B)], handler="shop:apply")


def rows(store: Store) -> dict:
    return {stream.name: stream for stream in store.streams()}


def check_refused(done, reason: str) -> None:
    assert (done.code, done.out) == (USAGE, ""), done
    assert re.fullmatch(r"consumer: [^\n]+\n", done.err), done.err
    assert reason in done.err


# --- status ---------------------------------------------------------------------------------------


def test_status_shows_each_stream_and_what_halts_it(consumer, url: str, store: Store):
    done = consumer("status", "--db", url)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == ["last -1, total 0, 0 ledger rows", "revision 0002, head 0002", ""]
    assert re.fullmatch(r"STREAM +STATE +LAST +THROUGH +RECORDS +COMMITTED", lines[3])
    assert re.fullmatch(r"mem/a +running +4 +4 +5 +\d+ \w+ ago", lines[4])
    assert re.fullmatch(r"mem/b +halted +2 +2 +3 +\d+ \w+ ago", lines[5])
    assert re.fullmatch(
        r"  halted at 3 for \d+ \w+: the handler failed at record 3 of stream mem/b: .*no such order.*", lines[6]
    )
    assert len(lines) == 7


def test_status_as_json_tells_all_of_a_stream(consumer, url: str, store: Store):
    store.take_lease(A, "host 7", "shop:apply")
    done = consumer("status", "--db", url, "--json")
    told = json.loads(done.out)
    assert told["store_id"] == store.store_id()
    first, second = told["streams"]
    found = rows(store)[A]
    assert first["checksum"] == f"{found.checksum:032x}"
    assert (first["name"], first["state"], first["last"], first["through"], first["records"]) == (A, "running", 4, 4, 5)
    assert (first["identity"], first["handler"], first["generation"]) == (f"id of {A}", "shop:apply", 0)
    assert (first["held_by"], first["halted_error"], first["lag"]) == ("host 7", None, None)
    assert first["idle_s"] >= 0
    assert (second["state"], second["halted_at"], second["held_by"]) == ("halted", 3, None)
    assert second["halted_since_ms"] == rows(store)[B].halted_since_ms


def test_a_lease_that_is_over_holds_nothing(consumer, url: str, store: Store):
    store.take_lease(A, "host 7")
    assert "host 7 for " in consumer("status", "--db", url).out
    store.give_back_lease(A, "host 7")
    assert "host 7" not in consumer("status", "--db", url).out


def test_a_stream_never_committed_to_says_so(consumer, url: str):
    migrate.upgrade(url)
    with Store(url) as store:
        claim(store)
    assert re.search(r"mem/a +running +-1 +-1 +0 +never", consumer("status", "--db", url).out)


def test_control_characters_of_others_do_not_reach_the_terminal(consumer, url: str):
    migrate.upgrade(url)
    with Store(url) as store:
        store.claim([Offer("evil\x1b[31m", None, 0, 4)])
    assert "\x1b" not in consumer("status", "--db", url).out


# --- checks for supervisors -----------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A file of three lines."""
    path = tmp_path / "orders.jsonl"
    path.write_bytes(b"1\n22\n333\n")
    return path


@pytest.fixture
def of_file(url: str, orders: Path) -> str:
    """A store that has consumed the first of them; gives the stream's name."""
    migrate.upgrade(url)
    name = f"file{orders}"
    with Store(url) as store:
        store.claim([Offer(name, None, 0, 8)])
        store.apply_runs([Run(name, 0, -1, [Record(name, 0, b"1")], 1)])
    return name


def test_the_lag_of_a_file_is_found_by_the_streams_name(consumer, url: str, of_file: str):
    (stream,) = json.loads(consumer("status", "--db", url, "--lag", "--json").out)["streams"]
    assert (stream["head"], stream["lag"]) == (8, 7)
    assert re.search(r" 8 +7 ", consumer("status", "--db", url, "--lag").out)


def test_the_lag_is_found_by_a_url_and_a_name(consumer, url: str, orders: Path):
    migrate.upgrade(url)
    with Store(url) as store:
        store.claim([Offer("shop", None, 0, 8)])
    done = consumer("status", "--db", url, "--lag", "--json", "--url", f"{orders}", "--name", "shop")
    assert json.loads(done.out)["streams"][0]["lag"] == 9
    check_refused(consumer("status", "--db", url, "--lag"), "give its URL by --url")


@pytest.mark.parametrize(("allowed", "code"), [("7", 0), ("6", FAILING)])
def test_max_lag_fails_where_a_stream_is_further_behind(consumer, url: str, of_file: str, allowed: str, code: int):
    done = consumer("status", "--db", url, "--max-lag", allowed)
    assert (done.code, of_file in done.out) == (code, True)
    assert done.err == ("" if code == 0 else f"consumer: stream {of_file} is 7 behind, more than 6\n")


def test_max_lag_fails_where_the_source_is_not_there(consumer, url: str, of_file: str, orders: Path):
    orders.unlink()
    done = consumer("status", "--db", url, "--max-lag", "100")
    assert done.code != 0
    assert re.fullmatch(r"consumer: [^\n]+\n", done.err)


def test_a_check_fails_where_a_stream_is_halted(consumer, url: str, store: Store):
    done = consumer("status", "--db", url, "--max-idle", "1000000")
    assert (done.code, done.err.count("\n")) == (FAILING, 1)
    assert done.err.startswith("consumer: stream mem/b is halted: the handler failed")


def test_max_idle_fails_where_the_last_commit_is_longer_ago(consumer, url: str, of_file: str):
    assert consumer("status", "--db", url, "--max-idle", "1000000").code == 0
    done = consumer("status", "--db", url, "--max-idle", "0")
    assert done.code == FAILING
    assert "was committed to" in done.err


def test_a_message_names_five_streams_at_most(consumer, url: str):
    migrate.upgrade(url)
    with Store(url) as store:
        store.claim([Offer(f"mem/{number}", None, 0, 4) for number in range(7)])
    assert consumer("status", "--db", url, "--max-idle", "9").err.endswith(" and 2 more\n")


# --- watch ----------------------------------------------------------------------------------------


def test_watch_needs_a_terminal(consumer, url: str, store: Store):
    check_refused(consumer("status", "--db", url, "--watch"), "--watch draws on a terminal")


def test_watch_draws_the_table_until_a_signal(url: str, store: Store, patience_s: float):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "20"}
    command = [sys.executable, "-m", "consumer", "status", "--db", url, "--watch"]
    watching = subprocess.Popen(
        command, stdout=theirs, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    try:
        os.close(theirs)
        seen = b""
        while b"mem/a" not in seen:
            seen += os.read(ours, 4096)
        assert seen.index(b"mem/b") < seen.index(b"mem/a")  # what is halted comes first
    finally:
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=patience_s)
        os.close(ours)
    assert (watching.returncode, err) == (130, b"")


# --- by hand --------------------------------------------------------------------------------------


def test_pause_and_resume(consumer, url: str, store: Store):
    done = consumer("pause", A, "--db", url, "--reason", "invoices are being corrected")
    assert (done.code, done.out, done.err) == (0, "mem/a is paused behind 4\n", "")
    assert {name: str(stream.state) for name, stream in rows(store).items()} == {A: "paused", B: "halted"}
    assert claim(store).positions[A] is None
    done = consumer("resume", "--all", "--db", url)
    assert (done.code, done.out) == (0, "mem/a goes on behind 4\nmem/b goes on behind 2\n")
    assert {str(stream.state) for stream in rows(store).values()} == {"running"}
    assert rows(store)[B].halted_error is None
    assert [(one.stream, one.what, one.reason) for one in store.overrides()] == [
        (A, "pause", "invoices are being corrected"),
        (A, "resume", "not said"),
        (B, "resume", "not said"),
    ]


def test_skip_passes_over_the_record_that_halts(consumer, url: str, store: Store):
    done = consumer("skip", B, "--record", "3", "--expect-last", "2", "--reason", "a test order", "--db", url)
    assert (done.code, done.out, done.err) == (0, "mem/b goes on behind 3: record 3 was passed over\n", "")
    stream = rows(store)[B]
    assert (stream.cursor.last, stream.cursor.through, str(stream.state), stream.halted_at) == (3, 3, "running", None)
    position = claim(store).positions[B]
    assert position is not None
    assert (position.start, position.generation) == (4, 1)


def test_skip_of_what_holds_no_record_yet_takes_the_next_number(consumer, url: str, store: Store):
    done = consumer("skip", A, "--record", "5", "--expect-last", "4", "--reason", "known to be bad", "--db", url)
    assert (done.code, rows(store)[A].cursor.through) == (0, 5)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("skip", B, "--record", "4", "--expect-last", "2", "--reason", "r"), "halted at 3: nothing was changed"),
        (("skip", A, "--record", "7", "--expect-last", "4", "--reason", "r"), "5 is due next: nothing was changed"),
        (("skip", A, "--record", "4", "--expect-last", "4", "--reason", "r"), "5 is due next: nothing was changed"),
        (("skip", B, "--record", "3", "--expect-last", "1", "--reason", "r"), "is 2, not 1 as was expected"),
        (("skip", B, "--record", "3", "--expect-last", "2", "--reason", " "), "a reason is needed"),
        (("skip", B, "--record", "3", "--expect-last", "2"), "--reason"),
        (("skip", B, "--record", "3", "--reason", "r"), "--expect-last"),
        (("skip", "mem/c", "--record", "3", "--expect-last", "2", "--reason", "r"), "there is no stream mem/c"),
        (("trust", A, "--expect-last", "3", "--reason", "r"), "is 4, not 3 as was expected"),
        (("trust", A, "--expect-last", "4", "--reason", ""), "a reason is needed"),
        (("trust", A, "--expect-last", "4", "--at", "-1", "--reason", "r"), "no record can have the number"),
        (("pause", "mem/c"), "there is no stream mem/c"),
        (("pause", A, "mem/c"), "there is no stream mem/c"),
        (("pause",), "give the names of streams, or --all"),
        (("resume", A, "--all"), "give the names of streams, or --all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_refused_changes_nothing(consumer, url: str, store: Store, arguments: tuple[str, ...], reason: str):
    before = store.streams()
    check_refused(consumer(*arguments, "--db", url), reason)
    assert (store.streams(), store.overrides(), store.moves()) == (before, [], 0)


@pytest.mark.parametrize(("at", "start"), [((), 5), (("--at", "2"), 2), (("--at", "0"), 0)])
def test_trust_goes_on_with_another_identity(consumer, url: str, store: Store, at: tuple[str, ...], start: int):
    done = consumer("trust", A, "--expect-last", "4", *at, "--reason", "moved to a new cluster", "--db", url)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"mem/a goes on behind {start - 1}, whatever its identity is now\n"
    position = store.claim([Offer(A, "another", 0, 9)]).positions[A]
    assert position is not None
    assert position.start == start
    assert rows(store)[A].cursor.identity == "another"
    (done_by_hand,) = store.overrides()
    assert (done_by_hand.from_identity, done_by_hand.to_identity) == (f"id of {A}", None)


def test_history_tells_when_by_whom_and_why(consumer, url: str, store: Store, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ada")
    consumer("pause", A, "--db", url, "--reason", "the\nnight\0")
    consumer("skip", B, "--record", "3", "--expect-last", "2", "--reason", "a test order", "--db", url)
    first, second = consumer("history", "--db", url).out.splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00"
    assert re.fullmatch(rf"{when}  mem/a  #1  pause  by ada@[^ ]+: the\\nnight\\x00", first)
    assert re.fullmatch(rf"{when}  mem/b  #1  skip from 2 to 3  by ada@[^ ]+: a test order", second)
    assert consumer("history", B, "--db", url).out.splitlines() == [second]
    (told,) = json.loads(consumer("history", B, "--json", "--db", url).out)
    assert (told["what"], told["from_last"], told["to_last"], told["reason"]) == ("skip", 2, 3, "a test order")


def test_a_user_without_a_name_is_on_record_as_unknown(consumer, url: str, store: Store, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    process = subprocess.run(
        [sys.executable, "-c", "import os; from consumer.cli.byhand import who; os.setuid(54321); print(who())"],
        capture_output=True,
        text=True,
        check=False,
    )
    if os.getuid():
        pytest.skip("only root can become a user that has no name")
    assert process.stdout.startswith("unknown@"), process.stderr


@pytest.mark.parametrize("command", [("pause", "--all"), ("history",)])
def test_a_store_that_is_not_ready_says_what_to_run(consumer, url: str, command: tuple[str, ...]):
    done = consumer(*command, "--db", url)
    assert (done.code, done.out) == (16, "")
    assert "run consumer upgrade --db" in done.err
