"""Who reaches what: tokens of directories, other organizations' resources, the settings."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from control.identity.directory.tables import scim_tokens
from proto.identity import Role, encode_token
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.scim.conftest import Directory, connect


@pytest.mark.both_stores
async def test_tokens_are_issued_listed_rotated_and_revoked(control: Control) -> None:
    tokens = "/orgs/acme/scim-tokens"
    status, made, _ = await control.call("POST", tokens, {"name": "Okta", "expiresInDays": 90})
    assert status == 201
    assert made["token"].startswith("scim_")
    assert made["hint"] == made["token"][-4:]
    assert made["createdByPrincipalId"] == control.acme.owner_id
    old = Directory(control, made["token"])
    assert (await old.call("GET", "/Users"))[0] == 200
    status, page, _ = await control.call("GET", tokens)
    assert status == 200
    (shown,) = page["data"]
    assert shown["lastUsedAt"] is not None
    assert made["token"] not in str(page)

    status, rotated, _ = await control.call("POST", f"{tokens}/{made['id']}/rotate", {"graceHours": 1})
    assert status == 201
    lifetime = datetime.fromisoformat(rotated["expiresAt"]) - datetime.fromisoformat(rotated["createdAt"])
    assert (rotated["name"], lifetime) == ("Okta", timedelta(days=90))
    new = Directory(control, rotated["token"])
    assert [(await each.call("GET", "/Users"))[0] for each in (old, new)] == [200, 200]
    assert (await control.call("POST", f"{tokens}/{made['id']}/rotate", {}))[0] == 409
    assert (await control.call("DELETE", f"{tokens}/{made['id']}"))[0] == 204
    assert (await control.call("DELETE", f"{tokens}/{made['id']}"))[0] == 204
    assert [(await each.call("GET", "/Users"))[0] for each in (old, new)] == [401, 200]
    status, again, _ = await control.call("POST", f"{tokens}/{rotated['id']}/rotate", {"graceHours": 0})
    assert (await new.call("GET", "/Users"))[0] == 401
    assert (await Directory(control, again["token"]).call("GET", "/Users"))[0] == 200
    events = await old.audit("scim_token.")
    assert [each["action"].rpartition(".")[2] for each in events] == ["rotate", "revoke", "rotate", "create"]
    assert made["token"] not in str(events)


async def test_a_directory_has_at_most_ten_tokens(control: Control) -> None:
    for _ in range(10):
        assert (await control.call("POST", "/orgs/acme/scim-tokens", {"name": "x"}))[0] == 201
    assert (await control.call("POST", "/orgs/acme/scim-tokens", {"name": "x"}))[0] == 409


async def test_tokens_are_for_administrators(control: Control) -> None:
    for role in (Role.VIEWER, Role.BILLING, Role.MEMBER):
        _, token = await new_member_token(control.checks.database, control.acme, role)
        for method, path, body in (
            ("GET", "scim-tokens", None),
            ("POST", "scim-tokens", {"name": "x"}),
            ("GET", "scim-settings", None),
            ("PUT", "scim-settings", {"successorPrincipalId": None}),
            ("DELETE", "scim-directory", None),
        ):
            assert (await control.call(method, f"/orgs/acme/{path}", body, token))[0] == 403, (role, method, path)


async def test_agents_issue_no_tokens(control: Control) -> None:
    _, agent, _ = await control.call("POST", "/orgs/acme/principals", {"kind": "agent", "name": "a", "role": "ADMIN"})
    _, made, _ = await control.call("POST", f"/orgs/acme/principals/{agent['principalId']}/tokens", {"name": "x"})
    assert (await control.call("POST", "/orgs/acme/scim-tokens", {"name": "x"}, made["token"]))[0] == 403
    assert (await control.call("GET", "/orgs/acme/scim-tokens", token=made["token"]))[0] == 200
    assert (await control.call("DELETE", "/orgs/acme/scim-directory", token=made["token"]))[0] == 403


async def test_a_token_reaches_scim_alone(control: Control, directory: Directory) -> None:
    for path in ("/orgs/acme/members", "/orgs/acme/scim-tokens", "/auth/user"):
        assert (await control.call("GET", path, token=directory.token))[0] == 401
    required = "A SCIM token is required: Authorization: Bearer scim_..."
    invalid = "The SCIM token is invalid, expired or revoked."
    for token, detail in (
        (control.acme.token.secret, required),
        ("", required),
        ("scim_x", invalid),
        (encode_token(b"x" * 32, "scim_"), invalid),
    ):
        status, body, _ = await Directory(control, token).call("GET", "/Users")
        assert (status, body["detail"]) == (401, detail)
    async with control.client.get("/scim/v2/acme/Users") as answer:
        assert answer.status == 401
        assert (await answer.json(content_type=None))["status"] == "401"


async def test_other_organizations_resources_are_not_there(control: Control, directory: Directory) -> None:
    foreign = await connect(control, "globex", control.globex.token.secret)
    theirs, group = await foreign.user("ada@example.com"), await foreign.group("Team")
    mine = await directory.group("Team")
    bodies = set()
    for org in ("globex", "nowhere", "x%00"):
        other = Directory(control, directory.token, org)
        for path in ("/Users", "/Groups", f"/Users/{theirs['id']}", "/Schemas", "/ServiceProviderConfig", "/Nothing"):
            status, body, _ = await other.call("GET", path, headers={"X-Request-Id": "same"})
            assert status == 404
            bodies.add(repr(body))
    missing = {"scu": "scu_00000000000000000000000000", "scg": "scg_00000000000000000000000000"}
    for kind, theirs_id in (("Users", theirs["id"]), ("Groups", group["id"])):
        for one in (theirs_id, missing[theirs_id[:3]], "x", "%00", "scu_" + "é" * 26):
            for method, sent in (
                ("GET", None),
                ("PUT", {"userName": "x", "displayName": "x"}),
                ("PATCH", {"Operations": [{"op": "replace", "path": "displayName", "value": "x"}]}),
                ("DELETE", None),
            ):
                status, body, _ = await directory.call(method, f"/{kind}/{one}", sent, headers={"X-Request-Id": "same"})
                assert status == 404
                bodies.add(repr(body))
    assert len(bodies) == 1
    status, body = await directory.patch(mine, {"op": "add", "path": "members", "value": [{"value": theirs["id"]}]})
    assert (status, body["scimType"]) == (400, "invalidValue")
    assert (await directory.call("GET", f'/Users?filter=id eq "{theirs["id"]}"'))[1]["totalResults"] == 0
    assert (await foreign.call("GET", f"/Users/{theirs['id']}"))[1] == theirs


async def test_a_token_that_is_revoked_meanwhile_writes_nothing(control: Control, directory: Directory) -> None:
    async def body() -> Any:
        yield b'{"userName":'
        await control.execute(scim_tokens.update().values(revoked_at=datetime.now(UTC)))
        yield b'"ada@example.com"}'

    headers = {"Authorization": f"Bearer {directory.token}", "Content-Type": "application/scim+json"}
    async with control.client.post("/scim/v2/acme/Users", data=body(), headers=headers) as answer:
        assert answer.status == 401
    assert "ada@example.com" not in await directory.members()


@pytest.mark.chassis_settings(scim_rate=2)
async def test_a_directory_is_limited(control: Control) -> None:
    """As an organization, whatever token it uses; others are not."""
    first, second = await connect(control), await connect(control)
    foreign = await connect(control, "globex", control.globex.token.secret)
    assert [(await each.call("GET", "/Users"))[0] for each in (first, second)] == [200, 200]
    status, body, headers = await first.call("GET", "/Users")
    assert (status, body["status"], headers["x-ratelimit-limit"]) == (429, "429", "2")
    assert int(headers["Retry-After"]) > 0
    assert (await foreign.call("GET", "/Users"))[0] == 200


async def test_what_there_is_not(directory: Directory) -> None:
    for method, path, expected in (
        ("GET", "/Me", 501),
        ("PATCH", "/Me", 501),
        ("POST", "/Bulk", 501),
        ("POST", "/.search", 501),
        ("GET", "", 501),
        ("GET", "/Nothing", 404),
        ("GET", "/Schemas/urn:nothing", 404),
        ("GET", "/ResourceTypes/Nothing", 404),
        ("GET", "/Schemas?filter=id pr", 403),
        ("POST", "/Schemas", 405),
    ):
        status, body, _ = await directory.call(method, path)
        assert (status, body["status"]) == (expected, str(expected)), path


async def test_the_settings(control: Control, directory: Directory, person: Any) -> None:
    path = "/orgs/acme/scim-settings"
    grace = await person("grace@example.com")
    await directory.user("ada@example.com")
    await directory.group("Team")
    status, body, _ = await control.call("GET", path)
    assert (status, body) == (
        200,
        {
            "successorPrincipalId": None,
            "endpoint": "https://sluice.example.org/scim/v2/acme",
            "users": 1,
            "groups": 1,
            "defaultRole": "VIEWER",
            "roleMapping": None,
        },
    )
    status, body, _ = await control.call("PUT", path, {"successorPrincipalId": grace.id})
    assert (status, body["successorPrincipalId"]) == (200, grace.id)
    for bad in ("x", control.globex.owner_id, "x\0"):
        assert (await control.call("PUT", path, {"successorPrincipalId": bad}))[0] == 409
    assert (await control.call("PUT", path, {}))[0] == 400


@pytest.mark.both_stores
async def test_a_directory_that_is_disconnected_leaves_people_as_they_are(
    control: Control, directory: Directory
) -> None:
    ada, bob = await directory.user("ada@example.com"), await directory.user("bob@example.com")
    await directory.activate(bob, False)
    await directory.group("Team", ada)
    status, body, _ = await control.call("DELETE", "/orgs/acme/scim-directory")
    assert (status, body) == (200, {"users": 2, "groups": 1, "tokens": 1, "releasedMembers": 1})
    assert (await directory.call("GET", "/Users"))[0] == 401
    member = (await directory.members())["ada@example.com"]
    path = f"/orgs/acme/members/{member['principalId']}"
    assert (await control.call("PATCH", path, {"role": "MEMBER"}))[0] == 200
    assert (await control.call("DELETE", path))[0] == 204
    status, body, _ = await control.call("DELETE", "/orgs/acme/scim-directory")
    assert (status, body) == (200, {"users": 0, "groups": 0, "tokens": 0, "releasedMembers": 0})
    again = await connect(control)
    await again.user("bob@example.com")
    assert "bob@example.com" in await directory.members()


async def test_a_token_expires_and_its_last_use_is_written_once_a_minute(
    control: Control, directory: Directory
) -> None:
    used = sa.select(scim_tokens.c.last_used_at)
    assert await control.scalars(used) == [None]
    await directory.call("GET", "/Users")
    first = await control.scalars(used)
    await directory.call("GET", "/Users")
    assert await control.scalars(used) == first != [None]
    await control.execute(scim_tokens.update().values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    status, body, headers = await directory.call("GET", "/Users")
    assert (status, body["detail"]) == (401, "The SCIM token is invalid, expired or revoked.")
    assert headers["WWW-Authenticate"] == "Bearer"
