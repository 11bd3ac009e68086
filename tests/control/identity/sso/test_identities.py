"""Who is who: the list of links, and their end."""

from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson
from tests.control.identity.sso.conftest import SamlProvider, audit

IDENTITIES = "/orgs/acme/sso/identities"


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


async def test_members_do_not_see_who_is_who(person: NewPerson) -> None:
    bob = await person("bob@example.com")
    assert (await bob.call("GET", IDENTITIES))[0] == 403
