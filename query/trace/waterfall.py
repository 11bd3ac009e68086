"""A trace as a tree: the parent of each span, its depth, and its self time. Pure, in integer nanoseconds.

Every span is laid out exactly once, whatever was sent: missing parents, spans that are their own parent or ancestor,
ids that several spans share, chains ten thousand deep. No timestamp is changed.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from query.rows import BriefSpanColumns, TraceRowColumns

_ROOT: Final = -1

LaidOutSpan = BriefSpanColumns | TraceRowColumns


class PositionedSpan(NamedTuple):
    """One line of the waterfall: the span by its index, its depth, and its self time, which none of its children
    covers.
    """

    span: int
    depth: int
    self_ns: int
    orphan: bool


class Layout(NamedTuple):
    """The lines from top to bottom, and the time range they cover (None for an empty trace)."""

    lines: list[PositionedSpan]
    start_ns: int | None
    end_ns: int | None


def build_layout(spans: Sequence[LaidOutSpan]) -> Layout:
    """Depth first, siblings by start. `spans` are distinct and sorted by start, span id, batch, row.

    An orphan is a span with an invalid parent link: to a span that does not exist, to itself, or, for the earliest span
    of a cycle, round to itself; it is placed at depth 0. Of spans that share an id the earliest gets the children.
    """
    if not spans:
        return Layout([], None, None)
    parents, orphans = _find_parents(spans)
    _break_cycles(parents, orphans)
    children: list[list[int]] = [[] for _ in spans]
    roots: list[int] = []
    for index, parent in enumerate(parents):
        (roots if parent == _ROOT else children[parent]).append(index)
    lines = [
        PositionedSpan(index, depth, self_time_ns(spans, index, children[index]), index in orphans)
        for index, depth in _depth_first(roots, children)
    ]
    return Layout(lines, spans[0].start_ns, max(map(span_end_ns, spans)))


def span_end_ns(span: LaidOutSpan) -> int:
    """The end of a span; a span that ends before it starts has length zero."""
    return span.start_ns + max(span.duration_ns, 0)


def self_time_ns(spans: Sequence[LaidOutSpan], index: int, children: Sequence[int]) -> int:
    """The time of a span that none of its children covers. `children` are sorted by start; only their time inside the
    span counts.
    """
    start, end = spans[index].start_ns, span_end_ns(spans[index])
    covered, reached = 0, start
    for child in children:
        child_start, child_end = max(spans[child].start_ns, reached), min(span_end_ns(spans[child]), end)
        if child_end > child_start:
            covered += child_end - child_start
            reached = child_end
    return end - start - covered


def _find_parents(spans: Sequence[LaidOutSpan]) -> tuple[list[int], set[int]]:
    """The index of each span's parent, and the orphans so far."""
    owners: dict[bytes, int] = {}
    for index, span in enumerate(spans):
        owners.setdefault(span.span_id, index)
    parents, orphans = [], set()
    for index, span in enumerate(spans):
        parent = _ROOT
        if any(span.parent_span_id):
            if span.parent_span_id != span.span_id:
                parent = owners.get(span.parent_span_id, _ROOT)
            if parent == _ROOT:
                orphans.add(index)
        parents.append(parent)
    return parents, orphans


def _break_cycles(parents: list[int], orphans: set[int]) -> None:
    """Make the earliest span of each cycle a root. Spans below a cycle keep their parents."""
    visited_in = [0] * len(parents)  # number of the walk that reached the span first
    for number, first in enumerate(range(len(parents)), start=1):
        current = first
        while current != _ROOT and not visited_in[current]:
            visited_in[current] = number
            current = parents[current]
        if current != _ROOT and visited_in[current] == number:
            earliest = min(_cycle(parents, current))
            parents[earliest] = _ROOT
            orphans.add(earliest)


def _cycle(parents: Sequence[int], member: int) -> list[int]:
    members, current = [member], parents[member]
    while current != member:
        members.append(current)
        current = parents[current]
    return members


def _depth_first(roots: Sequence[int], children: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    order = []
    waiting = [(root, 0) for root in reversed(roots)]
    while waiting:
        index, depth = waiting.pop()
        order.append((index, depth))
        waiting.extend((child, depth + 1) for child in reversed(children[index]))
    return order
