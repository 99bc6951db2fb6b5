"""Database URLs: what is taken, what is refused before anything is connected, and that no password is shown."""

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
        "sqlite:///store.db?mode=ro",
        "sqlite:///store.db?timeout=soon",
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
