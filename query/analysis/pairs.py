"""Which pairs of key and value the spans of a spike have, and how often they and the baseline's have them.

    usual_pairs    own fields, attributes of resources, scopes and spans; without identifiers
    named_pairs    the keys that were asked for, whatever they are

Each pair counts the spans that the filter `key eq value` finds. A key may be looked for in several places (the span's
own attribute before its resource's): `Catalogue` knows which places have it in these spans. Where it is one, as nearly
always, the pair is counted there; else the way a filter reads it, which costs more.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from chassis.validation import Issues
from proto.storage.lists import AFTER_KEY, BEFORE_KEY, entries
from query.analysis.catalogue import OWN, Catalogue, Place, key_of, spelled
from query.asking.filters import Filter, Op, conditions, numerals, subject_of
from query.fields import SPANS
from query.sql.compare import LISTS, MAX_KEYS, MAX_NUMBERS, MAX_PAIRS, MAX_VALUES_OF_KEY, SCOPE_FIELDS
from query.store import Store
from query.tree import (
    AtLeast,
    Attribute,
    Cohort,
    ConditionCounts,
    FieldPairs,
    KeyCounts,
    KeyPairs,
    KeyValues,
    ListPairs,
    OneOf,
    Subject,
    Wanted,
)

MAX_MIXED: Final = 50  # keys that stand in several places, read as filters read them
MAX_SPELLINGS: Final = 100  # numbers that are stored in more than one spelling, counted anew
_KEY_BYTES: Final = 100_000  # a server takes 128 KiB as one parameter
_UNIQUE: Final = 0.9  # distinct values by occurrences, beyond which a key is an identifier's
_FEW: Final = 20  # occurrences, below which that cannot be told
_JUDGED: Final = 100_000  # spans of a large spike by which identifiers are known before all are read
_INTEGER: Final = re.compile(r"-?[1-9][0-9]*|0")
_NUMBERS: Final = frozenset("id")
_TEXT: Final = frozenset("s")
_NEVER: Final = 2**63


class Counted(NamedTuple):
    """A pair as a filter writes it, and how many spans of either cohort have it."""

    key: str
    value: str
    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs that enough spans of the spike have. `identifiers`: keys left out. `cut`: a bound left out others."""

    pairs: tuple[Counted, ...] = ()
    identifiers: frozenset[str] = frozenset()
    cut: bool = False

    def __add__(self, other: "Found") -> "Found":
        return Found(self.pairs + other.pairs, self.identifiers | other.identifiers, self.cut or other.cut)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: two cohorts of a project, by what at least `least` of the spike's `spans` have."""

    store: Store
    project_id: int
    spike: Cohort
    baseline: Cohort
    spans: int
    least: int
    now_ns: int


@dataclass(frozen=True, slots=True)
class _Sources:
    """Keys that are read by one statement, as what, and those of them that hold only numbers. `usual`: identifiers and
    numbers of many values are left out.
    """

    read_as: Mapping[str, str] | Mapping[str, Subject]
    numeric: frozenset[str] = frozenset()
    usual: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.read_as)

    @property
    def values(self) -> tuple[str, ...] | tuple[Subject, ...]:
        return tuple(self.read_as.values())  # type: ignore[return-value]  # all of one kind

    def key_of(self, source: str | int) -> str:
        """The key of a row, which says what it was read as, or at which place."""
        return spelled(source) if isinstance(source, str) else self.keys[source]

    def only(self, keys: frozenset[str]) -> "_Sources":
        kept = {key: value for key, value in self.read_as.items() if key in keys}
        return replace(self, read_as=kept)  # type: ignore[arg-type]  # all of one kind, as before

    def left_out(self, key: str, occurrences: int, distinct: int) -> bool:
        return self.usual and (is_identifier(occurrences, distinct) or (key in self.numeric and distinct > MAX_NUMBERS))


class _Candidate(NamedTuple):
    """A pair of the spike that is to be counted in the baseline."""

    key: str
    value: str
    pair: int
    spans: int


def is_identifier(occurrences: int, distinct: int) -> bool:
    """Whether a key tells spans apart rather than what they have in common."""
    return occurrences >= _FEW and distinct > _UNIQUE * occurrences


