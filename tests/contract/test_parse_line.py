"""Step 1: parse_line, against a table and against a second parser that was written apart from it."""

import random
from collections.abc import Iterator

import pytest

from consumer import parse_line

from .helpers import DELTA_MAX, NOT_AN_INT, SEQ_MAX

# --- a parser of its own: byte by byte, no regular expression, no int() --------------------------

ZERO, NINE, MINUS = ord("0"), ord("9"), ord("-")


def read_number(line: bytes, at: int) -> tuple[int, int] | None:
    """The canonical number without a sign at ``at``, and where it ends."""
    start, value, size = at, 0, len(line)
    while at < size and ZERO <= line[at] <= NINE:
        value = value * 10 + line[at] - ZERO
        at += 1
    if at == start or (line[start] == ZERO and at - start > 1):
        return None
    return value, at


def reference(line: bytes) -> tuple[int, int] | None:  # noqa: PLR0911 - one way out for each rule
    """(seq, delta), or None where step 1 says ValueError."""
    if len(line) > 64 or line[:6] != b"EVENT ":
        return None
    found = read_number(line, 6)
    if found is None:
        return None
    seq, at = found
    if seq > SEQ_MAX or line[at : at + 1] != b" ":
        return None
    negative = line[at + 1 : at + 2] == b"-"
    found = read_number(line, at + 1 + negative)
    if found is None:
        return None
    delta, at = found
    if delta > DELTA_MAX or (negative and delta == 0):
        return None
    if line[at:] != b"\n":
        return None
    return seq, -delta if negative else delta


def agree(line: bytes) -> bool:
    """Both parsers say the same, to the type."""
    try:
        parsed = parse_line(line)
    except ValueError:
        return reference(line) is None
    assert type(parsed) is tuple, line
    seq, delta = parsed
    assert type(seq) is int, line
    assert type(delta) is int, line
    return parsed == reference(line)


# --- the table -----------------------------------------------------------------------------------

GOOD = [
    (b"EVENT 0 0\n", (0, 0)),
    (b"EVENT 1 1\n", (1, 1)),
    (b"EVENT 10 -10\n", (10, -10)),
    (b"EVENT 2147483647 1000\n", (2147483647, 1000)),
    (b"EVENT 2147483647 -1000\n", (2147483647, -1000)),
    (b"EVENT 2147483639 999\n", (2147483639, 999)),
    (b"EVENT 0 -1\n", (0, -1)),
    (b"EVENT 1000000000 100\n", (1000000000, 100)),
]


@pytest.mark.parametrize(("line", "event"), GOOD, ids=repr)
def test_a_whole_line_becomes_a_plain_tuple_of_two_ints(line, event) -> None:
    parsed = parse_line(line)
    assert parsed == event
    assert type(parsed) is tuple
    assert [type(value) for value in parsed] == [int, int]


