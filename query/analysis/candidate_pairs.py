"""Finds the pairs of key and value that the spans of a spike have, and counts the spans of both cohorts with each pair.

    default_pairs     built-in fields, attributes of resources, scopes and spans; without identifiers
    requested_pairs   the keys that the request names, including identifiers

The count of a pair is the number of spans that the filter `key eq value` finds. A key may exist in several locations
(the span's own attribute before its resource's); `KeyIndex` knows the locations of a key in these spans. Nearly always
there is only one, and the pair is counted in this location. Otherwise the pair is counted in the way in which a filter
reads the key, which costs more.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from chassis.http.validation import Issues
from query.analysis.attribute_usage import OWN_COLUMN, KeyIndex, filter_key
from query.analysis.comparison import (
    CandidatePair,
    ComparedPairs,
    Comparison,
    PairCounts,
    is_identifier,
    low_cardinality_pairs,
)
from query.request.filters import Filter, Op, conditions, resolve_key
from query.request.predicates import numeric_spellings, parse_number
from query.rows import SPANS
from query.sql.compare import MAX_NUMERIC_VALUES, MAX_PAIRS, MAX_VALUES_OF_KEY
from query.sql.predicates import attribute_names
from query.statements import Attribute, ConditionCounts, KeyCardinality, KeyCounts, KeyPairs, Subject, Window
from query.values import HOUR

# Keys that occur in several locations, and are read in the way in which filters read them.
MAX_MULTI_LOCATION_KEYS: Final = 50
MAX_RECOUNTED_NUMBERS: Final = 50  # numbers that are stored in more than one spelling, and are counted again
LARGE_DAY_SPANS: Final = 200_000  # a day with this many spans is far above the size of parts that store Maps unsplit
_KEY_BYTES: Final = 100_000  # below the 128 KiB that a server accepts as one parameter
# Spike size in spans above which a sample determines the identifiers before all spans are read.
_LARGE_SPIKE_SPANS: Final = 500_000
_SAMPLE_SPANS: Final = 100_000  # approximate size of that sample in spans
_SAMPLE_WINDOW_COUNT: Final = 8  # number of windows that the sample consists of
_INTEGER: Final = re.compile(r"-?[1-9][0-9]*|0")
_NUMERIC_LETTERS: Final = frozenset("id")
_UNREACHABLE_SPANS: Final = 2**63


@dataclass(frozen=True, slots=True)
class _KeySources:
    """Keys that one statement reads, with their sources, and the subset that is always numeric. `omits_identifiers`:
    identifiers and numbers with many values are left out. `baseline_spans`: the number of baseline spans that have a
    key, if known. `existing_attributes`: the attributes that may exist, including attributes of conditions.
    """

    source_by_key: Mapping[str, str] | Mapping[str, Subject]
    numeric_keys: frozenset[str] = frozenset()
    omits_identifiers: bool = True
    baseline_spans: Mapping[str, int] = field(default_factory=dict)
    existing_attributes: frozenset[str] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.source_by_key)

    @property
    def sources(self) -> tuple[str, ...] | tuple[Subject, ...]:
        return tuple(self.source_by_key.values())  # type: ignore[return-value]  # all of one type

    def key_of(self, source: str | int) -> str:
        """The key of a row: the row has the attribute key itself, or the index of the source."""
        return filter_key(source) if isinstance(source, str) else self.keys[source]

    def restricted_to(self, keys: frozenset[str]) -> "_KeySources":
        kept = {key: value for key, value in self.source_by_key.items() if key in keys}
        return replace(self, source_by_key=kept)  # type: ignore[arg-type]  # all of one type, as before

    def is_omitted(self, key: str, occurrences: int, distinct: int) -> bool:
        return self.omits_identifiers and (
            is_identifier(occurrences, distinct) or (key in self.numeric_keys and distinct > MAX_NUMERIC_VALUES)
        )


async def requested_pairs(comparison: Comparison, keys: Sequence[str]) -> ComparedPairs:
    """The values of `keys`, each read in the way in which a filter reads it."""
    found = await _read_pairs(
        comparison, _KeySources({key: resolve_key(key, SPANS) for key in keys}, omits_identifiers=False)
    )
    numbers = {key: _NUMERIC_LETTERS for key in keys if key not in SPANS.fields}
    return await _recount_spellings(comparison, found, numbers)


async def default_pairs(comparison: Comparison) -> ComparedPairs:
    """The values of every key that is not an identifier."""
    key_index = KeyIndex()
    found = await low_cardinality_pairs(comparison, key_index)
    keys = key_index.comparable_keys()
    single_location = [key for key in keys if key_index.has_single_location(key)]
    multi_location = [key for key in keys if not key_index.has_single_location(key)]
    own_keys, own_truncated = _within_bytes(key for key in single_location if (OWN_COLUMN, key) in key_index.usage)
    numeric = frozenset(filter_key(key) for key in keys if key_index.is_numeric_key(key))
    baseline_spans = {filter_key(key): key_index.usage[OWN_COLUMN, key].baseline for key in own_keys}
    existing, multi_location_existing = (
        comparison.existing_attributes,
        _existing_attributes(comparison, key_index, multi_location[:MAX_MULTI_LOCATION_KEYS]),
    )
    by_key, by_subject = (
        {filter_key(key): key for key in own_keys},
        {filter_key(key): Attribute(key) for key in multi_location[:MAX_MULTI_LOCATION_KEYS]},
    )
    found += await _read_pairs(
        comparison, _KeySources(by_key, numeric, baseline_spans=baseline_spans, existing_attributes=existing)
    )
    found += await _read_pairs(
        comparison, _KeySources(by_subject, numeric, existing_attributes=multi_location_existing)
    )
    found += ComparedPairs(truncated=own_truncated or len(multi_location) > MAX_MULTI_LOCATION_KEYS)
    numbers = {key: key_index.type_letters(key) & _NUMERIC_LETTERS for key in keys}
    existing = _existing_attributes(comparison, key_index, (key for key, letters in numbers.items() if letters))
    return await _recount_spellings(comparison, found, {filter_key(key): numbers[key] for key in keys}, existing)


def _existing_attributes(comparison: Comparison, key_index: KeyIndex, keys: Iterable[str]) -> frozenset[str] | None:
    """The attributes that may exist if `keys` are read in the way in which filters read them; None: read every
    location."""
    names = frozenset(name for key in keys for name in attribute_names(key))
    if comparison.existing_attributes is None or not key_index.has_no_prefixed_keys(names):
        return None
    return comparison.existing_attributes | (names & key_index.attribute_keys())


def _within_bytes(keys: Iterable[str]) -> tuple[list[str], bool]:
    """The first keys, as many as fit one parameter, and whether there are more."""
    kept, remaining_bytes = list[str](), _KEY_BYTES
    for key in keys:
        remaining_bytes -= len(key.encode()) + 8
        if remaining_bytes < 0:
            return kept, True
        kept.append(key)
    return kept, False


async def _read_pairs(comparison: Comparison, sources: _KeySources) -> ComparedPairs:
    """Pairs that are read per span: first the pairs of the spike, then their counts in the baseline."""
    sources, identifiers = await _drop_identifiers(comparison, sources)
    if not sources.keys:
        return ComparedPairs(identifiers=identifiers)
    statement = KeyPairs(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=comparison.spike,
        sources=sources.sources,
        min_spans=comparison.min_spans,
    )
    candidates, truncated = list[CandidatePair](), False
    for source, occurrences, distinct, pairs in await comparison.store.rows(statement):
        key = sources.key_of(source)
        if sources.omits_identifiers and is_identifier(occurrences, distinct):
            identifiers |= {key}
        if not sources.is_omitted(key, occurrences, distinct):
            candidates += (CandidatePair(key, value, pair, spans) for pair, value, spans in pairs[:MAX_VALUES_OF_KEY])
            truncated = truncated or len(pairs) > MAX_VALUES_OF_KEY
    candidates.sort(key=lambda each: (-each.spans, each.key, each.value))
    counted = await _count_in_baseline(comparison, sources, candidates[:MAX_PAIRS])
    return ComparedPairs(counted, identifiers, truncated or len(candidates) > MAX_PAIRS)


async def _drop_identifiers(comparison: Comparison, sources: _KeySources) -> tuple[_KeySources, frozenset[str]]:
    """For a large spike, read a sample of its time to determine which keys to leave out before millions of values are
    grouped.
    """
    if comparison.spike_spans <= _LARGE_SPIKE_SPANS or not sources.omits_identifiers or not sources.keys:
        return sources, frozenset()
    sample = replace(comparison.spike, windows=_sample_windows(comparison))
    statement = KeyPairs(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=sample,
        sources=sources.sources,
        min_spans=_UNREACHABLE_SPANS,
    )
    rows = [(sources.key_of(source), *counts) for source, *counts, _ in await comparison.store.rows(statement)]
    identifiers = frozenset(key for key, occurrences, distinct in rows if is_identifier(occurrences, distinct))
    omitted = frozenset(row[0] for row in rows if sources.is_omitted(*row))
    return sources.restricted_to(frozenset(sources.keys) - omitted), identifiers


def _sample_windows(comparison: Comparison) -> tuple[Window, ...]:
    """The beginning of each eighth of the spike, together about _SAMPLE_SPANS spans if they are evenly spread."""
    (window,) = comparison.spike.windows
    length = window.to_ns - window.from_ns
    begins = [window.from_ns + length * n // _SAMPLE_WINDOW_COUNT for n in range(_SAMPLE_WINDOW_COUNT)]
    width = max(1, length * _SAMPLE_SPANS // comparison.spike_spans // _SAMPLE_WINDOW_COUNT)
    return tuple(Window(begin, min(begin + width, window.to_ns)) for begin in dict.fromkeys(begins))


async def _count_in_baseline(
    comparison: Comparison, sources: _KeySources, candidates: Sequence[CandidatePair]
) -> tuple[PairCounts, ...]:
    """The candidates with their counts in the baseline, without numeric keys that have too many values in the
    baseline."""
    if not candidates:
        return ()
    requested = sources.restricted_to(frozenset(each.key for each in candidates))
    statement = KeyCounts(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=comparison.baseline,
        sources=sources.sources,
        hashes=tuple(each.pair_hash for each in candidates),
    )
    if _should_read_per_key(comparison, sources, requested):
        statement = replace(statement, sources=requested.sources, read_per_key=True)
    counts = dict(await comparison.store.rows(statement))
    counted = Counter[str]()
    for each in candidates:
        counted[each.key] += counts.get(each.pair_hash, 0)
    undecided = frozenset(
        key for key in sources.numeric_keys & counted.keys() if counted[key] != sources.baseline_spans.get(key)
    )
    high_cardinality = await _high_cardinality_keys(comparison, sources, undecided)
    return tuple(
        PairCounts(each.key, each.value, each.spans, counts.get(each.pair_hash, 0))
        for each in candidates
        if each.key not in high_cardinality
    )


def _should_read_per_key(comparison: Comparison, sources: _KeySources, requested: _KeySources) -> bool:
    """Whether reading the requested keys one by one costs less than reading all attributes of the baseline. Each key
    then costs as much as two keys of an unsplit Map. In a small part (`min_bytes_for_wide_part`) the Map is not split,
    so each key costs a read of the whole Map.
    """
    days = sum(each.to_ns - each.from_ns for each in comparison.baseline.windows) / (24 * HOUR)
    in_large_parts = comparison.baseline_spans * comparison.baseline.one_in >= LARGE_DAY_SPANS * max(1, days)
    return in_large_parts and len(requested.keys) * comparison.baseline_spans <= sum(sources.baseline_spans.values())


async def _high_cardinality_keys(comparison: Comparison, sources: _KeySources, keys: frozenset[str]) -> frozenset[str]:
    """The keys among `keys` with too many values in the baseline; `keys` have values in the baseline that were not
    counted."""
    requested = sources.restricted_to(keys if sources.omits_identifiers else frozenset())
    if not requested.keys:
        return frozenset()
    statement = KeyCardinality(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=comparison.baseline,
        sources=requested.sources,
        read_per_key=_should_read_per_key(comparison, sources, requested),
    )
    rows = await comparison.store.rows(statement)
    return frozenset(requested.key_of(source) for source, distinct in rows if distinct > MAX_NUMERIC_VALUES)


async def _recount_spellings(
    comparison: Comparison,
    compared: ComparedPairs,
    letters: Mapping[str, frozenset[str]],
    existing_attributes: frozenset[str] | None = None,
) -> ComparedPairs:
    """A number may be stored in several spellings (for example 0 and -0, or 1e16 and its digits), and one filter finds
    all of them. Such numbers are counted again with this filter, and reported once.
    """
    ambiguous = [each for each in compared.pairs if _other_spellings(each.value, letters.get(each.key, frozenset()))]
    if not ambiguous:
        return compared
    kept, excluded = sorted(ambiguous, key=lambda each: -each.spike)[:MAX_RECOUNTED_NUMBERS], frozenset(ambiguous)
    filters = (Filter(each.key, Op.EQ, (each.value,)) for each in kept)
    resolved = conditions(tuple(filters), SPANS, comparison.now_ns, "body", Issues())
    counts = []
    for cohort in (comparison.spike, comparison.baseline):
        statement = ConditionCounts(
            project_id=comparison.project_id,
            existing_attributes=existing_attributes,
            cohort=cohort,
            conditions=resolved,
        )
        counts += await comparison.store.rows(statement)
    recounted = {each: PairCounts(each.key, each.value, *both) for each, *both in zip(kept, *counts, strict=True)}
    unchanged = {each: each for each in compared.pairs if each not in excluded}
    pairs = _deduplicate(unchanged | recounted, frozenset(letters))
    return replace(compared, pairs=pairs, truncated=compared.truncated or len(ambiguous) > MAX_RECOUNTED_NUMBERS)


def _deduplicate(recounted: Mapping[PairCounts, PairCounts], keys: frozenset[str]) -> tuple[PairCounts, ...]:
    """The pairs, keyed by the counts of their own spelling only. If pairs are the same number of one of `keys`, they
    have spans in common that would be counted twice, so only one of them is kept.
    """
    spellings: dict[tuple[str, object], list[PairCounts]] = {}
    for each in recounted:
        number = parse_number(each.value) if each.key in keys else None
        spellings.setdefault((each.key, each.value if number is None else number), []).append(each)
    kept = list[PairCounts]()
    for equal in spellings.values():
        shared = any(recounted[each] != each for each in equal)
        first = sorted(equal, key=lambda each: _precedence(each, recounted[each]))
        kept += (recounted[each] for each in (first[:1] if shared else first))
    return tuple(kept)


def _precedence(stored: PairCounts, recounted: PairCounts) -> tuple[int, int, int, int, str]:
    """Sort key for the spellings of a number: the counts of its filter first, then of its own spelling."""
    return (-recounted.spike, -recounted.baseline, -stored.spike, len(stored.value), stored.value)


def _other_spellings(value: str, letters: frozenset[str]) -> list[str]:
    """Other texts that the filter for `value` finds if they are numbers of these types."""
    if not letters:
        return []
    others = (text for text in numeric_spellings(value) if text != value)
    return [text for text in others if "d" in letters or _INTEGER.fullmatch(text)]
