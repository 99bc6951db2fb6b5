"""Log lines: one line for each record whatever is in it, JSON objects with facts, and everybody's lines at one level."""

import json
import logging
import re
from datetime import datetime

import pytest
import typer

from consumer.cli.logs import logged
from consumer.cli.options import LogFormat, LogLevel
from consumer.core.errors import Conflict, HandlerFailed

TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) (.*)")


def text_lines(written: str) -> list[tuple[str, ...]]:
    return [TEXT_LINE.fullmatch(line).groups() for line in written.splitlines()]


def fail(reason: str) -> None:
    raise LookupError(reason)


def log_failure(reason: str) -> None:
    try:
        fail(reason)
    except LookupError:
        logging.getLogger("shop").exception("a sale failed")


def test_control_characters_are_escaped_in_text_so_that_no_line_is_anothers(capfd):
    with logged(None, LogFormat.TEXT, LogLevel.INFO):
        logging.getLogger("shop").info("sold\n2024-01-01 00:00:00,000 INFO \x1b[31mall is well\r\x9b\u202e")
    assert text_lines(capfd.readouterr().err) == [
        ("INFO", r"sold\n2024-01-01 00:00:00,000 INFO \x1b[31mall is well\r\x9b\u202e")
    ]


def test_letters_of_all_languages_are_not_escaped(capfd):
    with logged(None, LogFormat.TEXT, LogLevel.INFO):
        logging.getLogger("shop").info("žluťoučký kůň 商店 …")
    assert text_lines(capfd.readouterr().err) == [("INFO", "žluťoučký kůň 商店 …")]


def test_a_traceback_in_text_stands_indented_below_its_line(capfd):
    with logged(None, LogFormat.TEXT, LogLevel.INFO):
        log_failure("no slot\x07\nConnected")
    first, *others = capfd.readouterr().err.splitlines()
    assert text_lines(first) == [("ERROR", "a sale failed")]
    assert others[0] == "  Traceback (most recent call last):"
    assert others[-2:] == ["  LookupError: no slot\\x07", "  Connected"]
    assert all(line.startswith("  ") for line in others)


def test_a_json_line_has_a_time_with_its_zone_the_event_and_its_fields(capfd):
    with logged(None, LogFormat.JSON, LogLevel.INFO):
        logging.getLogger("consumer").info("at %d", 4, extra={"event": "progress", "fields": {"last": 4}})
        logging.getLogger("shop").warning("two\nlines")
    ours, theirs = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert datetime.fromisoformat(ours.pop("time")).utcoffset() is not None
    assert ours == {
        "level": "INFO",
        "logger": "consumer",
        "event": "progress",
        "message": "at 4",
        "fields": {"last": 4},
    }
    assert (theirs["logger"], theirs["event"], theirs["message"], theirs["fields"]) == ("shop", "log", "two\nlines", {})


def test_a_traceback_in_json_is_a_field(capfd):
    with logged(None, LogFormat.JSON, LogLevel.INFO):
        log_failure("no slot")
    (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["exception"].endswith("LookupError: no slot")


def test_what_json_does_not_know_is_written_as_text(capfd):
    with logged(None, LogFormat.JSON, LogLevel.INFO):
        logging.getLogger("shop").info("x", extra={"fields": {"at": datetime(2024, 1, 1)}})  # noqa: DTZ001
    assert json.loads(capfd.readouterr().err)["fields"] == {"at": "2024-01-01 00:00:00"}


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (LogLevel.DEBUG, ["debug", "info", "warning", "error"]),
        (LogLevel.INFO, ["info", "warning", "error"]),
        (LogLevel.WARNING, ["warning", "error"]),
        (LogLevel.ERROR, ["error"]),
    ],
)
@pytest.mark.parametrize("name", ["consumer", "consumer.publisher", "shop.stock"])
def test_everybodys_lines_are_shown_from_the_level_on_that_was_asked_for(capfd, level, shown, name):
    with logged(None, LogFormat.TEXT, level):
        for each in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger(name), each)(each)
    assert [message for _, message in text_lines(capfd.readouterr().err)] == shown


@pytest.mark.parametrize(("level", "count"), [(LogLevel.INFO, 0), (LogLevel.DEBUG, 2)])
def test_what_libraries_say_of_failures_that_have_a_line_of_ours_is_shown_for_debugging_only(capfd, level, count):
    with logged(None, LogFormat.TEXT, level):
        logging.getLogger("psycopg.pq").warning("error ignored")
        logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")
    assert len(capfd.readouterr().err.splitlines()) == count


def test_levels_and_handlers_are_as_before_afterwards():
    def now() -> list[object]:
        names = ("", "consumer", "psycopg", "alembic")
        return [(logging.getLogger(name).level, list(logging.getLogger(name).handlers)) for name in names]

    before = now()
    with logged(None, LogFormat.JSON, LogLevel.ERROR):
        assert now() != before
    assert now() == before


def test_the_error_that_ends_it_is_the_last_json_line_with_its_facts(capfd):
    with pytest.raises(typer.Exit) as end, logged(None, LogFormat.JSON, LogLevel.ERROR):
        raise Conflict(2, 5, 7)
    line = json.loads(capfd.readouterr().err)
    assert end.value.exit_code == 10
    assert (line["level"], line["event"]) == ("ERROR", "failed")
    assert line["message"].startswith("conflict at event 2")
    assert (
        line["fields"].items() >= {"error": "Conflict", "exit_code": 10, "seq": 2, "recorded": 5, "received": 7}.items()
    )
    assert "exception" not in line


def test_a_handlers_own_traceback_is_in_the_json_line_that_ends_it(capfd):
    error = HandlerFailed(2, "LookupError: no slot")
    error.__cause__ = LookupError("no slot")
    with pytest.raises(typer.Exit), logged(None, LogFormat.JSON, LogLevel.INFO):
        raise error
    assert json.loads(capfd.readouterr().err)["exception"] == "LookupError: no slot"


def test_what_nobody_expected_has_its_traceback_in_json(capfd):
    with pytest.raises(typer.Exit) as end, logged(None, LogFormat.JSON, LogLevel.INFO):
        raise ZeroDivisionError("division by zero")
    line = json.loads(capfd.readouterr().err)
    assert end.value.exit_code == 1
    assert line["exception"].startswith("Traceback")


def test_in_text_the_error_that_ends_it_is_left_to_the_command(capfd):
    with pytest.raises(Conflict), logged(None, LogFormat.TEXT, LogLevel.INFO):
        raise Conflict(2, 5, 7)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments", [("serve", "none"), ("run", "tcp://127.0.0.1:9", "--db", "sqlite:///."), ("run", "tcp://127.0.0.1")]
)
def test_a_command_that_logs_json_ends_with_json(consumer, arguments: tuple[str, ...]):
    done = consumer(*arguments, "--log-format", "json")
    line = json.loads(done.err)
    assert (line["event"], line["fields"]["exit_code"]) == ("failed", done.code)
    assert done.code in {2, 19}


@pytest.mark.parametrize("command", [("serve", "none"), ("run", "tcp://127.0.0.1")])
def test_levels_are_taken_in_any_case_and_wrong_ones_are_named(consumer, command: tuple[str, ...]):
    assert "--log-level" not in consumer(*command, "--log-level", "WARNING").err
    done = consumer(*command, "--log-level", "loud")
    assert done.code == 2
    assert "loud" in done.err
    assert "warning" in done.err
