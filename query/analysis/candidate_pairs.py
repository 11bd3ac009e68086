"""Which pairs of key and value the spans of a spike have, and how often they and the baseline's have them.

    usual_pairs    own fields, attributes of resources, scopes and spans; without identifiers
    named_pairs    the keys that were asked for, whatever they are

Each pair counts the spans that the filter `key eq value` finds. A key may be looked for in several places (the span's
own attribute before its resource's): `Catalogue` knows which places have it in these spans. Where it is one, as nearly
always, the pair is counted there; else the way a filter reads it, which costs more.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from chassis.http.validation import Issues
from query.analysis.comparison import CandidatePair, ComparedPairs, Comparison, PairCounts, is_identifier
from query.analysis.key_index import OWN_COLUMN, KeyIndex, filter_key
from query.analysis.low_cardinality_pairs import low_cardinality_pairs
from query.fields import SPANS
from query.request.filters import Filter, Op, conditions, resolve_key
from query.request.numbers import numeric_spellings, parse_number
from query.sql.compare import MAX_NUMERIC_VALUES, MAX_PAIRS, MAX_VALUES_OF_KEY
from query.sql.values import attribute_names
from query.statements import Attribute, ConditionCounts, KeyCardinality, KeyCounts, KeyPairs, Subject
from query.statements.window import Window
from query.timestamps import HOUR

MAX_MULTI_LOCATION_KEYS: Final = 50  # keys that stand in several places, read as filters read them
MAX_RECOUNTED_NUMBERS: Final = 50  # numbers that are stored in more than one spelling, counted anew
LARGE_DAY_SPANS: Final = 200_000  # spans of a day, whose part is far larger than those that keep Maps whole
_KEY_BYTES: Final = 100_000  # a server takes 128 KiB as one parameter
_LARGE_SPIKE_SPANS: Final = 500_000  # spans of a spike beyond which identifiers are known before all are read
_SAMPLE_SPANS: Final = 100_000  # by about so many of its spans
_SAMPLE_WINDOW_COUNT: Final = 8  # which lie in so many places of it
_INTEGER: Final = re.compile(r"-?[1-9][0-9]*|0")
_NUMERIC_LETTERS: Final = frozenset("id")
_UNREACHABLE_SPANS: Final = 2**63


@dataclass(frozen=True, slots=True)
class _KeySources:
    """Keys that are read by one statement, as what, and those of them that hold only numbers. `usual`: identifiers and
    numbers of many values are left out. `baseline`: how many spans of the baseline have a key, where that is known.
    `known`: the attributes that are worth looking for, those of conditions too.
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
        return tuple(self.source_by_key.values())  # type: ignore[return-value]  # all of one kind

    def key_of(self, source: str | int) -> str:
        """The key of a row, which says what it was read as, or at which place."""
        return filter_key(source) if isinstance(source, str) else self.keys[source]

    def restricted_to(self, keys: frozenset[str]) -> "_KeySources":
        kept = {key: value for key, value in self.source_by_key.items() if key in keys}
        return replace(self, source_by_key=kept)  # type: ignore[arg-type]  # all of one kind, as before

    def is_omitted(self, key: str, occurrences: int, distinct: int) -> bool:
        return self.omits_identifiers and (
            is_identifier(occurrences, distinct) or (key in self.numeric_keys and distinct > MAX_NUMERIC_VALUES)
        )


async def requested_pairs(comparison: Comparison, keys: Sequence[str]) -> ComparedPairs:
    """The values of `keys`, each as a filter reads it."""
    found = await _read_pairs(
        comparison, _KeySources({key: resolve_key(key, SPANS) for key in keys}, omits_identifiers=False)
    )
    numbers = {key: _NUMERIC_LETTERS for key in keys if key not in SPANS.fields}
    return await _recount_spellings(comparison, found, numbers)


async def default_pairs(comparison: Comparison) -> ComparedPairs:
    """The values of every key that says more than which span it is."""
    catalogue = KeyIndex()
    found = await low_cardinality_pairs(comparison, catalogue)
    keys = catalogue.comparable_keys()
    single = [key for key in keys if catalogue.has_single_location(key)]
    mixed = [key for key in keys if not catalogue.has_single_location(key)]
    own, own_cut = _within_bytes(key for key in single if (OWN_COLUMN, key) in catalogue.usage)
    numeric = frozenset(filter_key(key) for key in keys if catalogue.is_numeric_key(key))
    baseline = {filter_key(key): catalogue.usage[OWN_COLUMN, key].baseline for key in own}
    known, mixed_known = (
        comparison.existing_attributes,
        _existing_attributes(comparison, catalogue, mixed[:MAX_MULTI_LOCATION_KEYS]),
    )
    by_key, by_subject = (
        {filter_key(key): key for key in own},
        {filter_key(key): Attribute(key) for key in mixed[:MAX_MULTI_LOCATION_KEYS]},
    )
    found += await _read_pairs(
        comparison, _KeySources(by_key, numeric, baseline_spans=baseline, existing_attributes=known)
    )
    found += await _read_pairs(comparison, _KeySources(by_subject, numeric, existing_attributes=mixed_known))
    found += ComparedPairs(truncated=own_cut or len(mixed) > MAX_MULTI_LOCATION_KEYS)
    numbers = {key: catalogue.type_letters(key) & _NUMERIC_LETTERS for key in keys}
    known = _existing_attributes(comparison, catalogue, (key for key, letters in numbers.items() if letters))
    return await _recount_spellings(comparison, found, {filter_key(key): numbers[key] for key in keys}, known)


