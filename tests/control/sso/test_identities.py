"""Who is who: the list of links, and their end."""

import pytest

from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson
from tests.control.sso.conftest import SamlProvider, audit

IDENTITIES = "/orgs/acme/sso/identities"


@pytest.mark.both_stores
async def test_an_unlinked_user_is_somebody_new(saml: SamlProvider, control: Control) -> None:
    assert (await control.call("GET", IDENTITIES))[1] == {"data": [], "nextCursor": None, "hasMore": False}
    status, body, _ = await saml.log_in(subject="ada-1")
    assert status == 200, body
    token = body["tokens"]["accessToken"]
    status, page, _ = await control.call("GET", IDENTITIES)
    (identity,) = page["data"]
    assert (status, identity["subject"], identity["principalId"]) == (200, "ada-1", body["user"]["id"])
    assert identity["email"] == "ada@example.com"
    path = f"{IDENTITIES}/{identity['id']}"
    assert (await control.call("DELETE", path))[0] == 204
    assert (await control.call("DELETE", path))[0] == 404
    assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 401
    assert [data for _, data in await audit(control, "sso.unlink")] == [
        {"principalId": body["user"]["id"], "connectionId": identity["connectionId"]}
    ]
    # The account has the address still, and nothing proves that it is the same person.
    status, again, _ = await saml.log_in(subject="ada-1")
    assert (status, again["error"]["code"]) == (400, "bad_request")


async def test_who_may_see_and_unlink(saml: SamlProvider, control: Control, person: NewPerson) -> None:
    await saml.log_in()
    (identity,) = (await control.call("GET", IDENTITIES))[1]["data"]
    path = f"{IDENTITIES}/{identity['id']}"
    other = control.globex.token.secret
    assert (await control.call("GET", IDENTITIES, token=other))[0] == 404
    assert (await control.call("DELETE", path, token=other))[0] == 404
    assert (await control.call("DELETE", path.replace("acme", "globex"), token=other))[0] == 404
    for nonsense in ("ssi_x", "%00", "x" * 100):
        assert (await control.call("DELETE", f"{IDENTITIES}/{nonsense}"))[0] == 404
    bob = await person("bob@example.com")
    access = (await bob.login())[1]["tokens"]["accessToken"]
    assert (await control.call("GET", IDENTITIES, token=access))[0] == 403
