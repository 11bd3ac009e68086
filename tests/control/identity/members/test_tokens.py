"""Agents, services and tokens: never wider than who makes them, and on whose behalf they act."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chassis.auth.model import AuthorizationContext
from control.identity.members import member_store as members_store
from control.identity.organizations import organization_store
from proto.identity import ROLE_SCOPES, PrincipalKind, Role, Scope, is_token
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person

TOKENS = "/orgs/acme/tokens"
PRINCIPALS = "/orgs/acme/principals"


async def reached(control: Control, token: str) -> AuthorizationContext:
    """What the guard says of a token."""
    bearer = control.checks.bearer
    return await bearer.authorize(await bearer.authenticate(f"Bearer {token}"), "acme", None, ["projects:read"])


async def new_agent(person: Person, kind: str = "agent", role: str = "MEMBER", token: str | None = None) -> Any:
    status, made, _ = await person.control.call(
        "POST", PRINCIPALS, {"kind": kind, "name": "Bot", "role": role}, token or person.access
    )
    assert status == 201, made
    return made


async def test_token_secret_is_returned_once_and_works(control: Control, ada: Person) -> None:
    body = {"name": "CI", "scopes": ["projects:read", "approvals:write"], "expiresInDays": 30}
    status, made, _ = await ada.call("POST", TOKENS, body)
    assert status == 201
    assert list(made) == [
        "id", "principalId", "name", "hint", "scopes", "onBehalfOfPrincipalId", "actChain", "createdAt", "expiresAt",
        "lastUsedAt", "revokedAt", "token",
    ]  # fmt: skip
    assert is_token(made["token"])
    assert made["hint"] == made["token"][-4:]
    assert (made["principalId"], made["scopes"]) == (ada.id, ["approvals:write", "projects:read"])
    assert [made[name] for name in ("onBehalfOfPrincipalId", "actChain", "lastUsedAt", "revokedAt")] == [
        None,
        [],
        None,
        None,
    ]
    length = datetime.fromisoformat(made["expiresAt"]) - datetime.fromisoformat(made["createdAt"])
    assert abs(length - timedelta(days=30)) < timedelta(seconds=5)
    reach = await reached(control, made["token"])
    assert (reach.principal_id, reach.token_id, reach.kind) == (ada.id, made["id"], PrincipalKind.USER)
    assert reach.scopes == {Scope.PROJECTS_READ, Scope.APPROVALS_WRITE}
    _, page, _ = await ada.call("GET", TOKENS)
    [listed] = page["data"]
    assert "token" not in listed
    assert listed | {"lastUsedAt": None} == {name: value for name, value in made.items() if name != "token"}


async def test_token_without_scopes_has_those_of_its_creator(control: Control, ada: Person) -> None:
    _, made, _ = await ada.call("POST", TOKENS, {"name": "all"})
    assert (made["scopes"], made["expiresAt"]) == (None, None)
    assert (await reached(control, made["token"])).scopes == ROLE_SCOPES[Role.MEMBER]
    _, narrow, _ = await ada.call("POST", TOKENS, {"name": "n", "scopes": ["tokens:write", "projects:read"]})
    _, child, _ = await control.call("POST", TOKENS, {"name": "child"}, narrow["token"])
    assert child["scopes"] == ["projects:read", "tokens:write"], "it does not grow with the role"


async def test_token_never_exceeds_scopes_or_expiry_of_its_parent(control: Control, ada: Person) -> None:
    status, body, _ = await ada.call("POST", TOKENS, {"name": "x", "scopes": ["keys:write", "projects:read"]})
    assert (status, "keys:write" in body["error"]["message"]) == (403, True)
    _, brief, _ = await ada.call("POST", TOKENS, {"name": "brief", "expiresInDays": 2})
    for days, expected in ((None, 2), (1, 1), (3, 2)):
        asked = {"name": "x"} | ({} if days is None else {"expiresInDays": days})
        _, made, _ = await control.call("POST", TOKENS, asked, brief["token"])
        left = datetime.fromisoformat(made["expiresAt"]) - datetime.now(UTC)
        assert timedelta(days=expected, minutes=-1) < left <= timedelta(days=expected)


async def test_users_agent_acts_on_the_users_behalf(control: Control, ada: Person) -> None:
    agent = await new_agent(ada)
    assert (agent["kind"], agent["ownerPrincipalId"], agent["role"]) == ("agent", ada.id, "MEMBER")
    status, made, _ = await ada.call("POST", f"{PRINCIPALS}/{agent['principalId']}/tokens", {"name": "run"})
    assert (status, made["onBehalfOfPrincipalId"], made["actChain"]) == (201, ada.id, [agent["principalId"]])
    reach = await reached(control, made["token"])
    assert (reach.principal_id, reach.kind, reach.owner_id) == (agent["principalId"], PrincipalKind.AGENT, ada.id)
    assert (reach.on_behalf_of, reach.act_chain) == (ada.id, (agent["principalId"],))
    status, own, _ = await control.call("POST", TOKENS, {"name": "own"}, made["token"])
    assert (own["onBehalfOfPrincipalId"], own["actChain"]) == (ada.id, [agent["principalId"]]), "it cannot shed that"
    helper = await new_agent(ada, "agent", token=made["token"])
    assert helper["ownerPrincipalId"] == agent["principalId"]
    path = f"{PRINCIPALS}/{helper['principalId']}/tokens"
    _, second, _ = await control.call("POST", path, {"name": "x"}, made["token"])
    assert second["actChain"] == [helper["principalId"], agent["principalId"]]
    deep = await reached(control, second["token"])
    assert (deep.on_behalf_of, deep.act_chain) == (ada.id, (helper["principalId"], agent["principalId"]))
    assert (await ada.call("POST", path, {"name": "x"}))[0] == 404, "what one's agent owns is the agent's"


async def test_service_acts_for_itself_unless_its_creator_is_delegated(control: Control, ada: Person) -> None:
    service = await new_agent(ada, "service")
    _, made, _ = await ada.call("POST", f"{PRINCIPALS}/{service['principalId']}/tokens", {"name": "x"})
    assert (made["onBehalfOfPrincipalId"], made["actChain"]) == (None, [])
    assert (await reached(control, made["token"])).kind is PrincipalKind.SERVICE
    agent = await new_agent(ada)
    _, run, _ = await ada.call("POST", f"{PRINCIPALS}/{agent['principalId']}/tokens", {"name": "x"})
    made = await new_agent(ada, "service", token=run["token"])
    _, of_agent, _ = await control.call(
        "POST", f"{PRINCIPALS}/{made['principalId']}/tokens", {"name": "x"}, run["token"]
    )
    assert of_agent["onBehalfOfPrincipalId"] == ada.id


async def test_agent_is_limited_by_and_ends_with_its_owner(control: Control, person: NewPerson) -> None:
    ada = await person(role="ADMIN")
    agent = await new_agent(ada, role="ADMIN")
    _, made, _ = await ada.call("POST", f"{PRINCIPALS}/{agent['principalId']}/tokens", {"name": "x"})
    keys = "/orgs/acme/projects/web/keys"
    assert (await control.call("GET", keys, token=made["token"]))[0] == 200
    assert (await control.call("PATCH", f"/orgs/acme/members/{ada.id}", {"role": "MEMBER"}))[0] == 200
    assert (await control.call("GET", keys, token=made["token"]))[0] == 403
    assert (await control.call("GET", "/orgs/acme/projects", token=made["token"]))[0] == 200
    assert (await control.call("DELETE", f"/orgs/acme/members/{ada.id}"))[0] == 204
    assert (await control.call("GET", "/orgs/acme/projects", token=made["token"]))[0] == 401
    change = {"ownerPrincipalId": control.acme.owner_id}
    assert (await control.call("PATCH", f"{PRINCIPALS}/{agent['principalId']}", change))[0] == 200
    _, fresh, _ = await control.call("POST", f"{PRINCIPALS}/{agent['principalId']}/tokens", {"name": "x"})
    assert (await control.call("GET", keys, token=fresh["token"]))[0] == 200


async def test_tokens_are_created_for_oneself_and_owned_principals_only(control: Control, person: NewPerson) -> None:
    ada, bob = await person(), await person("bob@example.org")
    agent = await new_agent(ada)
    of_agent, of_ada = (f"{PRINCIPALS}/{one}/tokens" for one in (agent["principalId"], ada.id))
    assert (await ada.call("POST", of_ada, {"name": "x"}))[0] == 201
    for path in (of_agent, of_ada):
        assert (await bob.call("POST", path, {"name": "x"}))[0] == 404
        assert (await bob.call("GET", path))[0] == 404
        assert (await control.call("POST", path, {"name": "x"}))[0] == 403, "nor does an owner of the organization"
        assert (await control.call("GET", path))[0] == 200


async def test_a_token_is_revoked_by_its_holder_the_owner_and_administrators(control: Control, ada: Person) -> None:
    agent = await new_agent(ada)
    path = f"{PRINCIPALS}/{agent['principalId']}/tokens"
    made = [(await ada.call("POST", path, {"name": "x"}))[1] for _ in range(3)]
    _, reader = await new_member_token(
        control.checks.database, control.acme, Role.ADMIN, frozenset({Scope.TOKENS_WRITE, Scope.MEMBERS_READ})
    )
    assert (await control.call("DELETE", f"{path}/{made[0]['id']}", token=reader))[0] == 403
    assert (await control.call("DELETE", f"{TOKENS}/{made[0]['id']}", token=made[0]["token"]))[0] == 204
    assert (await ada.call("DELETE", f"{TOKENS}/{made[1]['id']}"))[0] == 404, "it is not hers but her agent's"
    for _ in range(2):
        assert (await ada.call("DELETE", f"{path}/{made[1]['id']}"))[0] == 204
    assert (await control.call("DELETE", f"{path}/{made[2]['id']}"))[0] == 204
    for one in made:
        assert (await control.call("GET", "/orgs/acme/projects", token=one["token"]))[0] == 401
    _, page, _ = await ada.call("GET", path)
    assert all(one["revokedAt"] is not None for one in page["data"])
    assert [one["id"] for one in page["data"]] == sorted((one["id"] for one in made), reverse=True)


async def test_revoking_a_token_revokes_what_it_created(control: Control, person: NewPerson) -> None:
    """Else whoever has copied it makes himself another before it is revoked."""
    ada = await person(role="ADMIN")
    _, first, _ = await ada.call("POST", TOKENS, {"name": "first"})
    _, beside, _ = await ada.call("POST", TOKENS, {"name": "beside"})
    _, second, _ = await control.call("POST", TOKENS, {"name": "second"}, first["token"])
    agent = await new_agent(ada)
    path = f"{PRINCIPALS}/{agent['principalId']}/tokens"
    _, deep, _ = await control.call("POST", path, {"name": "deep"}, second["token"])
    _, deeper, _ = await control.call("POST", TOKENS, {"name": "deeper"}, deep["token"])
    invited = {}
    for name, token in (("Eve", second["token"]), ("Bob", ada.access), ("Kim", beside["token"])):
        body = {"email": f"{name}@example.org", "role": "MEMBER"}
        invited[name] = (await control.call("POST", "/orgs/acme/invitations", body, token))[1]["inviteToken"]
    for _ in range(2):
        assert (await ada.call("DELETE", f"{TOKENS}/{first['id']}"))[0] == 204
    for token, expected in ((first, 401), (second, 401), (deep, 401), (deeper, 401), (beside, 200)):
        assert (await control.call("GET", "/orgs/acme/projects", token=token["token"]))[0] == expected
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200, "what made it stays"
    for name, expected in (("Eve", 401), ("Bob", 201), ("Kim", 201)):
        accepted = {"inviteToken": invited[name], "name": name, "password": PASSWORD}
        assert (await control.call("POST", "/auth/invitations/accept", accepted))[0] == expected
    _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"objectId": first["id"]})
    assert page["data"][0]["data"] == {"holder": ada.id, "tokens": 3, "invitations": 1}


async def test_tokens_end_with_what_holds_them_and_not_with_a_session(control: Control, ada: Person) -> None:
    async def works(token: dict[str, Any]) -> int:
        return (await control.call("GET", "/orgs/acme/projects", token=token["token"]))[0]

    agent, service = [f"{PRINCIPALS}/{(await new_agent(ada, kind))['principalId']}" for kind in ("agent", "service")]
    own, of_agent, of_service = [
        (await ada.call("POST", path, {"name": "x"}))[1] for path in (TOKENS, f"{agent}/tokens", f"{service}/tokens")
    ]
    assert (await ada.call("DELETE", agent))[0] == 204
    assert [await works(token) for token in (own, of_agent, of_service)] == [200, 401, 200]
    assert [(await ada.call(method, agent))[0] for method in ("GET", "DELETE")] == [404, 404]
    assert (await control.call("POST", "/auth/logout", {"refreshToken": ada.refresh}))[0] == 204
    assert [await works(token) for token in (own, of_service)] == [200, 200]
    async with control.checks.database.write() as connection:
        await organization_store.disable_principal(connection, ada.id)
    control.checks.bearer.invalidate_all()
    assert [await works(token) for token in (own, of_service)] == [401, 401]


async def test_only_owners_revoke_tokens_of_owners(control: Control) -> None:
    path = f"{PRINCIPALS}/{control.acme.owner_id}/tokens/{control.acme.token.id}"
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    assert (await control.call("DELETE", path, token=admin))[0] == 403
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
    _, second = await new_member_token(control.checks.database, control.acme, Role.OWNER)
    assert (await control.call("DELETE", path, token=second))[0] == 204
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 401


async def test_owners_and_administrators_list_agents(control: Control, person: NewPerson) -> None:
    ada, bob = await person(), await person("bob@example.org")
    first, second = await new_agent(ada), await new_agent(bob, "service")
    assert (await ada.call("GET", PRINCIPALS))[1]["data"] == [first]
    assert (await bob.call("GET", PRINCIPALS))[1]["data"] == [second]
    assert (await control.call("GET", PRINCIPALS))[1]["data"] == [first, second]
    assert (await ada.call("GET", f"{PRINCIPALS}/{second['principalId']}"))[0] == 404
    status, shown, _ = await control.call("GET", f"{PRINCIPALS}/{second['principalId']}")
    assert (status, shown) == (200, second)
    assert (await ada.call("GET", f"{PRINCIPALS}/{ada.id}"))[0] == 404, "users are members"


async def test_owner_renames_and_administrator_transfers_an_agent(control: Control, person: NewPerson) -> None:
    ada, bob = await person(), await person("bob@example.org")
    agent = await new_agent(ada)
    path = f"{PRINCIPALS}/{agent['principalId']}"
    status, changed, _ = await ada.call("PATCH", path, {"name": "Robot"})
    assert (status, changed) == (200, agent | {"name": "Robot"})
    assert (await ada.call("PATCH", path, {"ownerPrincipalId": bob.id}))[0] == 403
    for owner in (agent["principalId"], control.globex.owner_id, "prn_" + "0" * 26):
        status, answer, _ = await control.call("PATCH", path, {"ownerPrincipalId": owner})
        assert (status, answer["error"]["details"][0]["path"]) == (400, "body.ownerPrincipalId")
    status, changed, _ = await control.call("PATCH", path, {"ownerPrincipalId": bob.id})
    assert (status, changed["ownerPrincipalId"]) == (200, bob.id)
    assert (await ada.call("GET", path))[0] == 404


async def test_transfer_revokes_tokens_of_the_previous_owner(control: Control, person: NewPerson) -> None:
    ada, bob = await person(role="ADMIN"), await person("bob@example.org")
    for kind in ("agent", "service"):
        worker = await new_agent(ada, kind, "ADMIN")
        path = f"{PRINCIPALS}/{worker['principalId']}"
        _, run, _ = await ada.call("POST", f"{path}/tokens", {"name": "x"})
        helper = await new_agent(ada, kind, token=run["token"])
        _, deep, _ = await control.call(
            "POST", f"{PRINCIPALS}/{helper['principalId']}/tokens", {"name": "x"}, run["token"]
        )
        _, own, _ = await ada.call("POST", TOKENS, {"name": "x"})
        assert (await control.call("PATCH", path, {"ownerPrincipalId": ada.id}))[0] == 200, "as it was"
        assert (await control.call("GET", "/orgs/acme/projects", token=deep["token"]))[0] == 200
        assert (await control.call("PATCH", path, {"ownerPrincipalId": bob.id}))[0] == 200
        for token, expected in ((run, 401), (deep, 401), (own, 200)):
            assert (await control.call("GET", "/orgs/acme/projects", token=token["token"]))[0] == expected
        _, fresh, _ = await bob.call("POST", f"{path}/tokens", {"name": "x"})
        assert (await control.call("GET", "/orgs/acme/projects", token=fresh["token"]))[0] == 200
        _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"objectId": worker["principalId"]})
        assert page["data"][0]["data"] == {"ownerPrincipalId": bob.id, "ownerBefore": ada.id}


async def test_created_principals_cannot_exceed_their_creator(control: Control, ada: Person) -> None:
    for role, expected in (("VIEWER", 201), ("BILLING", 201), ("MEMBER", 201), ("ADMIN", 403)):
        assert (await ada.call("POST", PRINCIPALS, {"kind": "agent", "name": "x", "role": role}))[0] == expected
    assert (await ada.call("POST", PRINCIPALS, {"kind": "agent", "name": "x", "role": "OWNER"}))[0] == 400
    _, narrow = await new_member_token(
        control.checks.database, control.acme, Role.ADMIN, frozenset({Scope.TOKENS_WRITE})
    )
    assert (await control.call("POST", PRINCIPALS, {"kind": "agent", "name": "x"}, narrow))[0] == 403
    agent = await new_agent(ada)
    change = await control.call("PATCH", f"/orgs/acme/members/{agent['principalId']}", {"role": "OWNER"})
    assert change[0] == 409, "agents are not owners"


async def test_owned_principals_are_limited(
    control: Control, person: NewPerson, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members_store, "MAX_OWNED", 2)
    monkeypatch.setattr("control.identity.members.tokens.MAX_TOKENS", 2)
    agents = [await new_agent(ada) for _ in range(2)]
    assert (await ada.call("POST", PRINCIPALS, {"kind": "agent", "name": "x"}))[0] == 409
    made = [await ada.call("POST", TOKENS, {"name": "x"}) for _ in range(3)]
    assert [status for status, _, _ in made] == [201, 201, 409]
    assert (await ada.call("DELETE", f"{TOKENS}/{made[0][1]['id']}"))[0] == 204
    assert (await ada.call("POST", TOKENS, {"name": "x"}))[0] == 201
    bob = await person("bob@example.org")
    given = f"{PRINCIPALS}/{(await new_agent(bob))['principalId']}"
    assert (await control.call("PATCH", given, {"ownerPrincipalId": ada.id}))[0] == 409
    assert (await ada.call("DELETE", f"{PRINCIPALS}/{agents[0]['principalId']}"))[0] == 204
    assert (await ada.call("POST", PRINCIPALS, {"kind": "agent", "name": "x"}))[0] == 201
    assert (await control.call("DELETE", f"/orgs/acme/members/{agents[1]['principalId']}"))[0] == 204
    assert (await control.call("PATCH", given, {"ownerPrincipalId": ada.id}))[0] == 200


async def test_principals_owned_by_agents_count_for_the_user(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of them owned as many again."""
    ada, bob = await person(), await person("bob@example.org")
    monkeypatch.setattr(members_store, "MAX_OWNED", 2)
    body = {"kind": "agent", "name": "x"}
    first = await new_agent(ada)
    _, token, _ = await ada.call("POST", f"{PRINCIPALS}/{first['principalId']}/tokens", {"name": "x"})
    status, second, _ = await control.call("POST", PRINCIPALS, body, token["token"])
    assert status == 201
    assert (await control.call("POST", PRINCIPALS, body, token["token"]))[0] == 409
    assert (await ada.call("POST", PRINCIPALS, body))[0] == 409
    own = await new_agent(bob)
    given = {"ownerPrincipalId": bob.id}
    assert (await control.call("PATCH", f"{PRINCIPALS}/{first['principalId']}", given))[0] == 409, "two come with it"
    up = {"ownerPrincipalId": ada.id}
    assert (await control.call("PATCH", f"{PRINCIPALS}/{second['principalId']}", up))[0] == 200, "they were his before"
    assert (await bob.call("DELETE", f"{PRINCIPALS}/{own['principalId']}"))[0] == 204
    assert (await control.call("PATCH", f"{PRINCIPALS}/{first['principalId']}", given))[0] == 200


