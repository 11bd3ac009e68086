"""`/openapi.json`: what routes say of themselves becomes one valid OpenAPI 3.1 document."""

import json
from typing import Annotated, Any, cast

import msgspec
import pytest
from aiohttp import web
from openapi_spec_validator import validate

from chassis.http.access import Access, Guards, anonymous, bearer, project_key, public
from chassis.http.openapi import Endpoint, build_document
from chassis.http.route import Body, ErrorSpec, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import Route
from tests.chassis.conftest import Serve

from .test_web import RecordingBearer, RecordingKey, ok

RATE = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
THINGS = Tag("things", "What an organization has.")


class Colour(msgspec.Struct):
    """A colour."""

    name: Annotated[str, msgspec.Meta(max_length=10)]


class Thing(msgspec.Struct, rename="camel"):
    """A thing."""

    its_colour: Colour
    size_mm: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "number", "minimum": 0})]
    rest: dict[str, object]


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """What to make."""

    name: str
    count: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1


LIST = Operation(
    "listThings",
    THINGS,
    (ResponseSpec("The things.", json_content(list[Thing]), headers={"X-Cut": "What was left out."}),),
    (Parameter("limit", "query", Annotated[int, msgspec.Meta(ge=1, le=200)], "How many.", default=50),),
)
MAKE = Operation(
    "makeThing",
    THINGS,
    (ResponseSpec("It is made.", json_content(Thing), 201),),
    body=Body(json_content(Wish)),
    error_statuses=(409,),
)
SEND = Operation(
    "send",
    Tag("ingestion", "In."),
    (ResponseSpec("Taken.", {"application/x-protobuf": None}),),
    body=Body({"application/x-protobuf": None}),
    error_spec=ErrorSpec("Otlp", {"application/x-protobuf": None}),
)


def described(operation: Operation, method: str = "GET", access: Access | None = None, doc: str = "Do it.") -> Any:
    return Endpoint(method, "/orgs/{orgSlug}/things", access or bearer("explore:read"), doc, operation)


def operation_of(endpoint: Endpoint) -> Any:
    made = build_document("Test", "A test.", [endpoint])
    validate(cast("Any", made))
    return made["paths"][endpoint.path][endpoint.method.lower()]


def test_an_operation_says_what_its_types_say() -> None:
    operation = operation_of(described(LIST, doc="List things.\n\n        At length.\n        "))
    refusals = {"400": "BadRequest", "401": "Unauthorized", "403": "Forbidden", "404": "NotFound"}
    refusals |= {"429": "RateLimited", "500": "InternalError", "503": "ServiceUnavailable"}
    slug = {"schema": {"type": "string", "minLength": 1}}
    assert operation == {
        "operationId": "listThings",
        "tags": ["things"],
        "summary": "List things",
        "description": "At length.",
        "parameters": [
            {"name": "orgSlug", "in": "path", "required": True, "description": "The organization's slug."} | slug,
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "description": "How many.",
                "schema": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
            },
        ],
        "security": [{"bearerAuth": ["explore:read"]}],
        "responses": {
            "200": {
                "description": "The things.",
                "headers": {
                    **{name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *sorted(RATE))},
                    "X-Cut": {"description": "What was left out.", "schema": {"type": "string"}},
                },
                "content": {
                    "application/json": {
                        "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
                    }
                },
            },
            **{status: {"$ref": f"#/components/responses/{name}"} for status, name in refusals.items()},
        },
    }


def test_structures_are_components_with_their_bounds() -> None:
    schemas = build_document("Test", "A test.", [described(LIST)])["components"]["schemas"]
    assert schemas["Thing"] == {
        "title": "Thing",
        "description": "A thing.",
        "type": "object",
        "properties": {
            "itsColour": {"$ref": "#/components/schemas/Colour"},
            "sizeMm": {"type": "number", "minimum": 0},
            "rest": {"type": "object", "additionalProperties": {"description": "Any JSON value."}},
        },
        "required": ["itsColour", "sizeMm", "rest"],
    }
    assert set(schemas) == {"Thing", "Colour", "Error", "ErrorBody", "ErrorCode", "Issue"}


def test_a_body_brings_its_own_refusals() -> None:
    operation = operation_of(described(MAKE, "POST"))
    assert operation["requestBody"] == {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Wish"}}},
    }
    assert set(operation["responses"]) == {"201", "400", "401", "403", "404", "409", "413", "415", "429", "500", "503"}


