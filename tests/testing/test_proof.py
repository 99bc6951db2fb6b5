"""`assert_exactly_once`: right handlers pass; each wrong one is caught, and the message says where and what differs."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from consumer.core.points import Point
from consumer.store import migrate, schema
from consumer.store.databases.choice import make_short_engine
from consumer.testing import Moment, assert_exactly_once
from consumer.testing.proof.databases import Database, read_tables
from consumer.testing.proof.proof import FAILURES, _target
from consumer.testing.proof.runs import Runner
from consumer.testing.proof.syscalls import can_die_in_calls

from . import handlers

EVENTS = [(seq, seq * 7 % 2001 - 1000) for seq in range(7)]
POINTS = {*Point, Moment.HANDLER_STATEMENT, *([Moment.IN_COMMIT] if can_die_in_calls() else [])}


def query(url: str, statement: str) -> list[tuple]:
    with make_short_engine(url).begin() as connection:
        result = connection.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def tables(url: str) -> set[str]:
    with make_short_engine(url).connect() as connection:
        return set(inspect(connection).get_table_names())


@pytest.mark.parametrize("handler", [handlers.core, handlers.orm], ids=["core", "orm"])
def test_a_right_handler_passes_and_the_database_is_as_before(proof_url: str, handler, tmp_path: Path) -> None:
    proof = assert_exactly_once(handler, EVENTS, proof_url, setup=handlers.setup)
    assert {point for point, _ in proof.kills} == POINTS
    statements = 8  # two in each of four batches
    for point in POINTS:
        passed = statements if point is Moment.HANDLER_STATEMENT else 4
        assert [times for at, times in proof.kills if at is point] == [1, (passed + 1) // 2, passed]
    assert proof.failures == (*range(1, FAILURES + 1), statements)
    assert proof.batches == (1, 2, 3, 7)

    assert {name for name in tables(proof_url) if not schema.owns_table(name)} == set()
    assert query(proof_url, "SELECT last, total, (SELECT count(*) FROM ledger) FROM checkpoint") == [(-1, 0, 0)]
    assert {path.name for path in tmp_path.iterdir()} <= {"store.db", "outside"}


WRONG = {
    "tells_the_outside": (
        ["after SIGKILL at after_handler, batch 1", "observed: 9 rows, undisturbed 7", "too much: sold 0, sold 1"],
    ),
    "connects_itself": (
        [
            "a run that nothing disturbs came to nothing",
            "database is locked",
            "another connection",
            "handlers.py, line",
        ],
        ["after SIGKILL at after_handler, batch 1", "mails: 9 rows, undisturbed 7", "too much: 0, 1"],
    ),
    "commits": (
        ["a run that nothing disturbs came to nothing", "failed at event 0", "must not commit", "handlers.py, line"],
    ),
    "commits_raw": (
        ["a run that nothing disturbs came to nothing", "failed at event 0", "not authorized", "handlers.py, line"],
        ["a run that nothing disturbs came to nothing", "failed at event 0", "must leave its transaction as it was"],
    ),
    "throws_dice": (["a second run that nothing disturbs", "not do the same every time", "sales: 7 rows", "missing:"],),
    "counts_batches": (["batches of 1 instead of 2", "where batches are cut", "stock:", "7", "missing", "4"],),
    "swallows": (
        ["a failure of the database at handler_statement", "sales: 5 rows, undisturbed 7", "missing: (0, 10"],
    ),
    "remembers": (["a failure of the database at handler_statement, statement 1", "stock:", "too much:", "missing:"],),
    "remembers_across_batches": (["after SIGKILL at after_ledger, batch 2", "stock:", "too much:", "missing:"],),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_handler_is_caught_and_the_message_says_where_and_what_differs(proof_url: str, name: str) -> None:
    observe = handlers.observe_outside if name == "tells_the_outside" else None
    with pytest.raises(AssertionError, match=r"^not exactly once") as caught:
        assert_exactly_once(getattr(handlers, name), EVENTS, proof_url, setup=handlers.setup, observe=observe)
    message = str(caught.value)
    for words in WRONG[name][-1 if proof_url.startswith("postgresql") else 0]:
        assert words in message
    assert len(message.splitlines()) <= 7


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fails", "HandlerFailed: the handler failed at event 5: LookupError: no such machine"),
        ("kills_itself", "its process ended with exit code 3"),
        ("sleeps", "it was not over after 0.5 s"),
        ("writes_the_ledger", "the ledger is not what was sent"),
    ],
)
def test_a_handler_that_does_not_even_work_undisturbed_is_told_so(sqlite_proof_url: str, name: str, words: str) -> None:
    limit_s = 0.5 if name == "sleeps" else 30
    with pytest.raises(AssertionError, match="a run that nothing disturbs") as caught:
        assert_exactly_once(getattr(handlers, name), EVENTS, sqlite_proof_url, setup=handlers.setup, limit_s=limit_s)
    assert words in str(caught.value)


def test_what_is_in_the_database_is_the_beginning_of_every_run_and_is_put_back(proof_url: str) -> None:
    """Rows, the references between them, and where a sequence stands; what a handler has made is gone."""
    key = "SERIAL PRIMARY KEY" if proof_url.startswith("postgresql") else "INTEGER PRIMARY KEY AUTOINCREMENT"
    for statement in (
        f"CREATE TABLE z_first (id {key}, name TEXT)",
        "CREATE TABLE a_second (first INTEGER REFERENCES z_first, pieces INTEGER)",
        "INSERT INTO z_first (name) VALUES ('a'), ('b''\\')",
        "INSERT INTO a_second VALUES (1, 5), (2, NULL)",
        "DELETE FROM z_first WHERE id = 3",
    ):
        query(proof_url, statement)
    before = [query(proof_url, f"SELECT * FROM {name} ORDER BY 1") for name in ("z_first", "a_second")]
    with pytest.raises(AssertionError, match="where batches are cut") as caught:
        assert_exactly_once(handlers.changes_what_it_finds, EVENTS, proof_url)
    assert "z_first: 9 rows, undisturbed 6" in str(caught.value)
    assert [query(proof_url, f"SELECT * FROM {name} ORDER BY 1") for name in ("z_first", "a_second")] == before
    assert "made_by_handler" not in tables(proof_url)
    query(proof_url, "INSERT INTO z_first (name) VALUES ('c')")
    assert query(proof_url, "SELECT max(id) FROM z_first") == [(3,)]


def test_numbers_that_a_sequence_gives_are_not_compared_on_postgresql(postgres_url: str) -> None:
    """A transaction that is rolled back does not give them back."""
    with make_short_engine(postgres_url).begin() as connection:
        for statement in (
            "CREATE TABLE heads (id SERIAL PRIMARY KEY, name TEXT)",
            "CREATE TABLE parts (id INT GENERATED ALWAYS AS IDENTITY, head INT REFERENCES heads, name TEXT)",
            "CREATE TABLE only_numbers (id SERIAL)",
            "CREATE SCHEMA aside",
            "CREATE TABLE aside.ledger (seq INTEGER)",
            "INSERT INTO heads (name) VALUES ('a')",
            "INSERT INTO parts (head, name) VALUES (1, 'b')",
            "INSERT INTO only_numbers DEFAULT VALUES",
        ):
            connection.execute(text(statement))
        found = read_tables(connection)
    assert found == {"heads": ["'a'"], "parts": ["'b'"], "only_numbers": ["1"], "aside.ledger": []}


def test_a_table_too_large_for_a_test_is_refused(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.testing.proof.databases.ROWS_MAX", 2)
    query(sqlite_url, "CREATE TABLE large (a)")
    query(sqlite_url, "INSERT INTO large VALUES (1), (2), (3)")
    with pytest.raises(ValueError, match="large has more than 2 rows"), make_short_engine(sqlite_url).connect() as con:
        read_tables(con)
    monkeypatch.setattr("consumer.testing.proof.databases.BYTES_MAX", 1000)
    with pytest.raises(ValueError, match="bytes"), Database(sqlite_url, None, None):
        pass


def test_a_store_that_is_in_use_is_refused_and_left_alone(sqlite_url: str) -> None:
    migrate.upgrade(sqlite_url)
    query(sqlite_url, "UPDATE checkpoint SET last = 3")
    with pytest.raises(ValueError, match="a database of its own"):
        assert_exactly_once(handlers.core, EVENTS, sqlite_url)
    assert query(sqlite_url, "SELECT last FROM checkpoint") == [(3,)]


@pytest.mark.parametrize(
    "events", [[], [(1, 0)], [(0, 0), (2, 0)], [(0, 5000)], [(0, True)], [(seq, 0) for seq in range(1001)]]
)
def test_events_that_are_none_are_refused(sqlite_url: str, events) -> None:
    with pytest.raises(ValueError, match="consecutive from 0"):
        assert_exactly_once(handlers.core, events, sqlite_url)


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (lambda connection, events: None, "cannot be found by another process"),
        (handlers.Handlers(), "cannot be found by another process"),
        ("testing.handlers", "package.module:function"),
        ("no_such_module:handler", "No module named 'no_such_module'"),
        ("json:no_such_function", "no attribute 'no_such_function'"),
        (handlers.is_a_coroutine, "plain function"),
    ],
)
def test_a_handler_that_cannot_be_one_is_refused(sqlite_url: str, handler, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        assert_exactly_once(handler, EVENTS, sqlite_url)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_handler_is_found_by_its_name_or_by_its_file(sqlite_url, as_text, tmp_path, monkeypatch) -> None:
    """By its name in the working folder, or where the module that has it is, even inside a class."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_mine.py").write_text("def handler(connection, events): pass\n")
    with Runner(*_target("of_mine:handler" if as_text else handlers.Handlers.inside, sqlite_url)):
        pass


def test_an_interruption_leaves_no_process_and_puts_the_database_back(sqlite_proof_url: str) -> None:
    def interrupted(_: Connection) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assert_exactly_once(handlers.core, EVENTS, sqlite_proof_url, setup=handlers.setup, observe=interrupted)
    assert "sales" not in tables(sqlite_proof_url)
