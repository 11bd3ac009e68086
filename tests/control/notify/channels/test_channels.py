"""Notification channels over HTTP: every field, bound, status and null of specification 2.2 and 4.4.

What an operator permits of the URLs in configs.
"""

import ipaddress
import re
from typing import Any

import msgspec
import pytest

from chassis.http.validation import Issues
from control.notify.channels.config import ChannelRules, Kind, read_config
from control.outbound.egress_policy import EgressPolicy
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.notify.channels.conftest import CHANNELS
from tests.control.receiver import SECRET

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
FIELDS = ["id", "orgId", "projectId", "name", "kind", "enabled", "createdAt", "updatedAt"]

CONFIGS: dict[str, dict[str, Any]] = {
    "chat-a": {"webhookUrl": "https://hooks.slack.com/services/T0/B0/secret"},
    "chat-b": {"webhookUrl": "https://discord.com/api/webhooks/1/secret"},
    "webhook": {"url": "https://example.org/hook", "secret": SECRET},
    "email": {"to": ["ada@example.org"]},
    "pager": {"routingKey": "0123456789abcdef0123456789abcdef"},
    "teams": {"workflowUrl": "https://prod-1.westeurope.logic.azure.com:443/workflows/secret"},
}


def new(kind: str = "email", **more: object) -> dict[str, object]:
    return {"name": "On call", "kind": kind, "config": CONFIGS[kind]} | more


async def create(control: Control, kind: str = "email", token: str | None = None, **more: object) -> dict[str, Any]:
    status, made, _ = await control.call("POST", CHANNELS, new(kind, **more), token)
    assert status == 201, made
    return dict(made)


async def issues_of(
    control: Control, body: object, path: str = CHANNELS, method: str = "POST"
) -> list[tuple[str, str]]:
    status, answer, _ = await control.call(method, path, body)
    assert (status, answer["error"]["code"]) == (400, "bad_request"), answer
    return [(issue["path"], issue["code"]) for issue in answer["error"]["details"]]


async def test_a_channel_of_every_kind_is_created_and_listed_without_its_config(control: Control) -> None:
    created = []
    for kind in Kind:
        made = await create(control, kind.value)
        assert list(made) == FIELDS
        assert re.fullmatch("chn_[0-9a-z]{26}", made["id"])
        assert TIME.fullmatch(made["createdAt"])
        assert made == {
            "id": made["id"],
            "orgId": control.acme.organization.id,
            "projectId": str(control.acme.project.id),
            "name": "On call",
            "kind": kind.value,
            "enabled": True,
            "createdAt": made["createdAt"],
            "updatedAt": made["createdAt"],
        }
        created.append(made)
    for name, enabled, scope in (("n", False, "org"), ("n" * 200, True, "project")):
        made = await create(control, name=name, enabled=enabled, scope=scope)
        project_id = None if scope == "org" else str(control.acme.project.id)
        assert (made["name"], made["enabled"], made["projectId"]) == (name, enabled, project_id)
        created.append(made)
    status, page, headers = await control.call("GET", CHANNELS)
    assert (status, page) == (200, {"data": created[::-1], "nextCursor": None, "hasMore": False})
    assert headers["Content-Type"] == "application/json"


async def test_organization_channels_are_seen_from_every_project_and_others_from_their_own(control: Control) -> None:
    await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "API"})
    own, shared = await create(control), await create(control, scope="org")
    elsewhere = CHANNELS.replace("/web/", "/api/")
    _, page, _ = await control.call("GET", elsewhere)
    assert [one["id"] for one in page["data"]] == [shared["id"]]
    _, page, _ = await control.call("GET", CHANNELS)
    assert {one["id"] for one in page["data"]} == {own["id"], shared["id"]}
    for method, path, body in (
        ("PATCH", f"{elsewhere}/{own['id']}", {"name": "x"}),
        ("DELETE", f"{elsewhere}/{own['id']}", None),
        ("POST", f"{elsewhere}/{own['id']}/test", None),
    ):
        assert (await control.call(method, path, body))[0] == 404


