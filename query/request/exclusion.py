"""Whether a condition can exclude a row at all, by its key, operator and value alone, whatever is stored.

Explore answers a condition that excludes nothing. An erasure must not take one for a restriction: `not_in []`, or
`exists` of a field that every span has, would erase everything. A condition that this module does not see through can
exclude rows: only patterns that match the empty text are known as those that match every text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from query.fields import ColumnKind, Field
from query.request.regex_cost import TOKEN
from query.statements import (
    Condition,
    Exists,
    IdIn,
    IntegerIn,
    IntegerRange,
    MatchPosition,
    Predicate,
    RegexMatches,
    TextIn,
    TextMatches,
)

_MAX_INTEGER: Final = 2**63 - 1
# The characters of the texts of fields that are no texts, and those that each of them has.
_ALPHABETS: Final[Mapping[ColumnKind, str]] = MappingProxyType(
    {
        ColumnKind.ID: "0123456789abcdef",
        ColumnKind.INTEGER: "0123456789",
        ColumnKind.DURATION: "0123456789.",
        ColumnKind.TIMESTAMP: "0123456789-T:.Z",
    }
)
_CONSTANT: Final[Mapping[ColumnKind, str]] = MappingProxyType({ColumnKind.DURATION: ".", ColumnKind.TIMESTAMP: "-T:.Z"})
_GROUP_HEAD: Final = re.compile(r"(\\.)|\(\?[a-zA-Z-]+\)|(\()\?(?:P?<\w+>|[a-zA-Z-]*:)", re.DOTALL)
_WHOLE_TEXT: Final = frozenset({"^.*$", "^(.*)$"})  # but for line feeds


def excludes_nothing(conditions: Sequence[Condition]) -> bool:
    """Whether every row of a table meets all conditions, which are resolved for the table."""
    return all(map(matches_every_row, conditions))


def matches_every_row(condition: Condition) -> bool:
    """Whether every row meets the condition or one of its alternatives."""
    members = (replace(condition, alternatives=()), *condition.alternatives)
    return any(map(_matches_alone, members)) or any(replace(one, negated=not one.negated) in members for one in members)


def _matches_alone(condition: Condition) -> bool:
    field = condition.subject if isinstance(condition.subject, Field) else None
    if condition.negated:
        return _never_holds(field, condition.predicate)
    return field is not None and _is_always_present(field) and _always_holds(field, condition.predicate)


def _is_always_present(field: Field) -> bool:
    return not field.optional and field.kind is not ColumnKind.BODY


def _never_holds(field: Field | None, predicate: Predicate) -> bool:  # noqa: PLR0911 (one for each predicate)
    """For no value that the field, or (None) an attribute, can have."""
    match predicate:
        case TextIn(texts, numeric_texts):
            if field is not None and field.kind is ColumnKind.TEXT and field.optional:
                return not any(texts)  # empty is absent
            return not texts and not numeric_texts
        case IdIn(ids):
            return not ids
        case IntegerIn(values):
            lowest = _lowest(field)
            return not any(lowest <= value <= _MAX_INTEGER for value in values)
        case TextMatches(position, text) if field is not None and field.kind is ColumnKind.ENUM:
            return not any(_matches_text(position, text, name) for name in field.names)
        case TextMatches(_, text) if field is not None and field.kind in _ALPHABETS:
            return not set(text) <= set(_ALPHABETS[field.kind])
    return False


def _always_holds(field: Field, predicate: Predicate) -> bool:  # noqa: PLR0911 (one for each predicate)
    """For all values that a field can have that is always present."""
    match predicate:
        case Exists():
            return True
        case TextIn(texts):
            return field.kind is ColumnKind.ENUM and set(texts) >= set(field.names)
        case IntegerRange(low, high):
            return (low is None or low <= _lowest(field)) and (high is None or high > _MAX_INTEGER)
        case TextMatches(position, text) if field.kind is ColumnKind.ENUM:
            return all(_matches_text(position, text, name) for name in field.names)
        case TextMatches(position, text):
            constant = _CONSTANT.get(field.kind, "") if position is MatchPosition.ANYWHERE else ""
            return not text or (len(text) == 1 and text in constant)
        case RegexMatches(pattern):
            return matches_every_text(pattern)
    return False


def _lowest(field: Field | None) -> int:
    """The lowest integer that a filter can find in a field; one that may be absent has no 0."""
    return 1 if field is not None and field.optional else 0


def _matches_text(position: MatchPosition, text: str, value: str) -> bool:
    match position:
        case MatchPosition.ANYWHERE:
            return text in value
        case MatchPosition.START:
            return value.startswith(text)
        case MatchPosition.END:
            return value.endswith(text)


def matches_every_text(pattern: str) -> bool:
    """Whether a pattern matches the empty text wherever it begins to search: `a*`, `^x?`, `(a|b*)`, and `^.*$`."""
    plain = _GROUP_HEAD.sub(lambda head: head[1] or head[2] or "", pattern)
    tokens = [token.group() for token in TOKEN.finditer(plain)]
    if "^" in tokens and "$" in tokens:
        return plain in _WHOLE_TEXT
    found, required, last = [False], [0], 0  # by open group: an empty alternative; letters of the current one
    for text in tokens:
        if text == "(":
            found.append(False)
            required.append(0)
            last = 0
        elif text == "|" or (text == ")" and len(found) > 1):
            found[-1] |= required[-1] == 0
            required[-1] = last = 0
            if text == ")":
                required.pop()
                last = int(not found.pop())
                required[-1] += last
        elif text in ("*", "?") or text.startswith("{0"):
            required[-1] -= last
            last = 0
        elif text not in ("^", "$", "+", "\\A", "\\z") and not text.startswith("{"):
            last = 1
            required[-1] += 1
    return found[0] or required[0] == 0
