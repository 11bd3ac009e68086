"""Parses the `filters` of a request from one of two encodings, validates them, and resolves their subjects.

JSON: `[{"key": "http.route", "op": "eq", "value": "/checkout"}]`. Text: `http.route:/checkout durationMs:>100
!has:user.id` (`query.request.filter_syntax`). A group, `{"any": [...]}` or `(a:1 or b:2)`, matches if one of its
filters matches. Both encodings become `Filter`s; `condition` resolves each for one signal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from chassis.http.faulty_items import is_any_under, replace_faulty_items
from chassis.http.validation import Issues, decode_json, must_be_one_of
from query.request import filter_syntax
from query.request.patterns import MAX_EXPANDED_SIZE, is_within_limit
from query.request.predicates import Scalar, canonical_text, equality, normalize_text, number_comparison
from query.rows import TelemetryTable
from query.statements import (
    Attribute,
    CompareOp,
    Condition,
    Exists,
    MatchPosition,
    Predicate,
    RegexMatches,
    Subject,
    TextMatches,
)

MAX_FILTERS: Final = 20
MAX_KEY: Final = 256
MAX_VALUE: Final = 1024
MAX_VALUES: Final = 100
MAX_TEXT: Final = 4000
ATTRIBUTE_PREFIX: Final = "attr:"
# The bounds that `check_key` enforces, for the API documentation.
KeyText = Annotated[
    str,
    msgspec.Meta(
        description=f"A built-in field if there is one with this name, otherwise an attribute. With the prefix "
        f"`{ATTRIBUTE_PREFIX}` it is always an attribute.",
        extra_json_schema={"minLength": 1, "maxLength": len(ATTRIBUTE_PREFIX) + MAX_KEY},
    ),
]


class Op(StrEnum):
    """Comparison operator of a filter. If the key is absent, neq, not_contains, not_in and not_exists match."""

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


_COMPARE_OPS: Final = {Op.GT: CompareOp.GT, Op.GTE: CompareOp.GTE, Op.LT: CompareOp.LT, Op.LTE: CompareOp.LTE}
_MATCH_POSITIONS: Final = {
    Op.CONTAINS: MatchPosition.ANYWHERE,
    Op.NOT_CONTAINS: MatchPosition.ANYWHERE,
    Op.STARTS_WITH: MatchPosition.START,
    Op.ENDS_WITH: MatchPosition.END,
}
_NEGATIVE: Final = frozenset({Op.NEQ, Op.NOT_CONTAINS, Op.NOT_EXISTS, Op.NOT_IN})
_VALUELESS: Final = frozenset({Op.EXISTS, Op.NOT_EXISTS})
_LISTS: Final = frozenset({Op.IN, Op.NOT_IN})


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter as written. `values`: empty for exists and not_exists; only in and not_in can have several.
    `alternatives`: the other filters of a group: the group matches if any of its filters matches.
    """

    key: str
    op: Op
    values: tuple[str, ...] = ()
    alternatives: tuple["Filter", ...] = ()


FilterValue = Scalar | list[Scalar] | list[str] | None


WrittenValue = Annotated[
    Scalar | Annotated[list[Scalar], msgspec.Meta(extra_json_schema={"maxItems": MAX_VALUES})] | None,
    msgspec.Meta(
        description=f"Each value has at most {MAX_VALUE} characters. in and not_in also accept one comma-separated "
        "string. A number or boolean means the same as its text."
    ),
]


