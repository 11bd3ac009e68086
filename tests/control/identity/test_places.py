"""Somebody who is in two organizations: what is of one is not listed in the other."""

import pytest

from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson

PLACES = ("acme", "globex")


@pytest.fixture
async def sessions(control: Control, person: NewPerson) -> dict[str, str]:
    """An access token of the same user in each."""
    ada = await person(role="OWNER")
    await person(role="OWNER", org="globex")
    elsewhere = (await ada.login(orgSlug="globex"))[1]["tokens"]["accessToken"]
    return {"acme": ada.access, "globex": elsewhere}


async def test_tokens_are_listed_where_they_are_good(control: Control, sessions: dict[str, str]) -> None:
    made = {}
    for place in PLACES:
        path = f"/orgs/{place}/tokens"
        made[place] = (await control.call("POST", path, {"name": "x"}, sessions[place]))[1]["id"]
    for place, other in (PLACES, PLACES[::-1]):
        _, page, _ = await control.call("GET", f"/orgs/{place}/tokens", token=sessions[place])
        assert [one["id"] for one in page["data"]] == [made[place]]
        path = f"/orgs/{place}/tokens/{made[other]}"
        assert (await control.call("DELETE", path, token=sessions[place]))[0] == 404


@pytest.mark.both_stores
async def test_agents_and_services_are_listed_where_they_work(control: Control, sessions: dict[str, str]) -> None:
    """All of an organization, and one's own: to who has not the scope for all."""
    made, narrow = {}, {}
    for place in PLACES:
        body = {"kind": "agent", "name": "x"}
        made[place] = (await control.call("POST", f"/orgs/{place}/principals", body, sessions[place]))[1]["principalId"]
        own = {"name": "x", "scopes": ["tokens:write"]}
        narrow[place] = (await control.call("POST", f"/orgs/{place}/tokens", own, sessions[place]))[1]["token"]
    for place in PLACES:
        for token in (sessions[place], narrow[place]):
            _, page, _ = await control.call("GET", f"/orgs/{place}/principals", token=token)
            assert [one["principalId"] for one in page["data"]] == [made[place]]
