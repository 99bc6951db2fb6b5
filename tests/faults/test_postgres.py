"""A PostgreSQL of its own that is killed, restarted, told to terminate sessions: the consumer comes back by itself."""

import asyncio
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from runtime.conftest import Run, Serve
from runtime.databases import check_store, execute, read_last
from runtime.scripted import history, in_turn, serving
from sqlalchemy import create_engine, pool

from consumer.observe.observations import Retrying, Stalled
from consumer.runtime import calls
from consumer.store import migrate
from consumer.store.transaction import Store
from consumer.testing.script.conversation import Session

from .server import Server


@pytest.fixture(scope="module")
def server(own_postgres: Any) -> Server:
    return Server(own_postgres)


@pytest.fixture
def own_url(server: Server, nothing_left: None) -> str:
    """An empty store on that server."""
    execute(server.url, "DROP TABLE IF EXISTS checkpoint, ledger, handled, consumer_alembic_version")
    migrate.upgrade(server.url)
    return server.url


async def test_a_server_that_is_killed_and_started_again_is_come_back_to(own_url, server, serve, start):
    """With a consumer in mid-stream, as a process. Nothing is lost, nothing is counted twice."""
    count = 3_000

    async def one_by_one(session: Session) -> None:
        for event in history(count)[session.last + 1 :]:
            await session.send_events([event])

    async with (
        serve(one_by_one) as publisher,
        start(publisher.url, "--db", own_url, "--batch", "7") as command,
    ):
        await (await publisher.session(0)).acked(50)
        await asyncio.to_thread(server.kill)
        await command.says("trying again", 2)
        await asyncio.to_thread(server.start)
        last_session = 0
        while True:
            session = await publisher.session(last_session)
            last_session += 1
            if session.last >= 50 and not session.has_left.is_set():
                break
        while read_last(own_url) < count - 1:  # noqa: ASYNC110 - the database is not going to tell
            await asyncio.sleep(0.01)
        command.send(signal.SIGTERM)
        assert await command.end() == 0
    check_store(own_url, history(count))
    for session in publisher.sessions:
        assert session.acks == list(range(session.last + 1, session.last + 1 + len(session.acks)))
    acknowledged = {seq for session in publisher.sessions for seq in session.acks}
    assert max(acknowledged) == count - 1


async def test_a_server_that_hangs_is_told_of_and_gone_on_with(own_url, serve, run, monkeypatch):
    """Its connection is intact, so nothing times out; the commit in flight is waited for and counts once."""
    monkeypatch.setattr(calls, "STALL_S", 0.05)
    with Store(own_url) as store:
        async with serve(serving(history(3))) as publisher, run(publisher.url, store) as running:
            session = await publisher.session(0)
            await session.acked(2)
            backend = psutil.Process(backend_of_the_consumer(own_url))
            backend.suspend()
            try:
                await session.send_events(history(2, first=3))
                await running.watch.until(Stalled, 2)
            finally:
                backend.resume()
            await session.acked(4)
            assert not running.watch.of(Retrying)
    check_store(own_url, history(5))


def backend_of_the_consumer(url: str) -> int:
    """The process that serves the one connection of the consumer."""
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        return connection.exec_driver_sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'consumer'"
        ).scalar_one()


async def test_a_server_that_is_not_there_at_the_start_is_waited_for(own_url, server, serve, start):
    await asyncio.to_thread(server.kill)
    try:
        async with (
            serve(serving(history(3), close=True)) as publisher,
            start(publisher.url, "--db", own_url, "--once") as command,
        ):
            await command.says("trying again")
            await asyncio.to_thread(server.start)
            assert await command.end() == 0
    finally:
        server.start()
    check_store(own_url, history(3))


@pytest.mark.usefixtures("quick")
async def test_a_session_that_is_terminated_in_mid_transaction_is_no_bad_event(own_url, serve: Serve, run: Run):
    sizes: list[int] = []

    def handler(connection, events) -> None:
        sizes.append(len(events))
        if len(sizes) == 1:
            pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            execute(own_url, f"SELECT pg_terminate_backend({pid}, 10000)")
        connection.exec_driver_sql("SELECT 1")

    with Store(own_url) as store:
        async with serve(serving(history(5))) as publisher, run(publisher.url, store, handler) as running:
            await running.consumer.wait_for(4)
            assert "terminating connection" in str(running.watch.of(Retrying)[0].error)
    assert sizes == [5, 5]
    assert publisher.sessions[0].acks == []
    assert publisher.resumes == [-1, -1]
    check_store(own_url, history(5))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kept", [True, False])
async def test_a_session_that_is_terminated_in_its_commit_is_decided_by_what_the_database_then_holds(
    own_url, serve, run, kept
):
    """Kept: the commit is done, and waits for a standby that does not exist. Otherwise it dies before."""
    if kept:
        settings = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"
    else:
        settings = (
            """CREATE OR REPLACE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1000); RETURN NULL; END'""",
            """CREATE CONSTRAINT TRIGGER die AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION die()""",
        )
    relaxed = "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND upper(query) = 'COMMIT'"
    try:
        with Store(own_url) as store:
            execute(own_url, "SET synchronous_commit = local", *settings)
            async with serve(serving(history(5))) as publisher, run(publisher.url, store) as running:
                if kept:
                    while not (pids := execute(own_url, waiting)):  # noqa: ASYNC110 - nor this
                        await asyncio.sleep(0.005)
                    assert publisher.sessions[0].acks == []
                    execute(own_url, f"SELECT pg_terminate_backend({pids[0][0]}, 10000)", *relaxed)
                else:
                    await running.watch.until(Retrying)
                    execute(own_url, "DROP TRIGGER die ON ledger")
                await running.watch.until(Retrying)
                await publisher.session(1)
                await running.consumer.wait_for(4)
    finally:
        execute(own_url, *relaxed, "DROP FUNCTION IF EXISTS die CASCADE")
    assert publisher.sessions[0].acks == []
    if kept:
        assert publisher.resumes == [-1, 4]
    else:
        assert set(publisher.resumes) == {-1}
    check_store(own_url, history(5))


