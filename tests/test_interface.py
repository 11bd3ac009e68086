"""The document of every deployment: each route is in it, whole, under names that clients can be generated with."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from openapi_spec_validator import validate

from chassis.http.api_docs.fields import Schemas
from chassis.http.api_docs.page import render_page
from chassis.http.validation import MAX_MESSAGE_LENGTH, must_be_one_of
from chassis.runtime.telemetry import Telemetry
from sluice.app_builder import ALL_SERVICES, compose_app
from sluice.build_interface import build_document
from sluice.interface import load_document
from sluice.settings_sources import SettingsSources

ROOT = Path(__file__).parents[1]
DEPLOYMENTS = (ALL_SERVICES, *((name,) for name in ALL_SERVICES))
REFUSED_BY_ANY = {"400", "500"}
REFUSED_BEHIND_BEARER = {"401", "403", "404", "429", "503"}
UNSUPPORTED = re.compile(r" (/v1/metrics|/scim/v2/\{orgSlug\}(/Me|/Bulk|/\.search|/\{rest\})?)$")  # says that it is not
REFERENCE = re.compile(r'"\$ref":"#/components/(\w+)/([^"]+)"')
NO_BODY = {"204", "303", "304"}


@pytest.fixture(scope="module", params=DEPLOYMENTS, ids="+".join)
def application(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> web.Application:
    """As the command puts it together, not started. Tests look at it and at its document; none changes them."""
    return composed(request.param, tmp_path_factory.mktemp("data"))


def composed(names: Sequence[str], data: Path) -> web.Application:
    """Some of the services."""
    origins = {"SLUICE_GATEWAY_CORS_ORIGINS": "*", "SLUICE_QUERY_CORS_ORIGINS": "*"}
    options = SettingsSources({"SLUICE_DATA": str(data), **origins}, None, {})
    return compose_app(names, options, options.chassis_settings(), Telemetry("test"))


async def answered(application: web.Application, path: str) -> bytes:
    """What it says there."""
    (resource,) = (each for each in application.router.resources() if each.canonical == path)
    (route,) = (each for each in resource if each.method == "GET")
    answer = await route.handler(make_mocked_request("GET", path))
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    return answer.body


@pytest.fixture(scope="module")
def document(application: web.Application) -> Any:
    """Its `/openapi.json`."""
    return document_of(application)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """That of all services."""
    return document_of(composed(ALL_SERVICES, tmp_path_factory.mktemp("data")))


def document_of(application: web.Application) -> Any:
    return msgspec.json.decode(asyncio.run(answered(application, "/openapi.json")))


def operations(document: Any) -> list[tuple[str, Any]]:
    return [
        (f"{method} {path}", operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def test_the_document_of_all_services_is_openapi(whole: Any) -> None:
    validate(whole)


def test_the_document_of_each_is_a_part_of_that(whole: Any, document: Any) -> None:
    """With all that it refers to: what the tests below say of the whole holds for each."""
    assert document.keys() == whole.keys()
    assert document["openapi"] == whole["openapi"]
    assert document["servers"] == whole["servers"]
    assert document["info"].keys() == whole["info"].keys()
    assert all(tag in whole["tags"] or tag.keys() <= {"name", "description"} for tag in document["tags"])
    for path, item in document["paths"].items():
        assert item == whole["paths"][path], path
    for kind, components in document["components"].items():
        assert all(component == whole["components"][kind][name] for name, component in components.items()), kind
    for kind, name in REFERENCE.findall(msgspec.json.encode(document).decode()):
        assert name in document["components"][kind]


def test_every_route_is_described(application: web.Application, document: Any) -> None:
    routes = {
        f"{route.method.lower()} {route.resource.canonical}"
        for route in application.router.routes()
        if route.resource is not None and route.method != "*"
    }
    described = {name for name, _ in operations(document)}
    of_get = {name for name in routes - described if name.startswith("head ") and f"get {name[5:]}" in routes}
    unsupported = {name for name in routes if UNSUPPORTED.search(name)}
    of_the_page = {name for name in routes if re.fullmatch(r"(get|head) (/|/ui(/.*)?)", name)}  # no API
    assert described == routes - unsupported - of_the_page - of_get


def test_every_operation_says_what_it_answers_and_how_it_refuses(whole: Any) -> None:
    for name, operation in operations(whole):
        assert re.fullmatch("[A-Z][^`]+[^.]", operation["summary"]), name
        answers = operation["responses"]
        own = {status: answer for status, answer in answers.items() if "$ref" not in answer}
        assert any(status.startswith(("2", "303")) for status in own), name
        for status, answer in own.items():
            bare = status in NO_BODY or name.startswith("head ")
            assert bool(answer["content"]) is not bare, (name, status)
        assert set(answers) >= REFUSED_BY_ANY, name
        for scopes in (each["bearerAuth"] for each in operation["security"] if "bearerAuth" in each):
            of_sessions = REFUSED_BEHIND_BEARER - {"404"}  # which are about oneself: nothing is out of sight
            assert set(answers) >= (REFUSED_BEHIND_BEARER if scopes else of_sessions), name
        if "requestBody" in operation and not name.startswith("post /sso/"):  # which specification 4.7 lists in full
            assert set(answers) >= {"413", "415"}, name


def test_every_parameter_and_structure_has_words(whole: Any) -> None:
    for name, operation in operations(whole):
        for parameter in operation["parameters"]:
            assert parameter["description"].endswith("."), (name, parameter["name"])
    for name, schema in whole["components"]["schemas"].items():
        assert re.fullmatch("[A-Z][A-Za-z]+", name), name
        assert schema.get("description"), name
        assert not schema["description"].startswith(("Specification", "A dataclass")), name


def test_examples_are_valid(whole: Any) -> None:
    """What people copy first: the examples of parameters and bodies, against their own schemas."""
    for name, operation in operations(whole):
        given = [(each["schema"], each["example"]) for each in operation["parameters"] if "example" in each]
        content = operation.get("requestBody", {}).get("content", {}).values()
        given += [(each["schema"], each["example"]) for each in content if "example" in each]
        for schema, example in given:
            with_references = {**schema, "components": whole["components"]}
            faults = jsonschema_rs.Draft202012Validator(with_references).iter_errors(example)
            assert [fault.message for fault in faults] == [], name


def test_every_list_of_names_fits_into_a_message(whole: Any) -> None:
    """Which is cut where it is longer."""
    for name, schema in whole["components"]["schemas"].items():
        for part in (schema, *schema.get("properties", {}).values()):
            assert len(must_be_one_of(map(str, part.get("enum", ())))) <= MAX_MESSAGE_LENGTH, name


def test_the_page_shows_every_operation(whole: Any) -> None:
    text = render_page(whole).decode()
    for name, operation in operations(whole):
        assert f'<article id="{operation["operationId"]}">' in text, name
    assert all(f">{tag['name']}</h2>" in text for tag in whole["tags"])
    schemas = Schemas(whole)
    for name in whole["components"]["schemas"]:
        assert schemas.type_of({"$ref": f"#/components/schemas/{name}"})


def test_the_document_that_is_shipped_is_that_of_this_tree() -> None:
    assert (ROOT / "sluice" / "openapi.json").read_bytes() == build_document(), "make interface"


async def test_every_service_shows_the_page_of_all(application: web.Application, document: Any) -> None:
    """Behind a proxy it is one of them that is asked. `/openapi.json` is its own."""
    shown = (await answered(application, "/docs")).decode()
    every = operations(load_document())
    assert [name for name, each in every if f'<article id="{each["operationId"]}">' not in shown] == []
    title = document["info"]["title"]
    assert (f"OpenAPI document of {title} only: " in shown) is (title != "Sluice")
    assert (len(operations(document)) < len(every)) is (title != "Sluice")
