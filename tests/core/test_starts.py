"""Where a stream begins that was never consumed: what can be said, and that it is said again the same way."""

import pytest

from consumer.core.errors import InvalidOption
from consumer.core.starts import Earliest, FromNumber, FromTime, Latest, Start, parse_start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("0", FromNumber(0)),
        ("9223372036854775807", FromNumber(2**63 - 1)),
        ("1970-01-01T00:00:01Z", FromTime(1000)),
        ("2026-05-01T00:00:00.123+02:00", FromTime(1777586400123)),
    ],
)
def test_a_start_is_read_and_said_again(text: str, start: Start) -> None:
    assert parse_start(text) == start
    assert parse_start(str(start)) == start


@pytest.mark.parametrize(
    "text",
    ["", "Earliest", "-1", "+1", "9223372036854775808", "٣", "1.5", "yesterday", "2026-05-01T00:00:00", "2026-05-01"],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_start(text)
    assert repr(text) in str(caught.value)
    assert "earliest, latest" in str(caught.value)
