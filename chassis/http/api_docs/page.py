"""Render an OpenAPI document as one HTML page, which has no scripts and loads no resources.

The page has a curl command for each operation. Values that have an example are filled in. The base URL, credentials and
other path parameters are shell variables, and a body without an example is the file `body`.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple

from chassis.http.api_docs.fields import Markup, Schemas, concat, element, inline, paragraphs, table

_CAMEL_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_IN_PATH: Final = re.compile(r"{(\w+)}")
_HEADERS: Final = {
    "bearerAuth": "Authorization: Bearer $TOKEN",
    "legacyAuth": "X-Legacy-Auth: Legacy legacy_key=$KEY",
}
_JSON: Final = "application/json"


def curl_command(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """The command, one option per line."""
    parameters = operation.get("parameters", ())
    query = [each for each in parameters if each["in"] == "query" and "example" in each]
    flags = {"get": "-G " if query else "", "head": "-I "}.get(method, f"-X {method.upper()} ")
    words = [f'curl {flags}"$BASE{_fill_path(path, parameters)}"']
    words += [f'-H "{_HEADERS[name]}"' for name in _first_credential(operation)]
    words += [f"--data-urlencode {_shell_quote(_pair(each))}" for each in query]
    words += _body(operation.get("requestBody"))
    return " \\\n     ".join(words)


def _fill_path(path: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    examples = {each["name"]: str(each["example"]) for each in parameters if "example" in each}
    return _IN_PATH.sub(lambda match: examples.get(match[1]) or f"${_CAMEL_BOUNDARY.sub('_', match[1]).upper()}", path)


def _first_credential(operation: Mapping[str, Any]) -> list[str]:
    return [name for name in next(iter(operation["security"]), {}) if name in _HEADERS]


def _body(body: Mapping[str, Any] | None) -> list[str]:
    if body is None:
        return []
    media = _JSON if _JSON in body["content"] else next(iter(body["content"]))
    content = body["content"][media]
    data = _shell_quote(json.dumps(content["example"], ensure_ascii=False)) if "example" in content else "@body"
    return [f'-H "Content-Type: {media}"', f"--data-binary {data}"]


def _pair(parameter: Mapping[str, Any]) -> str:
    return f"{parameter['name']}={parameter['example']}"


def _shell_quote(text: str) -> str:
    """The text in single quotes, escaped for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


_METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")


class _Entry(NamedTuple):
    method: str
    path: str
    operation: Mapping[str, Any]


