"""The steps of time that a series is cut into: multiples of the interval since 1970."""

from datetime import UTC, datetime
from typing import Final

from query.asking.instant import MINUTE, SECOND
from query.asking.window import Window
from query.tree import Steps

LADDER: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)  # minutes
MAX_MINUTES: Final = 43_200
MAX_POINTS: Final = 1_500
_DEFAULT_POINTS: Final = 60


def default_minutes(window: Window) -> int:
    """The shortest interval of the ladder that gives a readable number of points; days where none does."""
    fitting = (minutes for minutes in LADDER if points(window, minutes) <= _DEFAULT_POINTS)
    return next(fitting, LADDER[-1])


def points(window: Window, minutes: int) -> int:
    """How many steps the window touches."""
    width = minutes * MINUTE
    return -(-window.to_ns // width) - window.from_ns // width


def steps_of(window: Window, minutes: int) -> Steps:
    """Steps that number 0 begins at or before the window."""
    width = minutes * MINUTE
    return Steps(window.from_ns // width * width, width)


def labels(window: Window, minutes: int) -> list[str]:
    """The begin of every step that the window touches: `2026-11-20T15:15:00Z`."""
    steps = steps_of(window, minutes)
    begins = (steps.origin_ns + n * steps.width_ns for n in range(points(window, minutes)))
    return [f"{datetime.fromtimestamp(begin // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}" for begin in begins]
