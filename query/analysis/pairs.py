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

from chassis.validation import Issues
from query.analysis.catalogue import OWN, Catalogue, spelled
from query.analysis.comparison import Candidate, Comparison, Counted, Found, is_identifier
from query.analysis.dictionaries import dictionaries
from query.asking.filters import Filter, Op, conditions, subject_of
from query.asking.instant import HOUR
from query.asking.numbers import numerals, parse_number
from query.asking.window import Window
from query.fields import SPANS
from query.sql.compare import MAX_NUMBERS, MAX_PAIRS, MAX_VALUES_OF_KEY
from query.sql.values import names
from query.tree import (
    Attribute,
    ConditionCounts,
    KeyCounts,
    KeyPairs,
    KeyValues,
    Subject,
)

MAX_MIXED: Final = 50  # keys that stand in several places, read as filters read them
MAX_SPELLINGS: Final = 50  # numbers that are stored in more than one spelling, counted anew
LARGE_DAY: Final = 200_000  # spans of a day, whose part is far larger than those that keep Maps whole
_KEY_BYTES: Final = 100_000  # a server takes 128 KiB as one parameter
_LARGE: Final = 500_000  # spans of a spike beyond which identifiers are known before all are read
_JUDGED: Final = 100_000  # by about so many of its spans
_STRETCHES: Final = 8  # which lie in so many places of it
_INTEGER: Final = re.compile(r"-?[1-9][0-9]*|0")
_NUMBERS: Final = frozenset("id")
_NEVER: Final = 2**63


@dataclass(frozen=True, slots=True)
class _Sources:
    """Keys that are read by one statement, as what, and those of them that hold only numbers. `usual`: identifiers and
    numbers of many values are left out. `baseline`: how many spans of the baseline have a key, where that is known.
    `known`: the attributes that are worth looking for, those of conditions too.
    """

    read_as: Mapping[str, str] | Mapping[str, Subject]
    numeric: frozenset[str] = frozenset()
    usual: bool = True
    baseline: Mapping[str, int] = field(default_factory=dict)
    known: frozenset[str] | None = None

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


async def named_pairs(comparison: Comparison, keys: Sequence[str]) -> Found:
    """The values of `keys`, each as a filter reads it."""
    found = await _read(comparison, _Sources({key: subject_of(key, SPANS) for key in keys}, usual=False))
    numbers = {key: _NUMBERS for key in keys if key not in SPANS.fields}
    return await _recounted(comparison, found, numbers)


async def usual_pairs(comparison: Comparison) -> Found:
    """The values of every key that says more than which span it is."""
    catalogue = Catalogue()
    found = await dictionaries(comparison, catalogue)
    keys = catalogue.compared()
    single = [key for key in keys if catalogue.single(key)]
    mixed = [key for key in keys if not catalogue.single(key)]
    own, own_cut = _fitting(key for key in single if (OWN, key) in catalogue.known)
    numeric = frozenset(spelled(key) for key in keys if catalogue.numeric(key))
    baseline = {spelled(key): catalogue.known[OWN, key].baseline for key in own}
    known, mixed_known = comparison.known, _known(comparison, catalogue, mixed[:MAX_MIXED])
    by_key, by_subject = {spelled(key): key for key in own}, {spelled(key): Attribute(key) for key in mixed[:MAX_MIXED]}
    found += await _read(comparison, _Sources(by_key, numeric, baseline=baseline, known=known))
    found += await _read(comparison, _Sources(by_subject, numeric, known=mixed_known))
    found += Found(cut=own_cut or len(mixed) > MAX_MIXED)
    numbers = {key: catalogue.letters(key) & _NUMBERS for key in keys}
    known = _known(comparison, catalogue, (key for key, letters in numbers.items() if letters))
    return await _recounted(comparison, found, {spelled(key): numbers[key] for key in keys}, known)


def _known(comparison: Comparison, catalogue: Catalogue, keys: Iterable[str]) -> frozenset[str] | None:
    """What is worth looking for where `keys` are read as filters read them; None: everything."""
    asked = frozenset(name for key in keys for name in names(key))
    if comparison.known is None or not catalogue.usual(asked):
        return None
    return comparison.known | (asked & catalogue.names())