async def named_pairs(comparison: Comparison, keys: Sequence[str]) -> Found:
    """The values of `keys`, each as a filter reads it."""
    found = await _read(comparison, _Sources({key: subject_of(key, SPANS) for key in keys}, usual=False))
    numbers = {key: _NUMBERS for key in keys if key not in SPANS.fields}
    return await _recounted(comparison, found, numbers)


async def usual_pairs(comparison: Comparison) -> Found:
    """The values of every key that says more than which span it is."""
    catalogue = Catalogue()
    found = await _dictionaries(comparison, catalogue)
    keys = catalogue.compared()
    single = [key for key in keys if catalogue.single(key)]
    mixed = [key for key in keys if not catalogue.single(key)]
    own, own_cut = _fitting(key for key in single if (OWN, key) in catalogue.known)
    numeric = frozenset(spelled(key) for key in keys if catalogue.numeric(key))
    found += await _read(comparison, _Sources({spelled(key): key for key in own}, numeric))
    found += await _read(comparison, _Sources({spelled(key): Attribute(key) for key in mixed[:MAX_MIXED]}, numeric))
    found += Found(cut=own_cut or len(mixed) > MAX_MIXED)
    return await _recounted(comparison, found, {spelled(key): catalogue.letters(key) & _NUMBERS for key in keys})


def _fitting(keys: Iterable[str]) -> tuple[list[str], bool]:
    """The first keys, as many as one parameter holds, and whether there are more."""
    kept, room = list[str](), _KEY_BYTES
    for key in keys:
        room -= len(key.encode()) + 8
        if room < 0:
            return kept, True
        kept.append(key)
    return kept, False


async def _dictionaries(comparison: Comparison, catalogue: Catalogue) -> Found:
    """Own fields, resources and scopes; the keys of all are added to the catalogue."""
    fields = await _fields(comparison, catalogue)
    lists = await _lists(comparison, catalogue)
    allowed = {spelled(key) for key in catalogue.compared() if catalogue.single(key)}
    listed = tuple(pair for pair in lists.pairs if pair.key in allowed)
    scopes = tuple(pair for pair in fields.pairs if pair.key in SPANS.fields or pair.key in allowed)
    return Found(scopes + listed, lists.identifiers & allowed, fields.cut or lists.cut)


async def _fields(comparison: Comparison, catalogue: Catalogue) -> Found:
    project_id, rows = comparison.project_id, comparison.store.rows
    wanted = AtLeast(comparison.least)
    spike = await rows(FieldPairs(project_id=project_id, cohort=comparison.spike, wanted=wanted))
    candidates = [_Candidate(*row) for row in spike[:MAX_PAIRS] if row[3] >= comparison.least]
    asked = OneOf(tuple(each.pair for each in candidates))
    baseline = await rows(FieldPairs(project_id=project_id, cohort=comparison.baseline, wanted=asked))
    for key, _, _, spans in (*spike, *baseline):
        if key in SCOPE_FIELDS:
            catalogue.add((key, key), spans, _TEXT)
    counts = {pair: spans for _, _, pair, spans in baseline}
    pairs = tuple(Counted(each.key, each.value, each.spans, counts.get(each.pair, 0)) for each in candidates)
    return Found(pairs, cut=len(spike) > MAX_PAIRS)


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
    rows = await comparison.store.rows(ListPairs(project_id=comparison.project_id, cohort=cohort, wanted=wanted))
    catalogue.complete = catalogue.complete and len(rows) <= MAX_KEYS
    found = []
    for place, marked_key, marked, pair, spans, whole, distinct, letters in rows[:MAX_KEYS]:
        ((key, _, value),) = entries(f"{BEFORE_KEY}{marked_key}{AFTER_KEY}s{marked}{BEFORE_KEY}")
        where = (LISTS[place], key)
        found.append(_Listed(key, value, pair, spans, bool(whole), distinct, where, frozenset(letters)))
        if whole:
            catalogue.add(where, spans, frozenset(letters))
    return found


