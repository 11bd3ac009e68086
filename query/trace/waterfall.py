"""A trace as a tree: which span stands under which, how deep, and how long it worked itself. Pure, in integer
nanoseconds.

Every span comes out exactly once, whatever was sent: parents that are missing, spans that are their own parent or
their own ancestor, ids that several spans share, chains ten thousand deep. No timestamp is changed.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from query.rows import BriefSpanColumns

_ROOT: Final = -1


class PositionedSpan(NamedTuple):
    """One line of the waterfall: the span by its index, its depth, and its own time: what no child of it covers."""

    span: int
    depth: int
    self_ns: int
    orphan: bool


class Layout(NamedTuple):
    """The lines from top to bottom, and the time they cover (None for an empty trace)."""

    lines: list[PositionedSpan]
    start_ns: int | None
    end_ns: int | None


def build_layout(spans: Sequence[BriefSpanColumns]) -> Layout:
    """Depth first, siblings by start. `spans` are distinct and sorted: by start, span id, batch, row.

    An orphan is a span whose link to its parent leads nowhere: to a span that is not there, to itself, or, for the
    earliest span of a cycle, round to itself; it stands at depth 0. Of spans that share an id the earliest has the
    children.
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


def span_end_ns(span: BriefSpanColumns) -> int:
    """Where a span ends; one that ends before it starts has no length."""
    return span.start_ns + max(span.duration_ns, 0)


def self_time_ns(spans: Sequence[BriefSpanColumns], index: int, children: Sequence[int]) -> int:
    """The part of a span that none of its children covers. `children` are sorted by start; only what lies inside
    counts.
    """
    start, end = spans[index].start_ns, span_end_ns(spans[index])
    covered, reached = 0, start
    for child in children:
        child_start, child_end = max(spans[child].start_ns, reached), min(span_end_ns(spans[child]), end)
        if child_end > child_start:
            covered += child_end - child_start
            reached = child_end
    return end - start - covered


def _find_parents(spans: Sequence[BriefSpanColumns]) -> tuple[list[int], set[int]]:
    """The parent of each span by index, and the orphans so far."""
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
    """Make the earliest span of each cycle a root. What hangs on a cycle keeps its place."""
    seen_in = [0] * len(parents)  # number of the walk that met the span first
    for number, first in enumerate(range(len(parents)), start=1):
        at = first
        while at != _ROOT and not seen_in[at]:
            seen_in[at] = number
            at = parents[at]
        if at != _ROOT and seen_in[at] == number:
            earliest = min(_cycle(parents, at))
            parents[earliest] = _ROOT
            orphans.add(earliest)


def _cycle(parents: Sequence[int], member: int) -> list[int]:
    members, at = [member], parents[member]
    while at != member:
        members.append(at)
        at = parents[at]
    return members


def _depth_first(roots: Sequence[int], children: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    order = []
    waiting = [(root, 0) for root in reversed(roots)]
    while waiting:
        index, depth = waiting.pop()
        order.append((index, depth))
        waiting.extend((child, depth + 1) for child in reversed(children[index]))
    return order
