"""Pairs of own fields, resources and scopes. Their columns are dictionaries: a few values for many spans, so that they
are read in two statements for either cohort, and tell on the way which keys there are.
"""

from typing import Final, NamedTuple

from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY, parse_attributes
from query.analysis.comparison import CandidatePair, ComparedPairs, Comparison, PairCounts, is_identifier
from query.analysis.key_index import KeyIndex, KeyLocation, attribute_key, filter_key
from query.fields import SPANS
from query.sql.compare import LIST_COLUMNS, MAX_KEYS, MAX_NUMERIC_VALUES, MAX_PAIRS
from query.statements import Cohort, FieldPairs, FrequentPairs, ListPairs, PairsByHash, PairSelection

_TEXT_LETTERS: Final = frozenset("s")


async def low_cardinality_pairs(comparison: Comparison, key_index: KeyIndex) -> ComparedPairs:
    """Own fields, resources and scopes; the keys of all are added to the catalogue."""
    fields = await _field_pairs(comparison, key_index)
    lists = await _list_pairs(comparison, key_index)
    allowed = {filter_key(key) for key in key_index.comparable_keys() if key_index.has_single_location(key)}
    listed = tuple(pair for pair in lists.pairs if pair.key in allowed)
    scopes = tuple(pair for pair in fields.pairs if pair.key in SPANS.fields or pair.key in allowed)
    return ComparedPairs(scopes + listed, lists.identifiers & allowed, fields.truncated or lists.truncated)


async def _field_pairs(comparison: Comparison, catalogue: KeyIndex) -> ComparedPairs:
    spike = await _read_field_pairs(comparison, comparison.spike, FrequentPairs(comparison.min_spans), catalogue)
    candidates = spike[:MAX_PAIRS]
    asked = PairsByHash(tuple(each.pair_hash for each in candidates))
    baseline = await _read_field_pairs(comparison, comparison.baseline, asked, catalogue)
    counts = {each.pair_hash: each.spans for each in baseline}
    pairs = tuple(PairCounts(each.key, each.value, each.spans, counts.get(each.pair_hash, 0)) for each in candidates)
    return ComparedPairs(pairs, truncated=max(len(spike), len(baseline)) > MAX_PAIRS)


async def _read_field_pairs(
    comparison: Comparison, cohort: Cohort, wanted: PairSelection, catalogue: KeyIndex
) -> list[CandidatePair]:
    """The pairs of one cohort; its scopes are added to the catalogue."""
    project_id, known = comparison.project_id, comparison.existing_attributes
    rows = await comparison.store.rows(
        FieldPairs(project_id=project_id, existing_attributes=known, cohort=cohort, selection=wanted)
    )
    for key, _, _, spans, whole in rows:
        if whole:
            catalogue.add((key, key), spans, _TEXT_LETTERS)
    return [CandidatePair(*row) for *row, whole in rows if not whole]


class _ListPairRow(NamedTuple):
    """A row of ListPairs, key and value as they are sent."""

    key: str
    value: str
    pair_hash: int
    spans: int
    is_key_total: bool
    distinct: int
    location: KeyLocation
    type_letters: frozenset[str]


async def _list_pairs(comparison: Comparison, catalogue: KeyIndex) -> ComparedPairs:
    spike = await _read_list_pairs(comparison, comparison.spike, FrequentPairs(comparison.min_spans), catalogue)
    candidates = [each for each in spike if not each.is_key_total]
    asked = PairsByHash(tuple(each.pair_hash for each in candidates[:MAX_PAIRS]))
    baseline = await _read_list_pairs(comparison, comparison.baseline, asked, catalogue)
    keys = [each for each in (*spike, *baseline) if each.is_key_total]
    crowded = {
        each.location for each in keys if each.distinct > MAX_NUMERIC_VALUES and catalogue.is_numeric_at(each.location)
    }
    unique = {each.location for each in spike if each.is_key_total and is_identifier(each.spans, each.distinct)}
    counts = {each.pair_hash: each.spans for each in baseline if not each.is_key_total}
    pairs = tuple(
        PairCounts(filter_key(attribute_key(each.location)), each.value, each.spans, counts.get(each.pair_hash, 0))
        for each in candidates[:MAX_PAIRS]
        if each.location not in crowded | unique
    )
    identifiers = frozenset(filter_key(attribute_key(place)) for place in unique)
    return ComparedPairs(pairs, identifiers, truncated=len(candidates) > MAX_PAIRS or not catalogue.is_complete)


async def _read_list_pairs(
    comparison: Comparison, cohort: Cohort, wanted: PairSelection, catalogue: KeyIndex
) -> list[_ListPairRow]:
    """The rows of one cohort; its keys are added to the catalogue."""
    project_id, known = comparison.project_id, comparison.existing_attributes
    rows = await comparison.store.rows(
        ListPairs(project_id=project_id, existing_attributes=known, cohort=cohort, selection=wanted)
    )
    catalogue.is_complete = catalogue.is_complete and len(rows) <= MAX_KEYS
    found = []
    for place, marked_key, marked, pair, spans, whole, distinct, letters in rows[:MAX_KEYS]:
        ((key, _, value),) = parse_attributes(f"{BEFORE_KEY}{marked_key}{AFTER_KEY}s{marked}{BEFORE_KEY}")
        where = (LIST_COLUMNS[place], key)
        found.append(_ListPairRow(key, value, pair, spans, bool(whole), distinct, where, frozenset(letters)))
        if whole:
            catalogue.add(where, spans, frozenset(letters), of_baseline=cohort is comparison.baseline)
    return found