class Alternative(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A filter of a group. `value`: omit it for exists and not_exists. Only in and not_in accept a list."""

    key: Annotated[KeyText, msgspec.Meta(min_length=1)]
    op: Op
    value: WrittenValue = None


class WrittenFilter(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A filter in JSON: either `key` and `op`, or a group `any`, which matches if one of its filters matches. `value`:
    omit it for exists and not_exists. Only in and not_in accept a list.
    """

    key: Annotated[KeyText, msgspec.Meta(min_length=1)] | None = None
    op: Op | None = None
    value: WrittenValue = None
    any: Annotated[list[Alternative], msgspec.Meta(min_length=1, max_length=MAX_FILTERS)] | None = None


PLACEHOLDERS: Final = {"filters[]": {"key": "environment", "op": "exists"}}  # every signal has the key

FilterInputs = Annotated[list[WrittenFilter], msgspec.Meta(extra_json_schema={"maxItems": MAX_FILTERS})]


FiltersInBody = (
    FilterInputs
    | Annotated[
        str,
        msgspec.Meta(max_length=MAX_TEXT, description="All filters as one text, as in the query parameter `filters`."),
    ]
)


def filters_of_body(written: list[WrittenFilter] | str | None, path: str, issues: Issues) -> tuple[Filter, ...]:
    """The filters of a body that accepts both encodings. Every fault is recorded as an issue under `path`; then the
    result must not be used.
    """
    if isinstance(written, str):
        return parse_filters(written, path, issues)
    return check_filters(written or (), path, issues)


def parse_filters(text: str, path: str, issues: Issues) -> tuple[Filter, ...]:
    """Parse the filters of a query string. Every fault is recorded as an issue under `path`; then the result must not
    be used.
    """
    if len(text) > MAX_TEXT:
        issues.add(path, f"Must have at most {MAX_TEXT} characters.", "too_long")
        return ()
    text = text.strip()
    if text.startswith("["):
        return check_filters(_decode(text.encode("utf-8", "surrogatepass"), path, issues), path, issues)
    try:
        terms = filter_syntax.parse(text)
    except filter_syntax.FilterSyntaxError as error:
        for fault in error.faults:
            issues.add(path, fault, "syntax")
        terms = error.terms
    return _check_all([_terms(term, _path(path, n)) for n, term in enumerate(terms)], path, issues)


def _decode(raw: bytes, path: str, issues: Issues) -> list[WrittenFilter]:
    """The filters of a JSON array. A placeholder replaces an invalid filter, so that the others are checked, too."""
    decoded = decode_json(list[WrittenFilter], raw, path, issues)
    if decoded is not None:
        return decoded
    try:
        written = {"filters": msgspec.json.decode(raw)}
        paths = [issue.path for issue in issues]
        left = replace_faulty_items(written, path.removesuffix(".filters"), PLACEHOLDERS, paths)
        return [] if is_any_under(path, left) else msgspec.convert(written["filters"], list[WrittenFilter])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def check_filters(inputs: Sequence[WrittenFilter], path: str, issues: Issues) -> tuple[Filter, ...]:
    """Validate the filters of a body. Every fault is recorded as an issue under `path`; then the result must not be
    used.
    """
    return _check_all([_group(each, _path(path, n), issues) for n, each in enumerate(inputs)], path, issues)


class _Input(NamedTuple):
    """A filter as written, and the path of its issues."""

    path: str
    key: str
    op: Op
    value: FilterValue


def _group(written: WrittenFilter, path: str, issues: Issues) -> list[_Input]:
    """The filters of a group, or a single filter. A placeholder replaces an invalid filter, so that later filters keep
    their index."""
    if written.any is not None:
        for name in ("key", "op", "value"):
            if getattr(written, name) is not None:
                issues.add(f"{path}.{name}", "A filter with the field any must have no other field.", "not_allowed")
        return [_Input(_member_path(path, n), each.key, each.op, each.value) for n, each in enumerate(written.any)]
    for name in ("key", "op"):
        if getattr(written, name) is None:
            issues.add(f"{path}.{name}", "Is required.", "missing")
    if written.key is None or written.op is None:
        return [_Input(path, PLACEHOLDERS["filters[]"]["key"], Op.EXISTS, None)]
    return [_Input(path, written.key, written.op, written.value)]


def _terms(term: filter_syntax.Term | list[filter_syntax.Term], path: str) -> list[_Input]:
    """The filters of a group, or a single filter."""
    if isinstance(term, filter_syntax.Term):
        return [_Input(path, term.key, Op(term.op), term.value)]
    return [_Input(_member_path(path, n), each.key, Op(each.op), each.value) for n, each in enumerate(term)]


def _member_path(path: str, index: int) -> str:
    """The path of a filter of a group."""
    return _path(f"{path}.any", index)


def condition(filter_: Filter, signal: TelemetryTable, now_ns: int, path: str, issues: Issues) -> Condition | None:
    """Resolve `filter_` for `signal`; None after recording an issue at `path` (a bound that is not a number or time, a
    value that is not in an enum, an attribute although the signal has none).
    """
    subject = resolve_key(filter_.key, signal)
    if isinstance(subject, Attribute) and not signal.has_attributes:
        issues.add(f"{path}.key", must_be_one_of(signal.fields), "not_allowed")
        return None
    if filter_.op in _VALUELESS:
        predicate: Predicate | None = Exists()
    elif filter_.op in _COMPARE_OPS:
        predicate = number_comparison(subject, _COMPARE_OPS[filter_.op], filter_.values[0], now_ns, path, issues)
    elif filter_.op in _MATCH_POSITIONS:
        predicate = TextMatches(_MATCH_POSITIONS[filter_.op], normalize_text(subject, filter_.values[0]))
    elif filter_.op is Op.REGEX:
        predicate = RegexMatches(filter_.values[0])
        if not is_within_limit(filter_.values[0]):
            message = (
                f"Must have at most {MAX_EXPANDED_SIZE} characters after all counted repetitions, such as a{{20}}, are "
                "written out."
            )
            issues.add(f"{path}.value", message, "too_expensive")
    else:
        predicate = equality(subject, filter_.values, now_ns, path, issues)
    return None if predicate is None else Condition(subject, predicate, negated=filter_.op in _NEGATIVE)


def conditions(
    filters: tuple[Filter, ...], signal: TelemetryTable, now_ns: int, path: str, issues: Issues
) -> tuple[Condition, ...]:
    """Resolve all filters; issues are recorded under `<path>[n]`."""
    found = (_grouped(filter_, signal, now_ns, _path(path, n), issues) for n, filter_ in enumerate(filters))
    return tuple(each for each in found if each is not None)


def _grouped(filter_: Filter, signal: TelemetryTable, now_ns: int, path: str, issues: Issues) -> Condition | None:
    """Resolve a filter and its alternatives."""
    if not filter_.alternatives:
        return condition(filter_, signal, now_ns, path, issues)
    members = [condition(each, signal, now_ns, where, issues) for where, each in members_of(filter_, path)]
    first, *others = members
    found = tuple(each for each in others if each is not None)
    return None if first is None or len(found) < len(others) else replace(first, alternatives=found)


def members_of(filter_: Filter, path: str) -> Iterator[tuple[str, Filter]]:
    """The filters of a group, or the filter alone, each with the path of its issues."""
    if not filter_.alternatives:
        yield path, filter_
        return
    for n, each in enumerate((replace(filter_, alternatives=()), *filter_.alternatives)):
        yield _member_path(path, n), each


def _path(path: str, index: int) -> str:
    return f"{path}[{index}]"


def _check_all(groups: Sequence[Sequence[_Input]], path: str, issues: Issues) -> tuple[Filter, ...]:
    """Check all filters. Each filter of a group counts towards the maximum."""
    if sum(map(len, groups)) > MAX_FILTERS:
        issues.add(path, f"Must have at most {MAX_FILTERS} filters.", "too_many")
        return ()
    checked = ([_check_filter(key, op, value, where, issues) for where, key, op, value in group] for group in groups)
    return tuple(replace(first, alternatives=tuple(others)) for first, *others in checked)


def _check_filter(key: str, op: Op, value: FilterValue, path: str, issues: Issues) -> Filter:
    """Return the filter as written. An invalid filter is returned without values, so that later issues keep their
    index."""
    before = len(issues)
    _check_length(key, f"{path}.key", issues)
    values = _values(op, value, f"{path}.value", issues)
    if any(len(each) > MAX_VALUE for each in values):
        issues.add(f"{path}.value", f"Must have at most {MAX_VALUE} characters.", "too_long")
    if len(values) > MAX_VALUES:
        issues.add(f"{path}.value", f"Must have at most {MAX_VALUES} values.", "too_many")
    if not is_encodable(key, *values):
        issues.add(path, "Must be valid Unicode.", "format")
    return Filter(key, op, values) if len(issues) == before else Filter(key, Op.EXISTS)


def check_key(key: str, path: str, issues: Issues) -> None:
    """Record the errors of a key that is used outside of a filter."""
    _check_length(key, path, issues)
    if not is_encodable(key):
        issues.add(path, "Must be valid Unicode.", "format")


def _check_length(key: str, path: str, issues: Issues) -> None:
    if not 1 <= len(key.removeprefix(ATTRIBUTE_PREFIX)) <= MAX_KEY:
        issues.add(path, f"Must have 1 to {MAX_KEY} characters.", "length")


def _values(op: Op, value: FilterValue, path: str, issues: Issues) -> tuple[str, ...]:
    if op in _VALUELESS:
        if value not in (None, "", []):
            issues.add(path, f"{op} does not accept a value.", "not_allowed")
        return ()
    if value is None:
        issues.add(path, f"{op} requires a value.", "missing")
        return ()
    if not isinstance(value, list):
        return tuple(value.split(",")) if op in _LISTS and isinstance(value, str) else (canonical_text(value),)
    if op not in _LISTS:
        issues.add(path, f"{op} accepts one value, not a list.", "type")
        return ()
    return tuple(map(canonical_text, value))


def is_encodable(*texts: str) -> bool:
    """Whether the texts have no lone surrogates. JSON escapes can express surrogates, but no stored text has them, and
    they cannot be sent.
    """
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def resolve_key(key: str, signal: TelemetryTable) -> Subject:
    """Resolve `key`: a built-in field first, then an attribute; `attr:` always names an attribute."""
    if key.startswith(ATTRIBUTE_PREFIX):
        return Attribute(key.removeprefix(ATTRIBUTE_PREFIX))
    return signal.fields.get(key) or Attribute(key)
