"""Merged ranges behave as the sets that they stand for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.journal.interface import RangeSet

LAST = 40
RANGE = st.tuples(st.integers(0, LAST), st.integers(0, LAST))
ACTS = st.lists(st.tuples(st.sampled_from(["add", "discard"]), RANGE), max_size=20)


@given(ACTS, RANGE)
def test_ranges_are_the_set_of_what_was_put_in_and_not_taken_out(
    acts: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    ranges, model = RangeSet(), set[int]()
    for act, (first, last) in acts:
        getattr(ranges, act)(first, last)
        integers = set(range(first, last + 1))
        model = model | integers if act == "add" else model - integers
    first, last = asked
    wanted = set(range(first, last + 1))
    parts = list(ranges)
    assert _integers(parts) == model
    assert all(before[1] + 1 < after[0] for before, after in pairwise(parts))
    assert len(ranges) == len(parts)
    assert _integers(list(ranges.holes(first, last))) == wanted - model
    assert ranges.covers(first, last) == (wanted <= model)
    assert ranges.overlaps(first, last) == bool(wanted & model)
    assert (first in ranges) == (first in model)
    assert ranges.last_missing(first) == max(set(range(-1, first + 1)) - model)


def _integers(parts: list[tuple[int, int]]) -> set[int]:
    return {value for first, last in parts for value in range(first, last + 1)}
