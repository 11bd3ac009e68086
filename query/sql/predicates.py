"""Compiles conditions to SQL: 0 or 1 for every row, never NULL, so that NOT is the exact opposite."""

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Final

from query.fields import ColumnKind, Field
from query.sql.bindings import Bindings
from query.sql.values import ALWAYS, NEVER, ValueSql, attribute_sources, field_sql
from query.statements import (
    Attribute,
    CompareOp,
    Condition,
    Exists,
    IdIn,
    IntegerIn,
    IntegerRange,
    MatchPosition,
    NumberComparison,
    Predicate,
    RegexMatches,
    TextIn,
    TextMatches,
)

_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
_EXACT_FLOAT: Final = 2**53  # not every larger integer is a Float64
_MAX_INT128: Final = 2**127 - 1


def condition_sql(condition: Condition, bindings: Bindings) -> str:
    """One condition with its alternatives, in parentheses if needed. It also holds for rows that have a key in a
    location that is not read (`values.attribute_sources`), so that the recheck sees them.
    """
    if condition.alternatives:
        each_alone = (replace(condition, alternatives=()), *condition.alternatives)
        return f"({' OR '.join(condition_sql(each, bindings) for each in each_alone)})"
    missed: list[str] = []
    if isinstance(condition.subject, Attribute):
        sources, missed = attribute_sources(condition.subject.key, bindings)
        sql = _attribute(sources, condition.predicate, bindings)
    else:
        sql = _field(condition.subject, condition.predicate, bindings)
    sql = f"NOT ({sql})" if condition.negated else f"({sql})"
    return f"({' OR '.join([sql, *missed])})" if missed else sql


def _attribute(sources: list[ValueSql], predicate: Predicate, bindings: Bindings) -> str:
    """The first source that has the key decides."""
    if isinstance(predicate, Exists):
        return " OR ".join(value.present for value in sources)
    if len(sources) == 1:
        return f"{sources[0].present} AND ({_predicate_sql(sources[0], predicate, bindings)})"
    arms = ", ".join(f"{value.present}, {_predicate_sql(value, predicate, bindings)}" for value in sources)
    return f"multiIf({arms}, {NEVER})"


def _field(field: Field, predicate: Predicate, bindings: Bindings) -> str:
    match predicate:
        case IdIn(ids):
            constants = tuple(bindings.id(each) for each in ids)
            return f"{field.column} IN ({', '.join(constants)})" if constants else NEVER
        case IntegerIn(values):
            return _integers(field, values, bindings)
        case IntegerRange():
            return _range(field, predicate, bindings)
    value = field_sql(field)
    if isinstance(predicate, Exists):
        return value.present
    sql = _predicate_sql(value, predicate, bindings)
    return sql if value.present == ALWAYS else f"{value.present} AND ({sql})"


def _predicate_sql(value: ValueSql, predicate: Predicate, bindings: Bindings) -> str:
    """`predicate` on a value that is present."""
    match predicate:
        case TextIn():
            return _text_in(value, predicate, bindings)
        case TextMatches():
            return _text_matches(value, predicate, bindings)
        case RegexMatches(pattern):
            return f"match({value.text}, {bindings.text(pattern)})"
        case NumberComparison(order, bound):
            return NEVER if value.numeric == NEVER else _number_comparison(value, order, bound, bindings)
    raise TypeError(f"{type(predicate).__name__} is not a predicate on text or numbers")


def _text_in(value: ValueSql, predicate: TextIn, bindings: Bindings) -> str:
    plain = _equals_any(value.text, predicate.texts, bindings)
    if not predicate.numeric_texts or value.numeric == NEVER:
        return plain
    return f"{plain} OR ({_equals_any(value.text, predicate.numeric_texts, bindings)} AND {value.numeric})"


def _text_matches(value: ValueSql, predicate: TextMatches, bindings: Bindings) -> str:
    if not predicate.text:
        return ALWAYS
    text = bindings.text(predicate.text)
    match predicate.position:
        case MatchPosition.ANYWHERE:
            return f"position({value.text}, {text}) > 0"
        case MatchPosition.START:
            return f"startsWith({value.text}, {text})"
        case MatchPosition.END:
            return f"endsWith({value.text}, {text})"


def _equals_any(text: str, values: tuple[str, ...], bindings: Bindings) -> str:
    if not values:
        return NEVER
    if len(values) == 1:
        return f"{text} = {bindings.text(values[0])}"
    return f"has({bindings.texts(values)}, {text})"


def _number_comparison(value: ValueSql, operator: CompareOp, bound: Fraction, bindings: Bindings) -> str:
    by_float = f"{value.number} {operator} {bindings.float64(float(bound))}"
    whole = floor(bound) if operator in (CompareOp.GT, CompareOp.LTE) else ceil(bound)
    if not _EXACT_FLOAT <= abs(whole) <= _MAX_INT128:
        return f"{value.numeric} AND {by_float}"
    # Near such a bound two integers may be one Float64, so integers are compared as integers.
    exact = f"toInt128OrNull({value.text}) {operator} {bindings.int128(whole)}"
    return f"{value.numeric} AND ifNull({exact}, {by_float})"


def _integers(field: Field, values: tuple[int, ...], bindings: Bindings) -> str:
    """Equality with the integers of a column; values that it cannot hold or that mean absence are dropped."""
    lowest = 1 if field.optional else _MIN_INT64 if field.kind is ColumnKind.INTEGER else 0
    kept = tuple(value for value in values if lowest <= value <= _MAX_INT64)
    if not kept:
        return NEVER
    if field.kind is ColumnKind.TIMESTAMP:
        column = f"toUnixTimestamp64Nano({field.column})"
        low, high = bindings.bucket(min(kept)), bindings.bucket(max(kept))
        bucket = f"toStartOfFiveMinutes({field.column})"
        return f"{bucket} >= {low} AND {bucket} <= {high} AND has({bindings.int64s(kept)}, {column})"
    column = f"greatest({field.column}, 0)" if field.kind is ColumnKind.DURATION else field.column
    return f"has({bindings.int64s(kept)}, toInt64({column}))"


def _range(field: Field, predicate: IntegerRange, bindings: Bindings) -> str:
    """`low <= column < high`. A stored duration below 0 counts as 0, which only matters for bounds of 0 or less."""
    lowest = 1 if field.optional else 0
    low = lowest if predicate.low is None else max(predicate.low, lowest)
    if low > _MAX_INT64 or (predicate.high is not None and predicate.high <= lowest):
        return NEVER
    high = predicate.high if predicate.high is not None and predicate.high <= _MAX_INT64 else None
    if field.kind is ColumnKind.TIMESTAMP:
        return " AND ".join(_timestamp_bounds(field.column, low, high, bindings))
    bounds = []
    if low > 0:
        bounds.append(f"{field.column} >= {bindings.int64(low)}")
    if high is not None:
        bounds.append(f"{field.column} < {bindings.int64(high)}")
    return " AND ".join(bounds) or ALWAYS


def _timestamp_bounds(column: str, low: int, high: int | None, bindings: Bindings) -> list[str]:
    bucket = f"toStartOfFiveMinutes({column})"
    bounds = [f"{bucket} >= {bindings.bucket(low)}", f"{column} >= {bindings.timestamp(low)}"]
    if high is not None:
        bounds += [f"{bucket} <= {bindings.bucket(high - 1)}", f"{column} < {bindings.timestamp(high)}"]
    return bounds
