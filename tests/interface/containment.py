"""Whether what one JSON Schema permits another permits as well: the question behind every narrowing.

A request may not be refused that was taken before: the accepted schema has to be contained in that of today. An answer
may not be one that could not be before: that of today has to be contained in the accepted one. So both directions are
one walk. It errs to the safe side: what cannot be shown to be contained is a finding, and so is a keyword that this
module does not know.

Softer than containment, as a client's writer sees it:

- a declared property that goes is a finding also where objects are open: what it carried is lost;
- a new property of an answer is none, as open objects are what clients of ours read;
- upper bounds of answers (`maxLength`, `maxItems`, `maximum`) may grow, as they follow those of requests; lower ones
  may not fall, for 0, "" and [] are values of their own;
- a new value of an answer's enumeration is a finding, but where the answer repeats what its request said (`ECHOED`);
- texts, examples and defaults are no part of what is permitted.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

Direction = Literal["request", "answer"]

ECHOED: Final = frozenset({"#/components/schemas/Fn"})  # of an aggregate's answer: the function that was asked for
# A discriminator names the field by which clients choose among `anyOf`; each of these has the field's value as `enum`.
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "example", "examples", "discriminator"})
_KNOWN: Final = frozenset(
    {
        *("$ref", "type", "anyOf", "enum", "properties", "required", "additionalProperties", "propertyNames"),
        *("items", "pattern", "format"),
    }
)
_EVERY: Final = ("null", "boolean", "number", "string", "array", "object")
_LEAST: Final = {
    "string": "minLength", "number": "minimum", "integer": "minimum", "array": "minItems", "object": "minProperties"
}  # fmt: skip
_MOST: Final = {
    "string": "maxLength", "number": "maximum", "integer": "maximum", "array": "maxItems", "object": "maxProperties"
}  # fmt: skip
_ABOVE: Final = "exclusiveMinimum"  # of numbers
_BOUNDS: Final = frozenset({*_LEAST.values(), *_MOST.values(), _ABOVE})


class Finding(NamedTuple):
    """Something that is gone or narrower: where, and what."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class Node(NamedTuple):
    """A part of a document and its place there; of a component the place is a JSON pointer."""

    place: str
    value: Any

    def at(self, *names: str) -> "Node":
        """The part below; an empty one if there is none."""
        value = self.value
        for name in names:
            value = value.get(name, {})
        return Node("/".join((self.place, *names)), value)


def resolved(document: Mapping[str, Any], node: Node) -> Node:
    """The node, or what it refers to; words beside a reference are left out."""
    while "$ref" in node.value:
        if not node.value.keys() <= {"$ref", *_ANNOTATIONS}:
            raise ValueError(f"{node.place}: a reference with {sorted(node.value)} beside it")
        pointer = node.value["$ref"]
        target: Any = document
        for name in pointer.removeprefix("#/").split("/"):
            target = target[name]
        node = Node(pointer, target)
    return node


class _One(NamedTuple):
    """One of the alternatives of a schema: of a single type."""

    type: str
    node: Node


