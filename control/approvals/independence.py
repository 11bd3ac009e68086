"""Counts the approvers that are independent of each other."""

from collections.abc import Iterable


def max_disjoint(owner_groups: Iterable[frozenset[str]]) -> int:
    """The largest number of these owner groups that are pairwise disjoint.

    A user who is alone in a group always belongs to such a set. The remaining groups are those of agents and services
    whose owners have not voted themselves; there are no more of them than policies list.
    """
    groups = set(owner_groups)
    single = {one for one in groups if len(one) == 1}
    people = frozenset().union(*single)
    return len(single) + _max_independent_set({one for one in groups - single if people.isdisjoint(one)})


def _max_independent_set(owner_groups: set[frozenset[str]]) -> int:
    """Takes a group if all groups that overlap with it overlap with each other, which is always optimal. Without such a
    group, branches on the group with the most overlaps: the better of with it and without it.
    """
    remaining, count = set(owner_groups), 0
    while remaining:
        overlapping = {
            one: {other for other in remaining if not one.isdisjoint(other)} for one in remaining
        }  # including itself
        optimal = next((one for one in remaining if _all_overlap(overlapping[one])), None)
        if optimal is None:
            branch = max(remaining, key=lambda one: len(overlapping[one]))
            return count + max(
                1 + _max_independent_set(remaining - overlapping[branch]), _max_independent_set(remaining - {branch})
            )
        remaining -= overlapping[optimal]
        count += 1
    return count


def _all_overlap(owner_groups: set[frozenset[str]]) -> bool:
    return not any(one.isdisjoint(other) for one in owner_groups for other in owner_groups)
