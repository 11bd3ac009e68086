"""Pairs of built-in fields, resources and scopes. Their columns are dictionaries: few values for many spans. So they
are read in two statements per cohort, which also return which keys exist.
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
