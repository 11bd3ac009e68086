"""Schemas of a document as table rows: one row for each field, nested fields by their path, types in words.

All content of the page is converted to HTML here: strings are escaped, `Markup` is not.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

_CODE: Final = re.compile(r"`([^`]+)`")
_VOID: Final = frozenset({"meta", "wbr"})


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """`<name ...>children</name>`. `class_` becomes `class`, and `data_x` becomes `data-x`. An empty attribute is
    omitted.
    """
    by_name = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value}
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in by_name.items())
    if name in _VOID:
        return Markup(f"<{name}{attribute_text}>")
    return Markup(f"<{name}{attribute_text}>{concat(*children)}</{name}>")


def concat(*parts: str) -> Markup:
    """The concatenated parts. Each part is escaped unless it is `Markup`."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def inline(text: str) -> Markup:
    """A line of text. Text between backticks becomes code."""
    pieces = _CODE.split(text)
    return concat(*(element("code", piece) if n % 2 else piece for n, piece in enumerate(pieces)))


def paragraphs(text: str) -> Markup:
    """One `p` element for each paragraph of a text. Empty lines separate paragraphs."""
    return concat(*(element("p", inline(" ".join(part.split()))) for part in text.split("\n\n") if part.strip()))


def table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Markup:
    """A table, or nothing if there are no rows. Each cell has its heading as `data-label`, for screens that are too
    narrow for columns.
    """
    if not rows:
        return Markup()
    head = element("thead", element("tr", *(element("th", each, scope="col") for each in headings)))
    body = [
        element("tr", *(element("td", cell, data_label=name) for name, cell in zip(headings, row, strict=True)))
        for row in rows
    ]
    return element("table", head, element("tbody", *body))


Schema = Mapping[str, Any]

MAX_DEPTH: Final = 6  # of nested structures shown in one table
_MAX_NAMES: Final = 30  # of values listed for one field
_MAX_PATTERN: Final = 80  # characters; a longer pattern is not shown, so the description must explain it


class Field(NamedTuple):
    """A row of the table. `path` has the form `data[].traceId`. `type` and `bounds` are words, and `bounds` is empty if
    there are no bounds.
    """

    path: str
    type: str
    bounds: str
    required: bool
    description: str


class Schemas:
    """The schemas of a document, with references resolved."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._components: Mapping[str, Schema] = document["components"]["schemas"]

    def resolve(self, schema: Schema) -> Schema:
        """The schema that a reference refers to. Keys beside the reference override its keys."""
        while "$ref" in schema:
            overrides = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._components[self.name(schema)], **overrides}
        return schema

    def name(self, schema: Schema) -> str:
        """The name of the referenced structure, or an empty string for an inline schema."""
        return str(schema.get("$ref", "")).rpartition("/")[2]

    def type_of(self, schema: Schema) -> str:
        """The type in words: `integer`, `list of Span`, `string or null`."""
        if "$ref" in schema and "properties" in self.resolve(schema):
            return self.name(schema)
        schema = self.resolve(schema)
        if isinstance(schema.get("type"), list):
            return " or ".join(schema["type"])
        if "anyOf" in schema:
            return " or ".join(dict.fromkeys(self.type_of(each) for each in schema["anyOf"]))
        if schema.get("type") == "array":
            return f"list of {self.type_of(schema['items'])}" if "items" in schema else "list"
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        return str(schema.get("type", "string" if "enum" in schema else "any"))

    def bounds_of(self, schema: Schema) -> str:
        """The bounds in words: `1 to 200; default 50`. For a list, also the bounds of its items."""
        schema = self.resolve(schema)
        bounds = [
            _values(schema),
            _range(schema, "minimum", "maximum", ""),
            _range(schema, "minLength", "maxLength", "characters"),
            _range(schema, "minItems", "maxItems", "items"),
            schema.get("format") or _pattern(schema.get("pattern", "")),
            *(self.bounds_of(each) for each in schema.get("anyOf", ())),
            self._bounds_of_items(schema),
            f"default `{_literal(schema['default'])}`" if schema.get("default") is not None else "",
        ]
        return "; ".join(dict.fromkeys(each for each in bounds if each))

    def fields(self, schema: Schema) -> list[Field]:
        """Every field of a structure. Fields of nested structures have their path. A structure inside itself is not
        expanded again, and structures are expanded at most MAX_DEPTH levels deep.
        """
        return list(self._walk(schema, "", frozenset()))

    def _bounds_of_items(self, schema: Schema) -> str:
        if "items" not in schema or self._structure(schema["items"]) is not None:
            return ""
        inner = self.bounds_of(schema["items"])
        return f"each {inner}" if inner else ""

    def _walk(self, schema: Schema, prefix: str, expanded: frozenset[str]) -> Iterator[Field]:
        found = self._structure(schema)
        if found is None or len(expanded) >= MAX_DEPTH:
            return
        name, suffix, structure = found
        if name in expanded:
            return
        for key, part in structure["properties"].items():
            path = f"{prefix}{suffix}{'.' if prefix or suffix else ''}{key}"
            yield Field(
                path,
                self.type_of(part),
                self.bounds_of(part),
                key in structure.get("required", ()),
                self._description(part),
            )
            yield from self._walk(part, path, expanded | {name})

    def _structure(self, schema: Schema) -> tuple[str, str, Schema] | None:
        """The only structure in a schema: its name, `[]` for each enclosing list, and its schema. None if the schema
        has no structure or two structures.
        """
        if name := self.name(schema):
            inner = self._structure(self.resolve(schema))
            return None if inner is None else (name, inner[1], inner[2])
        if "properties" in schema:
            return "", "", schema
        if schema.get("type") == "array" and "items" in schema:
            inner = self._structure(schema["items"])
            return None if inner is None else (inner[0], f"[]{inner[1]}", inner[2])
        found = [each for each in map(self._structure, schema.get("anyOf", ())) if each is not None]
        return found[0] if len(found) == 1 else None

    def _description(self, schema: Schema) -> str:
        """The first description that exists: the schema's, the referenced schema's, or an alternative's."""
        if "description" in schema:
            return str(schema["description"])
        if "$ref" in schema:
            return str(self.resolve(schema).get("description", ""))
        descriptions = (self._description(each) for each in schema.get("anyOf", ()))
        return next((each for each in descriptions if each), "")


def _range(schema: Schema, low: str, high: str, unit: str) -> str:
    """`1 to 64 characters`, `at most 20 items`, `at least 0`."""
    lowest, highest = schema.get(low), schema.get(high)
    if lowest is None and highest is None:
        return ""
    if highest is None:
        text = f"at least {lowest}" if (lowest, unit) != (1, "characters") else "one or more"
    elif lowest is None:
        text = f"at most {highest}"
    else:
        text = f"{lowest} to {highest}" if lowest != highest else f"{lowest}"
    return f"{text} {unit}".strip()


def _pattern(pattern: str) -> str:
    return f"`{pattern}`" if 0 < len(pattern) < _MAX_PATTERN else ""


def _values(schema: Schema) -> str:
    values = schema.get("enum", ())
    listed = ", ".join(f"`{_literal(value)}`" for value in values[:_MAX_NAMES])
    return listed + (", ..." if len(values) > _MAX_NAMES else "")


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
