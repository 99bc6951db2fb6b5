"""Database URLs: read what somebody typed, and show it without its password.

SQLAlchemy passes over what it does not understand behind a `?`, and a driver may do so with what it is handed. Here
each option is known and has one value, or the URL is refused, and the option named.
"""

from __future__ import annotations

import math
from urllib.parse import parse_qsl, quote, unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from consumer.core.errors import InvalidURL

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}

_KEEPS_ESCAPES = make_url("sqlite:///%25").database == "%25"
"""Whether SQLAlchemy leaves the escapes in a database's name as they are, as its series 2.0 does."""

_OF_SQLITE = {"timeout", "uri"}
"""What may stand behind the ? for every file."""

_OF_A_FILE_URI = {"cache", "immutable", "mode", "modeof", "nolock", "psow", "vfs"}
"""What SQLite itself reads from a `file:` URI."""

_SECRET = ("password", "sslpassword")
"""Options of libpq's that hold one."""


def parse_url(text: str | URL) -> URL:
    """Read a database URL.

    Args:
        text: `sqlite:///FILE`, with `timeout` in seconds or, for a `file:` URI, `uri=true` and SQLite's own options
            after a `?`; or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` with libpq's options after it.

    Returns:
        The URL, with the driver that this package uses.

    Raises:
        InvalidURL: it is none, or of another database or driver; or an option in it is not known, has no value or
            stands there twice.
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
        usable = url.drivername in _DRIVERS.values() and "@" not in (url.host or "")
        # An @ there is the rest of a password with a bare @, which would be shown as the host's name.
    except (ArgumentError, NoSuchModuleError, ValueError, TypeError):
        url, usable = None, False
    if url is not None and usable:
        fault = _find_zero_byte(url) or _find_fault(url, _options(text))
        if fault is not None:
            raise InvalidURL(f"this database URL cannot be used: {fault}")
        usable = _can_be_connected_to(url)
    if url is None or not usable:
        scheme = str(text).partition(":")[0] if "://" in str(text) else ""
        raise InvalidURL(
            f"this database URL{f' ({scheme}://…)' if scheme else ''} cannot be used: "
            "give sqlite:///FILE or postgresql://USER@HOST/DATABASE, with %40 for an @ in a password"
        )
    return url


def _can_be_connected_to(url: URL) -> bool:
    try:
        url.get_dialect()().create_connect_args(url)
    except (ArgumentError, ValueError, TypeError):  # a host for SQLite, or two hosts that do not fit their ports
        return False
    return True


def write_url(url: URL) -> str:
    """Write a URL, password and all, so that `parse_url` reads the same again."""
    if url.database and _KEEPS_ESCAPES:
        url = url.set(database=quote(url.database, safe="/:"))
    return url.render_as_string(hide_password=False)


def _options(text: str | URL) -> list[tuple[str, str]]:
    """Give what stands behind the ?, as it was typed: SQLAlchemy leaves out what has no value."""
    if isinstance(text, URL):
        several = ((name, (value,) if isinstance(value, str) else value) for name, value in text.query.items())
        return [(name, value) for name, values in several for value in values]
    _, _, rest = text.partition("://")
    if make_url(text).username is not None:
        _, _, rest = rest.partition("@")  # what is before it may hold a ?
    _, mark, query = rest.partition("?")
    if not mark:
        return []
    return parse_qsl(query, keep_blank_values=True) or [("", "")]


def _find_zero_byte(url: URL) -> str | None:
    """No name that a system or a server takes holds one, and each of them would say so in words of its own."""
    parts = {"user": url.username, "password": url.password, "host": url.host, "path": url.database}
    parts |= {f"option {name}": "".join(value) for name, value in url.query.items() if "\0" not in name}
    for part, value in parts.items():
        if "\0" in (value or ""):
            return f"there is a zero byte (%00) in its {part}: leave it out"
    return None


def _find_fault(url: URL, options: list[tuple[str, str]]) -> str | None:
    """Say what is wrong with the options of a URL. A name that could be a piece of a password is not repeated."""
    is_sqlite = url.get_backend_name() == "sqlite"
    names = [name for name, _ in options]
    has_secret = not set(_SECRET).isdisjoint(names)
    known = _OF_SQLITE | _OF_A_FILE_URI if is_sqlite else _libpqs_options()
    for name, value in options:
        if known is not None and name not in known:
            return _unknown("a piece of it" if has_secret else repr(name), is_sqlite=is_sqlite)
        if not value:
            return f"its option {name} has no value: write {name}=VALUE, or leave it out"
        if names.count(name) > 1 and (is_sqlite or name != "host"):  # several hosts are tried in turn
            return f"its option {name} stands there twice: leave one out"
    return _find_fault_of_sqlite(url, dict(options)) if is_sqlite else None


def _unknown(shown: str, *, is_sqlite: bool) -> str:
    if is_sqlite:
        return (
            f"{shown} behind the ? is no option of SQLite's: give timeout=SECONDS, or write a ? in a file's name as %3F"
        )
    if shown == repr("prepare_threshold"):
        return "prepare_threshold is not needed, since nothing is prepared on the server: leave it out"
    return (
        f"{shown} behind the ? is no option of PostgreSQL's library: give one of those, or write an & in a value as %26"
    )


def _find_fault_of_sqlite(url: URL, options: dict[str, str]) -> str | None:
    try:
        timeout_s = float(options.get("timeout", 0))
    except ValueError:
        timeout_s = math.nan
    if not 0 <= timeout_s < math.inf:
        return f"its option timeout is {options['timeout']!r}: give seconds, such as timeout=60"
    of_uri = sorted(_OF_A_FILE_URI & options.keys())
    if "uri" not in options:
        if of_uri:  # it would be passed over
            return f"its option {of_uri[0]} is for file: URIs: write sqlite:///file:PATH?{of_uri[0]}=…&uri=true"
    elif options["uri"] != "true" or not (url.database or "").startswith("file:"):
        return "its option uri is for file: URIs, and is true or not there: write sqlite:///file:PATH?uri=true"
    return None


def _libpqs_options() -> set[str] | None:
    """Give the names of the options that PostgreSQL's library knows; None without a driver, which is said elsewhere."""
    try:
        from psycopg.pq import Conninfo  # noqa: PLC0415 - only for a URL that asks for it
    except ImportError:
        return None
    return {option.keyword.decode() for option in Conninfo.get_defaults()}


def show_url(url: URL) -> str:
    """Write a URL as it may be shown: no password, wherever in it that stands."""
    return url.difference_update_query(_SECRET).render_as_string(hide_password=True)