class _Page:
    """Renders the parts of the page from the document."""

    def __init__(self, document: Mapping[str, Any], service: str) -> None:
        self._document = document
        self._service = service
        self._schemas = Schemas(document)
        self._entries = list(_entries(document))

    def render(self) -> Markup:
        """The `html` element."""
        info = self._document["info"]
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{info['title']} API"),
            element("style", Markup(_style())),
        )
        programs = f"OpenAPI document of {self._service} only: " if self._service else "OpenAPI document: "
        download = concat(
            "Version ", info["version"], f". {programs}", element("a", "openapi.json", href="openapi.json"), "."
        )
        header = element(
            "header", element("h1", info["title"]), paragraphs(info["description"]), element("p", download)
        )
        main = element(
            "main",
            header,
            *(self._tag_section(tag) for tag in self._document["tags"]),
            self._error_shapes(),
            self._credentials(),
        )
        return element("html", head, element("body", self._navigation(), main), lang="en")

    def _navigation(self) -> Markup:
        areas = []
        for tag in self._document["tags"]:
            lines = [
                element(
                    "li",
                    element(
                        "a", _method(each), " ", each.operation["summary"], href=f"#{each.operation['operationId']}"
                    ),
                )
                for each in self._entries_of(tag["name"])
            ]
            areas.append(
                concat(element("h2", element("a", tag["name"], href=f"#{_anchor(tag['name'])}")), element("ul", *lines))
            )
        others = (element("h2", element("a", name, href=f"#{name}")) for name in ("errors", "credentials"))
        return element("nav", *areas, *others)

    def _entries_of(self, tag: str) -> list[_Entry]:
        return [each for each in self._entries if each.operation["tags"] == [tag]]

    def _tag_section(self, tag: Mapping[str, str]) -> Markup:
        heading = element("h2", tag["name"], id=_anchor(tag["name"]))
        operations = (self._operation(each) for each in self._entries_of(tag["name"]))
        return element("section", heading, paragraphs(tag["description"]), *operations)

    def _operation(self, entry: _Entry) -> Markup:
        operation = entry.operation
        return element(
            "article",
            element("h3", element("a", operation["summary"], href=f"#{operation['operationId']}")),
            element("p", _method(entry), " ", _breakable_path(entry.path), class_="route"),
            paragraphs(operation.get("description", "")),
            self._security(operation),
            self._parameters(operation),
            self._body(operation),
            *self._responses(operation),
            self._error_responses(operation),
            element("h4", "Example"),
            element("pre", element("code", curl_command(entry.method, entry.path, operation))),
            id=operation["operationId"],
        )

    def _security(self, operation: Mapping[str, Any]) -> Markup:
        """The required credential, in one sentence."""
        needs = [
            concat(element("a", element("code", name), href=f"#{name}"), *(f" with scope {scope}" for scope in scopes))
            for alternative in operation["security"]
            for name, scopes in alternative.items()
        ]
        if not needs:
            return element("p", "No credential required.", class_="needs")
        return element("p", "Credential: ", *_interleave(needs, " or "), ".", class_="needs")

    def _parameters(self, operation: Mapping[str, Any]) -> Markup:
        rows = [
            (
                concat(element("code", each["name"]), _required(each["required"])),
                each["in"],
                self._type(each["schema"]),
                inline(each["description"]),
            )
            for each in operation["parameters"]
        ]
        return _with_title("Parameters", table(("Name", "In", "Type", "Meaning"), rows))

    def _body(self, operation: Mapping[str, Any]) -> Markup:
        if "requestBody" not in operation:
            return Markup()
        body = operation["requestBody"]
        content = (self._content(media, each, open_=True) for media, each in body["content"].items())
        return _with_title("Body", concat(paragraphs(body.get("description", "")), *content))

    def _responses(self, operation: Mapping[str, Any]) -> Iterator[Markup]:
        for status, response in operation["responses"].items():
            if "$ref" in response:
                continue
            content = (self._content(media, each, open_=False) for media, each in response["content"].items())
            headers = table(("Header", "Meaning"), self._headers(response))
            more = element("details", element("summary", "Headers"), headers) if headers else ""
            title = concat("Response ", _status(status))
            yield _with_title(title, concat(paragraphs(response["description"]), *content, more))

    def _headers(self, response: Mapping[str, Any]) -> list[tuple[str, ...]]:
        described = self._document["components"]["headers"]
        return [
            (element("code", name), inline({**described.get(name, {}), **header}["description"]))
            for name, header in response["headers"].items()
        ]

    def _error_responses(self, operation: Mapping[str, Any]) -> Markup:
        shared = self._document["components"]["responses"]
        rows: list[tuple[str, ...]] = []
        for status, response in operation["responses"].items():
            if "$ref" in response:
                found = shared[response["$ref"].rpartition("/")[2]]
                names = [element("code", name) for name in found["headers"]]
                rows.append((_status(status), inline(found["description"]), concat(*_interleave(names, " "))))
        shape = element("p", "Format: ", element("a", "errors", href="#errors"), ".")
        return _with_title("Errors", concat(table(("Status", "When", "Headers"), rows), shape) if rows else "")

    def _error_shapes(self) -> Markup:
        """The body structures of error responses, without repetitions."""
        shapes = {}
        for response in self._document["components"]["responses"].values():
            for media, content in response["content"].items():
                shapes[media, json.dumps(content)] = self._content(media, content, open_=True)
        return element("section", element("h2", "Errors", id="errors"), *shapes.values())

    def _content(self, media: str, content: Mapping[str, Any], *, open_: bool) -> Markup:
        """A media type with the fields of its structure and an example."""
        schema = content.get("schema", {})
        rows = [
            (
                concat(_breakable_path(each.path), _required(each.required)),
                _type_with_bounds(each.type, each.bounds),
                inline(each.description),
            )
            for each in self._schemas.fields(schema)
        ]
        name = self._schemas.type_of(schema) if schema else "bytes"
        title = concat(element("code", media), " ", name)
        example = element("pre", element("code", _json(content["example"]))) if "example" in content else ""
        if not rows:
            return concat(element("p", title), example)
        fields = table(("Field", "Type", "Meaning"), rows)
        description = paragraphs(str(self._schemas.resolve(schema).get("description", "")))
        return concat(
            element("details", element("summary", title), description, fields, open="open" if open_ else ""), example
        )

    def _type(self, schema: Mapping[str, Any]) -> Markup:
        return _type_with_bounds(self._schemas.type_of(schema), self._schemas.bounds_of(schema))

    def _credentials(self) -> Markup:
        schemes = self._document["components"]["securitySchemes"]
        rows = [
            (element("code", name, id=name), _credential_location(scheme), inline(scheme["description"]))
            for name, scheme in schemes.items()
        ]
        heading = element("h2", "Credentials", id="credentials")
        return element("section", heading, table(("Name", "Where", "How"), rows))


def render_page(document: Mapping[str, Any], service: str = "") -> bytes:
    """The page in UTF-8, which must be sent with `content_security_policy()`. `service` is the service that serves the
    page if the document describes several services. The `/openapi.json` of that service describes only that service.
    """
    return f"<!doctype html>\n{_Page(document, service).render()}\n".encode()


def content_security_policy() -> str:
    """The Content-Security-Policy of the page. It permits only the page's own style, by its hash."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    rest = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"{rest}; style-src 'sha256-{digest}'"


@cache
def _style() -> str:
    return files("chassis.http.api_docs").joinpath("style.css").read_text(encoding="utf-8")


def _entries(document: Mapping[str, Any]) -> Iterator[_Entry]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield _Entry(method, path, item[method])


def _with_title(title: str, content: str) -> Markup:
    return concat(element("h4", title), content) if content else Markup()


def _method(entry: _Entry) -> Markup:
    return element("b", entry.method.upper(), class_=f"method {entry.method}")


def _status(status: str) -> Markup:
    return concat(element("b", status), " ", HTTPStatus(int(status)).phrase)


def _breakable_path(path: str) -> Markup:
    """A path as code, with line breaks permitted before slashes and dots."""
    pieces = path.replace("/", "\0/").replace(".", "\0.").split("\0")
    return element("code", *_interleave(pieces, element("wbr")))


def _required(required: bool) -> Markup:
    return Markup() if required else concat(" ", element("small", "optional"))


def _type_with_bounds(type_: str, bounds: str) -> Markup:
    return concat(inline(type_), element("wbr"), " ", element("small", inline(bounds))) if bounds else inline(type_)


def _credential_location(scheme: Mapping[str, str]) -> str:
    return (
        f"header Authorization ({scheme['scheme']})" if scheme["type"] == "http" else f"{scheme['in']} {scheme['name']}"
    )


def _interleave(parts: Sequence[str], separator: str) -> Iterator[str]:
    for n, part in enumerate(parts):
        if n:
            yield separator
        yield part


def _anchor(tag: str) -> str:
    return f"area-{tag.replace(' ', '-')}"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
