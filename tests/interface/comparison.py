"""What of an accepted interface is gone or narrower in another document: `findings`.

- Of requests: a path, method, parameter, body or media type that is gone; a parameter or body that has to be given now;
  a schema that permits less (`containment`); a way to authenticate that is gone, and a scope that is needed now.
- Of answers: a status, header or media type that is gone, a header that is not always there any more, and a schema that
  permits what it did not.
- `operationId`: clients are generated with it.

A new status passes: a client knows what its first digit says (RFC 9110, section 15). So does a new media type of an
answer, as the client chooses it. A path whose words in braces are others is another one: they are arguments of
generated clients.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.interface.containment import Containment, Finding, Node, resolved

Document = Mapping[str, Any]

_PROSE: Final = frozenset({"title", "description", "summary", "tags", "default", "example", "examples"})
# Their members have names of ours, not keywords.
_NAMED: Final = frozenset({"content", "headers", "paths", "properties", "responses", "schemas", "securitySchemes"})
_OPERATION: Final = frozenset({"operationId", "parameters", "requestBody", "responses", "security"})
_PARAMETER: Final = frozenset({"name", "in", "required", "schema"})
_BODY: Final = frozenset({"required", "content"})
_ANSWER: Final = frozenset({"headers", "content"})
_HEADER: Final = frozenset({"required", "schema"})
_MEDIA: Final = frozenset({"schema"})


def bare(document: Document) -> dict[str, Any]:
    """What of a document is compared: without prose, servers and version."""
    kept = {name: document[name] for name in ("openapi", "paths", "components")}
    stripped: dict[str, Any] = _bare(kept, named=False)
    return stripped


def _bare(value: Any, *, named: bool) -> Any:
    if isinstance(value, list):
        return [_bare(each, named=False) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _bare(each, named=not named and name in _NAMED)
        for name, each in value.items()
        if named or name not in _PROSE
    }


def findings(accepted: Document, current: Document) -> list[Finding]:
    """Of two documents without prose, in the order of the accepted one, each once."""
    return list(dict.fromkeys(_Comparison(accepted, current).all()))


class _Comparison:
    def __init__(self, accepted: Document, current: Document) -> None:
        self._accepted = accepted
        self._current = current
        self._requests = Containment(accepted, current, "request")
        self._answers = Containment(accepted, current, "answer")

    def all(self) -> Iterator[Finding]:
        for path, item in self._accepted["paths"].items():
            for method, operation in item.items():
                now = self._current["paths"].get(path, {}).get(method)
                name = f"{method.upper()} {path}"
                if now is None:
                    yield Finding(name, "is gone")
                else:
                    yield from self._operation(name, operation, now)
        yield from self._schemes()

    def _operation(self, name: str, was: Document, now: Document) -> Iterator[Finding]:
        yield from _unknown(Node(name, was), Node(name, now), _OPERATION)
        if was.get("operationId") != now.get("operationId"):
            yield Finding(f"{name} operationId", f"was {was.get('operationId')} and is {now.get('operationId')}")
        yield from _security(f"{name} security", was.get("security", []), now.get("security", []))
        yield from self._parameters(f"{name} parameters", was, now)
        yield from self._body(f"{name} requestBody", was, now)
        for status, answer in was["responses"].items():
            before = resolved(self._accepted, Node(f"{name} responses/{status}", answer))
            if status not in now["responses"]:
                yield Finding(f"{name} responses/{status}", "is gone")
            else:
                after = resolved(self._current, Node(f"{name} responses/{status}", now["responses"][status]))
                yield from self._answer(before, after)

    def _parameters(self, place: str, was: Document, now: Document) -> Iterator[Finding]:
        before, after = (
            {f"{each['in']}/{each['name']}": each for each in operation.get("parameters", ())}
            for operation in (was, now)
        )
        for name, parameter in before.items():
            ours, theirs = Node(f"{place}/{name}", parameter), Node(f"{place}/{name}", after.get(name))
            if theirs.value is None:
                yield Finding(ours.place, "is gone")
                continue
            yield from _unknown(ours, theirs, _PARAMETER)
            if theirs.value.get("required") and not parameter.get("required"):
                yield Finding(ours.place, "has to be given now")
            yield from self._requests.findings(ours.at("schema"), theirs.at("schema"))
        for name, parameter in after.items():
            if name not in before and parameter.get("required"):
                yield Finding(f"{place}/{name}", "has to be given now")

    def _body(self, place: str, was: Document, now: Document) -> Iterator[Finding]:
        before, after = (Node(place, operation.get("requestBody")) for operation in (was, now))
        if before.value is not None and after.value is None:
            yield Finding(place, "is gone")
        elif after.value is not None:
            if after.value.get("required") and not (before.value or {}).get("required"):
                yield Finding(place, "has to be given now")
            if before.value is not None:
                yield from _unknown(before, after, _BODY)
                yield from self._contents(before, after, self._requests)

    def _answer(self, was: Node, now: Node) -> Iterator[Finding]:
        yield from _unknown(was, now, _ANSWER)
        yield from self._contents(was, now, self._answers)
        for name, header in was.value.get("headers", {}).items():
            before = resolved(self._accepted, Node(f"{was.place}/headers/{name}", header))
            if name not in now.value.get("headers", {}):
                yield Finding(f"{was.place}/headers/{name}", "is gone")
                continue
            after = resolved(self._current, now.at("headers", name))
            yield from _unknown(before, after, _HEADER)
            if before.value.get("required") and not after.value.get("required"):
                yield Finding(before.place, "is not always there any more")
            yield from self._answers.findings(before.at("schema"), after.at("schema"))

    def _contents(self, was: Node, now: Node, containment: Containment) -> Iterator[Finding]:
        """By media type."""
        for media, content in was.value.get("content", {}).items():
            before, after = Node(f"{was.place}/{media}", content), Node(f"{now.place}/{media}", None)
            if media not in now.value.get("content", {}):
                yield Finding(before.place, "is gone")
                continue
            after = after._replace(value=now.value["content"][media])
            yield from _unknown(before, after, _MEDIA)
            yield from containment.findings(before.at("schema"), after.at("schema"))

    def _schemes(self) -> Iterator[Finding]:
        """How credentials are sent."""
        before, after = (each["components"].get("securitySchemes", {}) for each in (self._accepted, self._current))
        for name, scheme in before.items():
            if after.get(name) != scheme:
                yield Finding(f"#/components/securitySchemes/{name}", "is gone" if name not in after else "is another")


def _security(place: str, was: list[dict[str, list[str]]], now: list[dict[str, list[str]]]) -> Iterator[Finding]:
    """Each way to authenticate must still do, with no further scope; none at all is a way, too."""
    for way in was or [{}]:
        if not any(
            other.keys() <= way.keys() and all(set(scopes) <= set(way[name]) for name, scopes in other.items())
            for other in now or [{}]
        ):
            said = " and ".join(f"{name} {' '.join(scopes)}".strip() for name, scopes in way.items()) or "no credential"
            yield Finding(place, f"{said} does not suffice any more")


def _unknown(was: Node, now: Node, known: frozenset[str]) -> Iterator[Finding]:
    """A keyword that this comparison does not know may narrow anything."""
    unknown = sorted((was.value.keys() | now.value.keys()) - known)
    if unknown:
        yield Finding(was.place, f"cannot be compared: {', '.join(unknown)} would have to be known")
