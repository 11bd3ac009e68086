"""The time buckets of a series (multiples of the interval since 1970), and the newest part of a window that is within
the scan limit.

The scan limit counts spans (or log records) before filters. The part is contiguous and ends with the window, so results
are correct for this part. It depends only on the stored data, not on threads or on the order of reading.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from chassis.http.validation import Issues
from query.analysis.attributes import split_buckets
from query.read_store import ReadStore
from query.rows import SPANS, TelemetryTable
from query.statements import BUCKET, SpanCount, TimeBuckets, Window
from query.values import SECOND

INTERVALS_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)  # minutes
MAX_INTERVAL_MINUTES: Final = 43_200
INTERVALS_SECONDS: Final = (1, 2, 5, 10, 15, 30, *(60 * minutes for minutes in INTERVALS_MINUTES))  # seconds
MAX_INTERVAL_SECONDS: Final = 60 * MAX_INTERVAL_MINUTES
MAX_POINTS: Final = 1_500
_DEFAULT_POINTS: Final = 60


def default_interval_minutes(window: Window) -> int:
    """The shortest of INTERVALS_MINUTES with at most 60 points; a day if a shorter one has more."""
    fitting = (minutes for minutes in INTERVALS_MINUTES if point_count(window, minutes) <= _DEFAULT_POINTS)
    return next(fitting, INTERVALS_MINUTES[-1])


def default_interval_seconds(window: Window) -> int:
    """The shortest of INTERVALS_SECONDS with at most 60 points; a day if a shorter one has more."""
    fitting = (seconds for seconds in INTERVALS_SECONDS if points_of_seconds(window, seconds) <= _DEFAULT_POINTS)
    return next(fitting, INTERVALS_SECONDS[-1])


def interval_seconds(requested: int | None, window: Window, issues: Issues) -> int:
    """The interval of the series that a body requests: as requested, 0 for no series, or the default. An interval that
    is too short is an issue."""
    if requested is None:
        return default_interval_seconds(window)
    if requested and points_of_seconds(window, requested) > MAX_POINTS:
        message = f"A series has at most {MAX_POINTS} points; use a longer interval or a shorter time range."
        issues.add("body.intervalSeconds", message, "too_small")
    return requested


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


# Steps at which the part may start. Complete buckets are counted from the index; finer steps split a bucket that has
# too many spans.
_STEPS: Final = (BUCKET, 10**9, 10**6, 10**3, 1)


class ScanWindow(NamedTuple):
    """A window, its number of spans (or log records), and whether it is shorter than requested."""

    window: Window
    spans: int
    truncated: bool


async def newest_within_limit(
    store: ReadStore, project_id: int, window: Window, max_spans: int, signal: TelemetryTable = SPANS
) -> ScanWindow:
    """The newest part of `window` with at most `max_spans` spans (or rows of another `signal`), and at least one.
    Raises StoreErrors.

    The part begins at a bucket boundary. If this leaves less than half of `max_spans`, it begins at a second, and so
    on. Spans with the same nanosecond are not separated: the newest nanosecond with spans is always included
    completely.
    """
    spans = await count_spans(store, project_id, window, signal)
    if spans <= max_spans:
        return ScanWindow(window, spans, truncated=False)
    edge = _Edge(window.from_ns, window.to_ns, 0)
    for step in _STEPS:
        edge = await _narrow(store, project_id, edge, window, step, max_spans, signal)
        if 2 * edge.spans >= max_spans:
            break
    if edge.spans:
        return ScanWindow(Window(edge.fits, window.to_ns), edge.spans, truncated=True)
    newest = Window(edge.exceeds, window.to_ns)  # a nanosecond before `fits`, after which there are no spans
    return ScanWindow(newest, await count_spans(store, project_id, newest, signal), truncated=True)


class _Edge(NamedTuple):
    """A window that begins at `exceeds` has more spans than the limit. A window that begins at `fits` has `spans`
    spans, which are within the limit."""

    exceeds: int
    fits: int
    spans: int


async def _narrow(
    store: ReadStore,
    project_id: int,
    edge: _Edge,
    window: Window,
    step: int,
    max_spans: int,
    signal: TelemetryTable,
) -> _Edge:
    """The edge between two neighbouring multiples of `step`, or an end of the window if it is nearer."""
    low, high = edge.exceeds // step, -(-edge.fits // step)
    spans = edge.spans
    while high - low > 1:
        middle = (low + high) // 2
        counted = await count_spans(store, project_id, Window(middle * step, window.to_ns), signal)
        if counted <= max_spans:
            high, spans = middle, counted
        else:
            low = middle
    return _Edge(max(low * step, window.from_ns), min(high * step, window.to_ns), spans)


async def count_spans(store: ReadStore, project_id: int, window: Window, signal: TelemetryTable = SPANS) -> int:
    """The number of spans, or rows of another `signal`, in a window. Raises StoreErrors."""
    whole_buckets, partial_buckets = split_buckets(window)
    ((spans,),) = await store.rows(
        SpanCount(project_id=project_id, whole_buckets=whole_buckets, partial_buckets=partial_buckets, signal=signal)
    )
    return int(spans)
