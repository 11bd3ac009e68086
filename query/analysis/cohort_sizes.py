"""The number of spans of both cohorts of a comparison, and the rate at which they are sampled."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from query.analysis import scan_limit
from query.analysis.comparison import ComparedPairs
from query.read_store import ReadStore
from query.statements import Cohort, CohortSize, Condition


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
    store: ReadStore, project_id: int, spike: Cohort, baseline: Cohort | None, max_scan_rows: int
) -> CohortSizes:
    """The number of spans to compare; `baseline` is None if nothing is left of it. The scan limit applies to spans
    before filters, because those are read. Raises StoreErrors.
    """
    cohorts = [spike, baseline]
    spans = [
        sum([await scan_limit.count_spans(store, project_id, window) for window in each.windows]) if each else 0
        for each in cohorts
    ]
    one_in = max(1, -(-sum(spans) // max_scan_rows))
    if one_in == 1 and not any(_conditions(cohorts)):
        return CohortSizes(spans[0], spans[1], one_in, frozenset())
    existing: frozenset[str] | None = await _find_existing_attributes(store, project_id, cohorts)
    cohorts = [each and replace(each, one_in=one_in) for each in cohorts]
    rows = [await _read_size(store, project_id, cohort, existing) for cohort in cohorts]
    if any(missed for _, missed in rows):
        existing = None
        rows = [await _read_size(store, project_id, cohort, existing) for cohort in cohorts]
    (of_spike, _), (of_baseline, _) = rows
    return CohortSizes(of_spike, of_baseline, one_in, existing)


def _conditions(cohorts: Iterable[Cohort | None]) -> list[Condition]:
    """All of both cohorts."""
    found = [each for cohort in cohorts if cohort for each in cohort.conditions]
    return found + [each for cohort in cohorts if cohort and cohort.excluded for each in cohort.excluded.conditions]


async def _find_existing_attributes(
    store: ReadStore, project_id: int, cohorts: Sequence[Cohort | None]
) -> frozenset[str]:
    subjects = [subject for each in _conditions(cohorts) for subject in each.subjects]
    windows = dict.fromkeys(window for cohort in cohorts if cohort for window in cohort.windows)
    return frozenset[str]().union(
        *[await store.find_existing_attributes(project_id, window, subjects) for window in windows]
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
