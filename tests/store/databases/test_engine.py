"""Database URLs: what is taken, what is refused before anything is connected, and that no password is shown."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from consumer.core.errors import InvalidURL
from consumer.store.databases.choice import make_engine
from consumer.store.databases.url import parse_url, show_url, write_url


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("sqlite:///store.db", "sqlite"),
        ("sqlite:////var/lib/store.db", "sqlite"),
        ("sqlite://", "sqlite"),
        ("sqlite:///store.db?timeout=5", "sqlite"),
        ("sqlite:///file:store.db?mode=rw&uri=true", "sqlite"),
        ("postgresql://me@host/shop", "postgresql+psycopg"),
        ("postgres://me@host/shop", "postgresql+psycopg"),
        ("postgresql+psycopg://me:secret@host:5432/shop?sslmode=require", "postgresql+psycopg"),
        ("postgresql:///shop?host=/run/postgresql", "postgresql+psycopg"),
        ("postgresql://me:p%40ss@host/shop", "postgresql+psycopg"),
        ("postgresql://me:p?ss=x&y@host/shop?sslmode=require", "postgresql+psycopg"),
        ("postgresql://me@/shop?host=a:1&host=b:2&target_session_attrs=any", "postgresql+psycopg"),
        ("sqlite:///a@b.db?timeout=0", "sqlite"),
        ("sqlite:///file:store.db?mode=ro&cache=private&immutable=1&uri=true&timeout=0.5", "sqlite"),
    ],
)
def test_a_url_of_either_database_is_taken(text, driver) -> None:
    assert parse_url(text).drivername == driver
    assert parse_url(make_url(text)) == parse_url(text)
    assert parse_url(parse_url(text)) == parse_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "store.db",
        "://",
        "mysql://me@host/shop",
        "sqlite+aiosqlite:///store.db",
        "postgresql+psycopg2://me@host/shop",
        "postgresql+nothing://me@host/shop",
        "postgresql://me:p@ss@host/shop",
        "postgresql://me@host:port/shop",
        "sqlite://store.db",
        "postgresql:///shop?host=a:1,b&host=c:2",
        None,
        3,
    ],
)
def test_another_is_refused_in_one_line_that_says_what_to_give(text) -> None:
    with pytest.raises(InvalidURL, match="sqlite:///FILE or postgresql://USER@HOST/DATABASE") as raised:
        parse_url(text)
    assert "\n" not in str(raised.value)
    with pytest.raises(InvalidURL):
        make_engine(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sqlite:////tmp/100%25 of it.db", "/tmp/100% of it.db"),
        ("sqlite:////tmp/%2525.db", "/tmp/%25.db"),
        ("sqlite:////tmp/is it%3F/s.db", "/tmp/is it?/s.db"),
        ("sqlite:///file:a%2520b.db?uri=true", "file:a%20b.db"),
        ("postgresql://somebody:p%25@host/a%2Fb%25", "a/b%"),
    ],
)
def test_a_name_may_hold_anything_and_is_read_again_as_it_was_written(text, name) -> None:
    url = parse_url(text)
    assert url.database == name
    assert parse_url(write_url(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:secret@host/shop",
        "postgresql://me@host/shop?password=secret",
        "postgresql://me@host/shop?sslpassword=secret",
    ],
)
def test_a_password_is_not_shown_wherever_it_stands(text) -> None:
    shown = show_url(parse_url(text))
    assert "secret" not in shown
    assert "host/shop" in shown


@pytest.mark.parametrize("text", ["mysql://me:secret@host/shop", "postgresql://me:secret@x@host/shop", "x://secret"])
def test_a_url_that_is_refused_is_not_repeated(text) -> None:
    with pytest.raises(InvalidURL) as raised:
        parse_url(text)
    assert "secret" not in str(raised.value)


SECRETS = ("s3cr3t", "s3", "cr3t")

FAULTS = {
    "sqlite:///is it?/s.db": r"'/s.db' behind the \? is no option of SQLite's.*a \? in a file's name as %3F",
    "sqlite:///store.db?": r"'' behind the \? is no option",
    "sqlite:///store.db?mode": "option mode has no value: write mode=VALUE, or leave it out",
    "sqlite:///store.db?timeout": "option timeout has no value",
    "sqlite:///store.db?timeout=": "option timeout has no value",
    "sqlite:///store.db?timeout=5&timeout=6": "option timeout stands there twice",
    "sqlite:///store.db?timeout=soon": "timeout is 'soon': give seconds",
    "sqlite:///store.db?timeout=-1": "timeout is '-1': give seconds",
    "sqlite:///store.db?timeout=nan": "timeout is 'nan'",
    "sqlite:///store.db?timeout=inf": "timeout is 'inf'",
    "sqlite:///store.db?mode=ro": r"mode is for file: URIs: write sqlite:///file:PATH\?mode=…&uri=true",
    "sqlite:///file:store.db?mode=ro": "mode is for file: URIs",
    "sqlite:///store.db?uri=true": "uri is for file: URIs",
    "sqlite:///file:store.db?uri=no&mode=ro": "uri is for file: URIs, and is true or not there",
    "sqlite:///store.db?isolation_level=IMMEDIATE": "'isolation_level' .* no option of SQLite's",
    "sqlite:///store.db?check_same_thread=false": "'check_same_thread' .* no option",
    "sqlite:///store.db?detect_types=1": "'detect_types' .* no option",
    "sqlite:///store.db?sslmode=require": "'sslmode' .* no option of SQLite's",
    "sqlite:///st%00ore.db": "zero byte .%00. in its path: leave it out",
    "sqlite:///file:store.db?uri=true&vfs=%00": "zero byte .%00. in its option vfs",
    "postgresql://me@host/shop?sslmode": "option sslmode has no value",
    "postgresql://me@host/shop?sslmode=": "option sslmode has no value: write sslmode=VALUE, or leave it out",
    "postgresql://me@host/shop?sslmode=require&sslmode=disable": "option sslmode stands there twice",
    "postgresql://me@host/shop?prepare_threshold=0": "prepare_threshold is not needed.*leave it out",
    "postgresql://me@host/shop?prepare_threshold": "prepare_threshold is not needed",
    "postgresql://me@host/shop?autocommit=true": "'autocommit' .* no option of PostgreSQL's library",
    "postgresql://me@host/shop?sslmodee=require": "'sslmodee' .* no option of PostgreSQL's library",
    "postgresql://me@host/shop?timeout=5": "'timeout' .* no option of PostgreSQL's library",
    "postgresql://me@host/shop?": r"'' behind the \? is no option",
    "postgresql://me:s3%00cr3t@host/shop": "zero byte .%00. in its password",
    "postgresql://m%00e@host/shop": "zero byte .%00. in its user",
    "postgresql://me@host/sh%00op": "zero byte .%00. in its path",
    "postgresql://me@host/shop?password=s3%00cr3t": "zero byte .%00. in its option password",
    "postgresql://me@host/shop?password=s3&cr3t": "a piece of it behind the .* an & in a value as %26",
    "postgresql://me@host/shop?password=s3&cr3t=1": "a piece of it behind",
    "postgresql://me:s3?cr3t@host/shop?sslmode": "option sslmode has no value",
    "postgresql://me@host/shop?password=&sslmode=require": "option password has no value",
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_is_wrong_with_an_option_is_said_by_its_name(text: str) -> None:
    with pytest.raises(InvalidURL, match=FAULTS[text]) as refused:
        parse_url(text)
    said = str(refused.value)
    assert "\n" not in said
    assert said.startswith("this database URL cannot be used: ")
    assert not any(secret in said for secret in SECRETS)
    with pytest.raises(InvalidURL):
        make_engine(text)


def test_the_options_of_a_url_that_was_read_are_looked_at_too() -> None:
    """A program may put them in by SQLAlchemy's own means."""
    given = make_url("postgresql://me@host/shop").update_query_dict({"sslmode": ("require", "disable")})
    with pytest.raises(InvalidURL, match="sslmode stands there twice"):
        parse_url(given)
    with pytest.raises(InvalidURL, match="prepare_threshold is not needed"):
        parse_url(make_url("postgresql://me@host/shop?prepare_threshold=0"))


def test_each_option_of_postgresqls_library_is_taken() -> None:
    options = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
    assert "sslmode" in options
    for name in options:
        assert parse_url(f"postgresql:///shop?{name}={'5432' if name == 'port' else 'x'}").query[name]


def test_a_question_mark_in_a_files_name_is_written_as_the_message_says(tmp_path: Path) -> None:
    folder = tmp_path / "is it?"
    folder.mkdir()
    with make_engine(f"sqlite:///{tmp_path}/is it%3F/s.db").begin() as connection:
        connection.exec_driver_sql("CREATE TABLE it(is_there INTEGER)")
    assert (folder / "s.db").is_file()
