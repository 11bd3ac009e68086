"""The `filters` of a request: read from either of their two encodings, checked, and bound to what they test.

JSON: `[{"key": "http.route", "op": "eq", "value": "/checkout"}]`. For people: `http.route:/checkout durationMs:>100
!has:user.id` (`query.asking.language`). Both end as `Filter`s; `condition` gives each its meaning for one signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor
from typing import Annotated, Final

import msgspec

from chassis.validation import Issues, decode_json, one_of
from query.asking import language
from query.asking.instant import InstantError, parse_instant
from query.asking.numbers import Scalar, canonical, numerals, parse_number, plain
from query.asking.patterns import MAX_REPEATED, is_affordable
from query.fields import Field, Form, Signal, id_bytes, name_of
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
    Subject,
    Test,
)

MAX_FILTERS: Final = 20
MAX_KEY: Final = 256
MAX_VALUE: Final = 1024
MAX_VALUES: Final = 100
MAX_TEXT: Final = 4000
ATTRIBUTE_PREFIX: Final = "attr:"
# Bounds that `check_key` checks, for those who read about them.
KeyText = Annotated[
    str,
    msgspec.Meta(
        description=f"An own field, else an attribute; after `{ATTRIBUTE_PREFIX}` always the attribute.",
        extra_json_schema={"minLength": 1, "maxLength": len(ATTRIBUTE_PREFIX) + MAX_KEY},
    ),
]


class Op(StrEnum):
    """How a filter compares. What is not there meets neq, not_contains, not_in and not_exists."""

    # Specification 4.2, its three undisclosed values (lte, exists, not_exists), and four extensions.
    EQ = "eq"
    NEQ = "neq"
    CONTAINS = "contains"
    NOT_CONTAINS = "not_contains"
    STARTS_WITH = "starts_with"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    EXISTS = "exists"
    NOT_EXISTS = "not_exists"
    IN = "in"
    NOT_IN = "not_in"
    ENDS_WITH = "ends_with"
    REGEX = "regex"


_ORDERS: Final = {Op.GT: Order.ABOVE, Op.GTE: Order.AT_LEAST, Op.LT: Order.BELOW, Op.LTE: Order.AT_MOST}
_PARTS: Final = {
    Op.CONTAINS: Part.ANYWHERE,
    Op.NOT_CONTAINS: Part.ANYWHERE,
    Op.STARTS_WITH: Part.START,
    Op.ENDS_WITH: Part.END,
}
_NEGATIVE: Final = frozenset({Op.NEQ, Op.NOT_CONTAINS, Op.NOT_EXISTS, Op.NOT_IN})
_VALUELESS: Final = frozenset({Op.EXISTS, Op.NOT_EXISTS})
_LISTS: Final = frozenset({Op.IN, Op.NOT_IN})


@dataclass(frozen=True, slots=True)
class Filter:
    """One test as it was written. `values`: none for exists and not_exists, several only for in and not_in."""

    key: str
    op: Op
    values: tuple[str, ...] = ()


Written = Scalar | list[Scalar] | list[str] | None


class WrittenFilter(msgspec.Struct, forbid_unknown_fields=True):
    """A filter in JSON. `value`: none for exists and not_exists, a list only for in and not_in."""

    key: Annotated[KeyText, msgspec.Meta(min_length=1)]
    op: Op
    value: Annotated[
        Scalar | Annotated[list[Scalar], msgspec.Meta(extra_json_schema={"maxItems": MAX_VALUES})] | None,
        msgspec.Meta(
            description=f"Each at most {MAX_VALUE} characters; for in and not_in one text may have commas. A number or "
            "a boolean stands for its text."
        ),
    ] = None


WrittenFilters = Annotated[list[WrittenFilter], msgspec.Meta(extra_json_schema={"maxItems": MAX_FILTERS})]


def parse_filters(text: str, path: str, issues: Issues) -> tuple[Filter, ...]:
    """The filters in a query string; every fault is an issue under `path`, and then the result is not to be used."""
    if len(text) > MAX_TEXT:
        issues.add(path, f"Must have at most {MAX_TEXT} characters.", "too_long")
        return ()
    text = text.strip()
    if text.startswith("["):
        written = decode_json(list[WrittenFilter], text.encode("utf-8", "surrogatepass"), path, issues)
        return check_filters(written or (), path, issues)
    try:
        terms = language.parse(text)
    except language.LanguageError as error:
        issues.add(path, str(error), "syntax")
        return ()
    return _checked([(_path(path, n), t.key, Op(t.op), t.value) for n, t in enumerate(terms)], path, issues)


def check_filters(written: Sequence[WrittenFilter], path: str, issues: Issues) -> tuple[Filter, ...]:
    """The filters of a body; every fault is an issue under `path`, and then the result is not to be used."""
    return _checked([(_path(path, n), each.key, each.op, each.value) for n, each in enumerate(written)], path, issues)


def condition(filter_: Filter, signal: Signal, now_ns: int, path: str, issues: Issues) -> Condition | None:
    """What `filter_` means for `signal`; None after recording an issue at `path` (a bound that is no number or
    time, a value that is none of an enum's, an attribute where there are none).
    """
    subject = subject_of(filter_.key, signal)
    if isinstance(subject, Attribute) and not signal.attributes:
        issues.add(f"{path}.key", one_of(signal.fields), "not_allowed")
        return None
    if filter_.op in _VALUELESS:
        test: Test | None = Exists()
    elif filter_.op in _ORDERS:
        test = _ordering(subject, _ORDERS[filter_.op], filter_.values[0], now_ns, path, issues)
    elif filter_.op in _PARTS:
        test = HasText(_PARTS[filter_.op], _piece(subject, filter_.values[0]))
    elif filter_.op is Op.REGEX:
        test = MatchesPattern(filter_.values[0])
        if not is_affordable(filter_.values[0]):
            message = f"Its repetitions must stand for at most {MAX_REPEATED} letters in all."
            issues.add(f"{path}.value", message, "too_expensive")
    else:
        test = _equality(subject, filter_.values, now_ns, path, issues)
    return None if test is None else Condition(subject, test, negated=filter_.op in _NEGATIVE)


def conditions(
    filters: tuple[Filter, ...], signal: Signal, now_ns: int, path: str, issues: Issues
) -> tuple[Condition, ...]:
    """All of them; issues are recorded under `<path>[n]`."""
    found = (condition(filter_, signal, now_ns, _path(path, n), issues) for n, filter_ in enumerate(filters))
    return tuple(each for each in found if each is not None)


def _path(path: str, index: int) -> str:
    return f"{path}[{index}]"


def _checked(written: Sequence[tuple[str, str, Op, Written]], path: str, issues: Issues) -> tuple[Filter, ...]:
    if len(written) > MAX_FILTERS:
        issues.add(path, f"Must have at most {MAX_FILTERS} filters.", "too_many")
        return ()
    return tuple(_check(key, op, value, where, issues) for where, key, op, value in written)


def _check(key: str, op: Op, value: Written, path: str, issues: Issues) -> Filter:
    """As it was written; one at fault without its values, so that the faults of those after it have their places."""
    before = len(issues)
    _check_length(key, f"{path}.key", issues)
    values = _values(op, value, f"{path}.value", issues)
    if any(len(each) > MAX_VALUE for each in values):
        issues.add(f"{path}.value", f"Must have at most {MAX_VALUE} characters.", "too_long")
    if len(values) > MAX_VALUES:
        issues.add(f"{path}.value", f"Must have at most {MAX_VALUES} values.", "too_many")
    if not encodable(key, *values):
        issues.add(path, "Must be valid Unicode.", "format")
    return Filter(key, op, values) if len(issues) == before else Filter(key, Op.EXISTS)


def check_key(key: str, path: str, issues: Issues) -> None:
    """Record what is wrong with a key that is asked for outside of a filter."""
    _check_length(key, path, issues)
    if not encodable(key):
        issues.add(path, "Must be valid Unicode.", "format")


def _check_length(key: str, path: str, issues: Issues) -> None:
    if not 1 <= len(key.removeprefix(ATTRIBUTE_PREFIX)) <= MAX_KEY:
        issues.add(path, f"Must have 1 to {MAX_KEY} characters.", "length")


def _values(op: Op, value: Written, path: str, issues: Issues) -> tuple[str, ...]:
    if op in _VALUELESS:
        if value not in (None, "", []):
            issues.add(path, f"{op} takes no value.", "not_allowed")
        return ()
    if value is None:
        issues.add(path, f"{op} needs a value.", "missing")
        return ()
    if not isinstance(value, list):
        return tuple(value.split(",")) if op in _LISTS and isinstance(value, str) else (canonical(value),)
    if op not in _LISTS:
        issues.add(path, f"{op} takes one value, not a list.", "type")
        return ()
    return tuple(map(canonical, value))


def encodable(*texts: str) -> bool:
    """Lone surrogates, which JSON escapes can spell, exist in no stored text and cannot be sent."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def subject_of(key: str, signal: Signal) -> Subject:
    """What `key` names: an own field first, then an attribute, `attr:` always an attribute."""
    if key.startswith(ATTRIBUTE_PREFIX):
        return Attribute(key.removeprefix(ATTRIBUTE_PREFIX))
    return signal.fields.get(key) or Attribute(key)


def _equality(subject: Subject, values: tuple[str, ...], now_ns: int, path: str, issues: Issues) -> Test | None:
    if isinstance(subject, Field):
        if subject.names:
            return _among(subject, values, path, issues)
        if subject.form is Form.ID:
            ids = (id_bytes(subject, value) for value in values)
            return IsId(tuple(each for each in ids if each is not None))
        if subject.form is Form.INSTANT:
            return _instants(values, now_ns, path, issues)
        if subject.form in (Form.DURATION, Form.INTEGER):
            scaled = (_scaled(subject, number) for number in map(parse_number, values) if number is not None)
            return IsInteger(tuple(int(each) for each in scaled if each.denominator == 1))
        if subject.form is not Form.BODY:
            return IsText(values)
    spellings = (spelling for value in values for spelling in numerals(value))
    return IsText(values, tuple(dict.fromkeys(each for each in spellings if each not in values)))


def _among(field: Field, values: tuple[str, ...], path: str, issues: Issues) -> Test | None:
    """Equality with a field of a few names: any other value would never be found, which is hardly what was meant."""
    found = [name for name in (name_of(field, value) for value in values) if name is not None]
    if len(found) < len(values):
        issues.add(f"{path}.value", one_of(field.names), "not_allowed")
        return None
    return IsText(tuple(dict.fromkeys(found)))


def _instants(values: tuple[str, ...], now_ns: int, path: str, issues: Issues) -> Test | None:
    try:
        return IsInteger(tuple(parse_instant(plain(value), now_ns) for value in values))
    except InstantError as error:
        issues.add(f"{path}.value", str(error), "format")
        return None


def _ordering(subject: Subject, order: Order, value: str, now_ns: int, path: str, issues: Issues) -> Test | None:
    if isinstance(subject, Field) and subject.form is Form.INSTANT:
        try:
            return _integer_range(order, Fraction(parse_instant(plain(value), now_ns)))
        except InstantError as error:
            issues.add(f"{path}.value", str(error), "format")
            return None
    number = parse_number(value)
    if number is None:
        issues.add(f"{path}.value", "Must be a number.", "type")
        return None
    if isinstance(subject, Field) and subject.form in (Form.DURATION, Form.INTEGER):
        return _integer_range(order, _scaled(subject, number))
    return Compares(order, number)


def _integer_range(order: Order, bound: Fraction) -> IntegerRange:
    """The integers in `order` to `bound`, as a half-open range."""
    match order:
        case Order.ABOVE:
            return IntegerRange(low=floor(bound) + 1)
        case Order.AT_LEAST:
            return IntegerRange(low=ceil(bound))
        case Order.BELOW:
            return IntegerRange(high=ceil(bound))
        case Order.AT_MOST:
            return IntegerRange(high=floor(bound) + 1)


def _scaled(field: Field, number: Fraction) -> Fraction:
    """In the unit of the column: durations are written in milliseconds and stored in nanoseconds."""
    return number * 10**6 if field.form is Form.DURATION else number


def _piece(subject: Subject, value: str) -> str:
    """Ids are shown in lower case, and found in either."""
    return value.lower() if isinstance(subject, Field) and subject.form is Form.ID else value
