"""Conditions to SQL: 0 or 1 for every row, never NULL, so that NOT is exactly the opposite."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Final, NamedTuple

from proto.storage.lists import AFTER_KEY, BEFORE_KEY, ESCAPES, mark
from query.asking.patterns import quoted
from query.fields import Field, Form
from query.sql.bindings import Bindings
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
_NEVER: Final = "0"
_ALWAYS: Final = "1"
_RESOURCE: Final = "resource."
_SCOPE: Final = "scope."
_SCOPE_COLUMNS: Final = {"scope.name": "scope_name", "scope.version": "scope_version"}


class _Value(NamedTuple):
    """Where a value is: SQL for whether it is there, its canonical text, whether it is a finite number, and which."""

    present: str
    text: str
    numeric: str
    number: str


def condition_sql(condition: Condition, bindings: Bindings) -> str:
    """One condition, in parentheses where it needs them."""
    if isinstance(condition.subject, Attribute):
        sql = _attribute(condition.subject.key, condition.test, bindings)
    else:
        sql = _field(condition.subject, condition.test, bindings)
    return f"NOT ({sql})" if condition.negated else f"({sql})"


def _attribute(key: str, test: Test, bindings: Bindings) -> str:
    """The first place that has the key decides."""
    if isinstance(test, Exists):
        return " OR ".join(value.present for value in _places(key, bindings))
    arms = ", ".join(f"{value.present}, {_test(value, test, bindings)}" for value in _places(key, bindings))
    return f"multiIf({arms}, {_NEVER})"


def _places(key: str, bindings: Bindings) -> Iterator[_Value]:
    """Where `key` is looked for: as it stands in `attributes` of the API, then as `resource.<key>` stands there."""
    yield from _named(key, bindings)
    yield from _named(_RESOURCE + key, bindings)


def _named(name: str, bindings: Bindings) -> Iterator[_Value]:
    """Where `attributes` of the API takes the value `name` from: the item itself before its resource and scope."""
    yield _own(name, bindings)
    if name.startswith(_RESOURCE):
        yield _listed("resource", name.removeprefix(_RESOURCE), bindings)
    if name.startswith(_SCOPE):
        yield _listed("scope", name.removeprefix(_SCOPE), bindings)
    column = _SCOPE_COLUMNS.get(name)
    if column is not None:
        yield _Value(f"{column} != ''", column, _NEVER, _NEVER)


def _own(key: str, bindings: Bindings) -> _Value:
    """An attribute of the item. That it is there, and a number, its list of types says, which is a dictionary's entry:
    to look among the keys of the Map would read all of it.
    """
    text = f"attributes[{bindings.text(key)}]"
    return _value("attribute_types", key, text, text, bindings)


def _listed(column: str, key: str, bindings: Bindings) -> _Value:
    """An attribute of a resource or scope: cut out of the text of the whole list, once per entry of the dictionary."""
    pattern = f"(?s){BEFORE_KEY}{quoted(mark(key))}{AFTER_KEY}.([^{BEFORE_KEY}]*)"
    marked = text = f"extract({column}, {bindings.text(pattern)})"
    for escaped, plain in ESCAPES:
        text = f"replaceAll({text}, {_literal(escaped)}, {_literal(plain)})"
    return _value(column, key, text, marked, bindings)


def _value(types: str, key: str, text: str, numeral: str, bindings: Bindings) -> _Value:
    """`types` is the column whose list says whether `key` is there, and with which type; `numeral` is the text where it
    is that of a number.
    """
    entry = bindings.text(f"{BEFORE_KEY}{mark(key)}{AFTER_KEY}")
    integer, double = (f"position({types}, concat({entry}, '{letter}')) > 0" for letter in "id")
    return _Value(
        present=f"position({types}, {entry}) > 0",
        text=text,
        numeric=f"({integer} OR ({double} AND isFinite(toFloat64OrZero({numeral}))))",
        number=f"toFloat64OrZero({numeral})",
    )


def _literal(text: str) -> str:
    return "'" + "".join(character if character.isalpha() else f"\\x{ord(character):02x}" for character in text) + "'"


def _field(field: Field, test: Test, bindings: Bindings) -> str:
    match test:
        case IsId(ids):
            constants = tuple(bindings.id(each) for each in ids)
            return f"{field.column} IN ({', '.join(constants)})" if constants else _NEVER
        case IsInteger(values):
            return _integers(field, values, bindings)
        case IntegerRange():
            return _range(field, test, bindings)
    value = _field_value(field)
    if isinstance(test, Exists):
        return value.present
    sql = _test(value, test, bindings)
    return sql if value.present == _ALWAYS else f"{value.present} AND ({sql})"


def _field_value(field: Field) -> _Value:
    column = field.column
    present, text, numeric, number = _ALWAYS, column, _NEVER, _NEVER
    match field.form:
        case Form.TEXT:
            present = f"{column} != ''"
        case Form.NAMES:
            text = f"[{', '.join(repr(name) for name in field.names)}][{column} + 1]"
        case Form.INTEGER:
            present, text = f"{column} != 0", f"toString({column})"
        case Form.DURATION:
            shown = f"greatest({column}, 0)"
            text = f"concat(toString(intDiv({shown}, 1000000)), '.', leftPad(toString({shown} % 1000000), 6, '0'))"
        case Form.INSTANT:
            text = f"concat(replaceOne(toString({column}), ' ', 'T'), 'Z')"
        case Form.ID:
            present, text = f"{column} != toFixedString('', {field.size})", f"lower(hex({column}))"
        case Form.BODY:
            present = "body_type != 'n'"
            numeric = "body_type IN ('i', 'd') AND body NOT IN ('NaN', 'Infinity', '-Infinity')"
            number = "toFloat64OrZero(body)"
    return _Value(present if field.optional or field.form is Form.BODY else _ALWAYS, text, numeric, number)


def _test(value: _Value, test: Test, bindings: Bindings) -> str:
    """`test` on a value that is there."""
    match test:
        case IsText():
            return _is_text(value, test, bindings)
        case HasText():
            return _has_text(value, test, bindings)
        case MatchesPattern(pattern):
            return f"match({value.text}, {bindings.text(pattern)})"
        case Compares(order, bound):
            return _NEVER if value.numeric == _NEVER else _compares(value, order, bound, bindings)
    raise TypeError(f"{type(test).__name__} is no test of a value's text or number")


def _is_text(value: _Value, test: IsText, bindings: Bindings) -> str:
    plain = _one_of(value.text, test.texts, bindings)
    if not test.numerals or value.numeric == _NEVER:
        return plain
    return f"{plain} OR ({_one_of(value.text, test.numerals, bindings)} AND {value.numeric})"


def _has_text(value: _Value, test: HasText, bindings: Bindings) -> str:
    if not test.piece:
        return _ALWAYS
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
        return _NEVER
    if len(values) == 1:
        return f"{text} = {bindings.text(values[0])}"
    return f"has({bindings.texts(values)}, {text})"


def _compares(value: _Value, order: Order, bound: Fraction, bindings: Bindings) -> str:
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
        return _NEVER
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
        return _NEVER
    high = test.high if test.high is not None and test.high <= _MAX_INT64 else None
    if field.form is Form.INSTANT:
        return " AND ".join(_instant_bounds(field.column, low, high, bindings))
    bounds = []
    if low > 0:
        bounds.append(f"{field.column} >= {bindings.int64(low)}")
    if high is not None:
        bounds.append(f"{field.column} < {bindings.int64(high)}")
    return " AND ".join(bounds) or _ALWAYS


def _instant_bounds(column: str, low: int, high: int | None, bindings: Bindings) -> list[str]:
    bucket = f"toStartOfFiveMinutes({column})"
    bounds = [f"{bucket} >= {bindings.bucket(low)}", f"{column} >= {bindings.instant(low)}"]
    if high is not None:
        bounds += [f"{bucket} <= {bindings.bucket(high - 1)}", f"{column} < {bindings.instant(high)}"]
    return bounds
