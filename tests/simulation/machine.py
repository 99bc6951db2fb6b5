"""The histories: what a publisher, a network, two consumers and a disk may do, in any order.

Hypothesis chooses; a history that breaks an invariant is shortened to the few steps that matter. Everything runs in one
thread and in virtual time, so that the same steps are the same history every time.
"""

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from consumer import Retry
from consumer.core.points import Point
from consumer.testing import Moment

from .network import Break, Listening
from .process import End, Fault
from .publisher import Lie, Publisher
from .scene import Scene
from .surroundings import CONSUMERS, database_error

WHO = st.sampled_from([0, 0, 0, 1])
DELTAS = st.lists(st.integers(-9, 9), max_size=4)
BYTES = st.sampled_from([0, 0, 1, 7, 8, 20, 50])
IN_COMMIT = [Moment.IN_COMMIT] * 3
"""Oftener than the other places: it is what a commit that can be read and is not on the disk comes from."""


class Simulation(Scene):
    """One history: what happens, one thing after the other."""

    @initialize(
        honours_resume=st.booleans(),
        window=st.sampled_from([100, 100, 3, 1]),
        batch=st.sampled_from([100, 100, 3, 1]),
        pace_s=st.sampled_from([0.002, 0.03, 1.0]),
        consumers=st.sampled_from([1, 1, CONSUMERS]),
        more=DELTAS,
    )
    def begin(
        self, honours_resume: bool, window: int, batch: int, pace_s: float, consumers: int, more: list[int]
    ) -> None:
        self._set_up(Publisher(honours_resume=honours_resume, window=window), batch, pace_s)
        for who in range(consumers):
            self._start(who)
        self.publish(more)

    @rule(who=WHO)
    def start(self, who: int) -> None:
        self._consumer(who)
        self._go_on()

    @rule(
        who=WHO,
        point=st.sampled_from([None, *Point, *IN_COMMIT]),
        times=st.integers(1, 2),
        kept_bytes=BYTES,
        with_power=st.booleans(),
        more=DELTAS,
    )
    def kill(
        self, who: int, point: Point | Moment | None, times: int, kept_bytes: int, with_power: bool, more: list[int]
    ) -> None:
        """Now, or where the process comes to a point; alone, or together with the machine."""
        process = self._consumer(who)
        if point is not None:
            process.fault = Fault(point, times, None, kept_bytes, with_power)
        elif with_power:
            self._cut_power(kept_bytes)
        else:
            process.kill(kept_bytes)
            self.figures["kills"] += 1
        self.publish(more)

    @rule(who=WHO, how=st.sampled_from(End))
    def end(self, who: int, how: End) -> None:
        self._consumer(who).end_by(how)
        self.figures["stops"] += 1
        self._go_on()

    # The database and the handler.

    @rule(
        who=WHO,
        point=st.sampled_from([Point.AFTER_LEDGER, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, *IN_COMMIT]),
        times=st.integers(1, 2),
        more=DELTAS,
    )
    def fail_in_database(self, who: int, point: Point | Moment, times: int, more: list[int]) -> None:
        self._consumer(who).fault = Fault(point, times, database_error())
        self.figures["database failures"] += 1
        self.publish(more)

    @rule(times=st.integers(1, 4), is_retry=st.booleans(), more=DELTAS)
    def fail_in_handler(self, times: int, is_retry: bool, more: list[int]) -> None:
        self._failures = [Retry("later") if is_retry else RuntimeError("once") for _ in range(times)]
        self.publish(more)

    @rule(ahead=st.integers(1, 5), more=DELTAS)
    def poison(self, ahead: int, more: list[int]) -> None:
        """Have the handler refuse an event for good."""
        self._poison = self.disk.last() + ahead
        self.publish(more)

    # The publisher.

    @rule(more=DELTAS)
    def publish(self, more: list[int]) -> None:
        self.publisher.publish(more)
        self._go_on()

    @rule(count=st.integers(1, 6), more=DELTAS)
    def send_again(self, count: int, more: list[int]) -> None:
        self.publisher.send_again(count)
        self.publish(more)

    @rule(count=st.integers(1, 10))
    def truncate(self, count: int) -> None:
        self.publisher.truncate(count)
        self._go_on()

    @rule(forgets=st.booleans())
    def restart_publisher(self, forgets: bool) -> None:
        for connection in self.network.connections:
            if connection.is_open:
                connection.break_off(Break.RESET)
        if forgets:
            self.publisher.forget()
        self.figures["publisher restarts"] += 1
        self._go_on()

    @rule(lie=st.sampled_from(Lie), more=DELTAS)
    def lie(self, lie: Lie, more: list[int]) -> None:
        self.publisher.publish(more)
        for session in self.publisher.live()[-1:]:
            if session.sent or lie is not Lie.CONFLICT:
                session.lie(lie)
                self.figures["lies"] += 1
        self._go_on()

    # The network.

    @rule(how=st.sampled_from(Break), is_down=st.booleans(), after_bytes=BYTES, more=DELTAS)
    def break_connection(self, how: Break, is_down: bool, after_bytes: int, more: list[int]) -> None:
        for connection in [connection for connection in self.network.connections if connection.is_open][-1:]:
            pipe = connection.down if is_down else connection.up
            pipe.break_after(after_bytes, partial(connection.break_off, how))
            self.figures["cuts"] += 1
        self.publish(more)

    @rule(listening=st.sampled_from(Listening))
    def listen(self, listening: Listening) -> None:
        self.network.listening = listening
        self._go_on()

    @rule(
        delay_s=st.sampled_from([0.0, 0.001, 0.04, 3.0]),
        cuts=st.lists(st.sampled_from([1, 3, 8, 21, 64, 1000]), min_size=1, max_size=3),
        database_delay_s=st.sampled_from([0.001, 0.05, 25.0]),
    )
    def weather(self, delay_s: float, cuts: list[int], database_delay_s: float) -> None:
        self.network.weather(delay_s, cuts)
        self._slow_database(database_delay_s)
        self._go_on()

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 4.0, 35.0]))
    def wait(self, seconds: float) -> None:
        self.world.run(seconds)
