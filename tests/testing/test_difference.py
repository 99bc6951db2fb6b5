"""What differs is said in a few lines."""

import pytest

from consumer.testing.proof.difference import SHOWN_CHARS_MAX, describe


@pytest.mark.parametrize(
    ("expected", "found", "lines"),
    [
        ({"a": ["1"]}, {"a": ["1"]}, []),
        (5, 6, ["observed: 6, undisturbed 5"]),
        ([1, 2], [2, 1], ["observed: 2 rows, undisturbed 2", "  the same ones in another order"]),
        ([1], [1, 1, 2], ["observed: 3 rows, undisturbed 1", "  too much: 1, 2"]),
        ({"a": []}, {}, ["a: not there at all"]),
        ({}, {"a": []}, ["a: there, and undisturbed it is not"]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ["b: 3, undisturbed 2"]),
        (
            {"a": ["(1,)", "(2,)"]},
            {"a": ["(3,)"] * 2 + ["(4,)", "(5,)", "(6,)"]},
            ["a: 5 rows, undisturbed 2", "  too much: (3,) x2, (4,), (5,), …", "  missing: (1,), (2,)"],
        ),
    ],
)
def test_lines(expected, found, lines) -> None:
    assert describe(expected, found) == lines


def test_a_long_value_is_cut() -> None:
    [line] = describe("x", "y" * 1000)
    assert len(line) < SHOWN_CHARS_MAX + 50
