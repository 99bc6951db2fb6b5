"""Good input that something has happened to: what Hypothesis puts together, and shrinks."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from consumer.core.events import DELTA_MAX, SEQ_MAX
from consumer.sources.tcp.wire import Ahead, Snapshot, Truncated, encode_control, encode_event

LONG = int(os.environ.get("CONSUMER_TEST_FUZZ", "0"))
"""How many examples the long form tries of each, with other ones each time; 0 for the short form, always the same."""


def examples(count: int) -> Callable[[Any], Any]:
    """How many examples the short form tries."""
    return settings(
        max_examples=LONG or count,
        derandomize=not LONG,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


AWKWARD = (
    *(
        b"",
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"  ",
        b"\t",
        b"\0",
        b"-",
        b"+",
        b"0",
        b"00",
        b"-0",
        b"1",
        b"_",
        b",",
        b"]",
        b"e5",
    ),
    *(b"2147483647", b"2147483648", b"9999999999", b"-1001", b"1001", b"99999999999999999999", b"\xff", b"\xc2\xb2"),
    *(b"EVENT ", b"EVENT 0 0\n", b"SNAPSHOT -1 0\n", b"TRUNCATED 0\n", b"AHEAD -1\n", b"ACK 0\n", b"RESUME -1\n"),
    *(b"\0" * 100, b"7" * 63, b"7" * 64, b"E" * 65, b"\n" * 65),
)
"""What is put in: at the edges of the grammar, and over them."""

PLACES = st.integers(0, 2**20)

MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), PLACES, st.integers(0, 7)),
        st.tuples(st.just("insert"), PLACES, st.sampled_from(AWKWARD) | st.binary(max_size=3)),
        st.tuples(st.just("replace"), PLACES, st.sampled_from(AWKWARD)),
        st.tuples(st.just("remove"), PLACES, st.integers(1, 80)),
        st.tuples(st.just("cut"), PLACES, st.none()),
        st.tuples(st.just("zero"), PLACES, st.integers(1, 600)),
        st.tuples(st.just("again"), PLACES, st.integers(1, 600)),
    ),
    max_size=3,
)


def mutated(data: bytes, mutations: list[tuple[str, int, Any]]) -> bytes:
    """Do to some bytes what is said, one after the other. A place is taken modulo their number."""
    for kind, where, what in mutations:
        at = where % (len(data) + 1)
        before, after = data[:at], data[at:]
        match kind:
            case "flip":
                after = bytes([after[0] ^ 1 << what]) + after[1:] if after else b""
            case "insert":
                before += what
            case "replace":
                before, after = before + what, after[len(what) :]
            case "remove":
                after = after[what:]
            case "cut":
                after = b""
            case "zero":
                after = bytes(len(after[:what])) + after[what:]
            case "again":
                before += after[:what]
        data = before + after
    return data


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The same bytes, as they may arrive."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(places)]


SEQS = st.one_of(st.integers(0, 12), st.integers(SEQ_MAX - 3, SEQ_MAX), st.integers(0, SEQ_MAX))
DELTAS = st.integers(-DELTA_MAX, DELTA_MAX)
CURSORS = st.just(-1) | SEQS

CONTROLS = st.one_of(
    st.builds(Snapshot, CURSORS, st.integers(-(10**12), 10**12)),
    st.builds(Truncated, SEQS),
    st.builds(Ahead, CURSORS),
).map(encode_control)

LINES = st.builds(encode_event, SEQS, DELTAS)

CUTS = st.lists(PLACES, max_size=6)