def test_a_refusal_that_may_be_tried_again_says_when() -> None:
    responses = build_document("Test", "A test.", [described(LIST)])["components"]["responses"]
    assert set(responses["RateLimited"]["headers"]) == {"X-Request-Id", "Retry-After", *RATE}
    assert {"X-Request-Id", "Retry-After"} < set(responses["ServiceUnavailable"]["headers"])
    assert responses["NotFound"]["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


def test_every_answer_to_a_good_token_tells_how_its_limit_stands() -> None:
    """No other does: what asks for no credential is not counted, and shares no refusal with what does."""
    look = Endpoint("GET", "/look", public(), "Look.", Operation("look", THINGS, (ResponseSpec("Seen."),)))
    made = build_document("Test", "A test.", [described(MAKE, "POST"), look])
    responses = made["components"]["responses"]
    told = {name for name, answer in responses.items() if RATE <= set(answer["headers"])}
    assert set(responses) - told == {"Unauthorized", "PublicBadRequest", "PublicInternalError"}
    assert {"BadRequest", "Forbidden", "NotFound", "Conflict", "PayloadTooLarge", "InternalError"} < told
    assert set(made["paths"]["/look"]["get"]["responses"]["200"]["headers"]) == {"X-Request-Id"}
    assert RATE < set(made["paths"]["/orgs/{orgSlug}/things"]["post"]["responses"]["201"]["headers"])


def test_so_does_every_answer_to_who_comes_for_a_credential() -> None:
    come = Operation("come", THINGS, (ResponseSpec("Here."),), error_statuses=(401,))
    made = build_document(
        "Test", "A test.", [described(MAKE, "POST"), Endpoint("GET", "/come", anonymous(), "Come.", come)]
    )
    answers = made["paths"]["/come"]["get"]["responses"]
    assert set(answers) == {"200", "400", "401", "429", "500", "503"}
    assert made["paths"]["/come"]["get"]["security"] == []
    told = made["components"]["responses"]
    for status, answer in answers.items():
        headers = told[answer["$ref"].rpartition("/")[2]]["headers"] if "$ref" in answer else answer["headers"]
        assert RATE <= set(headers), status
    assert not RATE & set(told["Unauthorized"]["headers"])


def test_so_does_every_answer_to_a_good_project_key() -> None:
    made = build_document("Test", "A test.", [described(SEND, "POST", project_key())])
    responses = made["components"]["responses"]
    assert {name for name, answer in responses.items() if not RATE <= set(answer["headers"])} == {"OtlpUnauthorized"}
    limited = responses["OtlpRateLimited"]
    assert set(limited["headers"]) == {"X-Request-Id", "Retry-After", *RATE}
    assert all(code in limited["description"] for code in ("`rate_limited`", "`quota_exceeded`"))
    sent = made["paths"]["/orgs/{orgSlug}/things"]["post"]["responses"]
    assert RATE < set(next(answer for answer in sent.values() if "$ref" not in answer)["headers"])


def test_paths_that_refuse_in_their_own_way_have_refusals_of_their_own() -> None:
    made = build_document("Test", "A test.", [described(LIST), described(SEND, "POST", project_key())])
    validate(cast("Any", made))
    assert made["components"]["responses"]["OtlpForbidden"]["content"] == {"application/x-protobuf": {}}
    security = made["paths"]["/orgs/{orgSlug}/things"]["post"]["security"]
    assert security == [{"legacyAuth": []}, {"dsnAuth": []}, {"legacyKeyQuery": []}]
    assert set(made["components"]["securitySchemes"]) == {"bearerAuth", "legacyAuth", "dsnAuth", "legacyKeyQuery"}
    assert [tag["name"] for tag in made["tags"]] == ["things", "ingestion"]


def test_an_answer_of_its_own_stands_for_the_refusal_of_its_status() -> None:
    away = ResponseSpec("It is away.", json_content(Colour), 503)
    operation = operation_of(described(Operation("look", THINGS, (away,)), "HEAD", public()))
    assert operation["operationId"] == "lookHead"
    assert operation["security"] == []
    assert operation["responses"]["503"]["content"] == {}  # an answer to HEAD has no body


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="duplicate operation id: listThings"):
        build_document("Test", "A test.", [described(LIST), described(LIST, "PUT")])

    other = msgspec.defstruct("Thing", [("name", str)])
    again = Operation("other", THINGS, (ResponseSpec("Another.", json_content(other)),))
    with pytest.raises(ValueError, match="different schemas have the name Thing"):
        build_document("Test", "A test.", [described(LIST), described(again, "PUT")])


async def test_a_process_describes_its_routes_and_itself(serve: Serve) -> None:
    async def listed(_request: web.Request) -> web.Response:
        """List things."""
        return web.Response()

    routes = [
        Route("GET", "/orgs/{orgSlug}/things", listed, bearer("explore:read"), operation=LIST),
        Route("POST", "/v1/traces", ok, project_key(), operation=SEND),
    ]
    served = await serve(routes, guards=Guards(bearer=RecordingBearer(), project_key=RecordingKey()))
    status, headers, body = await served.get("/openapi.json")
    made = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert made["openapi"] == "3.1.0"
    validate(made)
    read = {path: {"get"} for path in ("/orgs/{orgSlug}/things", "/metrics", "/openapi.json", "/docs")}
    probed = {path: {"get", "head"} for path in ("/livez", "/readyz")}
    assert {path: set(item) for path, item in made["paths"].items()} == {"/v1/traces": {"post"}} | read | probed
    assert made["paths"]["/orgs/{orgSlug}/things"]["get"]["summary"] == "List things"
    assert (await served.get("/openapi.json"))[2] == body
