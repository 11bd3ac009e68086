"""Sinks by their interface: what is refused, and what makes a sink not configured.

What a config may be.
"""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from control.export import store
from control.export.model import BlobstoreConfig, SnowflakeConfig
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


UNUSABLE: list[tuple[str, dict[str, Any], str]] = [
    ("BLOBSTORE", S3 | {"endpoint": "https://s3.example.com/?x=1"}, "config.endpoint is not the URL of a server."),
    ("BLOBSTORE", AZURE | {"conditionalPuts": False}, "config.conditionalPuts may be false only for S3"),
    ("SNOWFLAKE", SNOWFLAKE | {"privateKey": "x", "store": S3 | {"conditionalPuts": False}},
     "config.store.conditionalPuts must be true"),
    ("SNOWFLAKE", SNOWFLAKE | {"privateKey": "no key"}, "config.privateKey is not an RSA key in PEM"),
    ("BIGQUERY", BIGQUERY | {"credentialsJson": "{}"}, "config.credentialsJson is not the key file"),
    ("BIGQUERY", BIGQUERY, "The config lacks credentialsJson"),
    ("BLOBSTORE", AZURE | {"accountKey": "not-base64"}, "config.accountKey is not base64."),
]  # fmt: skip


async def test_a_config_that_cannot_be_used_is_not_configured(control: Control) -> None:
    """Until another one replaces it."""
    sink: dict[str, Any] = {}
    for kind, config, reason in UNUSABLE:
        sink = await created(control, kind, config)
        assert sink["configured"] is False
        assert sink["notConfiguredReason"].startswith(reason)
        assert sink in (await control.call("GET", SINKS))[1]["data"]
        status, exported, _ = await control.call("POST", f"{SINKS}/{sink['id']}/export", {})
        assert status == 200
        assert {(run["status"], run["error"], run["rows"], run["idle"]) for run in exported["runs"]} == {
            ("NOT_CONFIGURED", sink["notConfiguredReason"], 0, False)
        }
    _, changed, _ = await control.call("PUT", f"{SINKS}/{sink['id']}/config", {"config": AZURE})
    assert changed["notConfiguredReason"].startswith("This control service has no ClickHouse URL")


async def test_what_a_change_and_an_export_may_be(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", {})
    one = f"{SINKS}/{sink['id']}"
    wrong: list[tuple[str, str, str, Any]] = [
        *(("PATCH", one, name, value) for name, value in (
            ("name", None), ("name", ""), ("name", "x" * 201), ("enabled", None), ("enabled", "yes"),
            ("streams", None), ("streams", []), ("streams", ["ISSUE_ROLLUPS", "ISSUE_ROLLUPS"]), ("kind", "BIGQUERY"),
            ("config", {}),
        )),
        *(("POST", f"{one}/export", "maxBatchesPerStream", value) for value in (0, 101, None)),
        ("POST", f"{one}/export", "batches", 1),
    ]  # fmt: skip
    for method, path, name, value in wrong:
        status, answer, _ = await control.call(method, path, {name: value})
        found = [each["path"] for each in answer["error"]["details"]]
        assert (status, found) == (400, [f"body.{name}"]), (name, value)
    assert (await control.call("PATCH", one, {}))[1] == sink
    for batches in (1, 100):
        assert (await control.call("POST", f"{one}/export", {"maxBatchesPerStream": batches}))[0] == 200


async def test_exports_of_a_sink_wait_for_each_other(control: Control) -> None:
    sink = await created(control, "BLOBSTORE", {})
    exports = (control.call("POST", f"{SINKS}/{sink['id']}/export", {}) for _ in range(4))
    assert [status for status, _, _ in await asyncio.gather(*exports)] == [200] * 4


async def test_an_organization_has_a_maximum_of_sinks(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_SINKS", 3)
    sink, *_ = [await created(control, "BLOBSTORE", {}) for _ in range(3)]
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


def test_prefixes_that_paths_keep() -> None:
    for prefix in ("", "a", "a/b/", "/a", "a..b/.c/d.", "..."):
        assert msgspec.convert({"prefix": prefix}, BlobstoreConfig).prefix == prefix


def test_prefixes_that_paths_do_not_keep() -> None:
    for prefix in (".", "..", "../a", "a/..", "a/./b", "a//b", "a\n", "a b", "a?b", "ä", "a" * 513):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"prefix": prefix}, BlobstoreConfig)


def test_names_that_would_change_a_url() -> None:
    for value in ("", "a/b", "a?b", "a#b", "@a", "a:1", "a\n", "a b", ".a", "a" * 256):
        for name in ("bucket", "container", "region", "account"):
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert({name: value}, BlobstoreConfig)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"account": value}, SnowflakeConfig)


def test_names_that_change_no_url() -> None:
    names = {"bucket": "my.bucket-1_x", "region": "eu-central-1", "account": "org-account.x", "container": "c1"}
    assert msgspec.to_builtins(msgspec.convert(names, BlobstoreConfig)) == names
