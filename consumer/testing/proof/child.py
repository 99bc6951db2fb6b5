"""The other process of a proof: it loads the handler once, and forks a consumer for each run, which may die.

A new interpreter for each run would take a hundred times as long. A fork of this process, which has one thread and no
connection, is as good: what a handler keeps in memory begins anew in each.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Channel
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from sqlalchemy import Connection, Engine, event

from consumer.core.errors import HandlerFailed
from consumer.observe.observations import Observation, Retrying
from consumer.runtime import supervision
from consumer.runtime.consumer import Consumer
from consumer.store import transaction
from consumer.store.databases.choice import is_busy
from consumer.store.handlers import Handler, check_handler
from consumer.store.transaction import Store
from consumer.testing.crash import crash_at, is_of_handler
from consumer.testing.proof.syscalls import die_in_next
from consumer.testing.proof.tasks import Disturbance, Done, Ended, Failed, Ready, Target, Task

ALARM_GRACE_S = 5.0
"""How long after its limit a run is killed by the system's own clock, where it could not give up by itself."""


def main(descriptor: int) -> None:
    """Be that process.

    Args:
        descriptor: of the channel to the process that proves. It says the target, then one task after the other; its
            end is the end.
    """
    channel: Channel[Any, Any] = Channel(descriptor)
    try:
        target = channel.recv()
        store = Store(target.database)  # not connected, but with its driver loaded and its statements compiled
        handler = _load(target)
        check_handler(handler)
    except BaseException as error:  # noqa: BLE001 - the user's module may raise anything
        channel.send(Failed(_describe(error)))
        return
    gc.collect()
    gc.freeze()  # so that a fork need not copy what it only looks at
    channel.send(Ready(_dies(lambda: die_in_next(("fsync",)), lambda: os.fsync(descriptor))))
    while True:
        try:
            task = channel.recv()
        except EOFError:
            return
        channel.send(Ended(_fork(lambda task=task: _work(channel, task, store, handler))))  # type: ignore[misc]  # bound now


def _fork(work: Callable[[], None]) -> int:
    """Do something in a process of its own, and give what it ended with."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - it must not go on as if it were its parent
            traceback.print_exc()
            os._exit(1)
        finally:
            sys.stdout.flush()
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _dies(*steps: Callable[[], None]) -> bool:
    def quietly() -> None:
        try:
            for step in steps:
                step()
        except OSError:
            os._exit(0)

    return _fork(quietly) == -signal.SIGSYS


def _load(target: Target) -> Handler:
    """Find the handler: by its module's name, or else by its file."""
    module: ModuleType | None = None
    if target.file is not None:
        parts = target.module.split(".")
        path = Path(target.file)
        root = path.parents[len(parts) - (path.stem != "__init__")] if len(path.parents) > len(parts) else path.parent
        sys.path.append(str(root))
    if target.module != "__main__":
        try:
            module = importlib.import_module(target.module)
        except ModuleNotFoundError as error:
            if target.file is None or not f"{target.module}.".startswith(f"{error.name}."):
                raise
    if target.file is not None and (module is None or getattr(module, "__file__", None) != target.file):
        spec = importlib.util.spec_from_file_location(f"_proven_{Path(target.file).stem}", target.file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    handler: Any = module
    for name in target.name.split("."):
        handler = getattr(handler, name)
    found: Handler = handler
    return found


def _work(channel: Channel[Any, Any], task: Task, store: Store, handler: Handler) -> None:
    """Be the consumer of one run, and say how it ended."""
    signal.setitimer(signal.ITIMER_REAL, task.limit_s + ALARM_GRACE_S)
    supervision.WAIT_INITIAL_S = transaction.HANDLER_WAIT_S = 0.0  # this process is ours alone, and has no time to wait
    try:
        channel.send(_consume(channel, task, store, handler))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process tells it
        channel.send(Failed(_describe(error)))


def _consume(channel: Channel[Any, Any], task: Task, store: Store, handler: Handler) -> Done | Failed:
    troubles: list[Exception] = []

    def watch(observation: Observation) -> None:
        if isinstance(observation, Retrying):
            troubles[:] = [observation.error]
            if is_busy(observation.error):  # nobody else uses this database: it will stay like that
                consumer.stop()

    def give_up() -> NoReturn:
        why = f"; the last failure: {_describe(troubles[0])}" if troubles else ""
        channel.send(Failed(f"it was not over after {task.limit_s:g} s{why}"))
        os._exit(1)

    async def run() -> None:
        asyncio.get_running_loop().call_later(task.limit_s, give_up)
        await consumer.run()

    with ExitStack() as stack:
        count = stack.enter_context(_statements(task.disturbance))
        if task.disturbance is not None and task.disturbance.kills:
            stack.enter_context(
                crash_at(task.disturbance.point, signal.SIGKILL, times=task.disturbance.times),
            )
        stack.enter_context(store)
        consumer = Consumer(
            task.publisher,
            store,
            handler,
            timeout=task.limit_s,
            batch=task.batch,
            once=True,
            max_attempts=1,
            observers=[watch],
        )
        asyncio.run(run())
    if troubles and is_busy(troubles[0]):
        return Failed(f"{_describe(troubles[0])}: the handler uses another connection than the one that it is given")
    return Done(count[0])


@contextmanager
def _statements(disturbance: Disturbance | None) -> Iterator[list[int]]:
    """Count the handler's statements, and have the database fail at one of them."""
    count = [0]

    def before(connection: Connection, cursor: Any, statement: str, *_: object) -> None:
        if is_of_handler(connection, statement):
            count[0] += 1
            if disturbance is not None and not disturbance.kills and count[0] == disturbance.times:
                _fail(connection, cursor)

    event.listen(Engine, "before_cursor_execute", before)
    yield count
    event.remove(Engine, "before_cursor_execute", before)


def _fail(connection: Connection, cursor: Any) -> NoReturn:
    """Raise what a database raises that fails for a moment. SQLAlchemy wraps it like any other."""
    if connection.dialect.name == "postgresql":  # a real one: it aborts the transaction
        cursor.execute("DO $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = '40P01'; END $$")
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


def _describe(error: BaseException) -> str:
    """Say an error in a line; of a handler's own one also where."""
    cause = error.__cause__ if isinstance(error, HandlerFailed) else error
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    package = str(Path(__file__).parents[2])
    own = [
        frame for frame in frames if not frame.filename.startswith(package) and "site-packages" not in frame.filename
    ]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    text = " ".join(str(getattr(error, "orig", None) or error).split())
    return f"{type(error).__name__}: {text}{where}"