BODIES: list[tuple[object, list[tuple[str, str]]]] = [
    ({}, [("body.name", "missing"), ("body.kind", "missing"), ("body.config", "missing")]),
    (new(name=""), [("body.name", "too_short")]),
    (new(name="x" * 201), [("body.name", "too_long")]),
    (new(name=" x"), [("body.name", "format")]),
    (new(name="x\x00"), [("body.name", "format")]),
    (new(name=None), [("body.name", "type")]),
    (new() | {"kind": "fax"}, [("body.kind", "not_allowed")]),
    (new() | {"kind": 1}, [("body.kind", "type")]),
    (new(config=None), [("body.config", "type")]),
    (new(config=[]), [("body.config", "type")]),
    (new(enabled="yes"), [("body.enabled", "type")]),
    (new(enabled=None), [("body.enabled", "type")]),
    (new(scope="team"), [("body.scope", "not_allowed")]),
    (new(scope=None), [("body.scope", "type")]),
    (new(x=1), [("body.x", "unknown_field")]),
    (new(name="", config={"to": []}), [("body.name", "too_short"), ("body.config.to", "too_short")]),
    ([], [("body", "type")]),
]
CHANGES: list[tuple[object, list[tuple[str, str]]]] = [
    ({"name": ""}, [("body.name", "too_short")]),
    ({"name": None, "enabled": 1}, [("body.name", "type"), ("body.enabled", "type")]),
    ({"kind": "email"}, [("body.kind", "unknown_field")]),
    ({"scope": "org"}, [("body.scope", "unknown_field")]),
    ({"config": CONFIGS["webhook"]},
     [("body.config.to", "missing"), ("body.config.url", "unknown_field"), ("body.config.secret", "unknown_field")]),
    ({"name": "", "config": {"to": []}}, [("body.name", "too_short"), ("body.config.to", "too_short")]),
    ([], [("body", "type")]),
]  # fmt: skip