async def test_principals_of_an_organization_are_limited(person: NewPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = await person(), await person("bob@example.org")
    monkeypatch.setattr(members_store, "MAX_MACHINES", 2)
    made = await new_agent(ada)
    await new_agent(bob)
    assert (await bob.call("POST", PRINCIPALS, {"kind": "service", "name": "x"}))[0] == 409
    assert (await ada.call("DELETE", f"{PRINCIPALS}/{made['principalId']}"))[0] == 204
    assert (await bob.call("POST", PRINCIPALS, {"kind": "service", "name": "x"}))[0] == 201


async def test_owned_principals_are_counted_per_organization(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await person(verified=True)
    monkeypatch.setattr(members_store, "MAX_OWNED", 1)
    await new_agent(ada)
    await person(org="globex", existing=True)
    elsewhere = (await ada.login(orgSlug="globex"))[1]["tokens"]["accessToken"]
    body = {"kind": "agent", "name": "x"}
    assert (await control.call("POST", "/orgs/globex/principals", body, elsewhere))[0] == 201
    assert (await control.call("POST", "/orgs/globex/principals", body, elsewhere))[0] == 409


async def test_chain_of_owners_is_limited(control: Control, ada: Person) -> None:
    token = ada.access
    for depth in range(16):
        status, agent, _ = await control.call("POST", PRINCIPALS, {"kind": "agent", "name": "x"}, token)
        assert status == (201 if depth < 15 else 409)
        if status == 201:
            path = f"{PRINCIPALS}/{agent['principalId']}/tokens"
            _, made, _ = await control.call("POST", path, {"name": "x"}, token)
            token = made["token"]
    assert len((await reached(control, token)).act_chain) == 15
