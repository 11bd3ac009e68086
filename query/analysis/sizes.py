"""How many spans either side of a comparison has, and which part of them is looked at."""

from dataclasses import dataclass

from query.analysis import ceiling
from query.analysis.comparison import Found
from query.asking.window import Window
from query.store import Store
from query.tree import Cohort, CohortSize, Condition

_Windows = tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Spans of both sides, and the rate at which they were sampled."""

    spike: int
    baseline: int
    one_in: int

    def seen_with(self, found: Found) -> "Sizes":
        """No fewer than any value has: spans may have arrived since they were counted, and no share is above 1."""
        spike = max((each.spike for each in found.pairs), default=0)
        baseline = max((each.baseline for each in found.pairs), default=0)
        return Sizes(max(self.spike, spike), max(self.baseline, baseline), self.one_in)


async def sizes_of(
    store: Store,
    project_id: int,
    sides: tuple[_Windows, _Windows],
    conditions: tuple[Condition, ...],
    max_scan_rows: int,
) -> Sizes:
    """How many spans there are to compare; `sides` are those of spike and baseline. What the ceiling bounds are spans
    before filters: they are what is read. Raises StoreErrors.
    """
    sizes = [sum([await ceiling.count(store, project_id, window) for window in side]) for side in sides]
    one_in = max(1, -(-sum(sizes) // max_scan_rows))
    if conditions or one_in > 1:
        sizes = [await _size(store, project_id, side, conditions, one_in) for side in sides]
    spike, baseline = sizes
    return Sizes(spike, baseline, one_in)


async def _size(
    store: Store, project_id: int, windows: _Windows, conditions: tuple[Condition, ...], one_in: int
) -> int:
    if not windows:
        return 0
    ((size,),) = await store.rows(CohortSize(project_id=project_id, cohort=Cohort(windows, conditions, one_in)))
    return int(size)
