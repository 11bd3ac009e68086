"""The newest part of a window that has no more spans than may be looked at.

Spans are counted before filters. The part is contiguous and ends with the window, so what is said of it is true of it,
and it depends on what is stored alone: not on threads, nor on the order of reading.
"""

from typing import Final, NamedTuple

from query.analysis.attributes import split_buckets
from query.read_store import ReadStore
from query.statements import SpanCount
from query.statements.window import BUCKET, Window

# Where the part may begin: whole buckets are counted by the index. Shorter steps are for one that has too many.
_STEPS: Final = (BUCKET, 10**9, 10**6, 10**3, 1)


class ScanWindow(NamedTuple):
    """A window, its spans, and whether it is less than was asked for."""

    window: Window
    spans: int
    truncated: bool


async def newest_within_limit(store: ReadStore, project_id: int, window: Window, max_spans: int) -> ScanWindow:
    """The newest part of `window` with at most `max_spans` spans, and at least one. Raises StoreErrors.

    It begins with a bucket; where that leaves less than half of what may be looked at, with a second, and so on. Spans
    of one nanosecond are not told apart: all of the newest that has any count, however many.
    """
    spans = await count_spans(store, project_id, window)
    if spans <= max_spans:
        return ScanWindow(window, spans, truncated=False)
    edge = _Edge(window.from_ns, window.to_ns, 0)
    for step in _STEPS:
        edge = await _narrow(store, project_id, edge, window, step, max_spans)
        if 2 * edge.spans >= max_spans:
            break
    if edge.spans:
        return ScanWindow(Window(edge.fits, window.to_ns), edge.spans, truncated=True)
    last = Window(edge.exceeds, window.to_ns)  # a nanosecond before `fits`, after which there is nothing
    return ScanWindow(last, await count_spans(store, project_id, last), truncated=True)


class _Edge(NamedTuple):
    """From `exceeds` on a window has more spans than may be looked at, from `fits` on it has `spans`, which are not."""

    exceeds: int
    fits: int
    spans: int


async def _narrow(store: ReadStore, project_id: int, edge: _Edge, window: Window, step: int, max_spans: int) -> _Edge:
    """The edge between two neighbouring multiples of `step`, or an end of the window where that is nearer."""
    low, high = edge.exceeds // step, -(-edge.fits // step)
    spans = edge.spans
    while high - low > 1:
        middle = (low + high) // 2
        counted = await count_spans(store, project_id, Window(middle * step, window.to_ns))
        if counted <= max_spans:
            high, spans = middle, counted
        else:
            low = middle
    return _Edge(max(low * step, window.from_ns), min(high * step, window.to_ns), spans)


async def count_spans(store: ReadStore, project_id: int, window: Window) -> int:
    """How many spans a window has. Raises StoreErrors."""
    whole, edges = split_buckets(window)
    ((spans,),) = await store.rows(SpanCount(project_id=project_id, whole_buckets=whole, partial_buckets=edges))
    return int(spans)
