"""The number of spans of both cohorts of a comparison, and the rate at which they are sampled."""

from dataclasses import dataclass, replace

from query.analysis import scan_limit
from query.analysis.comparison import ComparedPairs
from query.read_store import ReadStore
from query.statements import Cohort, CohortSize, Condition
from query.statements.window import Window

_Windows = tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class CohortSizes:
    """The spans of both cohorts, the sampling rate, and the attributes of conditions that may exist in them
    (`query.statements.base`).
    """

    spike: int
    baseline: int
    one_in: int
    existing_attributes: frozenset[str] | None = None

    def raised_to_counts(self, found: ComparedPairs) -> "CohortSizes":
        """At least the count of the most frequent value: spans may have arrived since, and no share may exceed 1."""
        spike = max((each.spike for each in found.pairs), default=0)
        baseline = max((each.baseline for each in found.pairs), default=0)
        return replace(self, spike=max(self.spike, spike), baseline=max(self.baseline, baseline))


async def read_cohort_sizes(
    store: ReadStore,
    project_id: int,
    sides: tuple[_Windows, _Windows],
    conditions: tuple[Condition, ...],
    max_scan_rows: int,
) -> CohortSizes:
    """The number of spans to compare; `sides` are the windows of spike and baseline. The scan limit applies to spans
    before filters, because those are read. Raises StoreErrors.
    """
    spike, baseline = [
        sum([await scan_limit.count_spans(store, project_id, window) for window in side]) for side in sides
    ]
    one_in = max(1, -(-(spike + baseline) // max_scan_rows))
    if not conditions and one_in == 1:
        return CohortSizes(spike, baseline, one_in, frozenset())
    existing: frozenset[str] | None = await _find_existing_attributes(store, project_id, sides, conditions)
    cohorts = [Cohort(side, conditions, one_in) if side else None for side in sides]
    rows = [await _read_size(store, project_id, cohort, existing) for cohort in cohorts]
    if any(missed for _, missed in rows):
        existing = None
        rows = [await _read_size(store, project_id, cohort, existing) for cohort in cohorts]
    (spike, _), (baseline, _) = rows
    return CohortSizes(spike, baseline, one_in, existing)


async def _find_existing_attributes(
    store: ReadStore, project_id: int, sides: tuple[_Windows, _Windows], conditions: tuple[Condition, ...]
) -> frozenset[str]:
    subjects = [each.subject for each in conditions]
    return frozenset[str]().union(
        *[await store.find_existing_attributes(project_id, window, subjects) for side in sides for window in side]
    )


async def _read_size(
    store: ReadStore, project_id: int, cohort: Cohort | None, existing: frozenset[str] | None
) -> tuple[int, bool]:
    """The spans of one cohort, and whether one has an attribute that is not in `existing`."""
    if cohort is None:
        return 0, False
    ((spans, missed),) = await store.rows(
        CohortSize(project_id=project_id, existing_attributes=existing, cohort=cohort)
    )
    return int(spans), bool(missed)
