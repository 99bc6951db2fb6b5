"""Database URLs: read what somebody typed, and show it without its password."""

from __future__ import annotations

from urllib.parse import quote, unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from consumer.core.errors import InvalidURL

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}

_KEEPS_ESCAPES = make_url("sqlite:///%25").database == "%25"
"""Whether SQLAlchemy leaves the escapes in a database's name as they are, as its series 2.0 does."""


def parse_url(text: str | URL) -> URL:
    """Read a database URL.

    Args:
        text: `sqlite:///FILE`, with `timeout` in seconds or, for a `file:` URI, `uri=true` and SQLite's own options
            after a `?`; or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` with libpq's options after it.

    Returns:
        The URL, with the driver that this package uses.

    Raises:
        InvalidURL: it is none, or of another database or driver.
    """
    try:
        str(text).encode()
    except UnicodeEncodeError:
        raise InvalidURL("this database URL cannot be used: it holds bytes that are no UTF-8") from None
    try:
        url = make_url(text)
        if isinstance(text, str) and url.database and _KEEPS_ESCAPES:
            url = url.set(database=unquote(url.database))
        url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
        usable = url.drivername in _DRIVERS.values() and _is_usable(url)
    except (ArgumentError, NoSuchModuleError, ValueError, TypeError):
        url, usable = None, False
    if url is None or not usable:
        scheme = str(text).partition(":")[0] if "://" in str(text) else ""
        raise InvalidURL(
            f"this database URL{f' ({scheme}://…)' if scheme else ''} cannot be used: "
            "give sqlite:///FILE or postgresql://USER@HOST/DATABASE, with %40 for an @ in a password"
        )
    return url


def _is_usable(url: URL) -> bool:
    """Look at what SQLAlchemy would find out too late, or would put right with a warning."""
    if "@" in (url.host or ""):
        return False  # the rest of a password with a bare @, which would be shown as the host's name
    if url.get_backend_name() == "sqlite" and "uri" not in url.query and set(url.query) - {"timeout"}:
        return False  # `?mode=ro` without `uri=true` would be ignored
    url.get_dialect()().create_connect_args(url)  # raises where a value is none
    return True


def write_url(url: URL) -> str:
    """Write a URL, password and all, so that `parse_url` reads the same again."""
    if url.database and _KEEPS_ESCAPES:
        url = url.set(database=quote(url.database, safe="/:?=&"))
    return url.render_as_string(hide_password=False)


def show_url(url: URL) -> str:
    """Write a URL as it may be shown: no password, wherever in it that stands."""
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)
