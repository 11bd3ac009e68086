"""Predicates of filters: converts values from the form in which they are written to the form in which columns store
them.

Numbers in filters are written as JSON or as text. They are compared exactly, and stored in one of several spellings.
"""

import re
from fractions import Fraction
from math import ceil, floor
from typing import Final

from chassis.http.validation import Issues, must_be_one_of
from query.rows import ColumnKind, Field, id_bytes, match_enum_name
from query.statements import CompareOp, IdIn, IntegerIn, IntegerRange, NumberComparison, Predicate, Subject, TextIn
from query.values import TimestampError, parse_timestamp

Scalar = str | int | float | bool

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,4}))?")


def canonical_text(value: Scalar) -> str:
    """The text (docs/codec.md 2) that is stored for an attribute with this value."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value).removesuffix(".0")
    return str(value)


def without_exponent(text: str) -> str:
    """Rewrite a whole number with an exponent as plain digits, as in Unix times; return any other text unchanged."""
    number = parse_number(text) if "e" in text else None
    return text if number is None or number.denominator != 1 else str(number.numerator)


def parse_number(text: str) -> Fraction | None:
    """Parse a finite decimal number exactly; None for any other text."""
    match = _NUMBER.fullmatch(text)
    if match is None or abs(int(match[1] or 0)) > 400:
        return None
    number = Fraction(text)
    try:
        float(number)
    except OverflowError:
        return None
    return number


def numeric_spellings(text: str) -> tuple[str, ...]:
    """The canonical texts (docs/codec.md 2) of the stored integers and doubles that equal `text`; empty if it is not a
    number.

    `1e23` and `0.1` mean the nearest double, as is usual; an integer in plain digits means exactly this integer.
    """
    number = parse_number(text)
    if number is None:
        return ()
    found = [str(number.numerator)] if number.denominator == 1 else []
    double = float(number)
    spelling = repr(double).removesuffix(".0")
    # A double without point and exponent is read as an integer, so it must equal the number exactly.
    if Fraction(double) == number or (set(text) & set(".eE") and set(spelling) & set(".e")):
        found.append(spelling)
    if number == 0:
        found.append("-0")
    return tuple(dict.fromkeys(found))


def equality(subject: Subject, values: tuple[str, ...], now_ns: int, path: str, issues: Issues) -> Predicate | None:
    if isinstance(subject, Field):
        if subject.names:
            return _enum_equality(subject, values, path, issues)
        if subject.kind is ColumnKind.ID:
            ids = (id_bytes(subject, value) for value in values)
            return IdIn(tuple(each for each in ids if each is not None))
        if subject.kind is ColumnKind.TIMESTAMP:
            return _timestamp_equality(values, now_ns, path, issues)
        if subject.kind in (ColumnKind.DURATION, ColumnKind.INTEGER):
            numbers = (_to_column_unit(subject, number) for number in map(parse_number, values) if number is not None)
            return IntegerIn(tuple(int(each) for each in numbers if each.denominator == 1))
        if subject.kind is not ColumnKind.BODY:
            return TextIn(values)
    spellings = (spelling for value in values for spelling in numeric_spellings(value))
    return TextIn(values, tuple(dict.fromkeys(each for each in spellings if each not in values)))


def _enum_equality(field: Field, values: tuple[str, ...], path: str, issues: Issues) -> Predicate | None:
    """Equality with a field that has a fixed set of names. Any other value is an issue: it would never match."""
    found = [name for name in (match_enum_name(field, value) for value in values) if name is not None]
    if len(found) < len(values):
        issues.add(f"{path}.value", must_be_one_of(field.names), "not_allowed")
        return None
    return TextIn(tuple(dict.fromkeys(found)))


def _timestamp_equality(values: tuple[str, ...], now_ns: int, path: str, issues: Issues) -> Predicate | None:
    try:
        return IntegerIn(tuple(parse_timestamp(without_exponent(value), now_ns) for value in values))
    except TimestampError as error:
        issues.add(f"{path}.value", str(error), "format")
        return None


def number_comparison(
    subject: Subject, operator: CompareOp, value: str, now_ns: int, path: str, issues: Issues
) -> Predicate | None:
    if isinstance(subject, Field) and subject.kind is ColumnKind.TIMESTAMP:
        try:
            return _integer_range(operator, Fraction(parse_timestamp(without_exponent(value), now_ns)))
        except TimestampError as error:
            issues.add(f"{path}.value", str(error), "format")
            return None
    number = parse_number(value)
    if number is None:
        issues.add(f"{path}.value", "Must be a number.", "type")
        return None
    if isinstance(subject, Field) and subject.kind in (ColumnKind.DURATION, ColumnKind.INTEGER):
        return _integer_range(operator, _to_column_unit(subject, number))
    return NumberComparison(operator, number)


def _integer_range(operator: CompareOp, bound: Fraction) -> IntegerRange:
    """The integers that compare with `bound` by `operator`, as a half-open range."""
    match operator:
        case CompareOp.GT:
            return IntegerRange(low=floor(bound) + 1)
        case CompareOp.GTE:
            return IntegerRange(low=ceil(bound))
        case CompareOp.LT:
            return IntegerRange(high=ceil(bound))
        case CompareOp.LTE:
            return IntegerRange(high=floor(bound) + 1)


def _to_column_unit(field: Field, number: Fraction) -> Fraction:
    """Convert to the column's unit: durations are written in milliseconds and stored in nanoseconds."""
    return number * 10**6 if field.kind is ColumnKind.DURATION else number


def normalize_text(subject: Subject, value: str) -> str:
    """The text as it is stored. Ids are stored in lower case, so they match in either case."""
    return value.lower() if isinstance(subject, Field) and subject.kind is ColumnKind.ID else value
