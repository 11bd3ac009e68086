"""The newest part of a window that has no more spans than may be looked at.

Spans are counted before filters. The part is contiguous and ends with the window, so what is said of it is true of it,
and it depends on what is stored alone: not on threads, nor on the order of reading.
"""

from typing import Final, NamedTuple

from query.analysis.attributes import split
from query.asking.window import BUCKET, Window
from query.store import Store
from query.tree import SpanCount

# Where the part may begin: whole buckets are counted by the index. Shorter steps are for a bucket that is too large.
_STEPS: Final = (BUCKET, 10**9, 10**6, 10**3, 1)


class Part(NamedTuple):
    """A window, its spans, and whether it is less than was asked for."""

    window: Window
    spans: int
    truncated: bool


async def newest(store: Store, project_id: int, window: Window, max_spans: int) -> Part:
    """The newest part of `window` with at most `max_spans` spans. Raises StoreErrors.

    It begins with a bucket; where the newest bucket alone has too many, with a second of it, and so on. Spans of one
    nanosecond are not told apart: all of the newest count, however many.
    """
    spans = await count(store, project_id, window)
    if spans <= max_spans:
        return Part(window, spans, truncated=False)
    floor = window.from_ns
    for step in _STEPS:
        begin, spans = await _earliest(store, project_id, Window(floor, window.to_ns), step, max_spans)
        if begin is not None:
            return Part(Window(begin, window.to_ns), spans, truncated=True)
        floor = max(floor, (window.to_ns - 1) // step * step)
    last = Window(window.to_ns - 1, window.to_ns)
    return Part(last, await count(store, project_id, last), truncated=True)


async def _earliest(store: Store, project_id: int, window: Window, step: int, max_spans: int) -> tuple[int | None, int]:
    """The first multiple of `step` within the window from which on it has at most `max_spans`, and how many; None when
    even the last has more. From the window's own begin on there are more.
    """
    low, high = window.from_ns // step, (window.to_ns - 1) // step + 1  # `low` has too many, `high` is not within
    found, spans = high, 0
    while found - low > 1:
        middle = (low + found) // 2
        counted = await count(store, project_id, Window(middle * step, window.to_ns))
        if counted <= max_spans:
            found, spans = middle, counted
        else:
            low = middle
    return (None, 0) if found == high else (found * step, spans)


async def count(store: Store, project_id: int, window: Window) -> int:
    """How many spans a window has. Raises StoreErrors."""
    whole, edges = split(window)
    ((spans,),) = await store.rows(SpanCount(project_id=project_id, whole=whole, edges=edges))
    return int(spans)
