"""Sinks by their interface: what is refused, and what makes a sink not configured."""

import asyncio
import json
from typing import Any

import pytest

from control.warehouse.repository import MAX_SINKS
from tests.control.conftest import Control

SINKS = "/orgs/acme/warehouse/sinks"
S3 = {"bucket": "b", "region": "r", "accessKeyId": "a", "secretAccessKey": "s"}
AZURE = {"provider": "azure", "account": "a", "container": "c", "accountKey": "YQ=="}
SNOWFLAKE = {"account": "a", "user": "u", "warehouse": "w", "database": "d", "schema": "s", "stage": "t", "store": S3}
BIGQUERY = {"projectId": "p", "dataset": "d"}


async def created(control: Control, kind: str, config: dict[str, Any]) -> dict[str, Any]:
    status, sink, _ = await control.call("POST", SINKS, {"name": "Lake", "kind": kind, "config": config})
    assert status == 201, sink
    return dict(sink)


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("BLOBSTORE", S3 | {"endpoint": "https://s3.example.com/?x=1"}, "config.endpoint is not a URL of a server."),
        ("BLOBSTORE", AZURE | {"accountKey": "not-base64"}, "config.accountKey is not base64."),
        ("SNOWFLAKE", SNOWFLAKE | {"privateKey": "no key"}, "config.privateKey is not an RSA key in PEM"),
        ("BIGQUERY", BIGQUERY | {"credentialsJson": "{}"}, "config.credentialsJson is not the key file"),
        ("BIGQUERY", BIGQUERY, "The config lacks credentialsJson"),
    ],
)
async def test_a_config_that_cannot_be_used_is_not_configured(
    control: Control, kind: str, config: dict[str, Any], reason: str
) -> None:
    sink = await created(control, kind, config)
    assert sink["configured"] is False
    assert sink["notConfiguredReason"].startswith(reason)
    assert (await control.call("GET", SINKS))[1]["data"] == [sink]
    status, exported, _ = await control.call("POST", f"{SINKS}/{sink['id']}/export", {})
    assert status == 200
    for run in exported["runs"]:
        assert (run["status"], run["error"], run["rows"], run["idle"]) == (
            "NOT_CONFIGURED",
            sink["notConfiguredReason"],
            0,
            False,
        )


async def test_a_config_that_is_replaced_is_judged_anew(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", AZURE | {"accountKey": "not-base64"})
    _, changed, _ = await control.call("PUT", f"{SINKS}/{sink['id']}/config", {"config": AZURE})
    assert changed["notConfiguredReason"].startswith("This control service has no ClickHouse URL")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"maxBatchesPerStream": 0}, "body.maxBatchesPerStream"),
        ({"maxBatchesPerStream": 101}, "body.maxBatchesPerStream"),
        ({"maxBatchesPerStream": None}, "body.maxBatchesPerStream"),
        ({"batches": 1}, "body.batches"),
    ],
)
async def test_bounds_of_an_export(control: Control, body: dict[str, Any], path: str) -> None:
    sink = await created(control, "BLOBSTORE", {})
    for given in (body, {"maxBatchesPerStream": 1}, {"maxBatchesPerStream": 100}):
        status, answer, _ = await control.call("POST", f"{SINKS}/{sink['id']}/export", given)
        assert status == (400 if given is body else 200)
        if given is body:
            assert [one["path"] for one in answer["error"]["details"]] == [path]


async def test_what_a_change_may_be(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", {})
    one = f"{SINKS}/{sink['id']}"
    for name, value in (
        ("name", None),
        ("name", ""),
        ("name", "x" * 201),
        ("enabled", None),
        ("enabled", "yes"),
        ("streams", None),
        ("streams", []),
        ("streams", ["ISSUE_ROLLUPS", "ISSUE_ROLLUPS"]),
        ("kind", "BIGQUERY"),
        ("config", {}),
    ):
        status, answer, _ = await control.call("PATCH", one, {name: value})
        assert status == 400, name
        assert [each["path"] for each in answer["error"]["details"]] == [f"body.{name}"]
    assert (await control.call("PATCH", one, {}))[1] == sink


async def test_exports_of_a_sink_wait_for_each_other(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", {})
    exports = (control.call("POST", f"{SINKS}/{sink['id']}/export", {}) for _ in range(4))
    assert [status for status, _, _ in await asyncio.gather(*exports)] == [200] * 4


async def test_an_organization_has_a_maximum_of_sinks(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", {})
    for _ in range(MAX_SINKS - 1):
        await created(control, "BLOBSTORE", {})
    body = {"name": "Lake", "kind": "BLOBSTORE"}
    status, answer, _ = await control.call("POST", SINKS, body)
    assert (status, answer["error"]["code"]) == (409, "conflict")
    assert (await control.call("DELETE", f"{SINKS}/{sink['id']}"))[1] == {"deleted": True}
    assert (await control.call("POST", SINKS, body))[0] == 201


async def test_a_config_is_never_shown(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", S3 | {"secretAccessKey": "seeded-secret", "bucket": "seeded-bucket"})
    one = f"{SINKS}/{sink['id']}"
    answers = [
        await control.call("PUT", f"{one}/config", {"config": S3 | {"secretAccessKey": "seeded secret", "region": 7}}),
        await control.call("PATCH", one, {"name": "Other"}),
        await control.call("GET", f"{one}/status"),
        await control.call("GET", SINKS),
        await control.call("GET", "/orgs/acme/audit"),
    ]
    assert [status for status, *_ in answers] == [400, 200, 200, 200, 200]
    assert "seeded" not in json.dumps([body for _, body, _ in answers])
