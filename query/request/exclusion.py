"""Decides whether a condition can exclude any row, from its keys, operators and values, without reading stored rows.

Explore accepts conditions that exclude nothing. An erasure must not: `not_in []`, or `exists` of a field that every
span has, would erase everything. So a condition counts as a restriction only if an excluded row is found: for each
subject of the condition, a value (or absence) for which no alternative on the subject holds. The values to try are made
of the texts and numbers of the conditions, so that one of them is excluded if any value is. Only patterns are
uncertain: a pattern that may match a value counts as matching.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from types import MappingProxyType
from typing import Final

from query.request.patterns import may_match
from query.request.predicates import numeric_spellings, parse_number
from query.rows import ColumnKind, Field
from query.statements import (
    Attribute,
    CompareOp,
    Condition,
    IdIn,
    IntegerIn,
    IntegerRange,
    MatchPosition,
    NumberComparison,
    Predicate,
    RegexMatches,
    Subject,
    TextIn,
    TextMatches,
)
from query.values import MAX_NANOS, TimestampError, format_millis, format_timestamp, parse_timestamp

_MAX_INTEGER: Final = 2**63 - 1
_SEVERITIES: Final = range(1, 25)
_NEVER_EMPTY: Final = "environment"  # the default is "unknown"
_LETTERS: Final = "q~0 " + "".join(map(chr, (*range(33, 127), *range(0x4E00, 0x5000))))
_TIME: Final = "2000-01-01T00:00:00.000000000Z"


@dataclass(frozen=True, slots=True)
class TrialValue:
    """A value of a row: its canonical text, its stored integer if the column has one, whether it is a number."""

    text: str
    integer: int = 0
    is_number: bool = False


def trial_values(subject: Subject, members: Sequence[Condition]) -> Iterable[TrialValue]:
    """Values that the subject can have. If the members exclude any value at all, they exclude one of these."""
    field = subject if isinstance(subject, Field) else None
    predicates = [one.predicate for one in members]
    if field is not None and field.names:
        return map(TrialValue, field.names)
    if field is not None and field.kind is ColumnKind.ID:
        return _ids(field, predicates)
    if field is not None and field.kind in (ColumnKind.INTEGER, ColumnKind.DURATION, ColumnKind.TIMESTAMP):
        return _integers(field, predicates)
    return _texts(field, members)


def _texts(field: Field | None, members: Sequence[Condition]) -> Iterator[TrialValue]:
    lists = [one.predicate for one in members if one.negated and isinstance(one.predicate, TextIn)]
    if lists:  # every other value meets the conditions
        found = min((one.texts + one.numeric_texts for one in lists), key=len)
    else:
        pieces = [one.predicate.text for one in members if one.negated and isinstance(one.predicate, TextMatches)]
        letters = _letters(members)
        found = ("", *letters, *pieces, *(letter.join(("", *pieces, "")) for letter in letters))
    for text in found:
        if text or field is None or not (field.optional or field.name == _NEVER_EMPTY):
            yield TrialValue(text)
        if (field is None or field.kind is ColumnKind.BODY) and _is_number(text):
            yield TrialValue(text, is_number=True)


def _is_number(text: str) -> bool:
    """Whether a stored integer or double can have this canonical text."""
    is_double = bool(set(text) & set(".e"))
    return text in numeric_spellings(text) and (is_double or -_MAX_INTEGER <= int(text) <= _MAX_INTEGER)


def _letters(members: Sequence[Condition]) -> list[str]:
    """A few characters that no text of a condition has."""
    used: set[str] = set()
    for one in members:
        match one.predicate:
            case TextIn(texts, _):
                used.update(*texts)
            case TextMatches(_, text):
                used.update(text)
    return list(islice((letter for letter in _LETTERS if letter not in used), 4))


def _pieces(predicates: Sequence[Predicate]) -> list[str]:
    """The texts that trial values must contain: each text alone, and all of them together."""
    found = [one.text for one in predicates if isinstance(one, TextMatches)]
    return [*found, "".join(found)]


def _ids(field: Field, predicates: Sequence[Predicate]) -> Iterator[TrialValue]:
    for one in predicates:
        if isinstance(one, IdIn):
            yield from (TrialValue(each.hex()) for each in one.ids)
    for filler in "f0123456789abcde":
        for piece in ("", *_pieces(predicates)):
            text = piece.ljust(2 * field.size, filler)
            if len(text) == 2 * field.size and set(text) <= set("0123456789abcdef") and set(text) != {"0"}:
                yield TrialValue(text)


def _integers(field: Field, predicates: Sequence[Predicate]) -> Iterator[TrialValue]:
    found = {0, 1, *(int(digit * 12) for digit in "123456789"), _MAX_INTEGER}
    for one in predicates:
        match one:
            case IntegerIn(values):
                found.update(values, (value + 1 for value in values))
            case IntegerRange(low, high):
                found.update(bound + step for bound in (low, high) if bound is not None for step in (-1, 0))
    if field.kind is ColumnKind.INTEGER:
        yield from (TrialValue(str(number), number) for number in _SEVERITIES)
        return
    text_of, number_of = (
        (format_millis, _from_millis) if field.kind is ColumnKind.DURATION else (format_timestamp, _from_time)
    )
    for piece in _pieces(predicates):
        found.update(number_of(piece))
    yield from (TrialValue(text_of(number), number) for number in sorted(found) if 0 <= number <= _MAX_INTEGER)


def _from_millis(piece: str) -> Iterator[int]:
    """Durations whose text may contain the piece."""
    for text in (piece, f"1{piece}", f"{piece}.0", f"0{piece}"):
        number = parse_number(text)
        if number is not None:
            yield int(number * 10**6)


def _from_time(piece: str) -> Iterator[int]:
    """Times whose text contains the piece."""
    for at in range(len(_TIME) - len(piece) + 1):
        try:
            yield parse_timestamp(_TIME[:at] + piece + _TIME[at + len(piece) :], MAX_NANOS)
        except TimestampError:
            continue


_MOST_WITH_PATTERNS: Final = 4  # values that are tried if there are patterns, because matching them is slow
_ORDERS: Final[Mapping[CompareOp, Callable[[float | Fraction, float | Fraction], bool]]] = MappingProxyType(
    {CompareOp.GT: operator.gt, CompareOp.GTE: operator.ge, CompareOp.LT: operator.lt, CompareOp.LTE: operator.le}
)


def excludes_nothing(conditions: Sequence[Condition]) -> bool:
    """Whether every row of a table meets all `conditions`, which are resolved for this table."""
    return all(map(matches_every_row, conditions))


def matches_every_row(condition: Condition) -> bool:
    """Whether every row meets the condition or one of its alternatives."""
    by_subject: dict[Subject, list[Condition]] = {}
    for one in (replace(condition, alternatives=()), *condition.alternatives):
        by_subject.setdefault(one.subject, []).append(one)
    return not all(_misses_a_row(subject, by_subject) for subject in by_subject)


def _misses_a_row(subject: Subject, by_subject: Mapping[Subject, Sequence[Condition]]) -> bool:
    """Whether there is a value of the subject (or its absence) for which no condition on it holds."""
    if _can_be_absent(subject) and not any(one.negated for one in by_subject[subject]):
        return True
    subjects = [subject]
    if isinstance(subject, Attribute):  # if a resource has an attribute `k`, its rows have `resource.k` and `k`
        subjects += [each for each in by_subject if each == Attribute(subject.key.removeprefix("resource."))]
    return all(_misses_a_value(each, by_subject[each]) for each in dict.fromkeys(subjects))


def _can_be_absent(subject: Subject) -> bool:
    return isinstance(subject, Attribute) or subject.optional or subject.kind is ColumnKind.BODY


def _misses_a_value(subject: Subject, members: Sequence[Condition]) -> bool:
    """Whether there is a value of the subject for which no member holds; all members are conditions on this subject."""
    plain = [one for one in members if not isinstance(one.predicate, RegexMatches)]
    patterns = [one for one in members if isinstance(one.predicate, RegexMatches)]
    missed = (value for value in trial_values(subject, members) if not any(_is_met(one, value) for one in plain))
    return any(not any(_is_met(one, value) for one in patterns) for value in islice(missed, _MOST_WITH_PATTERNS))


def _is_met(condition: Condition, value: TrialValue) -> bool:
    return _holds(condition.predicate, value) != condition.negated


def _holds(predicate: Predicate, value: TrialValue) -> bool:  # noqa: PLR0911 (one for each predicate)
    match predicate:
        case TextIn(texts, numeric_texts):
            return value.text in texts or (value.is_number and value.text in numeric_texts)
        case IdIn(ids):
            return bytes.fromhex(value.text) in ids
        case IntegerIn(values):
            return value.integer in values
        case IntegerRange(low, high):
            return (low is None or low <= value.integer) and (high is None or value.integer < high)
        case NumberComparison(order, bound):
            return value.is_number and _compares(order, value.text, bound)
        case TextMatches(position, text):
            return _matches_text(position, text, value.text)
        case RegexMatches(pattern):
            return may_match(pattern, value.text)
    return True  # Exists


def _compares(order: CompareOp, text: str, bound: Fraction) -> bool:
    """Compare integers exactly, and doubles with the double nearest to the bound."""
    if set(text) & set(".e"):
        return _ORDERS[order](float(text), float(bound))
    return _ORDERS[order](Fraction(text), bound)


def _matches_text(position: MatchPosition, text: str, value: str) -> bool:
    match position:
        case MatchPosition.ANYWHERE:
            return text in value
        case MatchPosition.START:
            return value.startswith(text)
        case MatchPosition.END:
            return value.endswith(text)
