"""Who is taken out is out: every credential, vote and agent. Who comes back gets the membership and nothing else."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.control.conftest import Control
from tests.control.identity.accounts import accept
from tests.control.identity.conftest import Person, enrol
from tests.control.identity.scim.conftest import Directory, map_roles
from tests.control.identity.sso.conftest import Browser, SamlProvider, browser, saml

__all__ = ("browser", "saml")


@dataclass
class Leaver:
    """Somebody with everything that a person can have."""

    person: Person
    user: dict[str, Any]
    token: str
    agent_id: str
    agent_token: str
    service_id: str
    service_token: str
    invitation: str

    def credentials(self) -> dict[str, str]:
        """By what they are."""
        return {
            "session": self.person.access,
            "token": self.token,
            "agent's token": self.agent_token,
            "service's token": self.service_token,
        }


@pytest.fixture
async def leaver(control: Control, directory: Directory, person: Any) -> Leaver:
    ada = await person("ada@example.com", "ADMIN")

    async def made(path: str, body: dict[str, Any], token: str) -> dict[str, Any]:
        status, answer, _ = await control.call("POST", f"/orgs/acme/{path}", body, token)
        assert status == 201, answer
        return dict(answer)

    token = (await made("tokens", {"name": "laptop"}, ada.access))["token"]
    agent = await made("principals", {"kind": "agent", "name": "agent", "role": "MEMBER"}, ada.access)
    service = await made("principals", {"kind": "service", "name": "service", "role": "MEMBER"}, ada.access)
    agent_token = (await made(f"principals/{agent['principalId']}/tokens", {"name": "x"}, ada.access))["token"]
    service_token = (await made(f"principals/{service['principalId']}/tokens", {"name": "x"}, ada.access))["token"]
    invitation = await made("invitations", {"email": "eve@example.com", "role": "MEMBER"}, ada.access)
    user = await directory.user("ada@example.com")
    agents = agent["principalId"], agent_token, service["principalId"], service_token
    return Leaver(ada, user, token, *agents, invitation["inviteToken"])


async def working(control: Control, leaver: Leaver) -> set[str]:
    """Which credentials work."""
    found = set()
    for name, secret in leaver.credentials().items():
        status, _, _ = await control.call("GET", "/orgs/acme/approval-requests", token=secret)
        assert status in (200, 401, 404)
        if status == 200:
            found.add(name)
    if (await control.call("POST", "/auth/refresh", {"refreshToken": leaver.person.refresh}))[0] == 200:
        found.add("refresh token")
    if (await accept(control, {"inviteToken": leaver.invitation}))[0] == 201:
        found.add("invitation")
    return found


async def take_out(directory: Directory, user: dict[str, Any], how: str) -> int:
    """By one of the requests that directories send."""
    path = f"/Users/{user['id']}"
    if how == "patch":
        return (await directory.activate(user, False))[0]
    if how == "put":
        return (await directory.call("PUT", path, {"userName": "ada@example.com", "active": False}))[0]
    return (await directory.call("DELETE", path))[0]


@pytest.mark.both_stores
@pytest.mark.parametrize("how", ["patch", "put", "delete"])
async def test_nothing_works_from_the_answer_on(
    control: Control, directory: Directory, leaver: Leaver, how: str
) -> None:
    for name, secret in leaver.credentials().items():
        assert (await control.call("GET", "/orgs/acme/approval-requests", token=secret))[0] == 200, name
    assert await take_out(directory, leaver.user, how) in (200, 204)
    assert await working(control, leaver) == set()
    members = [each["principalId"] for each in (await control.call("GET", "/orgs/acme/members"))[1]["data"]]
    assert not {leaver.person.id, leaver.agent_id, leaver.service_id} & set(members)
    assert (await leaver.person.login())[0] in (401, 403)
    (event,) = await directory.audit("scim.member.suspend")
    assert event["objectId"] == leaver.person.id
    assert sorted(event["data"]["retired"]) == sorted([leaver.agent_id, leaver.service_id])


async def test_who_comes_back_gets_the_membership_and_nothing_else(
    control: Control, directory: Directory, leaver: Leaver
) -> None:
    await enrol(leaver.person)
    await directory.activate(leaver.user, False)
    status, body = await directory.activate(leaver.user, True)
    assert (status, body["active"]) == (200, True)
    member = (await directory.members())["ada@example.com"]
    assert member["principalId"] == leaver.person.id
    assert member["role"] == "VIEWER"  # the default: what role the member had was the directory's to say
    assert member["mfaEnabled"] is True
    assert await working(control, leaver) == set()
    members = [each["principalId"] for each in (await control.call("GET", "/orgs/acme/members"))[1]["data"]]
    assert not {leaver.agent_id, leaver.service_id} & set(members)


async def test_what_they_own_goes_to_the_successor(
    control: Control, directory: Directory, leaver: Leaver, person: Any
) -> None:
    grace = await person("grace@example.com", "ADMIN")
    _, nested, _ = await control.call(
        "POST", "/orgs/acme/principals", {"kind": "agent", "name": "nested", "role": "VIEWER"}, leaver.service_token
    )
    settings = {"successorPrincipalId": grace.id}
    assert (await control.call("PUT", "/orgs/acme/scim-settings", settings))[0] == 200
    await directory.activate(leaver.user, False)
    assert await working(control, leaver) == set()
    owners = {
        each["principalId"]: each["ownerPrincipalId"]
        for each in (await control.call("GET", "/orgs/acme/members"))[1]["data"]
    }
    assert owners[leaver.agent_id] == owners[leaver.service_id] == grace.id
    if "principalId" in nested:
        assert owners[nested["principalId"]] == leaver.service_id
    (event,) = await directory.audit("scim.member.suspend")
    assert sorted(event["data"]["handedOver"]) == sorted([leaver.agent_id, leaver.service_id])
    assert event["data"]["retired"] == []
    assert event["data"]["successor"] == grace.id


async def test_a_successor_who_has_left_gets_nothing(
    control: Control, directory: Directory, leaver: Leaver, person: Any
) -> None:
    grace = await person("grace@example.com")
    await control.call("PUT", "/orgs/acme/scim-settings", {"successorPrincipalId": grace.id})
    assert (await control.call("DELETE", f"/orgs/acme/members/{grace.id}"))[0] == 204
    await directory.activate(leaver.user, False)
    (event,) = await directory.audit("scim.member.suspend")
    assert len(event["data"]["retired"]) == 2


@pytest.mark.both_stores
async def test_votes_count_no_longer(control: Control, directory: Directory, leaver: Leaver, person: Any) -> None:
    grace, eve = await person("grace@example.com"), await person("frances@example.com", "ADMIN")
    policy = {"name": "two", "actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH", "minApprovers": 2}
    status, body, _ = await control.call("POST", "/orgs/acme/approval-policies", policy)
    assert status == 201, body
    ask = {"action": "deploy.web", "targetType": "service", "targetId": "web"}
    status, asked, _ = await control.call("POST", "/orgs/acme/approval-requests", ask, grace.access)
    assert status == 201, asked
    path = f"/orgs/acme/approval-requests/{asked['request']['id']}/approve"
    by_leaver = (await control.call("POST", path, {}, leaver.person.access))[1]
    assert by_leaver["request"]["status"] == "PENDING", by_leaver
    await directory.activate(leaver.user, False)
    status, voted, _ = await control.call("POST", path, {}, eve.access)
    assert (status, voted["request"]["status"]) == (200, "PENDING"), voted
    await directory.activate(leaver.user, True)
    (event,) = await directory.audit("scim.member.suspend")
    assert event["data"]["withdrawnApprovals"] == 1
    status, voted, _ = await control.call("POST", path, {}, eve.access)
    assert (status, voted["request"]["status"]) == (200, "PENDING"), voted
    status, voted, _ = await control.call("POST", path, {})
    assert (status, voted["request"]["status"]) == (200, "APPROVED"), voted


async def test_an_account_that_is_elsewhere_too_stays_there(
    control: Control, directory: Directory, person: Any
) -> None:
    ada = await person("ada@example.com", verified=True)
    there = await person("ada@example.com", org="globex", existing=True)
    user = await directory.user("ada@example.com")
    await directory.call("DELETE", f"/Users/{user['id']}")
    assert (await control.call("GET", "/orgs/acme/projects", token=ada.access))[0] in (401, 404)
    assert (await control.call("GET", "/orgs/globex/projects", token=there.access))[0] == 200


async def test_an_invitation_is_no_way_back(control: Control, directory: Directory, person: Any) -> None:
    """Neither one from before, for an account that is elsewhere too, nor (unless it is deleted) a new one."""
    for how, again in (("patch", 409), ("delete", 201)):
        email = f"{how}@example.com"
        await person(email, org="globex", verified=True)
        body = {"email": email, "role": "ADMIN"}
        status, invitation, _ = await control.call("POST", "/orgs/acme/invitations", body)
        assert status == 201
        ada = await directory.user(how, emails=[{"value": email.title()}])
        assert await take_out(directory, ada, how) in (200, 204)
        assert (await accept(control, invitation, existingAccount=True))[0] == 401
        event = (await directory.audit("invitation.revoke"))[0]
        assert (event["objectId"], event["data"]) == (invitation["id"], {"by": ada["id"]})
        assert (await control.call("POST", "/orgs/acme/invitations", body))[0] == again


async def test_a_link_that_was_begun_ends(
    directory: Directory, saml: SamlProvider, browser: Browser, person: Any
) -> None:
    ada = await person("ada@example.com")
    user = await directory.user("ada@example.com")
    assert (await browser.ask_to_link(ada.access))[0] == 201
    begun = await browser.start(link="true")
    await directory.activate(user, False)
    await directory.activate(user, True)
    assert (await saml.answer(begun, saml.response(begun, subject="eve-1")))[0] == 400


async def test_who_was_removed_by_hand_comes_back_as_somebody_new(
    control: Control, directory: Directory, person: Any
) -> None:
    """An account that was closed never works again: it has lost its second factor, and kept its password."""
    ada = await person("ada@example.com", "OWNER")
    user = await directory.user("ada@example.com")
    assert (await control.call("DELETE", f"/orgs/acme/members/{ada.id}"))[0] == 204
    assert (await directory.call("PUT", f"/Users/{user['id']}", {"userName": "ada@example.com"}))[0] == 200
    assert (await directory.members())["ada@example.com"]["principalId"] != ada.id
    assert (await ada.login())[0] == 401


async def test_who_is_no_owner_any_more_is_the_directorys(control: Control, directory: Directory, person: Any) -> None:
    ada = await person("ada@example.com", "OWNER")
    user = await directory.user("ada@example.com")
    path = f"/orgs/acme/members/{ada.id}"
    assert (await control.call("PATCH", path, {"role": "ADMIN"}))[0] == 200
    assert (await control.call("PATCH", path, {"role": "VIEWER"}))[0] == 409
    assert (await control.call("DELETE", path))[0] == 409
    assert (await directory.activate(user, False))[0] == 200


async def test_who_becomes_a_member_is_in_the_audit_log(control: Control, directory: Directory, person: Any) -> None:
    await map_roles(control, {"admins": "ADMIN"})
    eve = await person("eve@example.com", "MEMBER")
    found = await directory.user("eve@example.com")
    ada = await directory.user("ada@example.com")
    await directory.group("admins", ada)
    await directory.activate(ada, False)
    await directory.activate(ada, True)
    ada_id = (await directory.members())["ada@example.com"]["principalId"]
    events = await directory.audit("scim.member.admit")
    assert [(each["objectId"], each["data"]) for each in reversed(events)] == [
        (eve.id, {"role": "MEMBER", "by": found["id"], "existing": True}),
        (ada_id, {"role": "VIEWER", "by": ada["id"], "existing": False}),
        (ada_id, {"role": "ADMIN", "by": ada["id"], "existing": False}),
    ]
