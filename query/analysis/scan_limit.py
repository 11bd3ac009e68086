"""The newest part of a window within the scan limit.

Spans, or log records, are counted before filters. The part is contiguous and ends with the window, so results are
correct for that part, and it depends only on the stored data: not on threads, nor on the order of reading.
"""

from typing import Final, NamedTuple

from query.analysis.attributes import split_buckets
from query.fields import SPANS, TelemetryTable
from query.read_store import ReadStore
from query.statements import SpanCount
from query.statements.window import BUCKET, Window

# Granularity of the start of the part. Complete buckets are counted by the index; finer steps split a bucket that has
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

    It begins at a bucket boundary; if that leaves less than half of `max_spans`, at a second, and so on. Spans of one
    nanosecond are not separated: the newest nanosecond that has any counts in full, however many they are.
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
    """A window from `exceeds` has more spans than the limit; one from `fits` has `spans`, which is within it."""

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
    """The edge between two neighbouring multiples of `step`, or an end of the window if that is nearer."""
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
