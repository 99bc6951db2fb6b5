"""The publisher: listens, gives every consumer a delivery of its own, and comes to an end within a bound."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from types import TracebackType
from typing import Self

from consumer.observe.observations import notify
from consumer.publisher.journal.extent import Extent
from consumer.publisher.server.delivery import Delivery
from consumer.publisher.server.followed import FollowedJournal
from consumer.publisher.server.limits import WINDOW, Limits
from consumer.publisher.server.listen import listen, tune
from consumer.publisher.server.notices import Closed, Notice, Observer, write_log

_log = logging.getLogger("consumer.publisher")

DESCRIPTORS_SPARE = 32
"""Descriptors that are kept for everything that is no connection."""

STOP_SPARE_S = 1.0
"""How much longer than its parts a stop may take before what is left of it is abandoned."""


@dataclass(frozen=True, slots=True)
class Served:
    """A consumer as it stands.

    Attributes:
        peer: its address.
        cursor: its last acknowledged event.
        lag: how many events of the journal it has not acknowledged.
    """

    peer: str
    cursor: int
    lag: int


class Publisher:
    """Serves a journal to any number of consumers.

    Making one opens the journal and the port; `run` serves. Both `run` and leaving `async with` close them.

    Args:
        path: the journal's file.
        host: where to listen, a name or an address.
        port: the port, 0 for any.
        window: how many events a consumer may leave unacknowledged.
        follow: whether a consumer that has acknowledged all is kept for what comes; otherwise it is closed.
        tls: the server's side of TLS (`listen.server_tls`), None for plain TCP.
        limits: see `Limits`.
        observers: called with each notice (`Resumed`, `Closed`), besides the log.

    Raises:
        JournalUnusable: as `JournalReader`.
        AddressInUse: somebody listens there already.
        OSError: there is no such address here.

    Attributes:
        port: where it listens.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        window: int = WINDOW,
        follow: bool = True,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        if window < 1:
            raise ValueError(f"window must be 1 or more, not {window}")
        self._limits = limits or Limits()
        self._window = window
        self._follow = follow
        self._tls = tls
        self._observers = (write_log, *observers)
        self._deliveries: dict[asyncio.Task[None], Delivery] = {}
        self._connections_max = min(self._limits.connections, _descriptors() - DESCRIPTORS_SPARE)
        self._followed = FollowedJournal(os.fspath(path), self._limits.poll_s)
        try:
            self._listeners = listen(host, port)
        except BaseException:
            self._followed.close()
            raise
        self.port: int = self._listeners[0].getsockname()[1]

    @property
    def extent(self) -> Extent:
        """What the journal holds."""
        return self._followed.journal.extent

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as URLs."""
        scheme = "tls" if self._tls else "tcp"
        return [f"{scheme}://{_show(listener.getsockname())}" for listener in self._listeners]

    def consumers(self) -> list[Served]:
        """Give every consumer that has said RESUME, the one that lags most first."""
        head = self.extent.head
        served = [
            Served(delivery.peer, delivery.cursor, head - delivery.cursor)
            for delivery in self._deliveries.values()
            if delivery.cursor is not None
        ]
        return sorted(served, key=lambda one: -one.lag)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the port and the journal, of a publisher that was never run; `run` does so itself."""
        for listener in self._listeners:
            listener.close()
        self._followed.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then end: nothing new is sent, and what was sent may be acknowledged for a moment.

        Args:
            stop: set by whoever wants it to end.

        Raises:
            JournalUnusable: the journal can no longer be served.
        """
        stop_following = asyncio.Event()
        following = asyncio.create_task(self._followed.follow(stop_following))
        stopping = asyncio.create_task(stop.wait())
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.add_reader(listener, self._accept, listener)
        try:
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            for listener in self._listeners:
                loop.remove_reader(listener)
                listener.close()
            try:
                await self._end_deliveries()
            finally:
                stop_following.set()
                await asyncio.wait({following}, timeout=STOP_SPARE_S)
                self.close()
        if following.done():
            following.result()

    async def _end_deliveries(self) -> None:
        for task, delivery in tuple(self._deliveries.items()):
            if not delivery.stop():
                task.cancel()
        await self._wait_for_deliveries(self._limits.linger_s)
        for task in self._deliveries:
            task.cancel()
        await self._wait_for_deliveries(self._limits.close_s + STOP_SPARE_S)

    async def _wait_for_deliveries(self, timeout: float) -> None:
        if self._deliveries:
            await asyncio.wait(tuple(self._deliveries), timeout=timeout)

    # A new consumer.

    def _accept(self, listener: socket.socket) -> None:
        """Accept one connection. Called by the loop when one waits."""
        try:
            sock, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # whoever it was has left again
        except OSError as error:
            _log.warning("nobody is accepted for %g s: %s", self._limits.accept_pause_s, error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            loop.call_later(self._limits.accept_pause_s, self._accept_again, listener)
            return
        peer = _show(address)
        if len(self._deliveries) >= self._connections_max:
            _log.warning("%s: refused, since %d connected already is the limit", peer, self._connections_max)
            sock.close()
            return
        sock.setblocking(False)
        tune(sock)
        delivery = Delivery(self._followed, self._limits, self._window, peer=peer, follow=self._follow, tell=self._tell)
        task = asyncio.get_running_loop().create_task(self._serve(delivery, sock))
        self._deliveries[task] = delivery
        task.add_done_callback(lambda task: self._forget(task, sock))

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:  # not stopped meanwhile
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _forget(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        sock.close()  # the delivery has done so, unless it was cancelled before its first step
        del self._deliveries[task]

    async def _serve(self, delivery: Delivery, sock: socket.socket) -> None:
        reason = "the publisher stops"
        try:
            reason = await delivery.run(sock, self._tls)
        except Exception as error:  # noqa: BLE001 - a fault in serving one must not end the others
            reason = f"{type(error).__name__}: {error}; please report this"
            _log.exception("%s: a delivery failed", delivery.peer)
        finally:
            if delivery.cursor is None:
                self._tell(Closed(delivery.peer, reason))
            else:
                self._tell(Closed(delivery.peer, reason, delivery.cursor, delivery.sent))

    def _tell(self, notice: Notice) -> None:
        notify(self._observers, notice)


def _descriptors() -> int:
    """How many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft


def _show(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
