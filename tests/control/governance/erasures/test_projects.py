"""`DELETE` of a project: what stops at once, what is left, who may."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import sqlalchemy as sa

from chassis.auth.guards import AuthGuards, _InvalidationListener
from chassis.auth.tables import project_keys, projects
from chassis.db.database import Database
from chassis.erasures import repository
from chassis.errors import ServiceUnavailable, Unauthorized
from control.approvals.policies.store import approval_policies
from control.audit.record import Actor
from control.governance.erasures.deletion import delete_project
from control.notify.channels.tables import deliveries, delivery_messages, notification_channels
from proto.identity import PrincipalKind, Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.approvals.office import new_machine
from tests.control.conftest import Control
from tests.control.governance.erasures.conftest import erase_telemetry, purge
from tests.control.test_rights_meanwhile import sent_slowly

WEB: Final = "/orgs/acme/projects/web"


async def scalar(database: Database, query: sa.Select[Any]) -> Any:
    async with database.read() as connection:
        return await connection.scalar(query)


@pytest.mark.both_stores
async def test_a_deleted_project_is_gone_at_once(control: Control) -> None:
    key = control.acme.key.secret
    assert (await control.checks.project_keys.check(legacy_key=key)).project_slug == "web"
    status, erasure, headers = await control.call("DELETE", WEB)
    assert status == 202
    about: dict[str, Any] = {
        "kind": "project",
        "state": "PENDING",
        "projectId": str(control.acme.project.id),
        "projectSlug": "web",
    }
    about |= {"dryRun": False, "filterCount": 0, "from": None, "to": None, "rows": {}, "message": None}
    assert erasure == erasure | about | {"requestedByPrincipalId": control.acme.owner_id, "completedAt": None}
    assert headers["Location"] == f"/orgs/acme/erasures/{erasure['id']}"
    assert (await control.call("GET", headers["Location"]))[:2] == (200, erasure | {"exports": []})
    with pytest.raises(Unauthorized):
        await control.checks.project_keys.check(legacy_key=key)
    for method, path in (
        ("GET", WEB),
        ("PATCH", WEB),
        ("DELETE", WEB),
        ("GET", f"{WEB}/keys"),
        ("POST", f"{WEB}/keys"),
    ):
        assert (await control.call(method, path, {"name": "x"} if method in ("PATCH", "POST") else None))[0] == 404
    assert (await control.call("GET", "/orgs/acme/projects"))[1]["data"] == []
    [event] = (await control.call("GET", "/orgs/acme/audit"))[1]["data"]
    assert (event["action"], event["objectId"]) == ("project.delete", str(control.acme.project.id))
    assert event["data"] == {"slug": "web", "erasureId": erasure["id"]}
    assert await scalar(
        control.checks.database, sa.select(projects.c.name).where(projects.c.deleted_at.is_not(None))
    ) == ("(deleted)")


async def test_the_slug_is_free_for_a_new_project(control: Control) -> None:
    await control.call("DELETE", WEB)
    status, made, _ = await control.call("POST", "/orgs/acme/projects", {"slug": "web", "name": "Anew"})
    assert status == 201
    assert made["id"] != str(control.acme.project.id)
    assert (await control.call("GET", WEB))[:2] == (200, made)
    status, again, _ = await control.call("DELETE", WEB)
    assert (status, again["projectId"]) == (202, made["id"])


async def test_what_depends_on_the_project_ends_with_it(control: Control) -> None:
    email = {"name": "c", "kind": "email", "config": {"to": ["ops@example.org"]}}
    _, channel, _ = await control.call("POST", f"{WEB}/notification-channels", email)
    _, shared, _ = await control.call("POST", f"{WEB}/notification-channels", email | {"scope": "org"})
    rule = {"name": "p", "actionPattern": "a.b", "effect": "ASK", "riskClass": "HIGH"}
    await control.call("POST", "/orgs/acme/approval-policies", rule | {"projectSlug": "web"})
    _, kept, _ = await control.call("POST", "/orgs/acme/approval-policies", rule)
    asked = {"action": "a.b", "targetType": "t", "targetId": "1", "projectTag": "web", "channelIds": [channel["id"]]}
    _, answer, _ = await control.call("POST", "/orgs/acme/approval-requests", asked)
    await control.call("DELETE", WEB)

    _, policies, _ = await control.call("GET", "/orgs/acme/approval-policies")
    assert [one["id"] for one in policies["data"]] == [kept["id"]]
    _, request, _ = await control.call("GET", f"/orgs/acme/approval-requests/{answer['request']['id']}")
    assert request["status"] == "EXPIRED"
    status, _, _ = await control.call("POST", f"/orgs/acme/approval-requests/{request['id']}/reject", {"reason": "x"})
    assert status == 409
    database = control.checks.database
    config = sa.select(notification_channels.c.config).where(notification_channels.c.id == channel["id"])
    assert await scalar(database, config) is None
    status, refusal, _ = await control.call("POST", "/orgs/acme/approval-requests", asked)
    assert (status, refusal["error"]["details"][0]["path"]) == (400, "body.projectTag")

    await purge(database)
    for table in (project_keys, deliveries, delivery_messages):
        rows = await scalar(database, sa.select(sa.func.count()).select_from(table))
        assert rows == (1 if table is project_keys else 0)  # that of globex
    assert await scalar(database, sa.select(notification_channels.c.id)) == shared["id"]
    assert await scalar(database, sa.select(approval_policies.c.id)) == kept["id"]


async def test_a_purge_that_was_interrupted_is_resumed(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """The erasure is complete when rows and telemetry are gone."""
    for _ in range(5):
        await control.call("POST", f"{WEB}/keys", {"name": "x"})
    _, erasure, headers = await control.call("DELETE", WEB)
    database = control.checks.database

    async def crash(_self: Database) -> None:
        raise KeyboardInterrupt

    async def unpurged() -> list[str]:
        async with database.read() as connection:
            return [one.id for one in await repository.list_unpurged(connection, 10)]

    with monkeypatch.context() as patched:
        patched.setattr(Database, "compact", crash)
        with pytest.raises(KeyboardInterrupt):
            await purge(database)
    assert await unpurged() == [erasure["id"]]
    for _ in range(2):
        await purge(database)
        assert await unpurged() == []
    assert await erase_telemetry(database) == 1
    _, shown, _ = await control.call("GET", headers["Location"])
    assert (shown["state"], shown["rows"]) == ("COMPLETED", {"spans": 1, "project_keys": 6})
    assert shown["completedAt"] >= erasure["requestedAt"]


async def test_only_users_delete(control: Control) -> None:
    for kind in (PrincipalKind.AGENT, PrincipalKind.SERVICE):
        machine = await new_machine(control.checks.database, control.acme, control.acme.owner_id, kind, Role.ADMIN)
        status, refusal, _ = await control.call("DELETE", WEB, token=machine.token)
        assert (status, "Only users can delete" in refusal["error"]["message"]) == (403, True)
    _, agent, _ = await control.call("POST", "/orgs/acme/principals", {"kind": "agent", "name": "a", "role": "ADMIN"})
    _, delegated, _ = await control.call("POST", f"/orgs/acme/principals/{agent['principalId']}/tokens", {"name": "d"})
    assert (await control.call("DELETE", WEB, token=delegated["token"]))[0] == 403
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    assert (await control.call("DELETE", WEB, token=admin))[0] == 202


async def test_a_change_of_the_project_that_is_under_way_changes_nothing(control: Control) -> None:
    """Deleted by another process, of which this one has not heard; a project of the same slug follows."""
    other = AuthGuards.create(control.checks.database, None)

    async def delete() -> None:
        async with control.checks.database.write() as connection:
            by = Actor(control.acme.organization.id)
            await delete_project(connection, by, control.acme.project.id, "web", "r", datetime.now(UTC))
        other.drop_project(control.acme.organization.id, control.acme.project.id)

    change = ("POST", f"{WEB}/keys", {"name": "x"})
    assert await sent_slowly(control, control.acme.token.secret, change, delete) == 404
    keys = sa.select(sa.func.count()).select_from(project_keys).where(project_keys.c.revoked_at.is_(None))
    assert await scalar(control.checks.database, keys) == 1  # that of globex


async def test_of_concurrent_deletions_one_succeeds(control: Control) -> None:
    answers = await asyncio.gather(*(control.call("DELETE", WEB) for _ in range(4)))
    assert sorted(status for status, _, _ in answers) == [202, 404, 404, 404]
    assert len((await control.call("GET", "/orgs/acme/erasures"))[1]["data"]) == 1


async def test_its_keys_do_not_work_while_the_database_is_unavailable(control: Control) -> None:
    keys = control.checks.project_keys
    for tenant in (control.acme, control.globex):
        await keys.check(legacy_key=tenant.key.secret)
    await control.call("DELETE", WEB)
    await control.checks.database.close()
    with pytest.raises((Unauthorized, ServiceUnavailable)):
        await keys.check(legacy_key=control.acme.key.secret)
    await control.checks.database.start()


async def test_a_key_that_another_process_knows_stops_by_message(control: Control) -> None:
    guards = AuthGuards.create(control.checks.database, None)
    listener = _InvalidationListener(guards.bearer, guards.project_keys)
    for message in (
        f"deleted-project {control.acme.project.id}",
        f"deleted-organization {control.globex.organization.id}",
    ):
        for tenant in (control.acme, control.globex):
            await guards.project_keys.check(legacy_key=tenant.key.secret)
        listener.on_message(message)
    known = guards.project_keys._cache
    assert len(known._known) == 1
    await guards.bearer.close()
    await guards.project_keys.close()


async def test_a_project_has_its_own_retention(control: Control) -> None:
    _, shown, _ = await control.call("GET", WEB)
    assert shown["retentionDays"] is None
    status, changed, _ = await control.call("PATCH", WEB, {"retentionDays": 30})
    assert (status, changed["retentionDays"]) == (200, 30)
    assert (await control.call("PATCH", WEB, {"name": "Web"}))[1]["retentionDays"] == 30
    assert (await control.call("PATCH", WEB, {"retentionDays": None}))[1]["retentionDays"] is None
    status, made, _ = await control.call("POST", "/orgs/acme/projects", {"slug": "a", "name": "A", "retentionDays": 1})
    assert (status, made["retentionDays"]) == (201, 1)
    [event, *_] = (await control.call("GET", "/orgs/acme/audit"))[1]["data"]
    assert event["data"] == {"slug": "a", "name": "A", "retentionDays": 1}
    for days, code in ((0, "too_small"), (31, "too_large"), (36_501, "too_large"), ("x", "type")):
        for method, path, more in (("PATCH", WEB, {}), ("POST", "/orgs/acme/projects", {"slug": "b", "name": "B"})):
            status, refusal, _ = await control.call(method, path, more | {"retentionDays": days})
            issues = [(one["path"], one["code"]) for one in refusal["error"]["details"]]
            assert (status, issues) == (400, [("body.retentionDays", code)])
