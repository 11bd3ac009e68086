"""Ways to narrow an interface, and ways to add to it: what the comparison is tried with."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.interface.containment import ECHOED, Direction

Schema = dict[str, Any]
Change = Callable[[Schema], object]
_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


class Site(NamedTuple):
    """A schema of an operation: how to get to it in the document, and where it is used."""

    keys: tuple[str | int, ...]
    direction: Direction
    in_union: bool

    def of(self, document: Any) -> Any:
        """The schema in a document."""
        for key in self.keys:
            document = document[key]
        return document


class Kind(NamedTuple):
    """A change of a schema and the schemas that it is made of."""

    fits: Callable[[Schema], object]
    change: Change


def sites(document: Mapping[str, Any], path: str, method: str) -> list[Site]:
    """The schemas of an operation that are used in one direction only."""
    operation, above = document["paths"][path][method], ("paths", path, method)
    found: list[Site] = []
    for number, _ in enumerate(operation["parameters"]):
        found += _schemas(document, Site((*above, "parameters", number, "schema"), "request", in_union=False))
    for media in operation.get("requestBody", {}).get("content", {}):
        found += _content(document, (*above, "requestBody"), media, "request")
    for status, answer in operation["responses"].items():
        at = (
            ("components", "responses", answer["$ref"].split("/")[-1])
            if "$ref" in answer
            else (*above, "responses", status)
        )
        for media in Site(at, "answer", in_union=False).of(document).get("content", {}):
            found += _content(document, at, media, "answer")
    both = {site.keys for site in found if site.direction == "request"} & {
        site.keys for site in found if site.direction == "answer"
    }
    return list(dict.fromkeys(site for site in found if site.keys not in both))


def _content(document: Any, above: tuple[str | int, ...], media: str, direction: Direction) -> Iterator[Site]:
    site = Site((*above, "content", media), direction, in_union=False)
    if "schema" in site.of(document):
        yield from _schemas(document, site._replace(keys=(*site.keys, "schema")))


def _schemas(document: Any, site: Site, seen: tuple[str, ...] = ()) -> Iterator[Site]:
    schema = site.of(document)
    if "$ref" in schema:
        if schema["$ref"] not in {*seen, *ECHOED}:
            keys = tuple(schema["$ref"].removeprefix("#/").split("/"))
            yield from _schemas(document, site._replace(keys=keys), (*seen, schema["$ref"]))
        return
    yield site
    inside: list[tuple[str, ...]] = [("properties", name) for name in schema.get("properties", {})]
    inside += [(name,) for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    for names in inside:
        yield from _schemas(document, Site((*site.keys, *names), site.direction, in_union=False), seen)
    if all(branch and _distinct(branch) for branch in schema.get("anyOf", ())):
        for number, _ in enumerate(schema.get("anyOf", ())):
            yield from _schemas(document, Site((*site.keys, "anyOf", number), site.direction, in_union=True), seen)


def _distinct(branch: Schema) -> bool:
    """Not a number, which another branch may take as well."""
    return branch.get("type") not in ("integer", "number")


def _typed(schema: Schema, *types: str) -> bool:
    return schema.get("type") in types and "anyOf" not in schema


def _optional(schema: Schema) -> list[str]:
    return [name for name in schema.get("properties", {}) if name not in schema.get("required", ())]


def _nullable(schema: Schema) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


def _without_null(schema: Schema) -> None:
    schema["anyOf"].remove({"type": "null"})


def _with_null(schema: Schema) -> None:
    inner = dict(schema)
    schema.clear()
    schema["anyOf"] = [inner, {"type": "null"}]


def _without_property(schema: Schema) -> None:
    name = next(iter(schema["properties"]))
    del schema["properties"][name]
    schema["required"] = [each for each in schema.get("required", ()) if each != name]


def _set(name: str, value: object) -> Change:
    return lambda schema: schema.update({name: value})


def _more(name: str, by: int) -> Change:
    return lambda schema: schema.update({name: schema[name] + by})


def _has(name: str) -> Callable[[Schema], object]:
    return lambda schema: name in schema and "anyOf" not in schema


def _lacks(name: str, *types: str) -> Callable[[Schema], object]:
    return lambda schema: name not in schema and _typed(schema, *types)


def _drop(name: str) -> Change:
    return lambda schema: schema.pop(name)


NARROWER: Final = {
    "type gone": Kind(_nullable, _without_null),
    "another type": Kind(lambda schema: _typed(schema, "string", "boolean"), _set("type", "array")),
    "value gone": Kind(_has("enum"), lambda schema: schema["enum"].pop()),
    "enumeration": Kind(_lacks("enum", "string"), _set("enum", ["one"])),
    "maxLength smaller": Kind(_has("maxLength"), _more("maxLength", -1)),
    "maxLength": Kind(_lacks("maxLength", "string"), _set("maxLength", 1000)),
    "minLength larger": Kind(_has("minLength"), _more("minLength", 1)),
    "minLength": Kind(_lacks("minLength", "string"), _set("minLength", 1)),
    "minimum larger": Kind(_has("minimum"), _more("minimum", 1)),
    "maximum smaller": Kind(_has("maximum"), _more("maximum", -1)),
    "maxItems smaller": Kind(_has("maxItems"), _more("maxItems", -1)),
    "minItems": Kind(_lacks("minItems", "array"), _set("minItems", 1)),
    "pattern": Kind(_lacks("pattern", "string"), _set("pattern", "^a")),
    "another pattern": Kind(_has("pattern"), _set("pattern", "^a")),
    "format": Kind(_lacks("format", "string"), _set("format", "uuid")),
    "property gone": Kind(_has("properties"), _without_property),
    "property required": Kind(_optional, lambda schema: schema["required"].append(_optional(schema)[0])),
    "closed": Kind(lambda schema: schema.get("type") == "object" and schema.get("additionalProperties") is not False,
                   _set("additionalProperties", False)),
    "unknown keyword": Kind(lambda schema: _typed(schema, *_TYPES), _set("not", {"const": 1})),
}  # fmt: skip

WIDER: Final = {
    "type new": Kind(lambda schema: _typed(schema, "string", "object", "array", "boolean"), _with_null),
    # What enumerates its values needs no type.
    "any type": Kind(lambda schema: _typed(schema, "string", "boolean") and "enum" not in schema, _drop("type")),
    "value new": Kind(_has("enum"), lambda schema: schema["enum"].append("new")),
    "no enumeration": Kind(lambda schema: "enum" in schema and "type" in schema, _drop("enum")),
    "minLength smaller": Kind(_has("minLength"), _more("minLength", -1)),
    "no minimum": Kind(_has("minimum"), _drop("minimum")),
    "no minItems": Kind(_has("minItems"), _drop("minItems")),
    "no pattern": Kind(_has("pattern"), _drop("pattern")),
    "no format": Kind(_has("format"), _drop("format")),
    "property optional": Kind(lambda schema: schema.get("required"), lambda schema: schema["required"].pop()),
}

# May be done to answers as well.
LARGER: Final = {
    "maxLength larger": Kind(_has("maxLength"), _more("maxLength", 1)),
    "no maxItems": Kind(_has("maxItems"), _drop("maxItems")),
    "maximum larger": Kind(_has("maximum"), _more("maximum", 1)),
    "property new": Kind(_has("properties"), lambda schema: schema["properties"].update({"new": {"type": "string"}})),
    "words": Kind(lambda schema: _typed(schema, *_TYPES), _set("description", "Other words.")),
}

# Of an answer they take something, too, or what cannot be told; whatever else narrows it concerns no client.
OF_ANSWERS_TOO: Final = frozenset({"property gone", "another type", "another pattern", "unknown keyword"})

# Another branch of a union may have the type.
OF_THE_WHOLE: Final = frozenset({"another type", "type new", "any type"})
