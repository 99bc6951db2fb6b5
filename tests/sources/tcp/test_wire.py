"""What is encoded is what is decoded, in bulk as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import MalformedFrame
from consumer.core.events import DELTA_MAX, SEQ_MAX
from consumer.sources.tcp.wire import (
    Ahead,
    Snapshot,
    Truncated,
    decode,
    decode_acks,
    encode_ack,
    encode_acks,
    encode_control,
    encode_event,
    encode_resume,
    parse_resume,
)

SEQS = st.integers(0, SEQ_MAX)

RUNS = st.builds(lambda first, count: list(range(first, first + count)), SEQS, st.integers(0, 40))


def check_acks(seqs: list[int]) -> None:
    data = encode_acks(seqs)
    assert data == b"".join(encode_ack(seq) for seq in seqs)
    if all(seq <= SEQ_MAX for seq in seqs):
        assert decode_acks(data) == (seqs, b"", None)


@given(RUNS | st.lists(SEQS, max_size=10))
def test_acknowledgements_in_bulk_are_those_one_by_one(seqs) -> None:
    check_acks(seqs)


@pytest.mark.parametrize("first", [0, 1, 998, 999, 1000, 1001, 1999, 2000, 9999, 10**6 - 1, 2147482000, SEQ_MAX - 2])
@pytest.mark.parametrize("count", [1, 2, 3, 999, 1000, 1001, 2500])
def test_a_run_of_acknowledgements_is_right_around_every_thousand(first, count) -> None:
    check_acks(list(range(first, min(first + count, SEQ_MAX + 1))))


def test_acknowledgements_out_of_order_stay_so() -> None:
    for seqs in ([5000, 4999], [4000, 4002], [4000, 4000], [4000, 4001, 4001, 4003], [7, 5000], [4000, 4002, 4002]):
        check_acks(seqs)


def test_an_old_duplicate_before_a_new_event_costs_no_more_than_two() -> None:
    """A list of all the numbers between the two would be tens of gigabytes."""
    check_acks([1000, SEQ_MAX])
    check_acks([SEQ_MAX, 1000])


@given(st.lists(SEQS, max_size=6), st.integers(0, 80))
def test_acknowledgements_cut_anywhere_are_read_up_to_the_last_whole_line(seqs, cut) -> None:
    data = encode_acks(seqs)
    found, rest, stop = decode_acks(data[:cut])
    assert stop is None
    assert encode_acks(found) + rest == data[:cut]
    assert decode_acks(rest + data[cut:])[0] == seqs[len(found) :]


@pytest.mark.parametrize(
    "bad",
    [
        b"ACK 01\n",
        b"ACK -1\n",
        b"ACK 1\r\n",
        b"ACK 2147483648\n",
        b"ACK 9999999999\n",
        b"ACK  1\n",
        b"ack 1\n",
        b"\n",
        b"ACK\n",
        b"EVENT 1 1\n",
        b"ACK 1 \n",
        b"ACK +1\n",
        b"ACK 1" + b"0" * 60,
        b"\xff\n",
    ],
)
def test_what_precedes_a_bad_acknowledgement_is_read(bad) -> None:
    seqs, rest, stop = decode_acks(b"ACK 1\nACK 2\n" + bad + (b"ACK 3\n" if bad.endswith(b"\n") else b""))
    assert seqs == [1, 2]
    assert rest.startswith(bad)
    assert isinstance(stop, MalformedFrame)
    assert stop.line == bad


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (Snapshot(-1, 0), b"SNAPSHOT -1 0\n"),
        (Snapshot(SEQ_MAX, -(2**31) * 1000), b"SNAPSHOT 2147483647 -2147483648000\n"),
        (Truncated(0), b"TRUNCATED 0\n"),
        (Truncated(SEQ_MAX), b"TRUNCATED 2147483647\n"),
        (Ahead(-1), b"AHEAD -1\n"),
        (Ahead(12), b"AHEAD 12\n"),
    ],
)
def test_a_control_frame_is_read_as_it_was_written(frame, line) -> None:
    assert encode_control(frame) == line
    assert decode(b"EVENT 1 2\n" + line + b"EVENT") == ([(1, 2)], b"EVENT", frame)


@pytest.mark.parametrize("last", [-1, 0, 7, SEQ_MAX])
def test_a_cursor_is_read_as_it_was_written(last) -> None:
    assert parse_resume(encode_resume(last)) == last


@pytest.mark.parametrize(
    "line", [b"RESUME -2\n", b"RESUME 01\n", b"RESUME 2147483648\n", b"RESUME 1", b"RESUME 1\r\n", b""]
)
def test_a_line_that_is_no_cursor_is_malformed(line) -> None:
    with pytest.raises(MalformedFrame) as refused:
        parse_resume(line)
    assert refused.value.line == line


@given(SEQS, st.integers(-DELTA_MAX, DELTA_MAX))
def test_an_event_is_read_as_it_was_written(seq, delta) -> None:
    assert decode(encode_event(seq, delta)) == ([(seq, delta)], b"", None)
