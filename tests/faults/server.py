"""A PostgreSQL that is killed as a whole and started again, which makes it recover from its log."""

from __future__ import annotations

from typing import Any

import psutil


class Server:
    """A PostgreSQL that a test may do anything to.

    Args:
        server: what `started_postgres` gives.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return self._server.get_uri(driver="psycopg")

    def kill(self) -> None:
        """SIGKILL to the server and to every process that it has started."""
        postmaster = psutil.Process(self._server.get_pid())
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            process.kill()
        psutil.wait_procs(family)

    def start(self) -> None:
        self._server.ensure_postgres_running()
