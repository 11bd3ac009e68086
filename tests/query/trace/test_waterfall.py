"""The layout of a trace, against a slow and plain one, and the shapes that break others."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.rows import BriefSpanColumns
from query.trace.waterfall import Layout, build_layout


def node(
    number: int, parent: int = 0, start: int = 0, duration: int = 10, *, name: str = "n", row: int = 0
) -> BriefSpanColumns:
    return BriefSpanColumns(
        start_ns=start,
        duration_ns=duration,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big"),
        name=name,
        kind=1,
        status_code=0,
        service_name="s",
        batch_id=1,
        row=row,
    )


def ordered(spans: Sequence[BriefSpanColumns]) -> list[BriefSpanColumns]:
    """In the order in which they are read."""
    numbered = [span._replace(row=row) for row, span in enumerate(spans)]
    return sorted(numbered, key=lambda span: (span.start_ns, span.span_id, span.batch_id, span.row))


def shown(spans: Sequence[BriefSpanColumns]) -> list[tuple[int, int, int, bool]]:
    """(span number, depth, self time, orphan) per line."""
    spans = ordered(spans)
    return [
        (int.from_bytes(spans[line.span].span_id, "big"), line.depth, line.self_ns, line.orphan)
        for line in build_layout(spans).lines
    ]


def test_an_empty_trace_has_no_time() -> None:
    assert build_layout([]) == Layout([], None, None)


def test_children_follow_their_parent_by_start() -> None:
    spans = [node(1, 0, 0, 100), node(2, 1, 50, 10), node(3, 1, 10, 20), node(4, 3, 15, 5), node(5, 0, 5, 1)]
    assert shown(spans) == [(1, 0, 70, False), (3, 1, 15, False), (4, 2, 5, False), (2, 1, 10, False), (5, 0, 1, False)]


def test_siblings_of_one_start_stand_by_span_id() -> None:
    assert [line[0] for line in shown([node(3, 1), node(2, 1), node(1)])] == [1, 2, 3]


def test_a_missing_parent_makes_an_orphan_and_not_of_its_descendants() -> None:
    assert shown([node(1, 99, 5), node(2, 1, 6), node(3, 0, 7)]) == [
        (1, 0, 1, True),
        (2, 1, 10, False),
        (3, 0, 10, False),
    ]


def test_a_span_that_is_its_own_parent_is_an_orphan() -> None:
    assert shown([node(1, 1), node(2, 1)]) == [(1, 0, 0, True), (2, 1, 10, False)]


def test_a_cycle_is_cut_at_its_earliest_span() -> None:
    spans = [node(1, 3, 30), node(2, 1, 20), node(3, 2, 10), node(4, 2, 5), node(5, 0, 0)]
    assert shown(spans) == [
        (5, 0, 10, False),
        (3, 0, 10, True),
        (1, 1, 10, False),
        (2, 2, 10, False),
        (4, 3, 10, False),
    ]


def test_two_cycles_are_cut_once_each() -> None:
    spans = [node(1, 2, 0), node(2, 1, 1), node(3, 4, 2), node(4, 3, 3)]
    assert [(number, depth, orphan) for number, depth, _, orphan in shown(spans)] == [
        (1, 0, True),
        (2, 1, False),
        (3, 0, True),
        (4, 1, False),
    ]


def test_of_spans_that_share_an_id_the_earliest_has_the_children() -> None:
    spans = [
        node(1, 0, 0, 100),
        node(2, 1, 10, 30, name="client"),
        node(2, 1, 12, 20, name="server"),
        node(3, 2, 15, 5),
    ]
    assert shown(spans) == [(1, 0, 70, False), (2, 1, 25, False), (3, 2, 5, False), (2, 1, 20, False)]


def test_a_chain_of_ten_thousand_comes_out_whole() -> None:
    count = 10_000
    lines = shown([node(n, n - 1, n, 2 * count) for n in range(1, count + 1)])
    assert [line[:2] for line in lines] == [(n, n - 1) for n in range(1, count + 1)]
    assert all(not line[3] for line in lines)


def test_a_cycle_of_ten_thousand_comes_out_whole() -> None:
    count = 10_000
    lines = shown([node(n, n - 1 or count, n) for n in range(1, count + 1)])
    assert [line[1] for line in lines] == [*range(count)]
    assert [line[3] for line in lines] == [True] + [False] * (count - 1)


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ([], 100),
        ([(0, 100)], 0),
        ([(10, 20), (40, 20)], 60),
        ([(10, 20), (20, 20)], 70),  # overlapping
        ([(10, 50), (20, 5), (30, 40)], 40),  # one inside another
        ([(-50, 60), (90, 60)], 80),  # across both edges
        ([(-50, 10), (100, 10), (200, 1)], 100),  # outside
        ([(-5, 500)], 0),  # around
        ([(10, 0), (20, -30)], 100),  # without length, and ending before it starts
        ([(10, 20), (10, 20)], 80),
    ],
)
def test_own_time_is_what_no_child_covers(children: list[tuple[int, int]], expected: int) -> None:
    spans = [node(1, 0, 1000, 100), *(node(n + 2, 1, 1000 + at, length) for n, (at, length) in enumerate(children))]
    assert next(line for line in shown(spans) if line[0] == 1)[2] == expected


def test_a_span_that_ends_before_it_starts_has_no_time_of_its_own() -> None:
    assert shown([node(1, 0, 10, -5), node(2, 1, 7, 2)]) == [(1, 0, 0, False), (2, 1, 2, False)]


def test_the_trace_covers_its_first_start_and_its_last_end() -> None:
    layout = build_layout(ordered([node(1, 0, 10, 5), node(2, 1, 12, 100), node(3, 1, 90, -80)]))
    assert (layout.start_ns, layout.end_ns) == (10, 112)


class Plain(NamedTuple):
    depth: int
    self_ns: int
    orphan: bool


def plain(spans: Sequence[BriefSpanColumns]) -> list[tuple[int, Plain]]:
    """The rules word by word: recursion, sets of nanoseconds, and a search for every question."""
    parents, orphans = plain_links(spans)
    for index in range(len(spans)):  # the earliest comes first
        if index in ancestors(parents, index):
            parents[index] = None
            orphans.add(index)
    lines: list[tuple[int, Plain]] = []

    def show(index: int, depth: int) -> None:
        children = [child for child, parent in enumerate(parents) if parent == index]
        own = moments(spans[index]).difference(*(moments(spans[child]) for child in children))
        lines.append((index, Plain(depth, len(own), index in orphans)))
        for child in children:
            show(child, depth + 1)

    for index, parent in enumerate(parents):
        if parent is None:
            show(index, 0)
    return lines


def plain_links(spans: Sequence[BriefSpanColumns]) -> tuple[list[int | None], set[int]]:
    parents: list[int | None] = []
    orphans = set()
    for index, span in enumerate(spans):
        same_id = [other for other, each in enumerate(spans) if each.span_id == span.parent_span_id]
        linked = span.parent_span_id != bytes(8)
        broken = linked and (span.parent_span_id == span.span_id or not same_id)
        parents.append(same_id[0] if linked and not broken else None)
        if broken:
            orphans.add(index)
    return parents, orphans


def ancestors(parents: Sequence[int | None], index: int) -> list[int]:
    line: list[int] = []
    at = parents[index]
    while at is not None and at not in line:
        line.append(at)
        at = parents[at]
    return line


def moments(span: BriefSpanColumns) -> set[int]:
    return set(range(span.start_ns, span.start_ns + span.duration_ns))


NODES = st.builds(
    node,
    st.integers(1, 8),
    st.integers(0, 9),
    st.integers(0, 30),
    st.integers(-5, 30),
)


@given(st.lists(NODES, max_size=12))
def test_any_trace_is_laid_out_as_the_plain_rules_say(spans: list[BriefSpanColumns]) -> None:
    spans = ordered(spans)
    found = [(line.span, Plain(line.depth, line.self_ns, line.orphan)) for line in build_layout(spans).lines]
    assert found == plain(spans)
    assert sorted(index for index, _ in found) == [*range(len(spans))]
