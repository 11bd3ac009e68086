"""`/docs`: the same document as a page that needs nothing from anywhere."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Annotated

import msgspec
import pytest

from chassis.http.access import bearer, public
from chassis.http.api_docs.fields import Field, Schemas
from chassis.http.api_docs.page import content_security_policy, curl_command, render_page
from chassis.http.openapi import Endpoint, build_document
from chassis.http.route import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from tests.chassis.conftest import Serve

from .test_openapi import LIST, MAKE, THINGS, described

VOID = {"meta", "wbr"}


class Reader(HTMLParser):
    """Ids, links and texts of a page; a tag that is not closed where it should be is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        assert not any(name.startswith("on") or name in ("style", "src") for name in given)
        if given.get("id"):
            self.ids.append(given["id"] or "")
        if given.get("href"):
            self.links.append(given["href"] or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def read(body: bytes) -> Reader:
    reader = Reader()
    reader.feed(body.decode())
    reader.close()
    assert reader.open == []
    return reader


def shown(*endpoints: Endpoint) -> Reader:
    return read(render_page(build_document("Test", "A test.", endpoints)))


def test_the_page_shows_an_operation_whole() -> None:
    seen = shown(described(LIST, doc="List things.\n\nAll `of` them."), described(MAKE, "POST", doc="Make a thing."))
    for text in (
        "/orgs/{orgSlug}/things",
        "List things",
        "All of them.",
        "bearerAuth with scope explore:read",
        "1 to 200; default 50",
        "[].itsColour.name",
        "at most 10 characters",
        "The things.",
        "What was left out.",
        "x-ratelimit-remaining",
        "429 Too Many Requests",
        "Retry-After",
        "error.details[].code",
        "count optional",
        "409 Conflict",
    ):
        assert text in seen.text, text


def test_links_lead_somewhere_and_nothing_is_loaded() -> None:
    seen = shown(described(LIST), described(MAKE, "POST"))
    assert len(seen.ids) == len(set(seen.ids))
    assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.ids)
    assert [link for link in seen.links if not link.startswith("#")] == ["openapi.json"]
    assert not seen.tags & {"script", "link", "img", "iframe", "form", "object"}


def test_whatever_the_document_says_is_text() -> None:
    said = "<script>alert('x')</script> & <b>"
    operation = Operation(
        "x",
        Tag(said, said),
        (ResponseSpec(said, json_content(str)),),
        (Parameter("q", "query", Annotated[str, msgspec.Meta(pattern="<i>")], said, default="</code>", example=said),),
    )
    seen = shown(Endpoint("GET", "/<b>", public(), said, operation))
    assert "script" not in seen.tags
    assert "i" not in seen.tags
    assert seen.text.count(said) >= 5


def test_the_policy_allows_the_style_of_the_page_and_nothing_else() -> None:
    (style,) = re.findall(
        "<style>(.*?)</style>", render_page(build_document("Test", "A test.", [described(LIST)])).decode(), re.DOTALL
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    directives = dict(part.strip().split(" ", 1) for part in content_security_policy().split(";"))
    assert directives == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "style-src": f"'sha256-{digest}'",
    }
    assert "url(" not in style
    assert "@import" not in style


async def test_docs_are_served_under_their_policy(serve: Serve) -> None:
    served = await serve([])
    status, headers, body = await served.get("/docs")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"] == content_security_policy()
    assert headers["X-Content-Type-Options"] == "nosniff"
    made = json.loads((await served.get("/openapi.json"))[2])
    assert body == render_page(made)
    assert "Sluice test" in read(body).text


@pytest.mark.parametrize(
    ("schema", "type_", "bounds"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 200, "default": 50}, "integer", "1 to 200; default `50`"),
        ({"type": "string", "minLength": 1}, "string", "one or more characters"),
        ({"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 9}, "list of string",
         "at most 9 items; each at most 3 characters"),
        ({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}, "number or null", "at least 0"),
        ({"enum": ["a", "b"]}, "string", "`a`, `b`"),
        ({"$ref": "#/components/schemas/Thing"}, "Thing", ""),
        ({"anyOf": [{"$ref": "#/components/schemas/Thing"}, {"type": "null"}]}, "Thing or null", ""),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Thing"}, "maxItems": 9}, "list of Thing",
         "at most 9 items"),
        ({"type": ["number", "null"]}, "number or null", ""),
        ({"type": "string", "format": "date-time", "pattern": "^2"}, "string", "date-time"),
        ({"description": "Any JSON value."}, "any", ""),
        ({"type": "string", "pattern": "^a$"}, "string", "`^a$`"),
        ({"type": "string", "pattern": "a" * 100}, "string", ""),
    ],
)  # fmt: skip
def test_types_and_bounds_in_words(schema: dict[str, object], type_: str, bounds: str) -> None:
    schemas = Schemas({"components": {"schemas": {"Thing": {"type": "object", "properties": {}}}}})
    assert (schemas.type_of(schema), schemas.bounds_of(schema)) == (type_, bounds)


def test_a_structure_inside_itself_is_opened_once() -> None:
    tree = {
        "type": "object",
        "properties": {"leaves": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    schemas = Schemas({"components": {"schemas": {"Tree": tree}}})
    assert schemas.fields({"$ref": "#/components/schemas/Tree"}) == [Field("leaves", "list of Tree", "", False, "")]


def test_an_example_can_be_pasted_into_a_shell() -> None:
    hours = Parameter("q", "query", str, "It.", example="it's >1")
    operation = Operation("find", THINGS, (ResponseSpec("Found.", json_content(str)),), (hours,))
    made = build_document("Test", "A test.", [described(operation)])["paths"]["/orgs/{orgSlug}/things"]
    assert shlex.split(curl_command("get", "/orgs/{orgSlug}/things", made["get"]).replace("\\\n", "")) == [
        "curl",
        "-G",
        "$BASE/orgs/$ORG_SLUG/things",
        "-H",
        "Authorization: Bearer $TOKEN",
        "--data-urlencode",
        "q=it's >1",
    ]


def test_an_example_of_a_body_is_in_the_command() -> None:
    wish = Body(json_content(dict[str, int]), example={"count": 2})
    operation = Operation("wish", THINGS, (ResponseSpec("Made.", json_content(str)),), body=wish)
    endpoint = Endpoint("POST", "/wishes", bearer("explore:read"), "Wish.", operation)
    made = build_document("Test", "A test.", [endpoint])["paths"]["/wishes"]["post"]
    command = shlex.split(curl_command("post", "/wishes", made).replace("\\\n", ""))
    assert command[-4:] == ["-H", "Content-Type: application/json", "--data-binary", '{"count": 2}']