def _fitting(keys: Iterable[str]) -> tuple[list[str], bool]:
    """The first keys, as many as one parameter holds, and whether there are more."""
    kept, room = list[str](), _KEY_BYTES
    for key in keys:
        room -= len(key.encode()) + 8
        if room < 0:
            return kept, True
        kept.append(key)
    return kept, False


async def _read(comparison: Comparison, sources: _Sources) -> Found:
    """Values that each span is asked for: first the spike's, then how often the baseline has these."""
    sources, unique = await _judged(comparison, sources)
    if not sources.keys:
        return Found(identifiers=unique)
    statement = KeyPairs(
        project_id=comparison.project_id,
        known=sources.known,
        cohort=comparison.spike,
        sources=sources.values,
        least=comparison.least,
    )
    candidates, cut = list[Candidate](), False
    for source, occurrences, distinct, pairs in await comparison.store.rows(statement):
        key = sources.key_of(source)
        if sources.usual and is_identifier(occurrences, distinct):
            unique |= {key}
        if not sources.left_out(key, occurrences, distinct):
            candidates += (Candidate(key, value, pair, spans) for pair, value, spans in pairs[:MAX_VALUES_OF_KEY])
            cut = cut or len(pairs) > MAX_VALUES_OF_KEY
    candidates.sort(key=lambda each: (-each.spans, each.key, each.value))
    counted = await _counted(comparison, sources, candidates[:MAX_PAIRS])
    return Found(counted, unique, cut or len(candidates) > MAX_PAIRS)


async def _judged(comparison: Comparison, sources: _Sources) -> tuple[_Sources, frozenset[str]]:
    """Of a large spike, a part of its time tells which keys to leave out before millions of values are grouped."""
    if comparison.spans <= _LARGE or not sources.usual or not sources.keys:
        return sources, frozenset()
    part = replace(comparison.spike, windows=_stretches(comparison))
    statement = KeyPairs(
        project_id=comparison.project_id, known=sources.known, cohort=part, sources=sources.values, least=_NEVER
    )
    rows = [(sources.key_of(source), *counts) for source, *counts, _ in await comparison.store.rows(statement)]
    unique = frozenset(key for key, occurrences, distinct in rows if is_identifier(occurrences, distinct))
    left_out = frozenset(row[0] for row in rows if sources.left_out(*row))
    return sources.only(frozenset(sources.keys) - left_out), unique


