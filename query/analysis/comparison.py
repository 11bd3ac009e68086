"""Values and steps that the reads of a comparison share: its cohorts, the pairs found, and their statistics.

`read_cohort_sizes` counts the spans of both cohorts, and chooses the rate at which they are sampled.

`low_cardinality_pairs` finds pairs of built-in fields, resources and scopes. Their columns are dictionaries with few
values for many spans, so two statements per cohort read them. These also return the keys that exist.

`score` is the statistics of a pair (docs/explore.md, "Comparisons"), computed from counts alone. S and B are the
numbers of spans of spike and baseline. s and b are the numbers of these spans that have a value.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from typing import Final, NamedTuple

from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY, parse_attributes
from query.analysis import windows
from query.analysis.attribute_usage import KeyIndex, KeyLocation, attribute_key, filter_key
from query.read_store import ReadStore
from query.rows import SPANS
from query.sql.compare import LIST_COLUMNS, MAX_KEYS, MAX_NUMERIC_VALUES, MAX_PAIRS
from query.statements import (
    Cohort,
    CohortSize,
    Condition,
    FieldPairs,
    FrequentPairs,
    ListPairs,
    PairsByHash,
    PairSelection,
    subjects_of,
)

_IDENTIFIER_RATIO: Final = 0.9  # distinct values per occurrence above which a key is an identifier
_MIN_OCCURRENCES: Final = 20  # with fewer occurrences, it cannot be determined whether a key is an identifier


class PairCounts(NamedTuple):
    """A pair as a filter writes it, and the number of spans of each cohort that have it."""

    key: str
    value: str
    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class ComparedPairs:
    """Pairs that enough spans of the spike have. `identifiers`: keys that are left out. `truncated`: other pairs were
    left out because of a limit."""

    pairs: tuple[PairCounts, ...] = ()
    identifiers: frozenset[str] = frozenset()
    truncated: bool = False

    def __add__(self, other: "ComparedPairs") -> "ComparedPairs":
        return ComparedPairs(
            self.pairs + other.pairs, self.identifiers | other.identifiers, self.truncated or other.truncated
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two cohorts of a project, which are compared by the values that at least `min_spans` of the spike's `spike_spans`
    spans have. `baseline_spans`: the number of spans of the baseline. `existing_attributes`: the attributes of
    conditions that may exist.
    """

    store: ReadStore
    project_id: int
    spike: Cohort
    baseline: Cohort
    spike_spans: int
    baseline_spans: int
    min_spans: int
    now_ns: int
    existing_attributes: frozenset[str] | None = None


class CandidatePair(NamedTuple):
    """A pair of the spike that is to be counted in the baseline."""

    key: str
    value: str
    pair_hash: int
    spans: int


def is_identifier(occurrences: int, distinct: int) -> bool:
    """Whether a key identifies single spans, instead of a common property of spans."""
    return occurrences >= _MIN_OCCURRENCES and distinct > _IDENTIFIER_RATIO * occurrences


@dataclass(frozen=True, slots=True)
class CohortSizes:
    """The numbers of spans of both cohorts, the sampling rate, and the attributes of conditions that may exist in these
    spans (`query.statements.predicates`).
    """

    spike: int
    baseline: int
    one_in: int
    existing_attributes: frozenset[str] | None = None

    def raised_to_counts(self, compared: ComparedPairs) -> "CohortSizes":
        """These sizes, raised to the count of the most frequent value: more spans may have arrived, and no share may
        exceed 1."""
        spike = max((each.spike for each in compared.pairs), default=0)
        baseline = max((each.baseline for each in compared.pairs), default=0)
        return replace(self, spike=max(self.spike, spike), baseline=max(self.baseline, baseline))


