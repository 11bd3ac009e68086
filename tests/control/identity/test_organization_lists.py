"""Somebody who is in two organizations: what is of one is not listed in the other."""

import pytest

from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson

ORGS = ("acme", "globex")


@pytest.fixture
async def sessions(control: Control, person: NewPerson) -> dict[str, str]:
    """An access token of the same user in each."""
    ada = await person(role="OWNER", verified=True)
    await person(role="OWNER", org="globex", existing=True)
    elsewhere = (await ada.login(orgSlug="globex"))[1]["tokens"]["accessToken"]
    return {"acme": ada.access, "globex": elsewhere}


async def test_tokens_are_listed_in_their_organization_only(control: Control, sessions: dict[str, str]) -> None:
    created = {}
    for org in ORGS:
        path = f"/orgs/{org}/tokens"
        created[org] = (await control.call("POST", path, {"name": "x"}, sessions[org]))[1]["id"]
    for org, other in (ORGS, ORGS[::-1]):
        _, page, _ = await control.call("GET", f"/orgs/{org}/tokens", token=sessions[org])
        assert [one["id"] for one in page["data"]] == [created[org]]
        path = f"/orgs/{org}/tokens/{created[other]}"
        assert (await control.call("DELETE", path, token=sessions[org]))[0] == 404


@pytest.mark.both_stores
async def test_agents_and_services_are_listed_in_their_organization_only(
    control: Control, sessions: dict[str, str]
) -> None:
    """All of an organization, and one's own: to who has not the scope for all."""
    created, narrow = {}, {}
    for org in ORGS:
        body = {"kind": "agent", "name": "x"}
        created[org] = (await control.call("POST", f"/orgs/{org}/principals", body, sessions[org]))[1]["principalId"]
        own = {"name": "x", "scopes": ["tokens:write"]}
        narrow[org] = (await control.call("POST", f"/orgs/{org}/tokens", own, sessions[org]))[1]["token"]
    for org in ORGS:
        for token in (sessions[org], narrow[org]):
            _, page, _ = await control.call("GET", f"/orgs/{org}/principals", token=token)
            assert [one["principalId"] for one in page["data"]] == [created[org]]
