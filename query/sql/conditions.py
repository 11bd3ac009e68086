"""Conditions to SQL: 0 or 1 for every row, never NULL, so that NOT is exactly the opposite."""

from fractions import Fraction
from math import ceil, floor
from typing import Final

from query.fields import Field, Form
from query.sql.bindings import Bindings
from query.sql.values import ALWAYS, NEVER, Value, field_value, places
from query.tree import (
    Attribute,
    Compares,
    Condition,
    Exists,
    HasText,
    IntegerRange,
    IsId,
    IsInteger,
    IsText,
    MatchesPattern,
    Order,
    Part,
    Test,
)

_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
_EXACT_FLOAT: Final = 2**53  # integers beyond are not all Float64s
_MAX_INT128: Final = 2**127 - 1


def condition_sql(condition: Condition, bindings: Bindings) -> str:
    """One condition, in parentheses where it needs them. It also holds for rows that have the key where nobody looks
    for it (`values.places`), so that they are seen.
    """
    overlooked: list[str] = []
    if isinstance(condition.subject, Attribute):
        found, overlooked = places(condition.subject.key, bindings)
        sql = _attribute(found, condition.test, bindings)
    else:
        sql = _field(condition.subject, condition.test, bindings)
    sql = f"NOT ({sql})" if condition.negated else f"({sql})"
    return f"({' OR '.join([sql, *overlooked])})" if overlooked else sql


def _attribute(found: list[Value], test: Test, bindings: Bindings) -> str:
    """The first place that has the key decides."""
    if isinstance(test, Exists):
        return " OR ".join(value.present for value in found)
    if len(found) == 1:
        return f"{found[0].present} AND ({_test(found[0], test, bindings)})"
    arms = ", ".join(f"{value.present}, {_test(value, test, bindings)}" for value in found)
    return f"multiIf({arms}, {NEVER})"


def _field(field: Field, test: Test, bindings: Bindings) -> str:
    match test:
        case IsId(ids):
            constants = tuple(bindings.id(each) for each in ids)
            return f"{field.column} IN ({', '.join(constants)})" if constants else NEVER
        case IsInteger(values):
            return _integers(field, values, bindings)
        case IntegerRange():
            return _range(field, test, bindings)
    value = field_value(field)
    if isinstance(test, Exists):
        return value.present
    sql = _test(value, test, bindings)
    return sql if value.present == ALWAYS else f"{value.present} AND ({sql})"


def _test(value: Value, test: Test, bindings: Bindings) -> str:
    """`test` on a value that is there."""
    match test:
        case IsText():
            return _is_text(value, test, bindings)
        case HasText():
            return _has_text(value, test, bindings)
        case MatchesPattern(pattern):
            return f"match({value.text}, {bindings.text(pattern)})"
        case Compares(order, bound):
            return NEVER if value.numeric == NEVER else _compares(value, order, bound, bindings)
    raise TypeError(f"{type(test).__name__} is no test of a value's text or number")


def _is_text(value: Value, test: IsText, bindings: Bindings) -> str:
    plain = _one_of(value.text, test.texts, bindings)
    if not test.numerals or value.numeric == NEVER:
        return plain
    return f"{plain} OR ({_one_of(value.text, test.numerals, bindings)} AND {value.numeric})"


def _has_text(value: Value, test: HasText, bindings: Bindings) -> str:
    if not test.piece:
        return ALWAYS
    piece = bindings.text(test.piece)
    match test.part:
        case Part.ANYWHERE:
            return f"position({value.text}, {piece}) > 0"
        case Part.START:
            return f"startsWith({value.text}, {piece})"
        case Part.END:
            return f"endsWith({value.text}, {piece})"


def _one_of(text: str, values: tuple[str, ...], bindings: Bindings) -> str:
    if not values:
        return NEVER
    if len(values) == 1:
        return f"{text} = {bindings.text(values[0])}"
    return f"has({bindings.texts(values)}, {text})"


def _compares(value: Value, order: Order, bound: Fraction, bindings: Bindings) -> str:
    by_float = f"{value.number} {order} {bindings.float64(float(bound))}"
    whole = floor(bound) if order in (Order.ABOVE, Order.AT_MOST) else ceil(bound)
    if not _EXACT_FLOAT <= abs(whole) <= _MAX_INT128:
        return f"{value.numeric} AND {by_float}"
    # Near such a bound two integers may be one Float64, so integers are compared as what they are.
    exact = f"toInt128OrNull({value.text}) {order} {bindings.int128(whole)}"
    return f"{value.numeric} AND ifNull({exact}, {by_float})"


def _integers(field: Field, values: tuple[int, ...], bindings: Bindings) -> str:
    """Equality with the integers behind a column; those that it cannot hold or that mean absence are left out."""
    lowest = 1 if field.optional else _MIN_INT64 if field.form is Form.INTEGER else 0
    kept = tuple(value for value in values if lowest <= value <= _MAX_INT64)
    if not kept:
        return NEVER
    if field.form is Form.INSTANT:
        column = f"toUnixTimestamp64Nano({field.column})"
        low, high = bindings.bucket(min(kept)), bindings.bucket(max(kept))
        bucket = f"toStartOfFiveMinutes({field.column})"
        return f"{bucket} >= {low} AND {bucket} <= {high} AND has({bindings.int64s(kept)}, {column})"
    column = f"greatest({field.column}, 0)" if field.form is Form.DURATION else field.column
    return f"has({bindings.int64s(kept)}, toInt64({column}))"


def _range(field: Field, test: IntegerRange, bindings: Bindings) -> str:
    """`low <= column < high`. A stored duration below 0 counts as 0, which only decides at bounds of 0 and less."""
    lowest = 1 if field.optional else 0
    low = lowest if test.low is None else max(test.low, lowest)
    if low > _MAX_INT64 or (test.high is not None and test.high <= lowest):
        return NEVER
    high = test.high if test.high is not None and test.high <= _MAX_INT64 else None
    if field.form is Form.INSTANT:
        return " AND ".join(_instant_bounds(field.column, low, high, bindings))
    bounds = []
    if low > 0:
        bounds.append(f"{field.column} >= {bindings.int64(low)}")
    if high is not None:
        bounds.append(f"{field.column} < {bindings.int64(high)}")
    return " AND ".join(bounds) or ALWAYS


def _instant_bounds(column: str, low: int, high: int | None, bindings: Bindings) -> list[str]:
    bucket = f"toStartOfFiveMinutes({column})"
    bounds = [f"{bucket} >= {bindings.bucket(low)}", f"{column} >= {bindings.instant(low)}"]
    if high is not None:
        bounds += [f"{bucket} <= {bindings.bucket(high - 1)}", f"{column} < {bindings.instant(high)}"]
    return bounds
