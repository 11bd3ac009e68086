"""Compiles conditions to SQL that is 0 or 1 for every row, never NULL, so that NOT is the exact opposite. Also finds
the value of a subject in a row: SQL for its presence, its text and its number, which is never NULL.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Final, NamedTuple

from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY, ESCAPES, escape
from query.request.patterns import escape_regex
from query.rows import ColumnKind, Field, TelemetryTable
from query.sql.bindings import Bindings, project_predicate, time_predicates
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
    Statement,
    Subject,
    TextIn,
    TextMatches,
    Window,
)

NEVER: Final = "0"
ALWAYS: Final = "1"
_RESOURCE: Final = "resource."
_SCOPE: Final = "scope."
_SCOPE_COLUMNS: Final = {"scope.name": "scope_name", "scope.version": "scope_version"}


class ValueSql(NamedTuple):
    """SQL for a value: whether it is present, its canonical text, whether it is a finite number, and the number."""

    present: str
    text: str
    numeric: str
    number: str


class _AttributeSource(NamedTuple):
    """One location of a key. `name` is its name in the roll-up of keys; `rare`: an item's own attribute that is spelled
    like an attribute of its resource or scope; few clients send such attributes.
    """

    value: ValueSql
    name: str
    rare: bool = False


def value_sql(subject: Subject, bindings: Bindings) -> ValueSql:
    """The value from the first source that has it, for groups and aggregates. If no source has it, the result is
    meaningless."""
    if not isinstance(subject, Attribute):
        return field_sql(subject)
    sources, _ = attribute_sources(subject.key, bindings)
    if len(sources) == 1:
        return sources[0]
    return ValueSql(
        present=f"({' OR '.join(each.present for each in sources)})",
        text=_first_present(sources, [each.text for each in sources], "''"),
        numeric=_first_present(sources, [each.numeric for each in sources], NEVER),
        number=_first_present(sources, [each.number for each in sources], "0."),
    )


def _first_present(sources: list[ValueSql], values: list[str], otherwise: str) -> str:
    """The entry of `values` for the first source that has the key."""
    arms = ", ".join(f"{each.present}, {value}" for each, value in zip(sources, values, strict=True))
    return f"multiIf({arms}, {otherwise})"


def attribute_sources(key: str, bindings: Bindings) -> tuple[list[ValueSql], list[str]]:
    """The sources where `key` is looked up, in order: as named in `attributes` of the API, then as `resource.<key>`.
    Sources are skipped if the roll-up has no such key, because each source costs reading a column. For skipped sources,
    the second result is SQL for rows that have the key nevertheless. `bindings.missed_attributes` collects it (see
    `query.sql.Query.needs_recheck`).
    """
    sources = [*_sources_of_name(key, bindings), *_sources_of_name(_RESOURCE + key, bindings)]
    if bindings.existing_attributes is None:
        return [each.value for each in sources], []
    kept = [each for each in sources if each.name in bindings.existing_attributes and not each.rare]
    kept = kept or [next(each for each in sources if not each.rare)]
    missed = [each.value.present for each in sources if each not in kept]
    bindings.missed_attributes.update(dict.fromkeys(missed))
    return [each.value for each in kept], missed


def attribute_names(key: str) -> tuple[str, str]:
    """The names under which the roll-up of keys may have `key`."""
    return key, _RESOURCE + key


def _sources_of_name(name: str, bindings: Bindings) -> Iterator[_AttributeSource]:
    """The sources of `name` in `attributes` of the API: the item itself before its resource and scope."""
    yield _AttributeSource(own_attribute_sql(name, bindings), name, rare=name.startswith((_RESOURCE, _SCOPE)))
    if name.startswith(_RESOURCE):
        yield _AttributeSource(_list_attribute_sql("resource", name.removeprefix(_RESOURCE), bindings), name)
    if name.startswith(_SCOPE):
        yield _AttributeSource(_list_attribute_sql("scope", name.removeprefix(_SCOPE), bindings), name)
    column = _SCOPE_COLUMNS.get(name)
    if column is not None:
        yield _AttributeSource(ValueSql(f"{column} != ''", column, NEVER, NEVER), name)


def own_attribute_sql(key: str, bindings: Bindings) -> ValueSql:
    """An attribute of the item. The list of types shows whether it is present, and whether it is a number; the list is
    a dictionary entry, while checking the keys of the Map would read all keys.
    """
    text = f"attributes[{bindings.text(key)}]"
    return _typed_value_sql("attribute_types", key, text, text, bindings)


def _list_attribute_sql(column: str, key: str, bindings: Bindings) -> ValueSql:
    """An attribute of a resource or scope: extracted from the text of the whole list, once per entry of
    the dictionary.
    """
    pattern = f"(?s){BEFORE_KEY}{escape_regex(escape(key))}{AFTER_KEY}.([^{BEFORE_KEY}]*)"
    marked = text = f"extract({column}, {bindings.text(pattern)})"
    for escaped, plain in ESCAPES:
        text = f"replaceAll({text}, {_literal(escaped)}, {_literal(plain)})"
    return _typed_value_sql(column, key, text, marked, bindings)


def _typed_value_sql(types: str, key: str, text: str, numeral: str, bindings: Bindings) -> ValueSql:
    """`types` is the column whose list shows whether `key` is present, and its type; `numeral` is the text if the value
    is a number.
    """
    entry = bindings.text(f"{BEFORE_KEY}{escape(key)}{AFTER_KEY}")
    integer, double = (f"position({types}, concat({entry}, '{letter}')) > 0" for letter in "id")
    return ValueSql(
        present=f"position({types}, {entry}) > 0",
        text=text,
        numeric=f"({integer} OR ({double} AND isFinite(toFloat64OrZero({numeral}))))",
        number=f"toFloat64OrZero({numeral})",
    )


def _literal(text: str) -> str:
    return "'" + "".join(character if character.isalpha() else f"\\x{ord(character):02x}" for character in text) + "'"


def field_sql(field: Field) -> ValueSql:
    """A built-in field. Durations are integers of nanoseconds with their own SQL, so `number` does not
    apply to them.
    """
    column = field.column
    present, text, numeric, number = ALWAYS, column, NEVER, NEVER
    match field.kind:
        case ColumnKind.TEXT:
            present = f"{column} != ''"
        case ColumnKind.ENUM:
            text = f"[{', '.join(repr(name) for name in field.names)}][{column} + 1]"
        case ColumnKind.INTEGER:
            present, text = f"{column} != 0", f"toString({column})"
        case ColumnKind.DURATION:
            shown = f"greatest({column}, 0)"
            text = f"concat(toString(intDiv({shown}, 1000000)), '.', leftPad(toString({shown} % 1000000), 6, '0'))"
        case ColumnKind.TIMESTAMP:
            text = f"concat(replaceOne(toString({column}), ' ', 'T'), 'Z')"
        case ColumnKind.ID:
            present, text = f"{column} != toFixedString('', {field.size})", f"lower(hex({column}))"
        case ColumnKind.BODY:
            present = "body_type != 'n'"
            numeric = "body_type IN ('i', 'd') AND body NOT IN ('NaN', 'Infinity', '-Infinity')"
            number = "toFloat64OrZero(body)"
    return ValueSql(present if field.optional or field.kind is ColumnKind.BODY else ALWAYS, text, numeric, number)


_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
_EXACT_FLOAT: Final = 2**53  # not every larger integer is a Float64
_MAX_INT128: Final = 2**127 - 1


def condition_sql(condition: Condition, bindings: Bindings) -> str:
    """One condition with its alternatives, in parentheses if needed. It also holds for rows that have a key in a
    location that is not read (`attribute_sources`), so that the recheck finds these rows.
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
    """The predicate on an attribute: the first source that has the key decides."""
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
    # Near such a bound two integers may have the same Float64, so integers are compared as integers.
    exact = f"toInt128OrNull({value.text}) {operator} {bindings.int128(whole)}"
    return f"{value.numeric} AND ifNull({exact}, {by_float})"


def _integers(field: Field, values: tuple[int, ...], bindings: Bindings) -> str:
    """Equality with the integers of a column; values that the column cannot have or that mean absence are dropped."""
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


def matching_rows(
    statement: Statement, signal: TelemetryTable, window: Window, conditions: Iterable[Condition], bindings: Bindings
) -> list[str]:
    """The predicates of the rows of a window that meet the conditions."""
    return [
        project_predicate(statement, bindings),
        *time_predicates(signal, window, bindings),
        *(condition_sql(condition, bindings) for condition in conditions),
    ]
