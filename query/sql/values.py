"""Where in a row the value of a subject is: SQL for its presence, its text and its number. Never NULL."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY, ESCAPES, escape
from query.fields import ColumnKind, Field
from query.request.regex_cost import escape_regex
from query.sql.bindings import Bindings
from query.statements import Attribute, Subject

NEVER: Final = "0"
ALWAYS: Final = "1"
_RESOURCE: Final = "resource."
_SCOPE: Final = "scope."
_SCOPE_COLUMNS: Final = {"scope.name": "scope_name", "scope.version": "scope_version"}


class ValueSql(NamedTuple):
    """Where a value is: SQL for whether it is there, its canonical text, whether it is a finite number, and which."""

    present: str
    text: str
    numeric: str
    number: str


class _AttributeSource(NamedTuple):
    """One place of a key. `name` is that of the roll-up of keys; `rare`: an item's own attribute that is spelled like
    one of its resource or scope, which hardly anybody sends.
    """

    value: ValueSql
    name: str
    rare: bool = False


def value_sql(subject: Subject, bindings: Bindings) -> ValueSql:
    """One value of whatever place has it: for groups and figures. What it is where it is absent means nothing."""
    if not isinstance(subject, Attribute):
        return field_sql(subject)
    found, _ = attribute_sources(subject.key, bindings)
    if len(found) == 1:
        return found[0]
    return ValueSql(
        present=f"({' OR '.join(each.present for each in found)})",
        text=_first_present(found, [each.text for each in found], "''"),
        numeric=_first_present(found, [each.numeric for each in found], NEVER),
        number=_first_present(found, [each.number for each in found], "0."),
    )


def _first_present(found: list[ValueSql], values: list[str], otherwise: str) -> str:
    """What stands in `values` for the first place that has the key."""
    arms = ", ".join(f"{each.present}, {value}" for each, value in zip(found, values, strict=True))
    return f"multiIf({arms}, {otherwise})"


def attribute_sources(key: str, bindings: Bindings) -> tuple[list[ValueSql], list[str]]:
    """Where `key` is looked for, first to last: as it stands in `attributes` of the API, then as `resource.<key>`
    stands there. And the places that are left out for having nothing, as SQL for rows that prove otherwise: each costs
    the reading of a column. `bindings.overlooked` collects these, see `query.sql.Query.guarded`.
    """
    found = [*_sources_of_name(key, bindings), *_sources_of_name(_RESOURCE + key, bindings)]
    if bindings.existing_attributes is None:
        return [each.value for each in found], []
    kept = [each for each in found if each.name in bindings.existing_attributes and not each.rare]
    kept = kept or [next(each for each in found if not each.rare)]
    overlooked = [each.value.present for each in found if each not in kept]
    bindings.missed_attributes.update(dict.fromkeys(overlooked))
    return [each.value for each in kept], overlooked


def attribute_names(key: str) -> tuple[str, str]:
    """The names under which the roll-up of keys may know what `key` asks for."""
    return key, _RESOURCE + key


def _sources_of_name(name: str, bindings: Bindings) -> Iterator[_AttributeSource]:
    """Where `attributes` of the API takes the value `name` from: the item itself before its resource and scope."""
    yield _AttributeSource(own_attribute_sql(name, bindings), name, rare=name.startswith((_RESOURCE, _SCOPE)))
    if name.startswith(_RESOURCE):
        yield _AttributeSource(_list_attribute_sql("resource", name.removeprefix(_RESOURCE), bindings), name)
    if name.startswith(_SCOPE):
        yield _AttributeSource(_list_attribute_sql("scope", name.removeprefix(_SCOPE), bindings), name)
    column = _SCOPE_COLUMNS.get(name)
    if column is not None:
        yield _AttributeSource(ValueSql(f"{column} != ''", column, NEVER, NEVER), name)


def own_attribute_sql(key: str, bindings: Bindings) -> ValueSql:
    """An attribute of the item. That it is there, and a number, its list of types says, which is a dictionary's entry:
    to look among the keys of the Map would read all of it.
    """
    text = f"attributes[{bindings.text(key)}]"
    return _typed_value_sql("attribute_types", key, text, text, bindings)


def _list_attribute_sql(column: str, key: str, bindings: Bindings) -> ValueSql:
    """An attribute of a resource or scope: cut out of the text of the whole list, once per entry of the dictionary."""
    pattern = f"(?s){BEFORE_KEY}{escape_regex(escape(key))}{AFTER_KEY}.([^{BEFORE_KEY}]*)"
    marked = text = f"extract({column}, {bindings.text(pattern)})"
    for escaped, plain in ESCAPES:
        text = f"replaceAll({text}, {_literal(escaped)}, {_literal(plain)})"
    return _typed_value_sql(column, key, text, marked, bindings)


def _typed_value_sql(types: str, key: str, text: str, numeral: str, bindings: Bindings) -> ValueSql:
    """`types` is the column whose list says whether `key` is there, and with which type; `numeral` is the text where it
    is that of a number.
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
    """An own field. Durations are numbers of their own kind (nanoseconds), so `number` is not for them."""
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