def _stretches(comparison: Comparison) -> tuple[Window, ...]:
    """As much of the beginning of each eighth of the spike as has about _JUDGED spans in all, evenly spread."""
    (window,) = comparison.spike.windows
    length = window.to_ns - window.from_ns
    begins = [window.from_ns + length * n // _STRETCHES for n in range(_STRETCHES)]
    width = max(1, length * _JUDGED // comparison.spans // _STRETCHES)
    return tuple(Window(begin, min(begin + width, window.to_ns)) for begin in dict.fromkeys(begins))


async def _counted(comparison: Comparison, sources: _Sources, candidates: Sequence[Candidate]) -> tuple[Counted, ...]:
    """The candidates with their spans of the baseline; without numbers of which the baseline has too many."""
    if not candidates:
        return ()
    asked = sources.only(frozenset(each.key for each in candidates))
    statement = KeyCounts(
        project_id=comparison.project_id,
        known=sources.known,
        cohort=comparison.baseline,
        sources=sources.values,
        hashes=tuple(each.pair for each in candidates),
    )
    if _read_apart(comparison, sources, asked):
        statement = replace(statement, sources=asked.values, apart=True)
    counts = dict(await comparison.store.rows(statement))
    seen = Counter[str]()
    for each in candidates:
        seen[each.key] += counts.get(each.pair, 0)
    open_ = frozenset(key for key in sources.numeric & seen.keys() if seen[key] != sources.baseline.get(key))
    crowded = await _crowded(comparison, sources, open_)
    return tuple(
        Counted(each.key, each.value, each.spans, counts.get(each.pair, 0))
        for each in candidates
        if each.key not in crowded
    )


def _read_apart(comparison: Comparison, sources: _Sources, asked: _Sources) -> bool:
    """Whether it costs less to read the keys that are asked for one by one than all attributes of the baseline. Each is
    then as dear as two in a whole Map, and so is a Map of a small part (`min_bytes_for_wide_part`), which is not split.
    """
    days = sum(each.to_ns - each.from_ns for each in comparison.baseline.windows) / (24 * HOUR)
    in_large_parts = comparison.others * comparison.baseline.one_in >= LARGE_DAY * max(1, days)
    return in_large_parts and len(asked.keys) * comparison.others <= sum(sources.baseline.values())


async def _crowded(comparison: Comparison, sources: _Sources, keys: frozenset[str]) -> frozenset[str]:
    """Which of `keys` have too many values in the baseline; asked of those that have others than were counted."""
    asked = sources.only(keys if sources.usual else frozenset())
    if not asked.keys:
        return frozenset()
    statement = KeyValues(
        project_id=comparison.project_id,
        known=sources.known,
        cohort=comparison.baseline,
        sources=asked.values,
        apart=_read_apart(comparison, sources, asked),
    )
    rows = await comparison.store.rows(statement)
    return frozenset(asked.key_of(source) for source, distinct in rows if distinct > MAX_NUMBERS)


async def _recounted(
    comparison: Comparison, found: Found, letters: Mapping[str, frozenset[str]], known: frozenset[str] | None = None
) -> Found:
    """A number may be stored in several spellings (0 and -0, 1e16 and its digits), which one filter finds: these are
    counted by that filter, and reported once.
    """
    several = [each for each in found.pairs if _spellings(each.value, letters.get(each.key, frozenset()))]
    if not several:
        return found
    kept, left_out = sorted(several, key=lambda each: -each.spike)[:MAX_SPELLINGS], frozenset(several)
    filters = (Filter(each.key, Op.EQ, (each.value,)) for each in kept)
    tests = conditions(tuple(filters), SPANS, comparison.now_ns, "body", Issues())
    counts = []
    for cohort in (comparison.spike, comparison.baseline):
        statement = ConditionCounts(project_id=comparison.project_id, known=known, cohort=cohort, tests=tests)
        counts += await comparison.store.rows(statement)
    anew = {each: Counted(each.key, each.value, *both) for each, *both in zip(kept, *counts, strict=True)}
    plain = {each: each for each in found.pairs if each not in left_out}
    pairs = _told_once(plain | anew, frozenset(letters))
    return replace(found, pairs=pairs, cut=found.cut or len(several) > MAX_SPELLINGS)


def _told_once(recounted: Mapping[Counted, Counted], keys: frozenset[str]) -> tuple[Counted, ...]:
    """The pairs (by what was counted of their own spelling alone), but one of those that are the same number of one of
    `keys` and have spans in common, which would be counted twice.
    """
    spellings: dict[tuple[str, object], list[Counted]] = {}
    for each in recounted:
        number = parse_number(each.value) if each.key in keys else None
        spellings.setdefault((each.key, each.value if number is None else number), []).append(each)
    kept = list[Counted]()
    for equal in spellings.values():
        shared = any(recounted[each] != each for each in equal)
        first = sorted(equal, key=lambda each: _precedence(each, recounted[each]))
        kept += (recounted[each] for each in (first[:1] if shared else first))
    return tuple(kept)


def _precedence(stored: Counted, found: Counted) -> tuple[int, int, int, int, str]:
    """Orders the spellings of a number: what the filter for it finds, then how often it is stored itself."""
    return (-found.spike, -found.baseline, -stored.spike, len(stored.value), stored.value)


def _spellings(value: str, letters: frozenset[str]) -> list[str]:
    """Other texts that the filter for `value` finds where they are numbers of these types."""
    if not letters:
        return []
    others = (text for text in numerals(value) if text != value)
    return [text for text in others if "d" in letters or _INTEGER.fullmatch(text)]
