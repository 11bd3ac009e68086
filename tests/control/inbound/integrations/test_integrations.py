"""`/orgs/{orgSlug}/integrations`: create, show, list, change, rotate, delete."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from chassis.auth.tables import metadata
from control.inbound.integrations import store
from control.inbound.integrations.tables import inbound_deliveries, integrations
from control.inbound.webhooks import receiver as hooks_module
from tests.control.conftest import Control
from tests.control.inbound.webhooks.trackers.sent import linear_issue, new_integration, send
from tests.control.issues.releases.stored import new_project

EVERY = "/orgs/acme/integrations"
PING = {"event": "ping"}


def path(made: dict[str, Any]) -> str:
    return f"{EVERY}/{made['id']}"


@pytest.mark.both_stores
async def test_an_integration_is_created_shown_changed_and_deleted(control: Control) -> None:
    await new_project(control, "api")
    body = {"kind": "linear", "name": "Linear", "config": {"projects": ["web", "api", "web"]}}
    status, made, _ = await control.call("POST", EVERY, body)
    assert status == 201
    secret = made.pop("secret")
    assert len(secret) == 43
    assert made == {
        "id": made["id"],
        "kind": "linear",
        "name": "Linear",
        "enabled": True,
        "config": {"projects": ["web", "api"], "allowPlainToken": False, "syncStatus": True},
        "hookId": None,
        "url": f"https://sluice.example.org/webhooks/integrations/{made['id']}",
        "previousSecretUntil": None,
        "createdBy": control.acme.owner_id,
        "createdAt": made["createdAt"],
        "updatedAt": made["createdAt"],
    }
    github = {"kind": "github", "name": "GitHub", "hookId": "{42}", "secret": "It's a Secret", "enabled": False}
    status, other, _ = await control.call("POST", EVERY, github)
    assert (status, other["secret"], other["hookId"]) == (201, "It's a Secret", "{42}")
    assert other["url"] == f"https://sluice.example.org/webhooks/scm/github?hook={other['id']}"
    assert (await control.call("GET", path(made)))[:2] == (200, made)
    _, page, _ = await control.call("GET", EVERY)
    assert [one["id"] for one in page["data"]] == [other["id"], made["id"]]
    change = {"name": "L", "enabled": False, "hookId": "7", "config": {"syncStatus": False}}
    status, changed, _ = await control.call("PATCH", path(made), change)
    config = {"projects": [], "allowPlainToken": False, "syncStatus": False}
    assert (status, changed) == (200, made | change | {"config": config, "updatedAt": changed["updatedAt"]})
    assert (await control.call("PATCH", path(made), {"hookId": None}))[1]["hookId"] is None
    assert (await control.call("PATCH", path(made), {}))[0] == 200
    assert [(await control.call("DELETE", path(made)))[0] for _ in range(2)] == [204, 404]
    _, audit, _ = await control.call(
        "GET", "/orgs/acme/audit", params={"action": "integration.", "objectId": made["id"]}
    )
    actions = [one["action"].removeprefix("integration.") for one in audit["data"]]
    assert actions == ["delete", "change", "change", "change", "create"]
    assert audit["data"][-1]["data"] == {
        "kind": "linear",
        "name": "Linear",
        "enabled": True,
        "projects": ["web", "api"],
        "allowPlainToken": False,
        "syncStatus": True,
        "hookId": None,
    }


async def test_invalid_integrations_are_refused(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    good: dict[str, Any] = {"kind": "generic", "name": "x"}
    gitlab = {"kind": "gitlab", "name": "x", "config": {"allowPlainToken": True}}
    assert (await control.call("POST", EVERY, gitlab))[0] == 201
    one = path(await new_integration(control, "linear"))
    for method, where, body, field in (
        ("POST", EVERY, {"name": "x"}, "kind"),
        ("POST", EVERY, good | {"kind": "trello"}, "kind"),
        ("POST", EVERY, good | {"name": "\u202e"}, "name"),
        ("POST", EVERY, good | {"kind": "linear", "secret": "1234567"}, "secret"),
        ("POST", EVERY, good | {"kind": "linear", "secret": "x" * 257}, "secret"),
        ("POST", EVERY, good | {"kind": "linear", "secret": "pässword"}, "secret"),
        ("POST", EVERY, good | {"kind": "linear", "secret": "pass\nword"}, "secret"),
        ("POST", EVERY, good | {"secret": "a good secret"}, "secret"),
        ("POST", EVERY, good | {"secret": "whsec_AAAA"}, "secret"),
        ("POST", EVERY, good | {"hookId": "a b"}, "hookId"),
        ("POST", EVERY, good | {"config": {"projects": ["web", "none"]}}, "config.projects[1]"),
        ("POST", EVERY, good | {"config": {"projects": ["a\x00"]}}, "config.projects[0]"),
        ("POST", EVERY, good | {"config": {"projects": ["web"] * 21}}, "config.projects"),
        ("POST", EVERY, good | {"config": {"allowPlainToken": True}}, "config.allowPlainToken"),
        ("POST", EVERY, good | {"config": {"other": 1}}, "config.other"),
        ("PATCH", one, {"config": {"allowPlainToken": True}}, "config.allowPlainToken"),
        ("PATCH", one, {"config": {"projects": ["none"]}}, "config.projects[0]"),
        ("PATCH", one, {"kind": "jira"}, "kind"),
        ("PATCH", one, {"secret": "12345678"}, "secret"),
        ("POST", one + "/rotate", {"overlapHours": 169}, "overlapHours"),
        ("POST", one + "/rotate", {"overlapHours": -1}, "overlapHours"),
        ("POST", one + "/rotate", {"secret": "short"}, "secret"),
    ):
        status, answer, _ = await control.call(method, where, body)
        assert (status, [each["path"] for each in answer["error"]["details"]]) == (400, [f"body.{field}"]), body
        assert "a good secret" not in str(answer)
    monkeypatch.setattr(store, "MAX_INTEGRATIONS", 2)
    status, answer, _ = await control.call("POST", EVERY, good)
    assert (status, answer["error"]["code"]) == (409, "conflict")


async def test_both_secrets_are_valid_during_a_rotation(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the older one no longer than that; one before it never."""
    monkeypatch.setattr(hooks_module, "KEPT_S", 0.0)  # as after a moment
    for kind in ("linear", "generic"):
        made = await new_integration(control, kind)

        first = made["secret"]
        status, rotated, _ = await control.call("POST", path(made) + "/rotate", {})
        second = rotated.pop("secret")
        assert (status, first != second) == (200, True)
        begin = datetime.fromisoformat(rotated["updatedAt"])
        assert datetime.fromisoformat(rotated["previousSecretUntil"]) - begin == timedelta(hours=24)
        assert await accepted(control, made, first, second) == [True, True]
        own = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
        status, again, _ = await control.call("POST", path(made) + "/rotate", {"secret": own, "overlapHours": 168})
        assert (status, again["secret"]) == (200, own)
        assert await accepted(control, made, first, second, own) == [False, True, True]
        await end_overlap(control, made["id"])
        assert await accepted(control, made, first, second, own) == [False, False, True]
        status, last, _ = await control.call("POST", path(made) + "/rotate", {"overlapHours": 0})
        assert (status, last["previousSecretUntil"]) == (200, None)
        assert await accepted(control, made, first, second, own, last["secret"]) == [False, False, False, True]


