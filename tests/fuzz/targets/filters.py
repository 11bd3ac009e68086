"""Filters as anyone may write them: text to terms to conditions to SQL with parameters.

Whatever comes in is refused with issues, or becomes a statement whose text has only words of ours, whose every value is
a parameter that fits its type, and that both encodings of filters agree on: in JSON and, where text can express them,
in text they are the same filters.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from chassis.http.validation import Issues
from query.request.filter_syntax import quoted
from query.request.filters import ATTRIBUTE_PREFIX, MAX_FILTERS, MAX_TEXT, Filter, Op, conditions, parse_filters
from query.rows import LOGS, SPANS, TelemetryTable
from query.sql import Query, emit
from query.statements import Condition, Listing, Window

NOW_NS: Final = 1_790_000_000 * 10**9
WINDOW: Final = Window(NOW_NS - 10**12, NOW_NS)
PROJECT: Final = 7
_PLACEHOLDER: Final = re.compile(r"\{(p[0-9]+):(\w+(?:\(\w+\))?)\}")
_TOKEN: Final = re.compile(r"'[^']*'|\w+|[^\w\s]")
_SPELLINGS: Final = {  # of operators in text: what is before the key, and around the value
    Op.EQ: ("", "", ""),
    Op.NEQ: ("-", "", ""),
    Op.CONTAINS: ("", "*", "*"),
    Op.NOT_CONTAINS: ("-", "*", "*"),
    Op.STARTS_WITH: ("", "", "*"),
    Op.ENDS_WITH: ("", "*", ""),
    Op.GT: ("", ">", ""),
    Op.GTE: ("", ">=", ""),
    Op.LT: ("", "<", ""),
    Op.LTE: ("", "<=", ""),
    Op.IN: ("", "[", "]"),
    Op.NOT_IN: ("-", "[", "]"),
    Op.EXISTS: ("has:", "", ""),
    Op.NOT_EXISTS: ("!has:", "", ""),
}
_INTEGERS: Final = {
    "Int64": (-(2**63), 2**63 - 1),
    "Int128": (-(2**127), 2**127 - 1),
    "UInt32": (0, 2**32 - 1),
    "UInt64": (0, 2**64 - 1),
}


def check(data: bytes) -> None:
    text = decoded(data)
    for signal in (SPANS, LOGS):
        query = statement(text, signal)
        if query is not None:
            check_statement(query)


def decoded(data: bytes) -> str:
    """As it comes from a query string: always Unicode, though JSON escapes in it may not be."""
    return data.decode(errors="replace")


def statement(text: str, signal: TelemetryTable) -> Query | None:
    """The query that these filters make; None when they are refused, in words that name them."""
    issues = Issues()
    filters = parse_filters(text, "query.filters", issues)
    if len(issues):
        return None
    check_encodings(filters)
    found = conditions(filters, signal, NOW_NS, "query.filters", issues)
    if len(issues):
        return None
    assert len(found) == len(filters)
    assert sum(1 + len(each.alternatives) for each in filters) <= MAX_FILTERS
    return emit(Listing(project_id=PROJECT, signal=signal, window=WINDOW, conditions=found, limit=50))


def check_encodings(filters: tuple[Filter, ...]) -> None:
    """The same filters written again, as JSON and as text, are the same filters."""
    for text in (json.dumps([_written(each) for each in filters]), as_text(filters)):
        if text is None or len(text) > MAX_TEXT:
            continue
        issues = Issues()
        assert parse_filters(text, "query.filters", issues) == filters
        assert not len(issues)


def as_text(filters: tuple[Filter, ...]) -> str | None:
    """The filters as text; None if text has no words for one of them."""
    terms = [_term(each) for each in filters]
    return None if None in terms else " ".join(filter(None, terms))


def _term(one: Filter) -> str | None:
    if one.alternatives:
        members = [_term(replace(one, alternatives=())), *map(_term, one.alternatives)]
        return None if None in members else f"({' or '.join(filter(None, members))})"
    if one.op is Op.REGEX or (one.op in (Op.IN, Op.NOT_IN) and not one.values):
        return None
    sign, before, after = _SPELLINGS[one.op]
    value = f":{before}{','.join(map(quoted, one.values))}{after}" if one.values else ""
    return f"{sign}{quoted(one.key)}{value}"


def _written(one: Filter) -> dict[str, object]:
    if one.alternatives:
        return {"any": [_written(replace(one, alternatives=())), *map(_written, one.alternatives)]}
    if one.op in (Op.IN, Op.NOT_IN):
        return {"key": one.key, "op": one.op, "value": list(one.values)}
    value: dict[str, object] = {"value": one.values[0]} if one.values else {}
    return {"key": one.key, "op": one.op, **value}


def check_statement(query: Query) -> None:
    names = dict(_PLACEHOLDER.findall(query.sql))
    assert names.keys() == query.parameters.keys()
    for name, type_ in names.items():
        check_value(type_, query.parameters[name])
    foreign = set(_TOKEN.findall(_PLACEHOLDER.sub(" ", query.sql))) - _vocabulary()
    assert not foreign, f"words that are not ours: {foreign}"


def check_value(type_: str, value: object) -> None:
    """A parameter fits the type that the text gives it."""
    if type_.startswith("Array("):
        assert isinstance(value, list)
        for each in value:
            check_value(type_[6:-1], each)
    elif type_ == "String":
        assert isinstance(value, str)
        value.encode()
    elif type_ == "Float64":
        assert isinstance(value, float)
        assert abs(value) < float("inf")
    else:
        low, high = _INTEGERS[type_]
        assert isinstance(value, int)
        assert low <= value <= high


_known: set[str] = set()


def _vocabulary() -> set[str]:
    """Every word that statements on these tables have, from filters with nothing in them but harmless values."""
    if not _known:
        for signal in (SPANS, LOGS):
            for found in _harmless(signal):
                sql = emit(Listing(project_id=1, signal=signal, window=WINDOW, conditions=(found,), limit=1)).sql
                _known.update(_TOKEN.findall(_PLACEHOLDER.sub(" ", sql)))
    return _known


def _harmless(signal: TelemetryTable) -> Iterator[Condition]:
    keys = (*signal.fields, "k", "resource.k", "scope.k", "scope.name", "scope.version")
    values = ("1", "-1", "5000000000", str(2**60), str(Fraction(1, 2)), "0" * 15 + "1", "1" * 32, "2020-01-01", "x", "")
    for key in (*keys, *(ATTRIBUTE_PREFIX + key for key in keys)):
        for op in Op:
            for value in values:
                for listed in ((value,), (value, "2"), (value, "2", "3")) if op in (Op.IN, Op.NOT_IN) else ((value,),):
                    yield from conditions((Filter(key, op, listed),), signal, NOW_NS, "", Issues())
