"""Counting those who have nothing to do with each other, against trying every combination."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from control.approvals.model import max_disjoint

circles = st.lists(st.frozensets(st.integers(0, 7).map(str), min_size=1, max_size=4), max_size=7)


@given(circles)
def test_it_is_the_maximum_number_of_disjoint_groups(found: list[frozenset[str]]) -> None:
    every = set(found)
    most = next(
        number
        for number in range(len(every), -1, -1)
        for some in combinations(every, number)
        if all(one.isdisjoint(other) for one, other in combinations(some, 2))
    )
    assert max_disjoint(found) == most


def test_the_largest_possible_number_of_groups_is_counted() -> None:
    """Everybody of a large organization, and a policy's full list of machines that overlap in a ring: trying every
    combination of these would not end.
    """
    people = [frozenset({f"user{n}"}) for n in range(1_000)]
    ring = [frozenset({f"agent{n}", f"owner{n}", f"owner{(n + 1) % 50}"}) for n in range(50)]
    assert max_disjoint([*people, *ring]) == 1_025