def _existing_attributes(comparison: Comparison, catalogue: KeyIndex, keys: Iterable[str]) -> frozenset[str] | None:
    """What is worth looking for where `keys` are read as filters read them; None: everything."""
    asked = frozenset(name for key in keys for name in attribute_names(key))
    if comparison.existing_attributes is None or not catalogue.has_no_prefixed_keys(asked):
        return None
    return comparison.existing_attributes | (asked & catalogue.attribute_keys())


def _within_bytes(keys: Iterable[str]) -> tuple[list[str], bool]:
    """The first keys, as many as one parameter holds, and whether there are more."""
    kept, room = list[str](), _KEY_BYTES
    for key in keys:
        room -= len(key.encode()) + 8
        if room < 0:
            return kept, True
        kept.append(key)
    return kept, False


async def _read_pairs(comparison: Comparison, sources: _KeySources) -> ComparedPairs:
    """Values that each span is asked for: first the spike's, then how often the baseline has these."""
    sources, unique = await _drop_identifiers(comparison, sources)
    if not sources.keys:
        return ComparedPairs(identifiers=unique)
    statement = KeyPairs(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=comparison.spike,
        sources=sources.sources,
        min_spans=comparison.min_spans,
    )
    candidates, cut = list[CandidatePair](), False
    for source, occurrences, distinct, pairs in await comparison.store.rows(statement):
        key = sources.key_of(source)
        if sources.omits_identifiers and is_identifier(occurrences, distinct):
            unique |= {key}
        if not sources.is_omitted(key, occurrences, distinct):
            candidates += (CandidatePair(key, value, pair, spans) for pair, value, spans in pairs[:MAX_VALUES_OF_KEY])
            cut = cut or len(pairs) > MAX_VALUES_OF_KEY
    candidates.sort(key=lambda each: (-each.spans, each.key, each.value))
    counted = await _count_in_baseline(comparison, sources, candidates[:MAX_PAIRS])
    return ComparedPairs(counted, unique, cut or len(candidates) > MAX_PAIRS)


async def _drop_identifiers(comparison: Comparison, sources: _KeySources) -> tuple[_KeySources, frozenset[str]]:
    """Of a large spike, a part of its time tells which keys to leave out before millions of values are grouped."""
    if comparison.spike_spans <= _LARGE_SPIKE_SPANS or not sources.omits_identifiers or not sources.keys:
        return sources, frozenset()
    part = replace(comparison.spike, windows=_sample_windows(comparison))
    statement = KeyPairs(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=part,
        sources=sources.sources,
        min_spans=_UNREACHABLE_SPANS,
    )
    rows = [(sources.key_of(source), *counts) for source, *counts, _ in await comparison.store.rows(statement)]
    unique = frozenset(key for key, occurrences, distinct in rows if is_identifier(occurrences, distinct))
    left_out = frozenset(row[0] for row in rows if sources.is_omitted(*row))
    return sources.restricted_to(frozenset(sources.keys) - left_out), unique


