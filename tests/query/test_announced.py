"""The check that every answer of these tests goes through: it sees what is not announced."""

import json
import re
from typing import Any

import msgspec
import pytest

from chassis.clickhouse import ClickHouse
from chassis.http.cursor import CursorSigner
from chassis.http.openapi import Endpoint, build_document
from query.app import service
from query.settings import QuerySettings
from tests.query.announced import Interface
from tests.query.conftest import NO_DATABASE, PATH

HEADERS = {"Content-Type": "application/json"}
PAGE: dict[str, Any] = {"data": [], "nextCursor": None, "hasMore": False}
REFUSAL = {"error": {"code": "not_found", "message": "Not found.", "requestId": "r"}}


@pytest.fixture(scope="module")
def interface() -> Interface:
    """What the service announces, without a store behind it."""
    store = ClickHouse("http://127.0.0.1:1")
    routes = service(QuerySettings(), clickhouse=store, database=NO_DATABASE, signer=CursorSigner(b"k" * 32)).routes
    endpoints = [
        Endpoint(route.method, route.path, route.access, route.handler.__doc__ or "", route.operation)
        for route in routes
        if route.operation is not None
    ]
    return Interface(json.loads(msgspec.json.encode(build_document("query", "", endpoints))))


def test_what_is_announced_passes(interface: Interface) -> None:
    interface.check("GET", f"{PATH}/spans", 200, HEADERS, json.dumps(PAGE))
    interface.check("GET", f"{PATH}/traces/1/waterfall", 404, HEADERS, json.dumps(REFUSAL))


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (200, {**PAGE, "more": 1}, "more"),
        (200, {**PAGE, "hasMore": None}, "hasMore"),
        (200, {**PAGE, "data": [{"id": "1"}]}, "data.0"),
        (404, {"error": {**REFUSAL["error"], "code": "gone"}}, "error.code"),
        (503, REFUSAL, "no Retry-After"),
        (418, REFUSAL, "does not announce 418"),
    ],
)
def test_what_is_not_announced_is_a_fault(interface: Interface, status: int, body: Any, fault: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(fault)):
        interface.check("GET", f"{PATH}/spans", status, HEADERS, json.dumps(body))
