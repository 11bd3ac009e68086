"""A key that a project exempts while the product runs: the values are stored as they are sent, and scrubbed again."""

import json
import time
import uuid
from typing import Any

import pytest

from tests.e2e.product import Sluice, call, eventually
from tests.proto.otlp.sent import attributes, pair, request, span, string

KEY = "shop.token"
PATH = "/projects/exempting"


def control(sluice: Sluice, method: str, path: str, body: object) -> Any:
    """The response of the control service to a change."""
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    answer = call(method, f"{sluice.control_url}/orgs/{sluice.org}{path}", json.dumps(body).encode(), headers)
    assert answer.status in (200, 201), answer
    return answer.json()


def stored_value(sluice: Sluice, key: str) -> str:
    """What is stored of a value that is sent now."""
    trace_id, now = uuid.uuid4(), time.time_ns()
    body = request(span(attributes(9, pair(KEY, string("t-1"))), trace_id=trace_id.bytes, start=now, end=now))
    assert sluice.export("traces", body, X_Legacy_Auth=f"Legacy legacy_key={key}").status == 200
    path = f"/orgs/{sluice.org}{PATH}/explore/spans?traceId={trace_id.hex}"
    [found] = eventually(lambda: sluice.get(path).json()["data"], "the span")
    return str(found["attributes"][KEY])


@pytest.mark.long
def test_an_exemption_reaches_a_running_gateway(sluice: Sluice) -> None:
    control(sluice, "POST", "/projects", {"slug": "exempting", "name": "Exempting"})
    key = control(sluice, "POST", f"{PATH}/keys", {"name": "test"})["key"]
    assert stored_value(sluice, key) == "[scrubbed]"
    control(sluice, "PATCH", PATH, {"exemptKeys": [KEY]})
    eventually(lambda: stored_value(sluice, key) == "t-1", "the exemption")
    control(sluice, "PATCH", PATH, {"exemptKeys": []})
    eventually(lambda: stored_value(sluice, key) == "[scrubbed]", "the end of the exemption")