LONG = "https://example.org/"
# Which URLs there are is a table of the egress policy.
CASES: list[tuple[str, dict[str, object], list[tuple[str, str]] | None]] = [
    ("webhook", {}, [("url", "missing"), ("secret", "missing")]),
    ("webhook", {"url": "", "secret": ""}, [("url", "too_short"), ("secret", "too_short")]),
    ("webhook", {"url": LONG + "x" * 2_028, "secret": SECRET}, None),
    ("webhook", {"url": LONG + "x" * 2_029, "secret": SECRET}, [("url", "too_long")]),
    ("webhook", {"url": "https://u:p@example.org", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://10.0.0.1/", "secret": SECRET}, [("url", "not_allowed")]),
    ("webhook", {"url": "https://[::ffff:10.0.0.1]/", "secret": SECRET}, [("url", "not_allowed")]),
    ("webhook", {"url": LONG, "secret": "x" + SECRET}, [("secret", "format")]),
    ("webhook", {"url": LONG, "secret": "whsec_" + "A" * 20 + "=="}, [("secret", "format")]),
    ("webhook", {"url": LONG, "secret": "whsec_" + "A" * 22 + "=="}, None),
    ("webhook", {"url": LONG, "secret": "whsec_" + "A" * 86 + "=="}, None),
    ("webhook", {"url": LONG, "secret": "whsec_" + "A" * 88}, [("secret", "format")]),
    ("webhook", {"url": LONG, "secret": SECRET, "previousSecret": "whsec_"}, [("previousSecret", "format")]),
    ("webhook", {"url": LONG, "secret": SECRET, "previousSecret": SECRET}, None),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {f"X-{n}": "" for n in range(20)}}, None),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {f"X-{n}": "" for n in range(21)}},
     [("headers", "too_long")]),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"x y": "z"}}, [("headers.x y", "format")]),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"X": "a\r\nb"}}, [("headers.X", "format")]),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"X": "a" * 1_001}}, [("headers.X", "too_long")]),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"X": "a" * 1_000}}, None),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"HOST": "a"}}, [("headers.HOST", "not_allowed")]),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"Webhook-Id": "a"}},
     [("headers.Webhook-Id", "not_allowed")]),
    ("webhook", {"url": LONG, "secret": SECRET, "headers": {"A": "1", "a": "2"}}, [("headers", "repeated")]),
    ("webhook", {"url": LONG, "secret": SECRET, "x": 1}, [("x", "unknown_field")]),
    ("email", {"to": []}, [("to", "too_short")]),
    ("email", {"to": [f"a{n}@example.org" for n in range(20)]}, None),
    ("email", {"to": [f"a{n}@example.org" for n in range(21)]}, [("to", "too_long")]),
    ("email", {"to": ["a@b", "A@b"]}, [("to", "repeated")]),
    ("email", {"to": ["a@b", "ab"]}, [("to[1]", "too_short")]),
    ("email", {"to": ["a b@example.org", "a@b\r\nBcc: x@y"]}, [("to[0]", "format"), ("to[1]", "format")]),
    ("email", {"to": "a@b.c"}, [("to", "type")]),
    ("email", {"to": [".a@b.c", "a..b@b.c", "a.@b.c", "a.b@b.c"]}, [(f"to[{n}]", "format") for n in range(3)]),
    ("email", {"to": ["=?utf-8?q?a=0d=0aBcc:x?=@b.c", "a=b?c@d.e"]}, [("to[0]", "format")]),
    ("pager", {"routingKey": "a" * 31}, [("routingKey", "too_short")]),
    ("pager", {"routingKey": "a" * 33}, [("routingKey", "too_long")]),
    ("pager", {"routingKey": "-" * 32}, [("routingKey", "format")]),
    ("pager", {"routingKey": "a" * 32, "severity": "critical"}, None),
    ("pager", {"routingKey": "a" * 32, "severity": "loud"}, [("severity", "not_allowed")]),
    ("chat-a", {}, [("webhookUrl", "missing")]),
    ("chat-a", {"webhookUrl": "https://example.org/x"}, [("webhookUrl", "not_allowed")]),
    ("chat-a", {"webhookUrl": "https://hooks.slack.com.example.org/x"}, [("webhookUrl", "not_allowed")]),
    ("chat-a", {"botToken": "xoxb-1"}, [("channel", "missing")]),
    ("chat-a", {"channel": "#ops"}, [("botToken", "missing")]),
    ("chat-a", {"botToken": "xoxb-1", "channel": "#ops"}, None),
    ("chat-a", {"botToken": "xoxb 1", "channel": "# ops"}, [("botToken", "format"), ("channel", "format")]),
    ("chat-a", CONFIGS["chat-a"] | {"channel": "#ops"}, [("channel", "invalid")]),
    ("chat-b", {"webhookUrl": "https://notdiscord.com/x"}, [("webhookUrl", "not_allowed")]),
    ("chat-b", {"webhookUrl": None}, [("webhookUrl", "type")]),
    ("teams", {"workflowUrl": "https://logic.azure.com/x"}, [("workflowUrl", "not_allowed")]),
    ("teams", {"webhookUrl": "https://a.logic.azure.com/x"},
     [("workflowUrl", "missing"), ("webhookUrl", "unknown_field")]),
]  # fmt: skip


async def test_every_offending_field_is_named(control: Control) -> None:
    """Of new channels, of changes, and of configs by their kind."""
    path = f"{CHANNELS}/{(await create(control))['id']}"
    for body, issues in BODIES:
        assert await issues_of(control, body) == issues, body
    for change, issues in CHANGES:
        assert await issues_of(control, change, path, "PATCH") == issues, change
    for kind, config, of_config in CASES:
        sent = {"name": "x", "kind": kind, "config": config}
        if of_config is None:
            assert (await control.call("POST", CHANNELS, sent))[0] == 201, sent
        else:
            assert await issues_of(control, sent) == [(f"body.config.{path}", code) for path, code in of_config], sent
    for method, where, data, expected in (
        ("POST", CHANNELS, b"null", 400), ("POST", CHANNELS, b"{", 400), ("PATCH", path, b" " * 2**17, 413),
    ):  # fmt: skip
        answer = await control.call(method, where, data=data, headers={"Content-Type": "application/json"})
        assert answer[0] == expected, data


