"""What `/webhooks/integrations/{integrationId}` refuses: what is not signed as the platform signs, or not for it."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving
from tests.control.inbound.webhooks.trackers.sent import (
    incident,
    jira_issue,
    linear_issue,
    new_integration,
    send,
    signed,
    standard,
)


def change() -> dict[str, Any]:
    return {"event": "change.x", "change": {"title": "x"}}


PAYLOADS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "linear": linear_issue,
    "jira": jira_issue,
    "pagerduty": incident,
    "generic": change,
}


@pytest.fixture
async def unlimited(migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path) -> AsyncIterator[Control]:
    """Without a limit of failures."""
    settings = ControlSettings(max_body_bytes=4_096, webhook_max_body_bytes=65_536)
    async with serving(migrated_url, tmp_path, settings, tenants=tenants, failed_webhook_rate=0) as control:
        yield control


def flipped(body: bytes, bit: int) -> bytes:
    changed = bytearray(body)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


async def test_only_what_is_signed_with_the_secret_is_accepted(unlimited: Control) -> None:
    refused: list[Any] = []
    for kind, payload in PAYLOADS.items():
        tracker, other = [await new_integration(unlimited, kind) for _ in range(2)]
        raw = msgspec.json.encode(payload())
        headers = signed(kind, tracker["secret"], raw)
        name = next(iter(headers))
        for body, given in (
            *((flipped(raw, bit), headers) for bit in (0, 77, len(raw) * 8 - 1)),
            (raw + b" ", headers),
            (raw, {}),
            (raw, {name: ""}),
            (raw, {name: headers[name][:-1] + ("0" if headers[name][-1] != "0" else "1")}),
            (raw, {name: headers[name].upper()}),
            (raw, {name: "x" + headers[name].replace(",", "x")}),
            (raw, {"X-Signature": headers[name]}),
            (raw, signed(kind, other["secret"], raw)),
            (b"", headers),
        ):
            status, answer = await send(unlimited, tracker, body, headers=given)
            assert status == 401, (kind, given)
            refused.append(answer["error"] | {"requestId": ""})
        status, answer = await send(unlimited, tracker, raw, headers=headers)
        assert status == 200, answer
        assert await send(unlimited, tracker, raw, headers=headers) == (200, answer), "the stored result"
    assert all(one == refused[0] for one in refused), "no reason is told"
    assert refused[0]["message"] == "The signature is missing, invalid or expired."


async def test_a_delivery_of_linear_is_accepted_for_a_minute(unlimited: Control) -> None:
    tracker, now = await new_integration(unlimited, "linear"), int(time.time() * 1_000)
    for timestamp, expected in (
        (now - 55_000, 200),
        (now + 55_000, 200),
        (now - 65_000, 401),
        (now + 65_000, 401),
        (2**53, 401),
        (10**400, 401),
        (-1, 401),
        ("1", 401),
        (None, 401),
    ):
        raw = msgspec.json.encode(linear_issue(webhookTimestamp=None))
        raw = raw.replace(b'"webhookTimestamp":null', f'"webhookTimestamp":{timestamp}'.encode())
        assert (await send(unlimited, tracker, raw))[0] == expected, timestamp


async def test_standard_webhooks(unlimited: Control) -> None:
    """By preference; a delivery is known by its id, which is signed."""
    tracker = await new_integration(unlimited, "generic")
    secret, now = tracker["secret"], time.time()
    raw = msgspec.json.encode(PAYLOADS["generic"]())
    good = standard(secret, raw, "msg_1")
    plain = signed("generic", secret, raw)
    later = msgspec.json.encode({"event": "change.x", "change": {"title": "y"}})
    for body, headers, expected in (
        (raw, good, 200),
        (raw, good | {"webhook-id": "msg_2"}, 401),
        (raw, good | {"webhook-timestamp": str(int(good["webhook-timestamp"]) + 1)}, 401),
        (raw, good | {"webhook-signature": f"v1,{'A' * 43}= {good['webhook-signature']}"}, 200),
        (raw, good | {"webhook-signature": good["webhook-signature"].replace("v1,", "v1a,")}, 401),
        (raw, standard(secret, raw, "msg_3", now - 290), 200),
        (raw, standard(secret, raw, "msg_4", now - 310), 401),
        (raw, standard(secret, raw, "msg_4", now + 310), 401),
        (raw, plain | good, 200),
        (raw, plain | good | {"webhook-signature": "v1,x"}, 401),  # no rescue by the other one
        (raw, plain | {"webhook-id": "msg_5"}, 401),
        (raw, plain, 200),
        (raw, standard(secret, raw, "x" * 300), 200),
    ):
        assert (await send(unlimited, tracker, body, headers=headers))[0] == expected, headers
    status, answer = await send(unlimited, tracker, later, headers=standard(secret, later, "msg_1"))
    assert (status, answer["changeEventsCreated"]) == (200, 1), "the result of the first delivery with this id"
    _, page, _ = await unlimited.call("GET", "/orgs/acme/changes")
    assert {one["title"] for one in page["data"]} == {"x"}
    client: TestClient[Any, Any] = unlimited.client
    twice = [("Content-Type", "application/json"), *good.items(), ("webhook-id", "msg_1")]
    async with client.post(f"/webhooks/integrations/{tracker['id']}", data=raw, headers=twice) as repeated:
        assert repeated.status == 401


async def test_only_enabled_trackers_receive(unlimited: Control) -> None:
    tracker = await new_integration(unlimited, "generic")
    source_control = await new_integration(unlimited, "github")
    disabled = await new_integration(unlimited, "generic", enabled=False)
    body = PAYLOADS["generic"]()
    github = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
    for integration, path, expected in (
        (tracker, None, 200),
        (source_control, None, 404),
        (disabled, None, 404),
        (tracker, f"/webhooks/integrations/int_{'0' * 26}", 404),
        (tracker, f"/webhooks/integrations/{tracker['id'].upper()}", 404),
        (tracker, "/webhooks/integrations/%00%ff", 404),
        (tracker, f"/webhooks/integrations/{'x' * 65}", 400),
        (tracker, f"/webhooks/integrations/{'x' * 64}", 404),
    ):
        headers = github if integration is source_control else None
        status, _ = await send(unlimited, integration, body, path=path, headers=headers)
        assert status == expected, path
    for method, change in (("PATCH", {"enabled": False}), ("PATCH", {"enabled": True}), ("DELETE", None)):
        path = f"/orgs/acme/integrations/{tracker['id']}"
        assert (await unlimited.call(method, path, change))[0] in (200, 204)
        expected = 200 if change == {"enabled": True} else 404
        assert (await send(unlimited, tracker, body))[0] == expected, change
    assert (await send(unlimited, disabled, b"x" * 65_537, headers={}))[0] == 404, "nothing is read for nobody"
    other = await new_integration(unlimited, "generic")
    assert (await send(unlimited, other, b"x" * 65_537, headers={}))[0] == 413


async def test_a_refusal_quotes_nothing_of_the_body(unlimited: Control) -> None:
    tracker = await new_integration(unlimited, "generic")
    body = {"event": "change.made", "change": {"title": "x", "kind": "a secret"}}
    status, answer = await send(unlimited, tracker, msgspec.json.encode(body))
    assert (status, answer["error"]["message"]) == (
        400,
        "The body is not a valid change.made event: Invalid value - at `$.change.kind`.",
    )
