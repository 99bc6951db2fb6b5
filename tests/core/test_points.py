"""The named places where a process may die."""

from consumer.core import points
from consumer.core.points import Point


def test_the_points_stand_in_the_order_in_which_an_event_passes_them() -> None:
    assert [str(point) for point in Point] == [
        "after_ledger",
        "after_cursor",
        "before_handler",
        "after_handler",
        "before_commit",
        "after_commit",
        "before_ack",
        "after_ack",
    ]


def test_to_reach_one_does_nothing_until_somebody_says_what() -> None:
    assert [points.reach(point) for point in Point] == [None] * len(Point)