def _sample_windows(comparison: Comparison) -> tuple[Window, ...]:
    """As much of the beginning of each eighth of the spike as has about _JUDGED spans in all, evenly spread."""
    (window,) = comparison.spike.windows
    length = window.to_ns - window.from_ns
    begins = [window.from_ns + length * n // _SAMPLE_WINDOW_COUNT for n in range(_SAMPLE_WINDOW_COUNT)]
    width = max(1, length * _SAMPLE_SPANS // comparison.spike_spans // _SAMPLE_WINDOW_COUNT)
    return tuple(Window(begin, min(begin + width, window.to_ns)) for begin in dict.fromkeys(begins))


async def _count_in_baseline(
    comparison: Comparison, sources: _KeySources, candidates: Sequence[CandidatePair]
) -> tuple[PairCounts, ...]:
    """The candidates with their spans of the baseline; without numbers of which the baseline has too many."""
    if not candidates:
        return ()
    asked = sources.restricted_to(frozenset(each.key for each in candidates))
    statement = KeyCounts(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=comparison.baseline,
        sources=sources.sources,
        hashes=tuple(each.pair_hash for each in candidates),
    )
    if _should_read_per_key(comparison, sources, asked):
        statement = replace(statement, sources=asked.sources, read_per_key=True)
    counts = dict(await comparison.store.rows(statement))
    seen = Counter[str]()
    for each in candidates:
        seen[each.key] += counts.get(each.pair_hash, 0)
    open_ = frozenset(key for key in sources.numeric_keys & seen.keys() if seen[key] != sources.baseline_spans.get(key))
    crowded = await _high_cardinality_keys(comparison, sources, open_)
    return tuple(
        PairCounts(each.key, each.value, each.spans, counts.get(each.pair_hash, 0))
        for each in candidates
        if each.key not in crowded
    )


def _should_read_per_key(comparison: Comparison, sources: _KeySources, asked: _KeySources) -> bool:
    """Whether it costs less to read the keys that are asked for one by one than all attributes of the baseline. Each is
    then as dear as two in a whole Map, and so is a Map of a small part (`min_bytes_for_wide_part`), which is not split.
    """
    days = sum(each.to_ns - each.from_ns for each in comparison.baseline.windows) / (24 * HOUR)
    in_large_parts = comparison.baseline_spans * comparison.baseline.one_in >= LARGE_DAY_SPANS * max(1, days)
    return in_large_parts and len(asked.keys) * comparison.baseline_spans <= sum(sources.baseline_spans.values())


async def _high_cardinality_keys(comparison: Comparison, sources: _KeySources, keys: frozenset[str]) -> frozenset[str]:
    """Which of `keys` have too many values in the baseline; asked of those that have others than were counted."""
    asked = sources.restricted_to(keys if sources.omits_identifiers else frozenset())
    if not asked.keys:
        return frozenset()
    statement = KeyCardinality(
        project_id=comparison.project_id,
        existing_attributes=sources.existing_attributes,
        cohort=comparison.baseline,
        sources=asked.sources,
        read_per_key=_should_read_per_key(comparison, sources, asked),
    )
    rows = await comparison.store.rows(statement)
    return frozenset(asked.key_of(source) for source, distinct in rows if distinct > MAX_NUMERIC_VALUES)


async def _recount_spellings(
    comparison: Comparison,
    found: ComparedPairs,
    letters: Mapping[str, frozenset[str]],
    known: frozenset[str] | None = None,
) -> ComparedPairs:
    """A number may be stored in several spellings (0 and -0, 1e16 and its digits), which one filter finds: these are
    counted by that filter, and reported once.
    """
    several = [each for each in found.pairs if _other_spellings(each.value, letters.get(each.key, frozenset()))]
    if not several:
        return found
    kept, left_out = sorted(several, key=lambda each: -each.spike)[:MAX_RECOUNTED_NUMBERS], frozenset(several)
    filters = (Filter(each.key, Op.EQ, (each.value,)) for each in kept)
    tests = conditions(tuple(filters), SPANS, comparison.now_ns, "body", Issues())
    counts = []
    for cohort in (comparison.spike, comparison.baseline):
        statement = ConditionCounts(
            project_id=comparison.project_id, existing_attributes=known, cohort=cohort, conditions=tests
        )
        counts += await comparison.store.rows(statement)
    anew = {each: PairCounts(each.key, each.value, *both) for each, *both in zip(kept, *counts, strict=True)}
    plain = {each: each for each in found.pairs if each not in left_out}
    pairs = _deduplicate(plain | anew, frozenset(letters))
    return replace(found, pairs=pairs, truncated=found.truncated or len(several) > MAX_RECOUNTED_NUMBERS)


def _deduplicate(recounted: Mapping[PairCounts, PairCounts], keys: frozenset[str]) -> tuple[PairCounts, ...]:
    """The pairs (by what was counted of their own spelling alone), but one of those that are the same number of one of
    `keys` and have spans in common, which would be counted twice.
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


def _precedence(stored: PairCounts, found: PairCounts) -> tuple[int, int, int, int, str]:
    """Orders the spellings of a number: what the filter for it finds, then how often it is stored itself."""
    return (-found.spike, -found.baseline, -stored.spike, len(stored.value), stored.value)


def _other_spellings(value: str, letters: frozenset[str]) -> list[str]:
    """Other texts that the filter for `value` finds where they are numbers of these types."""
    if not letters:
        return []
    others = (text for text in numeric_spellings(value) if text != value)
    return [text for text in others if "d" in letters or _INTEGER.fullmatch(text)]
