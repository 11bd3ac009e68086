"""Pairs of own fields, resources and scopes. Their columns are dictionaries: a few values for many spans, so that they
are read in two statements for either cohort, and tell on the way which keys there are.
"""

from typing import Final, NamedTuple

from proto.storage.lists import AFTER_KEY, BEFORE_KEY, entries
from query.analysis.catalogue import Catalogue, Place, key_of, spelled
from query.analysis.comparison import Candidate, Comparison, Counted, Found, is_identifier
from query.fields import SPANS
from query.sql.compare import LISTS, MAX_KEYS, MAX_NUMBERS, MAX_PAIRS
from query.tree import AtLeast, Cohort, FieldPairs, ListPairs, OneOf, Wanted

_TEXT: Final = frozenset("s")


async def dictionaries(comparison: Comparison, catalogue: Catalogue) -> Found:
    """Own fields, resources and scopes; the keys of all are added to the catalogue."""
    fields = await _fields(comparison, catalogue)
    lists = await _lists(comparison, catalogue)
    allowed = {spelled(key) for key in catalogue.compared() if catalogue.single(key)}
    listed = tuple(pair for pair in lists.pairs if pair.key in allowed)
    scopes = tuple(pair for pair in fields.pairs if pair.key in SPANS.fields or pair.key in allowed)
    return Found(scopes + listed, lists.identifiers & allowed, fields.cut or lists.cut)


async def _fields(comparison: Comparison, catalogue: Catalogue) -> Found:
    spike = await _of_fields(comparison, comparison.spike, AtLeast(comparison.least), catalogue)
    candidates = spike[:MAX_PAIRS]
    asked = OneOf(tuple(each.pair for each in candidates))
    baseline = await _of_fields(comparison, comparison.baseline, asked, catalogue)
    counts = {each.pair: each.spans for each in baseline}
    pairs = tuple(Counted(each.key, each.value, each.spans, counts.get(each.pair, 0)) for each in candidates)
    return Found(pairs, cut=max(len(spike), len(baseline)) > MAX_PAIRS)


async def _of_fields(comparison: Comparison, cohort: Cohort, wanted: Wanted, catalogue: Catalogue) -> list[Candidate]:
    """The pairs of one cohort; its scopes are added to the catalogue."""
    project_id, known = comparison.project_id, comparison.known
    rows = await comparison.store.rows(FieldPairs(project_id=project_id, known=known, cohort=cohort, wanted=wanted))
    for key, _, _, spans, whole in rows:
        if whole:
            catalogue.add((key, key), spans, _TEXT)
    return [Candidate(*row) for *row, whole in rows if not whole]


class _Listed(NamedTuple):
    """A row of ListPairs, key and value as they are sent."""

    key: str
    value: str
    pair: int
    spans: int
    whole: bool
    distinct: int
    place: Place
    letters: frozenset[str]


async def _lists(comparison: Comparison, catalogue: Catalogue) -> Found:
    spike = await _listed(comparison, comparison.spike, AtLeast(comparison.least), catalogue)
    candidates = [each for each in spike if not each.whole]
    asked = OneOf(tuple(each.pair for each in candidates[:MAX_PAIRS]))
    baseline = await _listed(comparison, comparison.baseline, asked, catalogue)
    keys = [each for each in (*spike, *baseline) if each.whole]
    crowded = {each.place for each in keys if each.distinct > MAX_NUMBERS and catalogue.is_numeric(each.place)}
    unique = {each.place for each in spike if each.whole and is_identifier(each.spans, each.distinct)}
    counts = {each.pair: each.spans for each in baseline if not each.whole}
    pairs = tuple(
        Counted(spelled(key_of(each.place)), each.value, each.spans, counts.get(each.pair, 0))
        for each in candidates[:MAX_PAIRS]
        if each.place not in crowded | unique
    )
    identifiers = frozenset(spelled(key_of(place)) for place in unique)
    return Found(pairs, identifiers, cut=len(candidates) > MAX_PAIRS or not catalogue.complete)


async def _listed(comparison: Comparison, cohort: Cohort, wanted: Wanted, catalogue: Catalogue) -> list[_Listed]:
    """The rows of one cohort; its keys are added to the catalogue."""
    project_id, known = comparison.project_id, comparison.known
    rows = await comparison.store.rows(ListPairs(project_id=project_id, known=known, cohort=cohort, wanted=wanted))
    catalogue.complete = catalogue.complete and len(rows) <= MAX_KEYS
    found = []
    for place, marked_key, marked, pair, spans, whole, distinct, letters in rows[:MAX_KEYS]:
        ((key, _, value),) = entries(f"{BEFORE_KEY}{marked_key}{AFTER_KEY}s{marked}{BEFORE_KEY}")
        where = (LISTS[place], key)
        found.append(_Listed(key, value, pair, spans, bool(whole), distinct, where, frozenset(letters)))
        if whole:
            catalogue.add(where, spans, frozenset(letters), of_baseline=cohort is comparison.baseline)
    return found
