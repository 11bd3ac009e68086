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
    """SQL for a value: whether it is present, its canonical text, whether it is a finite number, and that number."""

    present: str
    text: str
    numeric: str
    number: str


class _AttributeSource(NamedTuple):
    """One location of a key. `name` is its name in the roll-up of keys; `rare`: an item's own attribute that is spelled
    like one of its resource or scope, which hardly any client sends.
    """

    value: ValueSql
    name: str
    rare: bool = False


def value_sql(subject: Subject, bindings: Bindings) -> ValueSql:
    """The value from whichever source has it: for groups and aggregates. If it is absent, the result is meaningless."""
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
    """The sources where `key` is looked up, in order: as named in `attributes` of the API, then as `resource.<key>`
    there. And the sources that are skipped because the roll-up has no such key, as SQL for rows that prove otherwise:
    each source costs reading a column. `bindings.missed_attributes` collects these, see
    `query.sql.Query.needs_recheck`.
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
    """Where `attributes` of the API takes the value of `name` from: the item itself before its resource and scope."""
    yield _AttributeSource(own_attribute_sql(name, bindings), name, rare=name.startswith((_RESOURCE, _SCOPE)))
    if name.startswith(_RESOURCE):
        yield _AttributeSource(_list_attribute_sql("resource", name.removeprefix(_RESOURCE), bindings), name)
    if name.startswith(_SCOPE):
        yield _AttributeSource(_list_attribute_sql("scope", name.removeprefix(_SCOPE), bindings), name)
    column = _SCOPE_COLUMNS.get(name)
    if column is not None:
        yield _AttributeSource(ValueSql(f"{column} != ''", column, NEVER, NEVER), name)


def own_attribute_sql(key: str, bindings: Bindings) -> ValueSql:
    """An attribute of the item. The list of types shows whether it is present, and whether it is a number; it is a
    dictionary entry, whereas checking the keys of the Map would read all of them.
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
