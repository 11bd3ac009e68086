"""Members and invitations: who may make whom what, and what is left of who goes."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, invitations, principals, users
from chassis.errors import Forbidden
from control.identity.members.invitations import require_can_invite
from control.identity.organizations import organization_store
from control.identity.users.passwords import Passwords
from proto.identity import PrincipalKind, Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person

INVITATIONS = "/orgs/acme/invitations"
MEMBERS = "/orgs/acme/members"
ACCEPT = "/auth/invitations/accept"


def acceptance(token: str, **more: str) -> dict[str, str]:
    return {"inviteToken": token, "name": "Ada", "password": PASSWORD} | more


async def test_invitation_secret_is_returned_once_and_accepted_once(control: Control) -> None:
    status, made, _ = await control.call("POST", INVITATIONS, {"email": "Ada@example.org", "role": "MEMBER"})
    assert status == 201
    assert list(made) == [
        "id", "email", "role", "state", "mailed", "invitedByPrincipalId", "createdAt", "expiresAt", "inviteToken",
    ]  # fmt: skip
    assert (made["email"], made["role"], made["state"]) == ("ada@example.org", "MEMBER", "OPEN")
    assert made["invitedByPrincipalId"] == control.acme.owner_id
    assert moment(made["expiresAt"]) - moment(made["createdAt"]) == timedelta(days=7)
    shown = {name: value for name, value in made.items() if name != "inviteToken"}
    assert (await control.call("GET", INVITATIONS))[1]["data"] == [shown]
    status, material, _ = await control.call("POST", ACCEPT, acceptance(made["inviteToken"]))
    assert (status, list(material), material["user"]["email"]) == (201, ["tokens", "user"], "ada@example.org")
    assert (await control.call("GET", "/orgs/acme/projects", token=material["tokens"]["accessToken"]))[0] == 200
    assert (await control.call("POST", ACCEPT, acceptance(made["inviteToken"])))[0] == 401
    assert (await control.call("GET", INVITATIONS))[1]["data"] == [shown | {"state": "ACCEPTED"}]
    _, page, _ = await control.call("GET", MEMBERS)
    assert [(one["principalId"], one["role"], one["email"]) for one in page["data"]] == [
        (control.acme.owner_id, "OWNER", None),
        (material["user"]["id"], "MEMBER", "ada@example.org"),
    ]
    assert list(page["data"][0]) == [
        "principalId", "kind", "name", "email", "emailVerified", "role", "ownerPrincipalId", "mfaEnabled", "createdAt",
    ]  # fmt: skip


@pytest.mark.both_stores
async def test_revoked_replaced_and_expired_invitations_are_void(control: Control) -> None:
    made = [
        (await control.call("POST", INVITATIONS, {"email": "ada@example.org", "role": "MEMBER"}))[1] for _ in range(2)
    ]
    assert (await control.call("POST", ACCEPT, acceptance(made[0]["inviteToken"])))[0] == 401
    for _ in range(2):
        assert (await control.call("DELETE", f"{INVITATIONS}/{made[1]['id']}"))[0] == 204
    assert (await control.call("POST", ACCEPT, acceptance(made[1]["inviteToken"])))[0] == 401
    _, late, _ = await control.call("POST", INVITATIONS, {"email": "bob@example.org", "role": "MEMBER"})
    async with control.checks.database.write() as connection:
        of_late = invitations.update().where(invitations.c.id == late["id"])
        await connection.execute(of_late.values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    assert (await control.call("POST", ACCEPT, acceptance(late["inviteToken"])))[0] == 401
    _, page, _ = await control.call("GET", INVITATIONS)
    assert [one["state"] for one in page["data"]] == ["EXPIRED", "REVOKED", "REVOKED"]


async def test_invitation_is_void_when_the_inviter_could_not_make_it(control: Control, person: NewPerson) -> None:
    async def accepted(made: dict[str, Any]) -> int:
        return (await control.call("POST", ACCEPT, acceptance(made["inviteToken"])))[0]

    boss, one = await person("boss@example.org", "OWNER"), "{}@example.org"
    owner, admin, *others = [
        (await boss.call("POST", INVITATIONS, {"email": one.format(number), "role": role}))[1]
        for number, role in enumerate(("OWNER", "ADMIN", "MEMBER", "MEMBER"))
    ]
    for role, expected in (("MEMBER", [401, 401]), ("ADMIN", [401, 201])):
        assert (await control.call("PATCH", f"{MEMBERS}/{boss.id}", {"role": role}))[0] == 200
        assert [await accepted(made) for made in (owner, admin)] == expected, role
    async with control.checks.database.write() as connection:
        await organization_store.disable_principal(connection, boss.id)
    assert await accepted(others[0]) == 401
    _, kept, _ = await control.call("POST", INVITATIONS, {"email": "eve@example.org", "role": "MEMBER"})
    assert (await control.call("DELETE", f"{MEMBERS}/{boss.id}"))[0] == 204
    states = {each["id"]: each["state"] for each in (await control.call("GET", INVITATIONS))[1]["data"]}
    assert [states[each["id"]] for each in (*others, kept)] == ["REVOKED", "REVOKED", "OPEN"]


async def test_only_users_can_invite(control: Control, person: NewPerson) -> None:
    """Else an agent makes itself a person, who approves what it asks for."""
    boss = await person("boss@example.org", "ADMIN")
    for number, kind in enumerate(("agent", "service")):
        eve = {"email": f"eve{number}@example.org", "role": "MEMBER"}
        token = await worker_token(boss, kind)
        for body in (eve, {}):
            status, answer, _ = await control.call("POST", INVITATIONS, body, token)
            assert (status, answer["error"]["message"].partition(".")[0]) == (403, "Only users can invite members")
        assert len((await control.call("GET", INVITATIONS, token=token))[1]["data"]) == 1 + number, "of who owns it"
        _, made, _ = await boss.call("POST", INVITATIONS, eve)
        worker = (await boss.call("GET", "/orgs/acme/principals"))[1]["data"][number]
        of_eve = invitations.update().where(invitations.c.id == made["id"])
        await control.execute(of_eve.values(created_by=worker["principalId"]))
        assert (await control.call("POST", ACCEPT, acceptance(made["inviteToken"])))[0] == 401


def test_delegated_tokens_cannot_invite() -> None:
    acting = AuthorizationContext("prn_1", "tok_1", "org_1", "acme", Role.OWNER, frozenset(Scope), on_behalf_of="prn_2")
    with pytest.raises(Forbidden, match="act on behalf of another principal"):
        require_can_invite(acting)


async def test_inviter_demoted_during_password_hashing_voids_the_invitation(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    boss = await person("boss@example.org", "ADMIN")
    _, made, _ = await boss.call("POST", INVITATIONS, {"email": "ada@example.org", "role": "ADMIN"})
    hashed = Passwords.hash

    async def slow(self: Passwords, password: str, *, salted_like: str | None) -> str:
        async with control.checks.database.write() as connection:
            await organization_store.set_role(connection, control.acme.organization.id, boss.id, Role.MEMBER)
        return await hashed(self, password, salted_like=salted_like)

    monkeypatch.setattr(Passwords, "hash", slow)
    assert (await control.call("POST", ACCEPT, acceptance(made["inviteToken"])))[0] == 401
    assert len((await control.call("GET", MEMBERS))[1]["data"]) == 2


@pytest.mark.both_stores
async def test_removing_an_agent_retires_it(control: Control, person: NewPerson) -> None:
    boss = await person("boss@example.org", "ADMIN")
    token = await worker_token(boss)
    [agent] = (await boss.call("GET", "/orgs/acme/principals"))[1]["data"]
    assert (await control.call("DELETE", f"{MEMBERS}/{agent['principalId']}"))[0] == 204
    assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 401
    async with control.checks.database.read() as connection:
        found = sa.select(principals.c.disabled_at).where(principals.c.id == agent["principalId"])
        assert await connection.scalar(found) is not None


async def test_existing_user_accepts_with_the_own_password(control: Control, person: NewPerson) -> None:
    ada = await person(org="globex", verified=True)
    _, made, _ = await control.call("POST", INVITATIONS, {"email": ada.email, "role": "VIEWER"})
    body: dict[str, object] = {"inviteToken": made["inviteToken"], "name": "Eve", "existingAccount": True}
    for _ in range(2):
        assert (await control.call("POST", ACCEPT, body | {"password": "another password"}))[0] == 401
    status, material, _ = await control.call("POST", ACCEPT, body | {"password": PASSWORD})
    assert (status, material["user"]["id"], material["user"]["name"]) == (201, ada.id, "Ada")
    assert (await control.call("POST", INVITATIONS, {"email": ada.email, "role": "VIEWER"}))[0] == 409
    assert (await control.call("GET", f"{MEMBERS}/{ada.id}"))[1]["role"] == "VIEWER"


async def test_role_beyond_own_scopes_cannot_be_granted(control: Control) -> None:
    database = control.checks.database
    _, admin = await new_member_token(database, control.acme, Role.ADMIN)
    _, narrow = await new_member_token(database, control.acme, Role.OWNER, frozenset({Scope.MEMBERS_WRITE}))
    _, member = await new_member_token(database, control.acme, Role.MEMBER)
    for role in Role:
        body = {"email": "ada@example.org", "role": role}
        expected = {admin: 403 if role is Role.OWNER else 201, narrow: 403, member: 403, control.acme.token.secret: 201}
        for token, status in expected.items():
            assert (await control.call("POST", INVITATIONS, body, token))[0] == status
        changed, _ = await new_member_token(database, control.acme, Role.VIEWER)
        for token, status in expected.items():
            answer = await control.call("PATCH", f"{MEMBERS}/{changed}", {"role": role}, token)
            assert answer[0] == (200 if status == 201 else status)


async def test_only_owners_change_and_remove_owners(control: Control) -> None:
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    second, _ = await new_member_token(control.checks.database, control.acme, Role.OWNER)
    assert (await control.call("PATCH", f"{MEMBERS}/{second}", {"role": "VIEWER"}, admin))[0] == 403
    assert (await control.call("DELETE", f"{MEMBERS}/{second}", token=admin))[0] == 403
    assert (await control.call("PATCH", f"{MEMBERS}/{second}", {"role": "VIEWER"}))[0] == 200
    assert (await control.call("DELETE", f"{MEMBERS}/{second}", token=admin))[0] == 204


@pytest.mark.both_stores
async def test_last_owner_cannot_be_removed_or_demoted(control: Control) -> None:
    owner = f"{MEMBERS}/{control.acme.owner_id}"
    agent, _ = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    narrow = frozenset({Scope.PROJECTS_READ})
    await new_member_token(control.checks.database, control.acme, Role.OWNER, narrow)
    expired, _ = await new_member_token(control.checks.database, control.acme, Role.OWNER)
    revoked, _ = await new_member_token(control.checks.database, control.acme, Role.OWNER)
    async with control.checks.database.write() as connection:
        gone = await organization_store.create_principal(connection, PrincipalKind.USER, "Gone")
        await organization_store.add_membership(connection, control.acme.organization.id, gone.id, Role.OWNER)
        await organization_store.disable_principal(connection, gone.id)
        foreign = await organization_store.create_principal(
            connection, PrincipalKind.USER, "With a token for elsewhere"
        )
        await organization_store.add_membership(connection, control.acme.organization.id, foreign.id, Role.OWNER)
        await organization_store.create_token(connection, control.globex.organization.id, foreign.id, "x")
        for holder, column in ((expired, "expires_at"), (revoked, "revoked_at")):
            of_holder = access_tokens.update().where(access_tokens.c.principal_id == holder)
            await connection.execute(of_holder.values({column: datetime.now(UTC)}))
    for method, body in (("PATCH", {"role": "ADMIN"}), ("DELETE", None)):
        status, answer, _ = await control.call(method, owner, body)
        assert (status, answer["error"]["code"]) == (409, "conflict")
    assert (await control.call("PATCH", owner, {"role": "OWNER"}))[0] == 200
    assert (await control.call("PATCH", f"{MEMBERS}/{agent}", {"role": "OWNER"}))[0] == 200
    assert (await control.call("DELETE", owner))[0] == 204
    assert (await control.call("GET", MEMBERS))[0] == 401, "its tokens are gone with it"


async def test_owner_with_a_password_counts_as_able_to_log_in(control: Control, person: NewPerson) -> None:
    await person("boss@example.org", "OWNER")
    assert (await control.call("PATCH", f"{MEMBERS}/{control.acme.owner_id}", {"role": "ADMIN"}))[0] == 200


async def test_concurrent_mutual_removal_keeps_one_owner(control: Control) -> None:
    for _ in range(3):
        second, token = await new_member_token(control.checks.database, control.acme, Role.OWNER)
        answers = await asyncio.gather(
            control.call("PATCH", f"{MEMBERS}/{second}", {"role": "VIEWER"}),
            control.call("PATCH", f"{MEMBERS}/{control.acme.owner_id}", {"role": "VIEWER"}, token),
        )
        assert sorted(status for status, _, _ in answers) == [200, 403]
        async with control.checks.database.write() as connection:
            await organization_store.set_role(
                connection, control.acme.organization.id, control.acme.owner_id, Role.OWNER
            )
            await organization_store.set_role(connection, control.acme.organization.id, second, Role.VIEWER)
        control.checks.bearer.invalidate_all()


async def test_returning_member_has_no_earlier_credentials(control: Control, ada: Person) -> None:
    _, made, _ = await ada.call("POST", "/orgs/acme/tokens", {"name": "x"})
    of_agent = await worker_token(ada, role="MEMBER")
    of_deeper = await worker_token(ada, role="MEMBER", token=of_agent)
    assert (await control.call("DELETE", f"{MEMBERS}/{ada.id}"))[0] == 204
    assert (await control.call("DELETE", f"{MEMBERS}/{ada.id}"))[0] == 404
    _, invitation, _ = await control.call("POST", INVITATIONS, {"email": ada.email, "role": "MEMBER"})
    assert (await control.call("POST", ACCEPT, acceptance(invitation["inviteToken"])))[0] == 201
    for token in (made["token"], of_agent, of_deeper, ada.access):
        assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 401


async def test_minimum_length_applies_to_new_passwords_only(control: Control, person: NewPerson) -> None:
    ada = await person(org="globex", verified=True)
    short = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("x" * 11)
    await control.execute(users.update().values(password_hash=short))
    expected: list[tuple[str, int, int]] = [(ada.email, 11, 201), ("bob@example.org", 11, 400), ("b@b", 12, 201)]
    for email, length, status in expected:
        _, made, _ = await control.call("POST", INVITATIONS, {"email": email, "role": "VIEWER"})
        body = acceptance(made["inviteToken"], password="x" * length) | {"existingAccount": email == ada.email}
        found, answer, _ = await control.call("POST", ACCEPT, body)
        assert found == status
        if status == 400:
            assert answer["error"]["details"] == [
                {"path": "body.password", "message": "Must have at least 12 characters.", "code": "too_short"}
            ]
    assert (await control.call("POST", ACCEPT, acceptance("x", password="x")))[0] == 401


async def test_invalid_invitation_secrets_are_401(control: Control) -> None:
    for token in ("x", "inv_" + "0" * 49, "é", "\x00", control.acme.token.secret):
        status, answer, _ = await control.call("POST", ACCEPT, acceptance(token))
        assert (status, answer["error"]["message"]) == (401, "The invitation is not valid.")


async def test_managing_members_and_tokens_requires_a_role(control: Control) -> None:
    of_owner, tokens, principals = f"{MEMBERS}/{control.acme.owner_id}", "/orgs/acme/tokens", "/orgs/acme/principals"
    managing: list[tuple[str, str, dict[str, str] | None]] = [
        ("GET", MEMBERS, None),
        ("GET", of_owner, None),
        ("PATCH", of_owner, {"role": "VIEWER"}),
        ("DELETE", of_owner, None),
        ("GET", INVITATIONS, None),
        ("POST", INVITATIONS, {"email": "a@b", "role": "VIEWER"}),
        ("DELETE", f"{INVITATIONS}/none", None),
    ]
    own: list[tuple[str, str, dict[str, str] | None]] = [
        ("GET", tokens, None),
        ("POST", tokens, {"name": "x"}),
        ("GET", principals, None),
        ("POST", principals, {"kind": "agent", "name": "x"}),
    ]
    for role in (Role.VIEWER, Role.BILLING, Role.MEMBER):
        _, token = await new_member_token(control.checks.database, control.acme, role)
        for method, path, body in managing if role is Role.MEMBER else managing + own:
            assert (await control.call(method, path, body, token))[0] == 403, (role, method, path)


@pytest.mark.both_stores
async def test_pages_list_every_member_and_invitation_once(control: Control) -> None:
    for number in range(4):
        await new_member_token(control.checks.database, control.acme, Role.VIEWER)
        await control.call("POST", INVITATIONS, {"email": f"a{number}@b", "role": "VIEWER"})
    for path, key, expected in ((MEMBERS, "principalId", 5), (INVITATIONS, "id", 4)):
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            _, page, _ = await control.call("GET", path, params={"limit": "3"} | cursor)
            seen += [one[key] for one in page["data"]]
            if not page["hasMore"]:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert len(seen) == len(set(seen)) == expected


async def test_disabled_user_cannot_log_in_or_refresh(control: Control, ada: Person) -> None:
    async with control.checks.database.write() as connection:
        await organization_store.disable_principal(connection, ada.id)
    control.checks.bearer.invalidate_all()
    assert (await ada.login())[0] == 401
    assert (await ada.call("GET", "/auth/user"))[0] == 401
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))[0] == 401
    async with control.checks.database.read() as connection:
        assert await connection.scalar(sa.select(users.c.principal_id)) == ada.id


async def worker_token(owner: Person, kind: str = "agent", role: str = "ADMIN", token: str | None = None) -> str:
    """Of an agent of his, which acts on his behalf, or of a service; `token`: made with this and not in his session."""
    by, body = token or owner.access, {"kind": kind, "name": "x", "role": role}
    _, worker, _ = await owner.control.call("POST", "/orgs/acme/principals", body, by)
    path = f"/orgs/acme/principals/{worker['principalId']}/tokens"
    status, made, _ = await owner.control.call("POST", path, {"name": "x"}, by)
    assert status == 201, made
    secret: str = made["token"]
    return secret


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
