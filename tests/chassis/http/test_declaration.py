"""A declared handler: what it is called with, what its response is, what the document says of it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest
from aiohttp import web
from msgspec import Meta

from chassis.errors import Conflict
from chassis.http.access import public
from chassis.http.declaration import (
    Argument,
    Arguments,
    ChecksQuery,
    Created,
    PageOf,
    declared_routes,
    route,
)
from chassis.http.openapi import Endpoint, build_document
from chassis.http.route import Body, Operation, Parameter, Query, ResponseSpec, Tag, form, json_content, line, read_as
from chassis.http.validation import Issues, decode_body, read_json
from tests.chassis.conftest import Serve

THINGS = Tag("things", "What there is.")
PATH = "/things/{thingId}"


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """What to make."""

    name: str


class Thing(msgspec.Struct, rename="camel"):
    """A thing.

    It has more to say.
    """

    thing_name: str


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def read_size(text: str, path: str, issues: Issues) -> int | None:
    if text in ("S", "L"):
        return {"S": 1, "L": 3}[text]
    issues.add(path, "Must be S or L.", "format")
    return None


class Wanted(Query, frozen=True, rename="camel"):
    colour: Annotated[Colour | None, Meta(description="Of this colour.")] = None
    most_mm: Annotated[int, Meta(ge=1, le=9), Meta(description="At most so long.", examples=[3])] = 5
    is_new: Annotated[bool | None, Meta(description="New, or not.")] = None
    title: Annotated[str | None, line(5), Meta(description="With this title.")] = None
    size: Annotated[int | None, read_as(read_size, 2), Meta(description="S or L.")] = None

    def check(self, issues: Issues) -> None:
        if self.colour is Colour.RED and self.is_new:
            issues.add("query.isNew", "Nothing red is new.", "range")


class Said(list[str]):
    """What has happened, in order."""


class Book(ChecksQuery):
    async def read(self) -> None:
        issues = Issues()
        issues.add("query.cursor", "Is of another list.", "invalid")
        issues.raise_if_any()


class Unknown:
    pass


@dataclass
class Things:
    said: Said = field(default_factory=Said)

    @route("GET", PATH, public(), page="Shelf")
    async def list_things(self, thing_id: str, wanted: Wanted) -> PageOf[Thing]:
        """List things.

        Newest first.
        """
        return PageOf(
            [Thing(f"{thing_id} {wanted.colour} {wanted.most_mm} {wanted.is_new} {wanted.title} {wanted.size}")],
            None,
            False,
        )

    @route("POST", PATH, public(), status=202, errors=(409,), example={"name": "x"}, compress=True)
    async def make_thing(self, said: Said, body: Wish) -> Thing:
        """Make a thing."""
        said.append(body.name)
        if body.name == "taken":
            raise Conflict("It is taken.")
        return Thing(body.name)

    @route("PUT", PATH, public())
    async def put_thing(self, body: Wish) -> Created[Thing] | Thing:
        """Put a thing in its place."""
        return Created(Thing(body.name)) if body.name == "new" else Thing(body.name)

    @route("DELETE", PATH, public())
    async def delete_thing(self, thing_id: str) -> None:
        """Delete a thing."""

    @route("PATCH", PATH, public(), responses=(ResponseSpec("A text."),))
    async def patch_thing(self, request: web.Request, book: Book, wanted: Wanted) -> web.StreamResponse:
        """Answer by hand."""
        if request.query:
            await book.read()
        return web.Response(text=f"{request.method} {wanted.most_mm}")


class Named(Query, frozen=True):
    code: Annotated[str | None, form("[a-z]{2}", "Must be two letters."), Meta(description="Its code.")] = None


class Reports:
    @route("POST", "/reports", public(), body=Body(json_content(Wish)))
    async def report_thing(self, _named: Named, request: web.Request) -> None:
        """Read the body by itself."""
        decode_body(Wish, await request.read())


class Paints:
    @route("GET", "/paints/{colour}", public(), only_errors=(404,))
    async def show_paint(self, colour: Colour) -> Thing:
        """Show a paint."""
        return Thing(colour)


class Lost:
    @route("GET", PATH, public())
    async def find(self, where: Unknown) -> None: ...


def arguments(said: Said) -> Arguments:
    @asynccontextmanager
    async def noted() -> AsyncIterator[Said]:
        said.append("begin")
        try:
            yield said
        except BaseException as error:
            said.append(type(error).__name__)
            raise
        said.append("commit")

    async def note(_request: web.Request, stack: AsyncExitStack) -> Said:
        return await stack.enter_async_context(noted())

    async def book(_request: web.Request, _stack: AsyncExitStack) -> Book:
        return Book()

    async def colour(request: web.Request, _stack: AsyncExitStack) -> Colour:
        return Colour(request.match_info["colour"])

    async def body(request: web.Request, type_: type[Any]) -> Any:
        return await read_json(request, type_, max_bytes=100, timeout_s=5.0)

    shelf = Parameter("shelf", "query", str, "Where it stands.")
    return Arguments(
        body,
        lambda request, name: request.match_info[name].upper(),
        {
            Said: Argument(note),
            Book: Argument(book, (shelf,)),
            Colour: Argument(colour, (Parameter("colour", "path", Colour, "A colour."),)),
        },
    )


async def test_a_handler_gets_what_its_signature_says_and_its_result_is_the_response(serve: Serve) -> None:
    things = Things()
    served = await serve(declared_routes(things, THINGS, arguments(things.said)))

    async def call(method: str, query: str = "", **body: Any) -> tuple[int, Any]:
        status, _, answer = await served.request(method, f"/things/a{query}", **body)
        return status, msgspec.json.decode(answer) if answer.startswith(b"{") else answer.decode()

    async def faults(method: str, query: str) -> list[tuple[str, str]]:
        status, answer = await call(method, query)
        assert status == 400
        return [(issue["path"], issue["code"]) for issue in answer["error"]["details"]]

    page = {"data": [{"thingName": "A red 9 False t 3"}], "nextCursor": None, "hasMore": False}
    assert await call("GET", "?colour=red&mostMm=9&isNew=false&title=t&size=L") == (200, page)
    assert (await call("GET"))[1]["data"] == [{"thingName": "A None 5 None None None"}]
    assert await faults("GET", "?colour=green&mostMm=0&isNew=1&title=%00&size=M") == [
        ("query.colour", "not_allowed"),
        ("query.mostMm", "too_small"),
        ("query.isNew", "not_allowed"),
        ("query.title", "format"),
        ("query.size", "format"),
    ]
    assert await faults("GET", "?colour=red&isNew=true") == [("query.isNew", "range")]
    assert await faults("GET", "?title=toolong&colour=red&colour=red") == [
        ("query.colour", "repeated"),
        ("query.title", "too_long"),
    ]
    assert await faults("PATCH", "?mostMm=x") == [("query.mostMm", "type"), ("query.cursor", "invalid")]
    assert await call("PATCH") == (200, "PATCH 5")

    assert await call("POST", json={"name": "lamp"}) == (202, {"thingName": "lamp"})
    assert (await call("POST", json={"name": "taken"}))[0] == 409
    assert (await call("POST", json={"nam": 1}))[0] == 400
    assert things.said == ["begin", "lamp", "commit", "begin", "taken", "Conflict", "begin", "BadRequest"]
    assert await call("PUT", json={"name": "new"}) == (201, {"thingName": "new"})
    assert await call("PUT", json={"name": "old"}) == (200, {"thingName": "old"})
    assert await call("DELETE") == (204, "")


def operations() -> dict[str, Any]:
    routes = declared_routes(Things(), THINGS, arguments(Said()))
    assert [(each.method, each.compress) for each in routes] == [
        *(("GET", None), ("POST", True), ("PUT", None), ("DELETE", None), ("PATCH", None))
    ]
    described = list[tuple[str, Operation]]()
    for each in routes:
        assert each.operation is not None
        described.append((each.method, each.operation))
    document = build_document(
        "Test", "A test.", [Endpoint(method, PATH, public(), one.description, one) for method, one in described]
    )
    assert {"Thing", "Wish", "Shelf"} <= set(document["components"]["schemas"])
    found: dict[str, Any] = document["paths"][PATH]
    return found


def test_the_document_says_what_the_signature_says() -> None:
    found = operations()
    listed = found["get"]
    assert (listed["operationId"], listed["summary"], listed["description"]) == (
        "listThings",
        "List things",
        "Newest first.",
    )
    assert [(each["name"], each["in"], each["required"], each["schema"]) for each in listed["parameters"]] == [
        ("thingId", "path", True, {"type": "string", "minLength": 1}),
        ("colour", "query", False, {"$ref": "#/components/schemas/Colour"}),
        ("mostMm", "query", False, {"type": "integer", "minimum": 1, "maximum": 9, "default": 5}),
        ("isNew", "query", False, {"type": "boolean"}),
        ("title", "query", False, {"type": "string", "minLength": 1, "maxLength": 5}),
        ("size", "query", False, {"type": "string", "minLength": 1, "maxLength": 2}),
    ]
    assert (listed["parameters"][2]["description"], listed["parameters"][2]["example"]) == ("At most so long.", 3)
    made = found["post"]
    content = {"schema": {"$ref": "#/components/schemas/Wish"}, "example": {"name": "x"}}
    assert made["requestBody"] == {"required": True, "content": {"application/json": content}}
    assert sorted(made["responses"]) == ["202", "400", "409", "413", "415", "500"]
    assert made["responses"]["202"]["description"] == "A thing."
    assert sorted(found["put"]["responses"])[:2] == ["200", "201"]
    assert min(found["delete"]["responses"]) == "204"
    assert [each["name"] for each in found["patch"]["parameters"]][:3] == ["thingId", "shelf", "colour"]


async def test_what_a_service_offers_for_a_type_reads_and_describes_a_variable_of_the_path(serve: Serve) -> None:
    routes = declared_routes(Paints(), THINGS, arguments(Said()))
    status, _, answer = await (await serve(routes)).request("GET", "/paints/red")
    assert (status, msgspec.json.decode(answer)) == (200, {"thingName": "red"})
    (operation,) = (each.operation for each in routes)
    assert operation is not None
    assert [(each.name, each.type) for each in operation.parameters] == [("colour", Colour)]
    assert operation.only_error_statuses == (404,)


def test_a_parameter_that_no_service_offers_is_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match="the service provides no value for the type of where"):
        declared_routes(Lost(), THINGS, arguments(Said()))


async def test_faults_of_the_query_are_raised_with_those_of_a_body_that_the_handler_reads(serve: Serve) -> None:
    served = await serve(declared_routes(Reports(), THINGS, arguments(Said())))
    status, _, answer = await served.request("POST", "/reports?code=abc", json={"name": 1})
    issues = [(each["path"], each["message"]) for each in msgspec.json.decode(answer)["error"]["details"]]
    assert (status, issues) == (
        400,
        [("query.code", "Must be two letters."), ("body.name", "Expected string, got integer.")],
    )
    assert (await served.request("POST", "/reports?code=ab", json={"name": "lamp"}))[0] == 204