async def read_cohort_sizes(
    store: ReadStore, project_id: int, spike: Cohort, baseline: Cohort | None, max_scan_rows: int
) -> CohortSizes:
    """The number of spans to compare; `baseline` is None if no time of it is left. The scan limit applies to spans
    before filters, because all of these are read. Raises StoreErrors.
    """
    cohorts = [spike, baseline]
    spans = [
        sum([await windows.count_spans(store, project_id, window) for window in each.windows]) if each else 0
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
    """All conditions of both cohorts."""
    found = [each for cohort in cohorts if cohort for each in cohort.conditions]
    return found + [each for cohort in cohorts if cohort and cohort.excluded for each in cohort.excluded.conditions]


async def _find_existing_attributes(
    store: ReadStore, project_id: int, cohorts: Sequence[Cohort | None]
) -> frozenset[str]:
    subjects = subjects_of(_conditions(cohorts))
    windows = dict.fromkeys(window for cohort in cohorts if cohort for window in cohort.windows)
    return frozenset[str]().union(
        *[await store.find_existing_attributes(project_id, window, subjects) for window in windows]
    )


async def _read_size(
    store: ReadStore, project_id: int, cohort: Cohort | None, existing: frozenset[str] | None
) -> tuple[int, bool]:
    """The number of spans of one cohort, and whether a span has an attribute that is not in `existing`."""
    if cohort is None:
        return 0, False
    ((spans, missed),) = await store.rows(
        CohortSize(project_id=project_id, existing_attributes=existing, cohort=cohort)
    )
    return int(spans), bool(missed)


_TEXT_LETTERS: Final = frozenset("s")


async def low_cardinality_pairs(comparison: Comparison, key_index: KeyIndex) -> ComparedPairs:
    """Pairs of built-in fields, resources and scopes; adds all keys to the key index."""
    fields = await _field_pairs(comparison, key_index)
    lists = await _list_pairs(comparison, key_index)
    allowed = {filter_key(key) for key in key_index.comparable_keys() if key_index.has_single_location(key)}
    listed = tuple(pair for pair in lists.pairs if pair.key in allowed)
    scopes = tuple(pair for pair in fields.pairs if pair.key in SPANS.fields or pair.key in allowed)
    return ComparedPairs(scopes + listed, lists.identifiers & allowed, fields.truncated or lists.truncated)


async def _field_pairs(comparison: Comparison, key_index: KeyIndex) -> ComparedPairs:
    spike = await _read_field_pairs(comparison, comparison.spike, FrequentPairs(comparison.min_spans), key_index)
    candidates = spike[:MAX_PAIRS]
    selection = PairsByHash(tuple(each.pair_hash for each in candidates))
    baseline = await _read_field_pairs(comparison, comparison.baseline, selection, key_index)
    counts = {each.pair_hash: each.spans for each in baseline}
    pairs = tuple(PairCounts(each.key, each.value, each.spans, counts.get(each.pair_hash, 0)) for each in candidates)
    return ComparedPairs(pairs, truncated=max(len(spike), len(baseline)) > MAX_PAIRS)


async def _read_field_pairs(
    comparison: Comparison, cohort: Cohort, selection: PairSelection, key_index: KeyIndex
) -> list[CandidatePair]:
    """The pairs of one cohort; adds its scopes' names and versions to the key index."""
    project_id, existing = comparison.project_id, comparison.existing_attributes
    rows = await comparison.store.rows(
        FieldPairs(project_id=project_id, existing_attributes=existing, cohort=cohort, selection=selection)
    )
    for key, _, _, spans, is_key_total in rows:
        if is_key_total:
            key_index.add((key, key), spans, _TEXT_LETTERS)
    return [CandidatePair(*row) for *row, is_key_total in rows if not is_key_total]


class _ListPairRow(NamedTuple):
    """A row of ListPairs, with key and value unescaped."""

    key: str
    value: str
    pair_hash: int
    spans: int
    is_key_total: bool
    distinct: int
    location: KeyLocation
    type_letters: frozenset[str]


async def _list_pairs(comparison: Comparison, key_index: KeyIndex) -> ComparedPairs:
    spike = await _read_list_pairs(comparison, comparison.spike, FrequentPairs(comparison.min_spans), key_index)
    candidates = [each for each in spike if not each.is_key_total]
    selection = PairsByHash(tuple(each.pair_hash for each in candidates[:MAX_PAIRS]))
    baseline = await _read_list_pairs(comparison, comparison.baseline, selection, key_index)
    keys = [each for each in (*spike, *baseline) if each.is_key_total]
    high_cardinality = {
        each.location for each in keys if each.distinct > MAX_NUMERIC_VALUES and key_index.is_numeric_at(each.location)
    }
    identifying = {each.location for each in spike if each.is_key_total and is_identifier(each.spans, each.distinct)}
    counts = {each.pair_hash: each.spans for each in baseline if not each.is_key_total}
    pairs = tuple(
        PairCounts(filter_key(attribute_key(each.location)), each.value, each.spans, counts.get(each.pair_hash, 0))
        for each in candidates[:MAX_PAIRS]
        if each.location not in high_cardinality | identifying
    )
    identifiers = frozenset(filter_key(attribute_key(location)) for location in identifying)
    return ComparedPairs(pairs, identifiers, truncated=len(candidates) > MAX_PAIRS or not key_index.is_complete)


async def _read_list_pairs(
    comparison: Comparison, cohort: Cohort, selection: PairSelection, key_index: KeyIndex
) -> list[_ListPairRow]:
    """The rows of one cohort; adds its keys to the key index."""
    project_id, existing = comparison.project_id, comparison.existing_attributes
    rows = await comparison.store.rows(
        ListPairs(project_id=project_id, existing_attributes=existing, cohort=cohort, selection=selection)
    )
    key_index.is_complete = key_index.is_complete and len(rows) <= MAX_KEYS
    found = []
    for column_index, escaped_key, escaped_value, pair_hash, spans, is_key_total, distinct, letters in rows[:MAX_KEYS]:
        ((key, _, value),) = parse_attributes(f"{BEFORE_KEY}{escaped_key}{AFTER_KEY}s{escaped_value}{BEFORE_KEY}")
        location = (LIST_COLUMNS[column_index], key)
        found.append(
            _ListPairRow(key, value, pair_hash, spans, bool(is_key_total), distinct, location, frozenset(letters))
        )
        if is_key_total:
            key_index.add(location, spans, frozenset(letters), of_baseline=cohort is comparison.baseline)
    return found


MIN_Z: Final = 4.0  # thousands of values are tested, so chance must be far less likely than in a single test
MIN_SPIKE_COUNT: Final = 5  # spans of the spike below which a share is meaningless
_MIN_SPIKE_COUNT_DIVISOR: Final = 100  # the default minimum is one in 100 spans of the spike


@dataclass(frozen=True, slots=True)
class Totals:
    """S and B (see the module); neither is 0."""

    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Score:
    """The statistics of one value; `lift` is None if no span of the baseline has the value."""

    spike_share: float
    baseline_share: float
    expected: float
    surplus: float
    lift: float | None
    contribution: float
    z: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key, the most over-represented first."""
        return (-self.contribution, -inf if self.lift is None else -self.lift)


def default_min_spike_count(spike: int) -> int:
    """The minimum number of spike spans with a value: one in a hundred, at least 5."""
    return max(MIN_SPIKE_COUNT, ceil(spike / _MIN_SPIKE_COUNT_DIVISOR))


def score(totals: Totals, spike: int, baseline: int) -> Score:
    """The statistics of a value that `spike` spans of the spike and `baseline` spans of the baseline have."""
    spike_share, baseline_share = spike / totals.spike, baseline / totals.baseline
    expected = totals.spike * baseline / totals.baseline
    surplus = spike - expected
    return Score(
        spike_share=spike_share,
        baseline_share=baseline_share,
        expected=expected,
        surplus=surplus,
        lift=spike_share / baseline_share if baseline else None,
        contribution=surplus / totals.spike,
        z=_z(totals, spike, baseline),
    )


def _z(totals: Totals, spike: int, baseline: int) -> float:
    """The distance of the shares in standard deviations (two-proportion z-test with the pooled share)."""
    pooled = (spike + baseline) / (totals.spike + totals.baseline)
    variance = pooled * (1 - pooled) * (1 / totals.spike + 1 / totals.baseline)
    # 0 if every span has the value, or no span has it
    return (spike / totals.spike - baseline / totals.baseline) / sqrt(variance) if variance > 0 else 0.0
