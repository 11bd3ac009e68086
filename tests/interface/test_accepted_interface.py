"""Clients keep what they were promised: nothing of the interface goes or gets narrower without a page of docs/adr."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from sluice.interface import load_document
from tests import decisions
from tests.decisions import Allowance
from tests.interface import accepted
from tests.interface.accepted import Accepted, Refused, covers, renewed
from tests.interface.comparison import bare, findings
from tests.interface.containment import ECHOED, Containment, Direction, Finding, Node
from tests.interface.mutations import LARGER, NARROWER, OF_ANSWERS_TOO, OF_THE_WHOLE, WIDER, Kind, Site, sites
from tests.selection import scaled

SITES = scaled(1, 3)  # of each kind of change
ACCEPTED = bare(load_document())  # nothing changes it


def altered(part: Any, keys: Sequence[str | int], change: Callable[[Any], object]) -> Any:
    """A copy in which what these keys lead to is changed; it shares all else."""
    if not keys:
        fresh = msgspec.json.decode(msgspec.json.encode(part))
        change(fresh)
        return fresh
    copied = copy(part)
    copied[keys[0]] = altered(part[keys[0]], keys[1:], change)
    return copied


def test_nothing_of_the_interface_is_gone_or_narrower_without_a_decision() -> None:
    try:
        now = renewed(accepted.read(), load_document(), decisions.allowances(decisions.read(), "Interface"))
    except Refused as refused:
        pytest.fail(str(refused))
    assert accepted.read() == now, "make interface"  # in whichever order modules declare their routes


class Place(NamedTuple):
    """A schema, and an operation that it belongs to."""

    path: str
    method: str
    site: Site

    def document(self) -> Any:
        """The interface with this operation alone."""
        return ACCEPTED | {"paths": {self.path: {self.method: ACCEPTED["paths"][self.path][self.method]}}}

    def changed(self, kind: Kind) -> Any:
        """The same after a change of the schema."""
        return altered(self.document(), self.site.keys, kind.change)


@cache
def every_place() -> list[Place]:
    places = {
        (site.keys, site.direction): Place(path, method, site)
        for path, item in ACCEPTED["paths"].items()
        for method in item
        for site in sites(ACCEPTED, path, method)
    }
    return list(places.values())


def places(kind: Kind, direction: Direction, seed: str, *, of_the_whole: bool) -> list[Place]:
    """Some that the change can be made of; of every kind there are some."""
    fitting = [
        place
        for place in every_place()
        if place.site.direction == direction
        and kind.fits(place.site.of(ACCEPTED))
        and not (of_the_whole and place.site.in_union)
    ]
    return Random(seed).sample(fitting, min(SITES, len(fitting)))


def is_closed(place: Place) -> bool:
    """Whether the schema has no properties but those that it names."""
    return place.site.of(ACCEPTED).get("additionalProperties") is False


def checked(kind: Kind, direction: Direction, name: str, *, found: bool) -> None:
    for place in places(kind, direction, name, of_the_whole=name in OF_THE_WHOLE):
        if direction == "answer" and name == "property new" and is_closed(place):
            continue  # a client was promised that nothing else would be there
        seen = findings(place.document(), place.changed(kind))
        assert bool(seen) is found, (place, seen)
        assert all(finding.what.startswith(direction) for finding in seen), (place, seen)


@pytest.mark.sized
@pytest.mark.parametrize("name", NARROWER)
def test_a_narrower_request_is_found_and_an_answer_passes_unless_something_is_gone(name: str) -> None:
    assert places(NARROWER[name], "request", name, of_the_whole=name in OF_THE_WHOLE)
    checked(NARROWER[name], "request", name, found=True)
    checked(NARROWER[name], "answer", name, found=name in OF_ANSWERS_TOO)


@pytest.mark.sized
@pytest.mark.parametrize("name", WIDER)
def test_a_wider_answer_is_found_and_a_request_passes(name: str) -> None:
    checked(WIDER[name], "answer", name, found=True)
    checked(WIDER[name], "request", name, found=False)


@pytest.mark.sized
@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("direction", ["request", "answer"])
def test_larger_bounds_new_properties_and_other_words_pass(name: str, direction: Direction) -> None:
    checked(LARGER[name], direction, name, found=False)


@pytest.mark.parametrize(
    ("was", "now", "direction", "what"),
    [
        ({"type": "integer"}, {"type": "number"}, "request", ""),
        ({"type": "integer"}, {"type": "number"}, "answer", "number is new"),
        ({"type": "string"}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "request", ""),
        ({}, {"type": ["string", "null"]}, "request", "boolean, number, array, object is no longer taken"),
        ({"type": "array", "items": {"type": "array"}}, {"type": "array"}, "request", ""),
        ({"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}}, "answer", ""),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 5}},
            "request",
            "maxLength was none and is 5",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
            "answer",
            "integer is new",
        ),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}, "answer", "there may be further"),
        ({"type": "integer"}, {"type": "integer", "minimum": -1}, "request", "minimum was none and is -1"),
        (
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "number", "exclusiveMinimum": 1},
            "request",
            "exclusiveMinimum was 0 and is 1",
        ),
        ({"type": "number"}, {"type": "number", "maximum": 10**9}, "request", "maximum was none and is 1000000000"),
        ({"type": "array"}, {"type": "array", "maxItems": 10}, "request", "maxItems was none and is 10"),
        ({"type": "array"}, {"type": "array", "items": {}}, "request", ""),
        (
            {"type": "array"},
            {"type": "array", "items": {"type": "string"}},
            "request",
            "null, boolean, number, array, object is no longer taken",
        ),
        ({"enum": ["a", 1]}, {"enum": [1, "b", "a"]}, "request", ""),
        ({"anyOf": [{"type": "string", "oneOf": []}]}, {"type": "string"}, "request", "oneOf would have to be known"),
    ],
)
def test_a_schema_is_contained_in_another(was: Any, now: Any, direction: Direction, what: str) -> None:
    found = Containment({}, {}, direction).findings(Node("here", was), Node("here", now))
    assert [bool(finding.what) for finding in found] == ([True] if what else [])
    assert all(finding.what.startswith(f"{direction}: {what}") or what in finding.what for finding in found)


def test_a_schema_that_contains_itself_is_compared_to_its_end() -> None:
    was = msgspec.json.decode(
        b'{"a":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/a"},{"type":"null"}]},"id":{"type":"string"}}}}'
    )
    now = msgspec.convert(was, dict[str, Any])
    now = msgspec.json.decode(msgspec.json.encode(now).replace(b'"id":{"type":"string"', b'"id":{"type":"integer"'))
    node = Node("here", {"$ref": "#/a"})
    assert Containment(was, was, "request").findings(node, node) == []
    assert Containment(was, now, "answer").findings(node, node) == [
        Finding("#/a/properties/id", "answer: integer is new")
    ]


def test_what_an_answer_repeats_of_its_request_may_have_new_values() -> None:
    document = ACCEPTED
    for pointer in ECHOED:
        keys = (*pointer.removeprefix("#/").split("/"), "enum")
        document = altered(document, keys, lambda values: values.append("new"))
    assert findings(ACCEPTED, document) == []


CREATE = "/orgs/{orgSlug}/projects/{projectSlug}/explore/spans/aggregate"
LIST = "/orgs/{orgSlug}/projects/{projectSlug}/explore/spans"


Altered = Callable[[Any], Any]
# Where the operations are that are changed below; the others would be compared in vain.
FEW = ACCEPTED | {"paths": {path: ACCEPTED["paths"][path] for path in (CREATE, LIST, "/v1/traces")}}


def removed(*keys: str | int) -> Altered:
    *above, last = keys
    return lambda document: altered(document, above, lambda part: part.pop(last))


def put(value: object, *keys: str | int) -> Altered:
    *above, last = keys

    def change(part: Any) -> None:
        if isinstance(part, list):
            part.append(value)
        else:
            part[last] = value

    return lambda document: altered(document, above, change)


OPERATION = ("paths", LIST, "get")
PARAMETER = {"name": "new", "in": "query", "schema": {"type": "string"}}
GONE = {
    "path": (removed("paths", LIST), f"GET {LIST}: is gone"),
    "method": (removed(*OPERATION), f"GET {LIST}: is gone"),
    "parameter": (removed(*OPERATION, "parameters", -1), f"GET {LIST} parameters/query/"),
    "parameter required": (put(True, *OPERATION, "parameters", -1, "required"), f"GET {LIST} parameters/query/"),
    "new parameter required": (
        put({**PARAMETER, "required": True}, *OPERATION, "parameters", 0),
        f"GET {LIST} parameters/query/new: has to be given now",
    ),
    "parameter's form": (put("form", *OPERATION, "parameters", -1, "style"), f"GET {LIST} parameters/query/"),
    "body": (removed("paths", CREATE, "post", "requestBody"), f"POST {CREATE} requestBody: is gone"),
    "new body": (
        put({"required": True, "content": {}}, *OPERATION, "requestBody"),
        f"GET {LIST} requestBody: has to be given now",
    ),
    "body's type": (
        removed("paths", "/v1/traces", "post", "requestBody", "content", "application/json"),
        "POST /v1/traces requestBody/application/json: is gone",
    ),
    "status": (removed(*OPERATION, "responses", "429"), f"GET {LIST} responses/429: is gone"),
    "answer's type": (
        removed("paths", "/v1/traces", "post", "responses", "200", "content", "application/x-protobuf"),
        "POST /v1/traces responses/200/application/x-protobuf: is gone",
    ),
    "header": (
        removed("components", "responses", "BadRequest", "headers", "X-Request-Id"),
        "#/components/responses/BadRequest/headers/X-Request-Id: is gone",
    ),
    "header's form": (
        removed("components", "headers", "X-Request-Id", "schema", "pattern"),
        "#/components/headers/X-Request-Id/schema: answer: pattern was",
    ),
    "credential": (
        removed("paths", "/v1/traces", "post", "security", 0),
        "POST /v1/traces security: legacyAuth does not suffice any more",
    ),
    "scope": (
        put("new", *OPERATION, "security", 0, "bearerAuth", 0),
        f"GET {LIST} security: bearerAuth explore:read does not suffice any more",
    ),
    "scheme": (
        put("query", "components", "securitySchemes", "legacyAuth", "in"),
        "#/components/securitySchemes/legacyAuth: is another",
    ),
    "name": (put("other", *OPERATION, "operationId"), f"GET {LIST} operationId: was "),
}
NEW = {
    "path": put({"get": {"responses": {}}}, "paths", "/new"),
    "method": put({"responses": {}}, "paths", LIST, "put"),
    "parameter": put(PARAMETER, *OPERATION, "parameters", 0),
    "body": put({"content": {}}, *OPERATION, "requestBody"),
    "body's type": put({}, "paths", CREATE, "post", "requestBody", "content", "text/csv"),
    "status": put({}, *OPERATION, "responses", "418"),
    "answer's type": put({}, *OPERATION, "responses", "200", "content", "text/csv"),
    "header": put({"schema": {}}, "components", "responses", "BadRequest", "headers", "X-New"),
    "credential": put({"dsnAuth": []}, *OPERATION, "security", 0),
    "component": put({"type": "string"}, "components", "schemas", "New"),
}


@pytest.mark.parametrize("name", GONE)
def test_what_is_gone_of_an_operation_is_found(name: str) -> None:
    change, said = GONE[name]
    (found,) = findings(FEW, change(FEW))
    assert str(found).startswith(said)


@pytest.mark.parametrize("name", NEW)
def test_what_is_new_of_an_operation_passes(name: str) -> None:
    assert findings(FEW, NEW[name](FEW)) == []


def subjects(finding: Finding) -> Iterator[str]:
    yield from (str(finding), finding.place, "GET /a", "GET /a parameters", "GET /a parameters/query")


def test_a_line_covers_its_finding_and_what_is_below_its_place() -> None:
    finding = Finding("GET /a parameters/query/limit", "is gone")
    assert all(covers(subject, finding) for subject in subjects(finding))
    for other in ("GET /", "GET", "POST /a", "GET /a parameters/query/lim", f"{finding.place}: is new", "#/components"):
        assert not covers(other, finding)
    assert not covers("GET /a", Finding("GET /a/{id}", "is gone"))
    assert covers("#/components/schemas/A", Finding("#/components/schemas/A/properties/b", "request: is gone"))


def test_a_line_is_used_up_by_what_it_allowed() -> None:
    document = msgspec.json.decode(msgspec.json.encode(FEW))
    before = Accepted([], bare(document))
    line, unneeded = Allowance("018-lists", f"GET {LIST} parameters"), Allowance("018-lists", f"GET {LIST} responses")
    parameters = document["paths"][LIST]["get"]["parameters"]
    parameters.pop()
    with pytest.raises(Refused, match=r"parameters/query/.*: is gone"):
        renewed(before, document, [unneeded])
    after = renewed(before, document, [unneeded, line])
    assert after == Accepted([str(line)], bare(document))
    parameters.pop()
    with pytest.raises(Refused):
        renewed(after, document, [unneeded, line])