BAD = {
    "empty": b"",
    "newline alone": b"\n",
    "word alone": b"EVENT\n",
    "word and space alone": b"EVENT \n",
    "no delta": b"EVENT 1\n",
    "no delta but its space": b"EVENT 1 \n",
    "no seq": b"EVENT  1\n",
    "three numbers": b"EVENT 1 2 3\n",
    "no newline": b"EVENT 1 2",
    "carriage return": b"EVENT 1 2\r\n",
    "carriage return alone": b"EVENT 1 2\r",
    "newline twice": b"EVENT 1 2\n\n",
    "two lines": b"EVENT 1 2\nEVENT 2 2\n",
    "a line and a half": b"EVENT 1 2\nEVENT",
    "newline first": b"\nEVENT 1 2\n",
    "newline within": b"EVENT 1\n2\n",
    "space first": b" EVENT 1 2\n",
    "space last": b"EVENT 1 2 \n",
    "space after the newline": b"EVENT 1 2\n ",
    "two spaces after the word": b"EVENT  1 2\n",
    "two spaces between": b"EVENT 1  2\n",
    "tab after the word": b"EVENT\t1 2\n",
    "tab between": b"EVENT 1\t2\n",
    "vertical tab": b"EVENT 1 2\x0b\n",
    "form feed": b"EVENT 1 2\x0c\n",
    "NUL last": b"EVENT 1 2\x00\n",
    "NUL after": b"EVENT 1 2\n\x00",
    "NUL between": b"EVENT\x001 2\n",
    "lower case": b"event 1 2\n",
    "title case": b"Event 1 2\n",
    "other word": b"EVENTS 1 2\n",
    "word twice": b"EVENT EVENT 1 2\n",
    "another frame": b"ACK 1\n",
    "byte order mark": b"\xef\xbb\xbfEVENT 1 2\n",
    "leading zero in seq": b"EVENT 01 2\n",
    "leading zero in delta": b"EVENT 1 02\n",
    "leading zero after the sign": b"EVENT 1 -02\n",
    "zero twice in seq": b"EVENT 00 2\n",
    "zero twice in delta": b"EVENT 1 00\n",
    "minus zero as delta": b"EVENT 1 -0\n",
    "minus zero as seq": b"EVENT -0 1\n",
    "minus zero zero": b"EVENT 1 -00\n",
    "plus on seq": b"EVENT +1 2\n",
    "plus on delta": b"EVENT 1 +2\n",
    "plus zero": b"EVENT 1 +0\n",
    "negative seq": b"EVENT -1 2\n",
    "two signs": b"EVENT 1 --2\n",
    "sign alone": b"EVENT 1 -\n",
    "sign apart": b"EVENT 1 - 2\n",
    "sign behind": b"EVENT 1 2-\n",
    "seq beyond the range": b"EVENT 2147483648 0\n",
    "seq of eleven digits": b"EVENT 10000000000 0\n",
    "delta beyond the range": b"EVENT 1 1001\n",
    "delta below the range": b"EVENT 1 -1001\n",
    "delta of five digits": b"EVENT 1 10000\n",
    "underscore": b"EVENT 1_0 2\n",
    "decimal point": b"EVENT 1.0 2\n",
    "exponent": b"EVENT 1e1 2\n",
    "hexadecimal": b"EVENT 0x1 2\n",
    "comma": b"EVENT 1,2\n",
    "superscript two in Latin-1": b"EVENT 1 \xb2\n",
    "no-break space in Latin-1": b"EVENT\xa01 2\n",
    "Arabic digit": "EVENT \u0661 2\n".encode(),
    "full-width digit": "EVENT 1 \uff12\n".encode(),
    "line separator": "EVENT 1 2\u2028".encode(),
    "next line in Latin-1": b"EVENT 1 2\x85",
    "UTF-16": "EVENT 1 2\n".encode("utf-16-le"),
    "64 bytes of digits": b"EVENT " + b"1" * 55 + b" 1\n",
    "65 bytes": b"EVENT 1 " + b"2" * 56 + b"\n",
    "64 bytes, filled with zeros": b"EVENT 1 " + b"0" * 54 + b"2\n",
    "64 bytes, filled with spaces": b"EVENT 1" + b" " * 55 + b"2\n",
    "more digits than int() takes": b"EVENT " + b"9" * 5000 + b" 1\n",
    "64 KiB": b"EVENT 1 2\n" + b"\n" * 65536,
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_line_that_is_not_exactly_one_frame_is_a_value_error(line) -> None:
    assert reference(line) is None, "the reference parser errs"
    with pytest.raises(ValueError):
        parse_line(line)


NOT_BYTES = [
    "EVENT 1 2\n",
    bytearray(b"EVENT 1 2\n"),
    memoryview(b"EVENT 1 2\n"),
    ["EVENT", 1, 2],
    (1, 2),
    [*b"EVENT 1 2\n"],
    *(value for value in NOT_AN_INT if not isinstance(value, bytes)),
    7,
]


@pytest.mark.parametrize("value", NOT_BYTES, ids=lambda value: type(value).__name__)
def test_anything_but_bytes_is_a_value_error(value) -> None:
    with pytest.raises(ValueError):
        parse_line(value)


# --- against the other parser --------------------------------------------------------------------

MODELS = [b"EVENT 0 0\n", b"EVENT 10 -7\n", b"EVENT 2147483647 -1000\n", b"EVENT 905 1000\n"]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_single_byte_changed_added_or_taken_away(model) -> None:
    for at in range(len(model) + 1):
        assert agree(model[:at])
        assert agree(model[at:])
        assert agree(model[:at] + model[at + 1 :])
        for byte in range(256):
            assert agree(model[:at] + bytes([byte]) + model[at + 1 :])
            assert agree(model[:at] + bytes([byte]) + model[at:])


def test_every_delta_from_below_the_range_to_above_it() -> None:
    for delta in range(-1100, 1101):
        line = b"EVENT 5 %d\n" % delta
        assert agree(line)
        assert (reference(line) is not None) == (-1000 <= delta <= 1000)


@pytest.mark.parametrize("edge", [0, *(10**n for n in range(1, 12)), 2**31, 2**32, 2**63])
def test_seqs_on_both_sides_of_every_edge(edge) -> None:
    for seq in range(max(0, edge - 3), edge + 4):
        line = b"EVENT %d 1\n" % seq
        assert agree(line)
        assert (reference(line) is not None) == (seq <= 2147483647)


LINES = 1_000_000
CHUNK = 25_000

WORDS = [b"EVENT"] * 200 + [b"event", b"EVEN", b"EVENTS", b"", b" EVENT", b"\nEVENT", b"ACK"]
GAPS = [b" "] * 300 + [b"  ", b"", b"\t", b"\n", b"\x00", b"\xa0", b" -", b" +", b" 0"]
ENDS = [b"\n"] * 250 + [b"", b"\r\n", b"\r", b"\n\n", b" \n", b"\n ", b"\x00\n", b"0\n", b"-\n"]
SEQS = [b"0", b"1", b"9", b"10", b"99", b"2147483646", b"2147483647", b"2147483648"] * 20
SEQS += [b"00", b"01", b"-1", b"-0", b"+1", b"", b"4294967296", b"9999999999", b"99999999999"]
SEQS += [b"2147483650", b"2147483700", b"2200000000", b"3000000000", b"1_0", b"1.0", b"9" * 40]
DELTAS = [b"0", b"-1", b"1", b"-9", b"99", b"-100", b"999", b"-999", b"1000", b"-1000"] * 20
DELTAS += [b"1001", b"-1001", b"1010", b"-1100", b"2000", b"-0", b"00", b"+0", b"+1", b"-01"]
DELTAS += [b"--1", b"", b"-", b"9999", b"-9999", b"10000", b"0x1", b"1e2", "\u0663".encode()]
ALPHABET = b"EVNT 0123456789-+\n\r\t\x00\xff"


def composed(rng: random.Random) -> Iterator[bytes]:
    """Lines put together from parts that are mostly good."""
    seqs = SEQS + [b"%d" % rng.randrange(2**32) for _ in range(300)]
    deltas = DELTAS + [b"%d" % rng.randrange(-1200, 1201) for _ in range(300)]
    parts = (rng.choices(pool, k=CHUNK) for pool in (WORDS, GAPS, seqs, GAPS, deltas, ENDS))
    return map(b"".join, zip(*parts, strict=True))


def mutated(rng: random.Random) -> Iterator[bytes]:
    """Good lines with one place replaced, cut or filled, sometimes twice."""
    for _ in range(CHUNK):
        line = b"EVENT %d %d\n" % (rng.getrandbits(31), rng.getrandbits(11) % 2001 - 1000)
        for _ in range(rng.choice((1, 1, 1, 2))):
            at = int(rng.random() * (len(line) + 1))
            cut = at + rng.choice((0, 1, 1, 2))
            line = line[:at] + rng.choice(STUFFING) + line[cut:]
        yield line


STUFFING = [b"", b"", *(bytes([byte]) for byte in ALPHABET), b"\n\n", b" \n", b"\r\n", b"0" * 60]


def noise(rng: random.Random) -> Iterator[bytes]:
    """Random bytes, and random bytes out of those that matter."""
    for _ in range(CHUNK // 2):
        yield rng.randbytes(int(rng.random() * 30))
    for size in rng.choices(range(70), k=CHUNK - CHUNK // 2):
        yield b"EVENT " * (size & 1) + bytes(rng.choices(ALPHABET, k=size // 3))


def test_a_million_seeded_lines_are_judged_as_by_the_other_parser() -> None:
    rng = random.Random(20240607)
    sources = [composed, composed, mutated, composed, noise]
    judged = good = 0
    while judged < LINES:
        for source in sources:
            for line in source(rng):
                judged += 1
                expected = reference(line)
                try:
                    parsed = parse_line(line)
                except ValueError:
                    parsed = None
                if parsed != expected:
                    pytest.fail(f"{line!r}: {parsed!r}, and {expected!r} by the other parser")
                good += parsed is not None
    # Both verdicts were seen often enough for the comparison to mean something.
    assert judged * 0.25 < good < judged * 0.75
