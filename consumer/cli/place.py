"""The store that a command works on: what it is called in messages, and the command that makes it ready."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from consumer.cli.exits import reason
from consumer.core.errors import DatabaseUnusable, NotReady
from consumer.store.databases.choice import is_database_error
from consumer.store.databases.url import parse_url, show_url


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is, as it was typed.

    Attributes:
        db: the database's URL.
        prefix: what the names of the store's tables begin with.
        schema: where they are, on PostgreSQL.
    """

    db: str
    prefix: str = ""
    schema: str | None = None

    def command(self, name: str) -> str:
        """Write a command for this store as it can be pasted into a shell. A password is left out: see pgpass."""
        url = parse_url(self.db)
        shown = show_url(url.set(drivername=url.get_backend_name()))
        if url.password is not None:
            shown = shown.replace(":***@", "@", 1)
        words = ["consumer", name, "--db", shown]
        if self.prefix:
            words += ["--prefix", self.prefix]
        if self.schema is not None:
            words += ["--schema", self.schema]
        return shlex.join(words)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say in an error of the database which one it was, and where the store is not ready what to run."""
        try:
            yield
        except NotReady as error:
            if not error.needs_upgrade:
                raise
            raise NotReady(f"{error.reason}: run {self.command('upgrade')}") from error
        except Exception as error:
            if not is_database_error(error):
                raise
            raise DatabaseUnusable(show_url(parse_url(self.db)), reason(error)) from error
