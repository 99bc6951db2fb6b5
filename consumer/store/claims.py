"""What a store says before streams are consumed: where each one starts, or what keeps it from starting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from consumer.core.errors import ConsumerError, CursorAhead, HandlerChanged, ResyncRequired, SourceChanged
from consumer.core.outcome import Halt
from consumer.core.rule import begin, place
from consumer.core.runs import Offer, Position
from consumer.core.starts import Start
from consumer.core.streams import Stream, StreamState
from consumer.store.sheet import Sheet
from consumer.store.streams import Streams


@dataclass(frozen=True, slots=True)
class Claim:
    """What became of streams that were offered.

    Attributes:
        positions: where each stream is to be started; None for one that is not to be fed, which is paused, halted or
            unsure.
        unsure: streams whose source seems to end before the cursor, but is not sure of that: ask it again.
        halted: streams that cannot be started. Their rows say so.
    """

    positions: Mapping[str, Position | None] = field(default_factory=dict)
    unsure: Mapping[str, CursorAhead] = field(default_factory=dict)
    halted: tuple[Halt, ...] = ()


class ClaimSheet(Sheet[Claim]):
    """One transaction's work on offers.

    Args:
        streams: the rows.
        offers: what the source says.
        start: where a stream that has no row yet begins. That is stored with it, and goes on to hold.
        handler: the name of the handler that consumes them, None for none.
        takes_over: whether streams may be consumed that another handler has consumed so far.
    """

    def __init__(
        self, streams: Streams, offers: Sequence[Offer], start: Start, handler: str | None, *, takes_over: bool
    ) -> None:
        self._streams = streams
        self._offers = offers
        self._start = start
        self._handler = handler
        self._takes_over = takes_over
        self._found: dict[str, Stream] = {}
        self._has_new = False
        self._started: list[Stream] = []
        self._failed: list[tuple[Stream, Halt]] = []
        self._unsure: dict[str, CursorAhead] = {}
        self._positions: dict[str, Position | None] = {}

    def judge(self, cursor: Any) -> None:
        names = {offer.stream for offer in self._offers}
        found = self._streams.lock(cursor, names)
        new = [self._begun(offer) for offer in self._offers if offer.stream not in found]
        if new:
            self._streams.insert(cursor, new)
            found = self._streams.lock(cursor, names)
        self._found, self._has_new = found, bool(new)
        for offer in self._offers:
            stream = found[offer.stream]
            self._check_handler(stream)
            self._positions[stream.name] = None
            if stream.state is not StreamState.PAUSED:
                self._place(stream, offer)

    def _begun(self, offer: Offer) -> Stream:
        return Stream(offer.stream, begin(offer, self._start), f"{self._start}", handler=self._handler)

    def _check_handler(self, stream: Stream) -> None:
        """Find out whether another handler has consumed what this one would then never see."""
        if not self._takes_over and None not in (stream.handler, self._handler) and stream.handler != self._handler:
            raise HandlerChanged(stream.name, f"{stream.handler}", f"{self._handler}")

    def _place(self, stream: Stream, offer: Offer) -> None:
        try:
            placement = place(stream.cursor, offer)
        except CursorAhead as error:
            if error.is_firm:
                self._fail(stream, error)
            else:
                self._unsure[stream.name] = error
        except (ResyncRequired, SourceChanged) as error:
            self._fail(stream, error)
        else:
            self._positions[stream.name] = placement.position
            handler = stream.handler if self._handler is None else self._handler
            self._started.append(replace(stream, cursor=placement.cursor, handler=handler))

    def _fail(self, stream: Stream, error: ConsumerError) -> None:
        self._failed.append((stream, Halt(stream.name, None, error)))

    def claimed(self) -> Mapping[str, object]:
        """All that was found: where a process died of a failed sync, that turns out once, and not at each stream."""
        return {name: stream.cursor.place for name, stream in self._found.items()}

    def changes(self) -> bool:
        return bool(self._has_new or self._started or self._failed)

    def write(self, cursor: Any) -> Mapping[str, object]:
        if self._started:
            self._streams.claim(cursor, self._started)
        if self._failed:
            self._streams.halt(cursor, self._failed)
        return {}

    def outcome(self) -> Claim:
        return Claim(self._positions, self._unsure, tuple(halt for _, halt in self._failed))


class HaltSheet(Sheet[None]):
    """One transaction's work on streams that cannot go on.

    Args:
        streams: the rows.
        halted: which, and why.
        generations: of each stream the generation that this holds for; it is passed over where it has another one.
    """

    def __init__(self, streams: Streams, halted: Sequence[Halt], generations: Mapping[str, int]) -> None:
        self._streams = streams
        self._halted = halted
        self._generations = generations
        self._found: dict[str, Stream] = {}

    def judge(self, cursor: Any) -> None:
        found = self._streams.lock(cursor, {halt.stream for halt in self._halted})
        self._found = {
            name: stream for name, stream in found.items() if stream.cursor.generation == self._generations.get(name)
        }

    def changes(self) -> bool:
        return bool(self._found)

    def write(self, cursor: Any) -> Mapping[str, object]:
        found = self._found
        self._streams.halt(cursor, [(found[halt.stream], halt) for halt in self._halted if halt.stream in found])
        return {}

    def outcome(self) -> None:
        return None
