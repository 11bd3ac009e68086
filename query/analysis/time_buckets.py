"""The time buckets of a series: multiples of the interval since 1970."""

from datetime import UTC, datetime
from typing import Final

from query.statements import TimeBuckets
from query.statements.window import Window
from query.timestamps import SECOND

INTERVALS_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)  # minutes
MAX_INTERVAL_MINUTES: Final = 43_200
INTERVALS_SECONDS: Final = (1, 2, 5, 10, 15, 30, *(60 * minutes for minutes in INTERVALS_MINUTES))  # seconds
MAX_INTERVAL_SECONDS: Final = 60 * MAX_INTERVAL_MINUTES
MAX_POINTS: Final = 1_500
_DEFAULT_POINTS: Final = 60


def default_interval_minutes(window: Window) -> int:
    """The shortest of INTERVALS_MINUTES with at most 60 points; a day if none has."""
    fitting = (minutes for minutes in INTERVALS_MINUTES if point_count(window, minutes) <= _DEFAULT_POINTS)
    return next(fitting, INTERVALS_MINUTES[-1])


def default_interval_seconds(window: Window) -> int:
    """The shortest of INTERVALS_SECONDS with at most 60 points; a day if none has."""
    fitting = (seconds for seconds in INTERVALS_SECONDS if points_of_seconds(window, seconds) <= _DEFAULT_POINTS)
    return next(fitting, INTERVALS_SECONDS[-1])


def point_count(window: Window, minutes: int) -> int:
    """The number of buckets that overlap the window."""
    return points_of_seconds(window, 60 * minutes)


def points_of_seconds(window: Window, seconds: int) -> int:
    """The number of buckets that overlap the window."""
    width = seconds * SECOND
    return -(-window.to_ns // width) - window.from_ns // width


def time_buckets(window: Window, minutes: int) -> TimeBuckets:
    """Buckets of which number 0 begins at or before the window."""
    return buckets_of_seconds(window, 60 * minutes)


def buckets_of_seconds(window: Window, seconds: int) -> TimeBuckets:
    """Buckets of which number 0 begins at or before the window."""
    width = seconds * SECOND
    return TimeBuckets(window.from_ns // width * width, width)


def bucket_labels(window: Window, minutes: int) -> list[str]:
    """The start of every bucket that overlaps the window: `2026-11-20T15:15:00Z`."""
    return labels_of_seconds(window, 60 * minutes)


def labels_of_seconds(window: Window, seconds: int) -> list[str]:
    """The start of every bucket that overlaps the window: `2026-11-20T15:15:05Z`."""
    buckets = buckets_of_seconds(window, seconds)
    starts = (buckets.origin_ns + n * buckets.width_ns for n in range(points_of_seconds(window, seconds)))
    return [f"{datetime.fromtimestamp(start // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}" for start in starts]
