"""How many of those who approve have nothing to do with each other."""

from collections.abc import Iterable


def max_disjoint(owner_groups: Iterable[frozenset[str]]) -> int:
    """The most of these circles of which no two have anybody in common.

    Somebody alone in his circle is always among them, whoever else is. What is left then are the agents and services of
    people who have said nothing themselves, which is no more than policies list.
    """
    every = set(owner_groups)
    alone = {one for one in every if len(one) == 1}
    people = frozenset().union(*alone)
    return len(alone) + _max_independent_set({one for one in every - alone if people.isdisjoint(one)})


def _max_independent_set(owner_groups: set[frozenset[str]]) -> int:
    """Takes circles that stand in nobody's way but each other's; where there is none, tries with one and without."""
    left, taken = set(owner_groups), 0
    while left:
        meeting = {one: {other for other in left if not one.isdisjoint(other)} for one in left}  # itself among them
        free = next((one for one in left if _all_overlap(meeting[one])), None)
        if free is None:
            most = max(left, key=lambda one: len(meeting[one]))
            return taken + max(1 + _max_independent_set(left - meeting[most]), _max_independent_set(left - {most}))
        left -= meeting[free]
        taken += 1
    return taken


def _all_overlap(owner_groups: set[frozenset[str]]) -> bool:
    return not any(one.isdisjoint(other) for one in owner_groups for other in owner_groups)