async def _read(comparison: Comparison, sources: _Sources) -> Found:
    """Values that each span is asked for: first the spike's, then how often the baseline has these."""
    sources, unique = await _judged(comparison, sources)
    if not sources.keys:
        return Found(identifiers=unique)
    statement = KeyPairs(
        project_id=comparison.project_id, cohort=comparison.spike, sources=sources.values, least=comparison.least
    )
    candidates, cut = list[_Candidate](), False
    for source, occurrences, distinct, pairs in await comparison.store.rows(statement):
        key = sources.key_of(source)
        if sources.usual and is_identifier(occurrences, distinct):
            unique |= {key}
        if not sources.left_out(key, occurrences, distinct):
            candidates += (_Candidate(key, value, pair, spans) for pair, value, spans in pairs[:MAX_VALUES_OF_KEY])
            cut = cut or len(pairs) > MAX_VALUES_OF_KEY
    candidates.sort(key=lambda each: (-each.spans, each.key, each.value))
    counted = await _counted(comparison, sources, candidates[:MAX_PAIRS])
    return Found(counted, unique, cut or len(candidates) > MAX_PAIRS)


async def _judged(comparison: Comparison, sources: _Sources) -> tuple[_Sources, frozenset[str]]:
    """Of a large spike, a sample tells which keys to leave out before millions of their values are grouped."""
    one_in = -(-comparison.spans // _JUDGED)
    if one_in < 2 or not sources.usual or not sources.keys:
        return sources, frozenset()
    sample = replace(comparison.spike, one_in=comparison.spike.one_in * one_in)
    statement = KeyPairs(project_id=comparison.project_id, cohort=sample, sources=sources.values, least=_NEVER)
    rows = [(sources.key_of(source), *counts) for source, *counts, _ in await comparison.store.rows(statement)]
    unique = frozenset(key for key, occurrences, distinct in rows if is_identifier(occurrences, distinct))
    return sources.only(frozenset(row[0] for row in rows if not sources.left_out(*row))), unique


async def _counted(comparison: Comparison, sources: _Sources, candidates: Sequence[_Candidate]) -> tuple[Counted, ...]:
    """The candidates with their spans of the baseline; without numbers of which the baseline has too many."""
    if not candidates:
        return ()
    hashes = tuple(each.pair for each in candidates)
    statement = KeyCounts(
        project_id=comparison.project_id, cohort=comparison.baseline, sources=sources.values, hashes=hashes
    )
    counts = dict(await comparison.store.rows(statement))
    crowded = await _crowded(comparison, sources, frozenset(each.key for each in candidates))
    return tuple(
        Counted(each.key, each.value, each.spans, counts.get(each.pair, 0))
        for each in candidates
        if each.key not in crowded
    )


async def _crowded(comparison: Comparison, sources: _Sources, keys: frozenset[str]) -> frozenset[str]:
    """Which of `keys` are numbers of which the baseline has too many."""
    asked = sources.only(keys & sources.numeric) if sources.usual else sources.only(frozenset())
    if not asked.keys:
        return frozenset()
    statement = KeyValues(project_id=comparison.project_id, cohort=comparison.baseline, sources=asked.values)
    rows = await comparison.store.rows(statement)
    return frozenset(asked.key_of(source) for source, distinct in rows if distinct > MAX_NUMBERS)


async def _recounted(comparison: Comparison, found: Found, letters: Mapping[str, frozenset[str]]) -> Found:
    """A number may be stored in several spellings (0 and -0, 1e16 and its digits), which one filter finds: these are
    counted by that filter.
    """
    several = [each for each in found.pairs if _spellings(each.value, letters.get(each.key, frozenset()))]
    if not several:
        return found
    kept, left_out = several[:MAX_SPELLINGS], frozenset(several)
    filters = (Filter(each.key, Op.EQ, (each.value,)) for each in kept)
    tests = conditions(tuple(filters), SPANS, comparison.now_ns, "body", Issues())
    counts = [
        (await comparison.store.rows(ConditionCounts(project_id=comparison.project_id, cohort=cohort, tests=tests)))[0]
        for cohort in (comparison.spike, comparison.baseline)
    ]
    plain = tuple(each for each in found.pairs if each not in left_out)
    anew = (Counted(each.key, each.value, *both) for each, *both in zip(kept, *counts, strict=True))
    return replace(found, pairs=(*plain, *anew), cut=found.cut or len(several) > MAX_SPELLINGS)


def _spellings(value: str, letters: frozenset[str]) -> list[str]:
    """Other texts that the filter for `value` finds where they are numbers of these types."""
    if not letters:
        return []
    others = (text for text in numerals(value) if text != value)
    return [text for text in others if "d" in letters or _INTEGER.fullmatch(text)]
