"""The steps of time that a series is cut into: multiples of the interval since 1970."""

from datetime import UTC, datetime
from typing import Final

from query.statements import TimeBuckets
from query.statements.window import Window
from query.timestamps import MINUTE, SECOND

INTERVALS_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)  # minutes
MAX_INTERVAL_MINUTES: Final = 43_200
MAX_POINTS: Final = 1_500
_DEFAULT_POINTS: Final = 60


def default_interval_minutes(window: Window) -> int:
    """The shortest interval of the ladder that gives a readable number of points; days where none does."""
    fitting = (minutes for minutes in INTERVALS_MINUTES if point_count(window, minutes) <= _DEFAULT_POINTS)
    return next(fitting, INTERVALS_MINUTES[-1])


def point_count(window: Window, minutes: int) -> int:
    """How many steps the window touches."""
    width = minutes * MINUTE
    return -(-window.to_ns // width) - window.from_ns // width


def time_buckets(window: Window, minutes: int) -> TimeBuckets:
    """Steps that number 0 begins at or before the window."""
    width = minutes * MINUTE
    return TimeBuckets(window.from_ns // width * width, width)


def bucket_labels(window: Window, minutes: int) -> list[str]:
    """The begin of every step that the window touches: `2026-11-20T15:15:00Z`."""
    steps = time_buckets(window, minutes)
    begins = (steps.origin_ns + n * steps.width_ns for n in range(point_count(window, minutes)))
    return [f"{datetime.fromtimestamp(begin // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}" for begin in begins]
