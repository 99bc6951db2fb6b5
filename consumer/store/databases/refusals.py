"""Why a PostgreSQL server has let nobody in: its code, which psycopg does not give for a connection that failed.

A refused password and a database that does not exist are final. A server that is full, starting or recovering is waited
for. The words of the message do not tell: they are translated. So a connection that failed is tried once more with
libpq's trace, in which the code stands.
"""

from __future__ import annotations

import re
import select
import tempfile
import time
from typing import Any

from consumer.store.databases.sqlstates import is_lasting_refusal

PROBE_TIMEOUT_S = 10.0
"""How long the second try may take. It only tells why the first one has failed."""

_CODE = re.compile(rb'ErrorResponse\t .*? C "([0-9A-Z]{5})"')


def connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
    """Connect; a listener of SQLAlchemy's `do_connect`.

    Raises:
        psycopg.Error: with its code, where the server has refused what somebody typed.
    """
    psycopg = dialect.dbapi
    try:
        return psycopg.connect(*arguments, **options)
    except psycopg.OperationalError as error:
        code = error.sqlstate or find_code(psycopg, arguments, options)
        if code is None or not is_lasting_refusal(code):
            raise
        refused: Exception = psycopg.errors.lookup(code)(str(error))
        raise refused from error


def find_code(psycopg: Any, arguments: list[Any], options: dict[str, Any]) -> str | None:
    """Give the code with which the server refuses a connection; None where it gives none, or nothing can be traced.

    Only Linux's libpq can trace. Elsewhere each refusal is taken for one that passes.
    """
    known = {default.keyword.decode() for default in psycopg.pq.Conninfo.get_defaults()}
    conninfo = psycopg.conninfo.make_conninfo(*arguments, **{k: v for k, v in options.items() if k in known})
    probe = psycopg.pq.PGconn.connect_start(conninfo.encode())
    try:
        with tempfile.TemporaryFile() as trace:
            probe.trace(trace.fileno())
            _finish(psycopg, probe)
            probe.untrace()
            trace.seek(0)
            found = _CODE.search(trace.read())
            return found[1].decode() if found else None
    except (psycopg.Error, OSError):
        return None
    finally:
        probe.finish()


def _finish(psycopg: Any, probe: Any) -> None:
    """Let a connection come to its end, whichever that is."""
    polling = psycopg.pq.PollingStatus
    ends = time.monotonic() + PROBE_TIMEOUT_S
    while (status := probe.connect_poll()) not in (polling.OK, polling.FAILED):
        left_s = ends - time.monotonic()
        if left_s <= 0:
            return
        reads = [probe.socket] if status == polling.READING else []
        writes = [probe.socket] if status == polling.WRITING else []
        select.select(reads, writes, [], left_s)
