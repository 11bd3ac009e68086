"""Whether a condition can exclude a row at all, by its keys, operators and values alone, whatever is stored.

Explore answers a condition that excludes nothing. An erasure must not take one for a restriction: `not_in []`, or
`exists` of a field that every span has, would erase everything. So a condition is taken for one only if a row that
it excludes is found: for each of its subjects a value, or absence, with which no alternative on the subject holds.
The values that are tried (`query.request.trial_values`) are made such that one of them is excluded if any is. Only
patterns are uncertain: what a pattern may match, it matches here.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from types import MappingProxyType
from typing import Final

from query.fields import ColumnKind
from query.request.pattern_texts import may_match
from query.request.trial_values import TrialValue, trial_values
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

_MOST_WITH_PATTERNS: Final = 4  # values that are tried on patterns, which takes long
_ORDERS: Final[Mapping[CompareOp, Callable[[float | Fraction, float | Fraction], bool]]] = MappingProxyType(
    {CompareOp.GT: operator.gt, CompareOp.GTE: operator.ge, CompareOp.LT: operator.lt, CompareOp.LTE: operator.le}
)


def excludes_nothing(conditions: Sequence[Condition]) -> bool:
    """Whether every row of a table meets all conditions, which are resolved for the table."""
    return all(map(matches_every_row, conditions))


def matches_every_row(condition: Condition) -> bool:
    """Whether every row meets the condition or one of its alternatives."""
    by_subject: dict[Subject, list[Condition]] = {}
    for one in (replace(condition, alternatives=()), *condition.alternatives):
        by_subject.setdefault(one.subject, []).append(one)
    return not all(_misses_a_row(subject, by_subject) for subject in by_subject)


def _misses_a_row(subject: Subject, by_subject: Mapping[Subject, Sequence[Condition]]) -> bool:
    """Whether no condition on the subject holds for some value that it can have, or if it is absent."""
    if _can_be_absent(subject) and not any(one.negated for one in by_subject[subject]):
        return True
    subjects = [subject]
    if isinstance(subject, Attribute):  # what a resource has under `k`, the row has under `resource.k` and `k`
        subjects += [each for each in by_subject if each == Attribute(subject.key.removeprefix("resource."))]
    return all(_misses_a_value(each, by_subject[each]) for each in dict.fromkeys(subjects))


def _can_be_absent(subject: Subject) -> bool:
    return isinstance(subject, Attribute) or subject.optional or subject.kind is ColumnKind.BODY


def _misses_a_value(subject: Subject, members: Sequence[Condition]) -> bool:
    """Whether none of the members, all on the subject, holds for some value that it can have."""
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
    """Integers compare exactly, doubles with the double that the bound means."""
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