@pytest.mark.both_stores
async def test_a_channel_is_changed_in_parts_and_deleted(control: Control) -> None:
    made = await create(control)
    path = f"{CHANNELS}/{made['id']}"
    status, changed, _ = await control.call("PATCH", path, {"name": "Night shift"})
    assert (status, changed | {"updatedAt": ""}) == (200, made | {"name": "Night shift", "updatedAt": ""})
    assert changed["updatedAt"] >= made["updatedAt"]
    assert (await control.call("PATCH", path, {"enabled": False}))[1]["enabled"] is False
    assert (await control.call("PATCH", path, {"enabled": True, "config": {"to": ["b@c.d"]}}))[1]["enabled"] is True
    status, same, _ = await control.call("PATCH", path, {})
    assert (status, same["name"], same["enabled"]) == (200, "Night shift", True)
    assert (await control.call("DELETE", path))[:2] == (204, None)
    assert (await control.call("GET", CHANNELS))[1]["data"] == []
    for method, where, body in (("DELETE", path, None), ("PATCH", path, {}), ("POST", f"{path}/test", None)):
        assert (await control.call(method, where, body))[0] == 404


async def test_organization_channels_require_an_administrator(control: Control) -> None:
    shared = await create(control, scope="org")
    _, member = await new_member_token(control.checks.database, control.acme, Role.MEMBER)
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    one = f"{CHANNELS}/{shared['id']}"
    for method, path, body in (
        ("POST", CHANNELS, new(scope="org")),
        ("PATCH", one, {"name": "x"}),
        ("PATCH", one, {"name": ""}),  # 403 comes before 400
        ("DELETE", one, None),
    ):
        assert (await control.call(method, path, body, member))[0] == 403
    await create(control, token=member)
    assert (await control.call("PATCH", one, {"name": "x"}, admin))[0] == 200
    assert (await control.call("DELETE", one, token=admin))[0] == 204


async def test_an_organization_has_a_limited_number_of_channels(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.notify.channels.store.MAX_CHANNELS", 2)
    first = await create(control)
    await create(control)
    status, body, _ = await control.call("POST", CHANNELS, new())
    assert (status, body["error"]["code"]) == (409, "conflict")
    await control.call("DELETE", f"{CHANNELS}/{first['id']}")
    await create(control)


async def test_changes_are_in_the_audit_without_secrets(control: Control) -> None:
    made = await create(control, "webhook")
    path = f"{CHANNELS}/{made['id']}"
    await control.call("PATCH", path, {"enabled": False, "config": CONFIGS["webhook"]})
    await control.call("DELETE", path)
    _, page, _ = await control.call("GET", "/orgs/acme/audit")
    events = [(event["action"], event["objectId"]) for event in page["data"] if event["objectId"] == made["id"]]
    assert sorted(events) == sorted(
        [("channel.create", made["id"]), ("channel.change", made["id"]), ("channel.delete", made["id"])]
    )
    assert "whsec" not in str(page)
    assert "example.org/hook" not in str(page)


INSIDE = EgressPolicy((ipaddress.ip_network("10.0.0.0/8"),), frozenset({443}))


FORBIDDEN_URLS: list[tuple[EgressPolicy, str, str | None]] = [
    (EgressPolicy(ports=frozenset({443})), "https://example.org:8443/", "Must use port 443."),
    (EgressPolicy(ports=frozenset({443, 8_443})), "https://example.org:22/", "Must use port 443 or 8443."),
    (EgressPolicy(ports=frozenset({443, 8_443})), "https://example.org:8443/", None),
    (INSIDE, "https://example.org:8443/", None),  # the name may lead there
    (INSIDE, "https://10.1.2.3:8443/", None),
    (INSIDE, "https://11.1.2.3/", None),
    (INSIDE, "https://172.16.0.1/", "Must be a public address."),
]


def test_urls_that_the_egress_policy_forbids_are_rejected() -> None:
    for policy, url, message in FORBIDDEN_URLS:
        issues, sent = Issues(), msgspec.json.encode({"url": url, "secret": SECRET})
        config = read_config(Kind.WEBHOOK, sent, ChannelRules(policy), issues)
        assert (config is None) is (message is not None), url
        found = [(one.path, one.code, one.message) for one in issues]
        assert found == ([] if message is None else [("body.config.url", "not_allowed", message)]), url