async def accepted(control: Control, made: dict[str, Any], *secrets: str) -> list[bool]:
    """Which of the secrets a delivery may be signed with."""
    bodies = [linear_issue(webhookId=secret) | PING | {"for": secret} for secret in secrets]
    return [
        (await send(control, made, body, secret=secret))[0] == 200 for body, secret in zip(bodies, secrets, strict=True)
    ]


async def end_overlap(control: Control, integration_id: str) -> None:
    """The hours are over."""
    until = datetime.now(UTC) - timedelta(seconds=1)
    changed = integrations.update().where(integrations.c.id == integration_id).values(previous_secret_until=until)
    async with control.checks.database.write() as connection:
        await connection.execute(changed)


async def test_secrets_are_nowhere_to_be_seen(control: Control) -> None:
    """Not in later answers, the audit log, the log, or any column of the database."""
    own = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE="
    with capture_logs() as logs:
        made = await new_integration(control, "generic", secret=own)
        _, rotated, _ = await control.call("POST", path(made) + "/rotate", {})
        bodies = [{"event": "change.x", "change": {"title": "x", "project": "none"}}, PING]
        statuses = [(await send(control, made, body, secret=rotated["secret"]))[0] for body in bodies]
        statuses += [(await send(control, made, PING, secret=one))[0] for one in ("whsec_" + "A" * 32, own)]
        assert statuses == [400, 200, 401, 200]
        seen = [
            (await control.call(*call))[1]
            for call in (
                ("GET", EVERY),
                ("GET", path(made)),
                ("PATCH", path(made), {"name": "y"}),
                ("GET", path(made) + "/deliveries"),
                ("GET", "/orgs/acme/audit"),
                ("POST", EVERY, {"kind": "generic", "name": "x", "secret": own + "x"}),
            )
        ]
    async with control.checks.database.read() as connection:
        for table in metadata.sorted_tables:
            seen.append([tuple(map(repr, row)) for row in await connection.execute(sa.select(table))])
    text = str(seen) + str(logs)
    for secret in (own, rotated["secret"]):
        assert secret not in text
        assert secret.removeprefix("whsec_") not in text
    assert made["id"] in text


async def test_deliveries_are_deleted_with_their_integration(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """In transactions of bounded size; what was reported stays."""
    monkeypatch.setattr("control.inbound.integrations.api.DELETED_AT_ONCE", 2)
    made, other = [await new_integration(control, "generic") for _ in range(2)]
    for number in range(5):
        body = {"event": "change.x", "change": {"title": str(number)}}
        assert (await send(control, made, body))[0] == 200
    assert (await send(control, other, PING))[0] == 200
    assert (await control.call("DELETE", path(made)))[0] == 204
    async with control.checks.database.read() as connection:
        left = (await connection.execute(sa.select(inbound_deliveries.c.integration_id))).scalars().all()
    assert left == [other["id"]]
    _, page, _ = await control.call("GET", "/orgs/acme/changes")
    assert len(page["data"]) == 5
