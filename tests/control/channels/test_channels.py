"""Notification channels over HTTP: every field, bound, status and null of specification 2.2 and 4.4."""

import re
from typing import Any

import pytest

from control.channels.config import Kind
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.channels.conftest import CHANNELS
from tests.control.conftest import Control
from tests.control.receiver import SECRET

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
FIELDS = ["id", "orgId", "projectId", "name", "kind", "enabled", "createdAt", "updatedAt"]
MISSING = "chn_" + "0" * 26

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


@pytest.mark.parametrize("kind", [*Kind])
async def test_a_channel_of_every_kind_is_created_and_listed_without_its_config(control: Control, kind: Kind) -> None:
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
    status, page, headers = await control.call("GET", CHANNELS)
    assert (status, page) == (200, {"data": [made], "nextCursor": None, "hasMore": False})
    assert headers["Content-Type"] == "application/json"
    assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"} <= set(map(str.lower, headers))


async def test_optional_fields_are_accepted(control: Control) -> None:
    made = await create(control, enabled=False, scope="org")
    assert (made["enabled"], made["projectId"]) == (False, None)
    made = await create(control, enabled=True, scope="project")
    assert (made["enabled"], made["projectId"]) == (True, str(control.acme.project.id))


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


@pytest.mark.parametrize(
    ("body", "issues"),
    [
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
        (None, [("body", "type")]),
    ],
)
async def test_every_offending_field_of_a_new_channel_is_named(
    control: Control, body: object, issues: list[tuple[str, str]]
) -> None:
    if body is None:
        status, answer, _ = await control.call(
            "POST", CHANNELS, headers={"Content-Type": "application/json"}, data=b"null"
        )
        assert (status, answer["error"]["details"][0]["path"]) == (400, "body")
        return
    assert await issues_of(control, body) == issues


@pytest.mark.parametrize("length", [1, 200])
async def test_bounds_of_names_are_inclusive(control: Control, length: int) -> None:
    assert (await create(control, name="n" * length))["name"] == "n" * length


LONG = "https://example.org/"


