"""Behind pgbouncer in transaction mode, where each transaction may meet another session of the server's."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, make_url

from consumer.store import migrate
from consumer.store.transaction import Store

from .helpers import holding, record, stored, stream

BOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
EVENTS = stream(200)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


@pytest.fixture
def pooled(postgres_url, tmp_path: Path, patience_s: float) -> Iterator[str]:
    """The store's URL through a pooler whose sessions are unsafe: somebody else has set them so."""
    if BOUNCER is None:
        pytest.skip("pgbouncer is not installed")
    url, port = make_url(postgres_url), free_port()
    host = url.query["host"]
    (tmp_path / "users.txt").write_text(f'"{url.username}" ""\n')
    (tmp_path / "bouncer.ini").write_text(
        f"[databases]\n{url.database} = host={host} dbname={url.database} user={url.username} "
        "connect_query='SET synchronous_commit = off; SET lock_timeout = 0; SET statement_timeout = 5000'\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\nserver_reset_query =\nlogfile = {tmp_path}/log\n"
        f"auth_file = {tmp_path}/users.txt\ndefault_pool_size = 3\n"
    )
    as_root = os.getuid() == 0  # which pgbouncer refuses to be
    owner = next(Path(host).glob(".s.PGSQL.*")).stat().st_uid  # the server's own user may read its socket
    if as_root:
        for path in (tmp_path, *tmp_path.iterdir()):
            os.chown(path, owner, -1)
        for parent in tmp_path.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o011)
    user = owner if as_root else None
    process = subprocess.Popen([BOUNCER, "-q", str(tmp_path / "bouncer.ini")], user=user, stderr=subprocess.PIPE)
    try:
        ends = time.monotonic() + patience_s
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < ends
        yield f"postgresql+psycopg://{url.username}@127.0.0.1:{port}/{url.database}"
    finally:
        process.kill()
        process.communicate()


def test_each_transaction_is_as_durable_as_the_promise_needs_it(pooled, postgres_url) -> None:
    seen: set[tuple[str, ...]] = set()
    with Store(pooled) as store, Store(pooled) as other:

        @event.listens_for(store._engine, "commit")
        def _look(connection) -> None:
            names = ("synchronous_commit", "lock_timeout", "statement_timeout", "client_min_messages")
            seen.add(tuple(connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names))

        for start in range(0, 200, 10):
            assert store.resume() == start - 1
            assert store.apply(EVENTS[start : start + 10], record).error is None
            assert other.apply(EVENTS[start : start + 10], record).new == 0
    assert seen == {("on", "30s", "0", "warning")}
    assert stored(postgres_url) == holding(EVENTS, handled=True)


def test_no_statement_counts_on_being_prepared(pooled, postgres_url) -> None:
    """psycopg prepares a statement at its fifth use, and the pooler leads the sixth to another session."""
    with Store(pooled) as store, Store(pooled) as other:
        for start in range(0, 200, 4):
            assert store.apply(EVENTS[start : start + 2], record).error is None
            assert other.apply(EVENTS[start + 2 : start + 4], record).error is None
    assert stored(postgres_url) == holding(EVENTS, handled=True)


def test_the_commands_work_there_too(pooled) -> None:
    migrate.upgrade(pooled)
    assert migrate.status(pooled).revision == migrate.head()
