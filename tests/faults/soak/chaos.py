"""The loop of a soak: who is killed next and when, by a seed; then everything is left to catch up."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator

from consumer.testing import Moment
from tests.faults.server import Server

from .board import Board, Slot
from .checking import differences, odd_lines, read_journal
from .processes import CRASH_POINTS, Place, Processes
from .report import Result, Watch, Where

RANDOM_KILLS = {"consumer": 3, "publisher": 2, "appender": 1}
"""Who is killed how often at a moment of no importance, for each time that the consumer has died at every point."""

TIMES_MAX = 8
"""The consumer dies at most at this time of passing a point."""

BATCHES_MAX = 10
"""How many batches may be committed before a kill at a moment of no importance."""

LATER_MAX_S = 0.01
"""And how long after that it comes: so it comes in the middle of anything."""


class Soak:
    """One database, killed at for a while."""

    def __init__(self, place: Place, seed: int, server: Server | None) -> None:
        """Say where.

        Args:
            place: the folder, the database, the ports.
            seed: decides who is killed and when.
            server: the PostgreSQL that is killed too.
        """
        self._place = place
        self._luck = random.Random(seed)
        self._server = server
        self._board = Board()
        self._processes = Processes(place, self._board, self._luck)
        self.result = Result()

    def run(self, kills: int, watch: Watch) -> None:
        """Kill, catch up, compare. What should not be is in the result."""
        began = time.monotonic()
        try:
            with self._processes:
                deck = self._deck()
                for done in range(1, kills + 1):
                    kind = next(deck)
                    self._kill(kind)
                    watch.show(done, self._board[Slot.ACKED], kind)
                self._catch_up()
            self._compare()
        except (ChildProcessError, TimeoutError) as error:
            self.result.differences.append(str(error))
        finally:
            self._account(time.monotonic() - began)

    def _deck(self) -> Iterator[str]:
        """Deal each crash point and each victim, in another order every time."""
        cards = [str(point) for point in CRASH_POINTS]
        cards += [name for name, count in RANDOM_KILLS.items() for _ in range(count)]
        if self._server is not None:
            cards.append("PostgreSQL")
        while True:
            self._luck.shuffle(cards)
            yield from cards

    def _kill(self, kind: str) -> None:
        where = self._at_a_point if kind in CRASH_POINTS else self._at_random
        self.result.kills[kind, Where.of(where(kind))] += 1

    def _at_a_point(self, point: str) -> int:
        """Have the consumer die at a point, and go on with another one."""
        self._board[Slot.TIMES] = self._luck.randint(1, TIMES_MAX)
        self._board[Slot.ARMED] = [str(one) for one in CRASH_POINTS].index(point)
        code = self._processes.end("consumer")
        if code != (-signal.SIGSYS if point == Moment.IN_COMMIT else -signal.SIGKILL):
            self.result.differences.append(f"a consumer that was to die at {point} has ended with {code}")
        place = self._board[Slot.PLACE]
        self._processes.start("consumer")
        return place

    def _at_random(self, name: str) -> int:
        """Kill somebody at a moment of no importance, and start it again."""
        goal = self._board[Slot.BATCHES] + self._luck.randint(0, BATCHES_MAX)
        self._processes.wait_until(lambda: self._board[Slot.BATCHES] >= goal, what=f"a commit, to kill the {name} at")
        time.sleep(self._luck.uniform(0, LATER_MAX_S))
        place = self._board[Slot.PLACE]
        if name == "PostgreSQL":
            assert self._server is not None
            self._server.kill()
            self._server.start()
            return place
        code = self._processes.kill(name)
        if code != -signal.SIGKILL:
            self.result.differences.append(f"the {name} has ended by itself, with {code}")
        if name == "consumer":
            place = self._board[Slot.PLACE]  # it had a moment more
        self._processes.start(name)
        return place

    def _catch_up(self) -> None:
        """No more faults: all that was appended is acknowledged, and everybody ends well."""
        self._board[Slot.CALM] = 1
        self._expect(self._processes.end("appender"), "appender")
        journal = read_journal(self._place.journal)
        if len(journal) - 1 < self._board[Slot.APPENDED]:
            self.result.differences.append("the journal lacks what was reported as appended")
        self._processes.wait_until(lambda: self._board[Slot.ACKED] >= len(journal) - 1, what="the last ACK")
        for name in ("consumer", "publisher"):
            self._processes.running[name].kill(signal.SIGTERM)
            self._expect(self._processes.end(name), name)

    def _expect(self, code: int, name: str) -> None:
        if code != 0:
            self.result.differences.append(f"the {name} has ended with {code} and not with 0")

    def _compare(self) -> None:
        journal = read_journal(self._place.journal)
        self.result.events = len(journal)
        self.result.differences += differences(self._place.db, journal)
        self.result.differences += odd_lines(self._place.log)
        if untrue := self._board[Slot.UNTRUE]:
            self.result.differences.append(f"{untrue} times a RESUME or an ACK was not true")

    def _account(self, seconds: float) -> None:
        board = self._board
        self.result.seconds = seconds
        self.result.starts = self._processes.starts
        self.result.advances = board[Slot.ADVANCES]
        names: dict[str, Callable[[], int]] = {
            "resets": lambda: board[Slot.RESETS],
            "stalls": lambda: board[Slot.STALLS],
            "splits": lambda: board[Slot.SPLITS],
            "half-open": lambda: board[Slot.HALF_OPENS],
        }
        self.result.faults = {name: read() for name, read in names.items()}