@pytest.mark.usefixtures("quick")
async def test_a_commit_whose_wait_for_its_standby_is_cancelled_is_not_acknowledged(own_url, serve, run):
    """PostgreSQL calls it a warning: it has committed, and no standby has it. The next RESUME claims it all the same."""
    settings = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"
    relaxed = "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND upper(query) = 'COMMIT'"
    try:
        with Store(own_url) as store:
            execute(own_url, "SET synchronous_commit = local", *settings)
            async with serve(serving(history(5))) as publisher, run(publisher.url, store) as running:
                while not (pids := execute(own_url, waiting)):  # noqa: ASYNC110 - a server that waits tells nobody
                    await asyncio.sleep(0.005)
                execute(own_url, f"SELECT pg_cancel_backend({pids[0][0]})", *relaxed)
                retrying = await running.watch.until(Retrying)
                await publisher.session(1)
                await running.consumer.wait_for(4)
    finally:
        execute(own_url, *relaxed)
    assert "without the standby" in str(retrying.error)
    assert publisher.sessions[0].acks == []
    assert publisher.resumes == [-1, 4]
    check_store(own_url, history(5))


@pytest.mark.usefixtures("quick")
async def test_a_deadlock_in_a_handler_comes_again_with_the_whole_batch(own_url, serve, run):
    """PostgreSQL kills the one that has waited `deadlock_timeout`: here the consumer, by waiting for a shorter one."""
    execute(
        own_url, "CREATE TABLE handled (seq BIGINT PRIMARY KEY, times INT)", "INSERT INTO handled VALUES (1, 0), (2, 0)"
    )
    sizes: list[int] = []
    first_lock, second_lock = threading.Event(), threading.Event()
    others: list[threading.Thread] = []

    def other() -> None:
        engine = create_engine(own_url, poolclass=pool.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql("SET deadlock_timeout = '100s'")
            connection.exec_driver_sql("UPDATE handled SET times = times + 1 WHERE seq = 2")
            first_lock.set()
            second_lock.wait()
            connection.exec_driver_sql("UPDATE handled SET times = times + 1 WHERE seq = 1")

    def handler(connection, events) -> None:
        sizes.append(len(events))
        if len(sizes) == 1:
            connection.exec_driver_sql("SET LOCAL deadlock_timeout = '50ms'")
            others.append(threading.Thread(target=other))
            others[0].start()
            first_lock.wait()
        connection.exec_driver_sql("UPDATE handled SET times = times + 1 WHERE seq = 1")
        second_lock.set()
        connection.exec_driver_sql("UPDATE handled SET times = times + 1 WHERE seq = 2")

    with Store(own_url) as store:
        async with serve(serving(history(5))) as publisher, run(publisher.url, store, handler) as running:
            await running.consumer.wait_for(4)
            assert "deadlock detected" in str(running.watch.of(Retrying)[0].error)
    others[0].join()
    assert sizes == [5, 5]
    assert publisher.sessions[0].acks == []
    assert execute(own_url, "SELECT times FROM handled") == [(2,), (2,)]
    check_store(own_url, history(5))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("code", ["55P03", "40001", "53300", "57P03", "08006"])
async def test_an_error_that_passes_comes_again_with_the_whole_batch_wherever_it_was_raised(own_url, serve, run, code):
    """The codes of the table, raised by the server itself; 55P03 by a lock that is waited for in vain."""
    sizes: list[int] = []

    def handler(connection, events) -> None:
        sizes.append(len(events))
        if len(sizes) > 1:
            return
        if code == "55P03":
            locker.exec_driver_sql("SELECT pg_advisory_lock(1)")
            connection.exec_driver_sql("SET LOCAL lock_timeout = '20ms'")
            connection.exec_driver_sql("SELECT pg_advisory_lock(1)")
        connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'it passes' USING ERRCODE = '{code}'; END $$")

    engine = create_engine(own_url, poolclass=pool.NullPool)
    with engine.connect() as locker, Store(own_url) as store:
        async with serve(serving(history(5))) as publisher, run(publisher.url, store, handler) as running:
            await running.consumer.wait_for(4)
            assert len(running.watch.of(Retrying)) == 1
    assert sizes == [5, 5]
    check_store(own_url, history(5))


@pytest.mark.usefixtures("quick")
async def test_a_server_that_shuts_down_in_good_order_is_come_back_to(own_url, server, serve, run):
    """`pg_ctl stop -m fast`: sessions are terminated (57P01), connecting is refused (57P03), then nobody is there."""
    control = Path(server._server.bin_path) / "pg_ctl"
    data = str(server._server.pgdata)
    user = server._server.system_user
    with Store(own_url) as store:
        async with (
            serve(in_turn(serving(history(3)), serving(history(6)))) as publisher,
            run(publisher.url, store) as running,
        ):
            await running.consumer.wait_for(2)
            try:
                await asyncio.to_thread(
                    subprocess.run,
                    [control, "-D", data, "-m", "fast", "-w", "stop"],
                    check=True,
                    capture_output=True,
                    user=user if os.geteuid() == 0 else None,
                    cwd="/",
                )
                await publisher.sessions[0].send_events(history(1, first=3))
                await running.watch.until(Retrying, 3)
            finally:
                await asyncio.to_thread(server.start)
            await running.consumer.wait_for(5)
    check_store(own_url, history(6))