class Containment:
    """Of the schemas of two documents, in one direction."""

    def __init__(self, accepted: Mapping[str, Any], current: Mapping[str, Any], direction: Direction) -> None:
        self._answers = direction == "answer"
        self._inner, self._outer = (current, accepted) if self._answers else (accepted, current)
        self._direction = direction
        self._known: dict[tuple[str, str], list[Finding]] = {}

    def findings(self, accepted: Node, current: Node) -> list[Finding]:
        """What is narrower of a request's schema, or may be otherwise in an answer."""
        return self._schemas(current, accepted) if self._answers else self._schemas(accepted, current)

    def _schemas(self, inner: Node, outer: Node) -> list[Finding]:
        inner, outer = resolved(self._inner, inner), resolved(self._outer, outer)
        key = inner.place, outer.place
        if key not in self._known:
            self._known[key] = []  # a schema that contains itself: it holds if the rest does
            self._known[key] = list(dict.fromkeys(self._whole(inner, outer)))
        return self._known[key]

    def _whole(self, inner: Node, outer: Node) -> Iterator[Finding]:
        if not outer.value.keys() - _ANNOTATIONS:  # any value
            return
        ones, others = (list(_ones(*side)) for side in ((self._inner, inner), (self._outer, outer)))
        unknown = {
            name for node in (inner, outer, *(each.node for each in (*ones, *others))) for name in _unknown(node)
        }
        if unknown:
            yield self._found(inner, outer, f"cannot be compared: {', '.join(sorted(unknown))} would have to be known")
            return
        new = {one.type: one for one in ones if not any(_takes(other.type, one.type) for other in others)}
        if new:
            yield self._found(inner, outer, f"{', '.join(new)} {'is new' if self._answers else 'is no longer taken'}")
        for one in ones:
            if one.type not in new:
                fitting = [other for other in others if _takes(other.type, one.type)]
                yield from min((list(self._alternatives(one, other)) for other in fitting), key=len)

    def _alternatives(self, one: _One, other: _One) -> Iterator[Finding]:
        inner, outer = one.node, other.node
        yield from self._values(one, other)
        yield from self._bounds(one, other)
        if one.type == "array":
            yield from self._schemas(inner.at("items"), outer.at("items"))
        elif one.type == "object":
            yield from self._properties(inner, outer)
            yield from self._required(inner, outer)
            yield from self._further(inner, outer)
            yield from self._names(inner, outer)

    def _values(self, one: _One, other: _One) -> Iterator[Finding]:
        """Enumerations."""
        inner, outer = one.node, other.node
        if "enum" not in outer.value or (self._answers and outer.place in ECHOED):
            return
        if "enum" not in inner.value:
            yield self._found(inner, outer, "may be any value now" if self._answers else "takes only some values now")
            return
        new = [repr(value) for value in inner.value["enum"] if value not in outer.value["enum"]]
        if new:
            yield self._found(inner, outer, f"{', '.join(new)} {'is new' if self._answers else 'is no longer taken'}")

    def _bounds(self, one: _One, other: _One) -> Iterator[Finding]:
        """Of lengths and numbers, and of the form of texts."""
        inner, outer = one.node, other.node
        above = _ABOVE if one.type in ("number", "integer") else None
        for name, sign in ((_LEAST.get(one.type), 1), (_MOST.get(one.type), -1), (above, 1)):
            if name is None or name not in outer.value or (self._answers and sign < 0):
                continue
            if name not in inner.value or sign * inner.value[name] < sign * outer.value[name]:
                yield self._changed(inner, outer, name)
        if one.type == "string":
            for name in ("pattern", "format"):
                if name in outer.value and inner.value.get(name) != outer.value[name]:
                    yield self._changed(inner, outer, name)

    def _properties(self, inner: Node, outer: Node) -> Iterator[Finding]:
        """Those that either names."""
        ours, theirs = inner.at("properties"), outer.at("properties")
        for name in [*ours.value, *(name for name in theirs.value if name not in ours.value)]:
            if name in ours.value and name in theirs.value:
                yield from self._schemas(ours.at(name), theirs.at(name))
            elif name in ours.value:
                rest = _rest(outer)
                if rest is not None and rest.value:
                    yield from self._schemas(ours.at(name), rest)
                elif not self._answers or rest is None:
                    what = "may be there now, and nothing but what was named could be" if self._answers else "is gone"
                    yield self._found(ours.at(name), theirs.at(name), what)
            else:
                rest = _rest(inner)
                if rest is not None and rest.value:
                    yield from self._schemas(rest, theirs.at(name))
                elif self._answers:
                    yield self._found(ours.at(name), theirs.at(name), "is gone")

    def _required(self, inner: Node, outer: Node) -> Iterator[Finding]:
        ours, theirs = inner.at("properties"), outer.at("properties")
        for name in outer.value.get("required", ()):
            if name in inner.value.get("required", ()) or (self._answers and name not in ours.value):
                continue
            what = "is not always there any more" if self._answers else "has to be given now"
            yield self._found(ours.at(name), theirs.at(name), what)

    def _further(self, inner: Node, outer: Node) -> Iterator[Finding]:
        """Properties that neither names."""
        ours, theirs = _rest(inner), _rest(outer)
        if ours is not None and theirs is not None:
            yield from self._schemas(ours, theirs)
        elif ours is not None:
            what = "there may be further properties now" if self._answers else "further properties are no longer taken"
            yield self._found(inner, outer, what)

    def _names(self, inner: Node, outer: Node) -> Iterator[Finding]:
        """What properties may be called."""
        ours, theirs = (
            Node(f"{each.place}/propertyNames", {"type": "string", **each.value.get("propertyNames", {})})
            for each in (inner, outer)
        )
        yield from self._schemas(ours, theirs)

    def _changed(self, inner: Node, outer: Node, keyword: str) -> Finding:
        accepted, current = (outer, inner) if self._answers else (inner, outer)
        before, now = (_said(side.value.get(keyword)) for side in (accepted, current))
        return self._found(inner, outer, f"{keyword} was {before} and is {now}")

    def _found(self, inner: Node, outer: Node, what: str) -> Finding:
        return Finding((outer if self._answers else inner).place, f"{self._direction}: {what}")


def _said(value: object) -> str:
    """A keyword's value in a message."""
    return "none" if value is None else repr(value)


def _takes(outer: str, inner: str) -> bool:
    return outer == inner or (outer, inner) == ("number", "integer")


def _rest(node: Node) -> Node | None:
    """The schema of properties without a name; None: there are none."""
    further = node.value.get("additionalProperties", {})
    if further is False:
        return None
    schema = {} if further is True else {name: each for name, each in further.items() if name not in _ANNOTATIONS}
    return Node(f"{node.place}/additionalProperties", schema)


def _unknown(node: Node) -> set[str]:
    return set(node.value) - _KNOWN - _BOUNDS - _ANNOTATIONS


def _ones(document: Mapping[str, Any], node: Node) -> Iterator[_One]:
    """The alternatives of a schema, with what is said beside `anyOf` in each."""
    node = resolved(document, node)
    types = _types(node.value)
    if "anyOf" not in node.value:
        yield from (_One(each, node) for each in types)
        return
    beside = {name: value for name, value in node.value.items() if name not in _ANNOTATIONS | {"anyOf", "type"}}
    for number, branch in enumerate(node.value["anyOf"]):
        for one in _ones(document, Node(f"{node.place}/anyOf/{number}", branch)):
            fitting = [each for each in types if _takes(each, one.type) or _takes(one.type, each)]
            for each in fitting[:1]:
                narrower = each if each == "integer" else one.type
                yield _One(narrower, Node(one.node.place, {**beside, **one.node.value}))


def _types(schema: Mapping[str, Any]) -> list[str]:
    """That a value may have."""
    if "type" in schema:
        said = schema["type"]
        return [said] if isinstance(said, str) else list(said)
    if "enum" in schema:
        return list(dict.fromkeys(_type_of(value) for value in schema["enum"]))
    return list(_EVERY)


def _type_of(value: object) -> str:
    for known, name in ((type(None), "null"), (bool, "boolean"), (str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, known):
            return name
    return "array" if isinstance(value, list) else "object"