CASES: list[tuple[str, dict[str, object], list[tuple[str, str]] | None]] = [
    ("webhook", {}, [("url", "missing"), ("secret", "missing")]),
    ("webhook", {"url": "", "secret": ""}, [("url", "too_short"), ("secret", "too_short")]),
    ("webhook", {"url": LONG + "x" * 2_028, "secret": SECRET}, None),
    ("webhook", {"url": LONG + "x" * 2_029, "secret": SECRET}, [("url", "too_long")]),
    ("webhook", {"url": "ftp://example.org", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "//example.org", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://u:p@example.org", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://example.org:0/", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://example.org:65536/", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://a..b/", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://%00/", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://xn--/", "secret": SECRET}, [("url", "format")]),
    ("webhook", {"url": "https://example.org/\r\nx", "secret": SECRET}, [("url", "format")]),
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


async def test_configs_are_validated_by_kind(control: Control) -> None:
    for kind, config, issues in CASES:
        body = {"name": "x", "kind": kind, "config": config}
        if issues is None:
            assert (await control.call("POST", CHANNELS, body))[0] == 201, body
        else:
            assert await issues_of(control, body) == [(f"body.config.{path}", code) for path, code in issues], body


@pytest.mark.parametrize(
    ("query", "issues"),
    [
        ({"limit": "0"}, [("query.limit", "too_small")]),
        ({"limit": "101"}, [("query.limit", "too_large")]),
        ({"limit": "1.5"}, [("query.limit", "type")]),
        ({"cursor": "x" * 500}, [("query.cursor", "invalid")]),
        ({"cursor": "x" * 501}, [("query.cursor", "too_long")]),
    ],
)
async def test_queries_out_of_bounds_are_400(
    control: Control, query: dict[str, str], issues: list[tuple[str, str]]
) -> None:
    status, body, _ = await control.call("GET", CHANNELS, params=query)
    assert (status, [(issue["path"], issue["code"]) for issue in body["error"]["details"]]) == (400, issues)


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_hold_every_channel_once_newest_first(control: Control, limit: int) -> None:
    made = [(await create(control, scope="org" if n % 2 else "project"))["id"] for n in range(5)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page, _ = await control.call("GET", CHANNELS, params={"limit": str(limit)} | cursor)
        seen += [one["id"] for one in page["data"]]
        assert page["hasMore"] is (page["nextCursor"] is not None)
        if not page["hasMore"]:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == sorted(made, reverse=True)


@pytest.mark.both_stores
async def test_a_page_has_25_channels_by_default(control: Control) -> None:
    for _ in range(26):
        await create(control)
    _, page, _ = await control.call("GET", CHANNELS)
    assert (len(page["data"]), page["hasMore"]) == (25, True)
    _, page, _ = await control.call("GET", CHANNELS, params={"cursor": page["nextCursor"]})
    assert (len(page["data"]), page["hasMore"], page["nextCursor"]) == (1, False, None)


async def test_a_cursor_belongs_to_its_project(control: Control) -> None:
    await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "API"})
    for _ in range(2):
        await create(control, scope="org")
    cursor = (await control.call("GET", CHANNELS, params={"limit": "1"}))[1]["nextCursor"]
    elsewhere = CHANNELS.replace("/web/", "/api/")
    assert (await control.call("GET", elsewhere, params={"cursor": cursor}))[0] == 400


@pytest.mark.both_stores
async def test_a_channel_is_changed_in_parts(control: Control) -> None:
    made = await create(control)
    path = f"{CHANNELS}/{made['id']}"
    status, changed, _ = await control.call("PATCH", path, {"name": "Night shift"})
    assert (status, changed | {"updatedAt": ""}) == (200, made | {"name": "Night shift", "updatedAt": ""})
    assert changed["updatedAt"] >= made["updatedAt"]
    assert (await control.call("PATCH", path, {"enabled": False}))[1]["enabled"] is False
    assert (await control.call("PATCH", path, {"enabled": True, "config": {"to": ["b@c.d"]}}))[1]["enabled"] is True
    status, same, _ = await control.call("PATCH", path, {})
    assert (status, same["name"], same["enabled"]) == (200, "Night shift", True)


@pytest.mark.parametrize(
    ("change", "issues"),
    [
        ({"name": ""}, [("body.name", "too_short")]),
        ({"name": None, "enabled": 1}, [("body.name", "type"), ("body.enabled", "type")]),
        ({"kind": "email"}, [("body.kind", "unknown_field")]),
        ({"scope": "org"}, [("body.scope", "unknown_field")]),
        ({"config": CONFIGS["webhook"]},
         [("body.config.to", "missing"), ("body.config.url", "unknown_field"),
          ("body.config.secret", "unknown_field")]),
        ({"name": "", "config": {"to": []}}, [("body.name", "too_short"), ("body.config.to", "too_short")]),
        ([], [("body", "type")]),
    ],
)  # fmt: skip
async def test_every_offending_field_of_a_change_is_named(
    control: Control, change: object, issues: list[tuple[str, str]]
) -> None:
    made = await create(control)
    assert await issues_of(control, change, f"{CHANNELS}/{made['id']}", "PATCH") == issues


async def test_a_deleted_channel_is_not_found(control: Control) -> None:
    made = await create(control)
    path = f"{CHANNELS}/{made['id']}"
    status, body, _ = await control.call("DELETE", path)
    assert (status, body) == (204, None)
    assert (await control.call("GET", CHANNELS))[1]["data"] == []
    for method, where, body in (("DELETE", path, None), ("PATCH", path, {}), ("POST", f"{path}/test", None)):
        assert (await control.call(method, where, body))[0] == 404


@pytest.mark.parametrize("bad", ["x", MISSING, "chn_" + "0" * 25, "chn_" + "0" * 27, "%00", "chn_" + "A" * 26])
async def test_malformed_ids_are_404(control: Control, bad: str) -> None:
    answers = []
    for method, path in (("PATCH", bad), ("DELETE", bad), ("POST", f"{bad}/test")):
        status, body, _ = await control.call(method, f"{CHANNELS}/{path}", {} if method == "PATCH" else None)
        answers.append((status, body["error"]["code"], body["error"]["message"]))
    assert answers == [(404, "not_found", "Not found.")] * 3


async def test_a_foreign_channel_looks_like_a_missing_one(control: Control) -> None:
    foreign = await control.call("POST", CHANNELS.replace("acme", "globex"), new(), control.globex.token.secret)
    for id_ in (foreign[1]["id"], MISSING):
        for method, path, body in (
            ("PATCH", f"{CHANNELS}/{id_}", {"name": "x"}),
            ("DELETE", f"{CHANNELS}/{id_}", None),
            ("POST", f"{CHANNELS}/{id_}/test", None),
        ):
            status, answer, _ = await control.call(method, path, body)
            del answer["error"]["requestId"]
            assert (status, answer) == (404, {"error": {"code": "not_found", "message": "Not found."}})


@pytest.mark.parametrize(
    ("role", "read", "write"),
    [(Role.BILLING, 403, 403), (Role.VIEWER, 200, 403), (Role.MEMBER, 200, 201), (Role.ADMIN, 200, 201)],
)
async def test_roles_read_and_write(control: Control, role: Role, read: int, write: int) -> None:
    _, token = await new_member_token(control.checks.database, control.acme, role)
    assert (await control.call("GET", CHANNELS, token=token))[0] == read
    assert (await control.call("POST", CHANNELS, new(), token))[0] == write


async def test_scopes_of_the_token_count(control: Control) -> None:
    made = await create(control)
    _, token = await new_member_token(
        control.checks.database, control.acme, Role.ADMIN, frozenset({Scope.CHANNELS_READ})
    )
    assert (await control.call("GET", CHANNELS, token=token))[0] == 200
    for method, path, body in (
        ("POST", CHANNELS, new()),
        ("PATCH", f"{CHANNELS}/{made['id']}", {}),
        ("DELETE", f"{CHANNELS}/{made['id']}", None),
        ("POST", f"{CHANNELS}/{made['id']}/test", None),
    ):
        status, answer, _ = await control.call(method, path, body, token)
        assert (status, answer["error"]["code"]) == (403, "forbidden")


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
    assert (await control.call("PATCH", one, {"name": "x"}, admin))[0] == 200
    assert (await control.call("DELETE", one, token=admin))[0] == 204


async def test_no_token_is_401_on_every_path(control: Control) -> None:
    for method, path in (
        ("GET", CHANNELS),
        ("POST", CHANNELS),
        ("PATCH", f"{CHANNELS}/{MISSING}"),
        ("DELETE", f"{CHANNELS}/{MISSING}"),
        ("POST", f"{CHANNELS}/{MISSING}/test"),
    ):
        async with control.client.request(method, path) as answer:
            assert answer.status == 401


async def test_too_large_and_non_json_bodies_are_rejected(control: Control) -> None:
    big = b'{"name":"' + b"x" * 20_000 + b'"}'
    json = {"Content-Type": "application/json"}
    assert (await control.call("POST", CHANNELS, headers=json, data=big))[0] == 413
    assert (await control.call("POST", CHANNELS, headers={"Content-Type": "text/plain"}, data=b"{}"))[0] == 415
    status, body, _ = await control.call("POST", CHANNELS, headers=json, data=b"{")
    assert (status, body["error"]["details"][0]["code"]) == (400, "malformed")


async def test_an_organization_has_a_limited_number_of_channels(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.channels.repository.MAX_CHANNELS", 2)
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
