"""What a directory's word is not enough for: an owner's account, and the way back of who was taken out."""

from typing import Any

from tests.control.conftest import Control
from tests.control.identity.accounts import accept, invite
from tests.control.identity.scim.conftest import Directory, map_roles
from tests.control.identity.sso.conftest import SamlProvider, browser, refusals, saml

__all__ = ("browser", "saml")

DRY_RUN = "/orgs/acme/sso/connections/OIDC/dry-run"


async def make_owner(control: Control, email: str, directory: Directory) -> str:
    """Let an owner make an owner of somebody; the id of that member."""
    member_id: str = (await directory.members())[email]["principalId"]
    status, body, _ = await control.call("PATCH", f"/orgs/acme/members/{member_id}", {"role": "OWNER"})
    assert status == 200, body
    return member_id


async def test_a_directory_does_not_give_an_owner_to_another_subject(
    control: Control, directory: Directory, saml: SamlProvider
) -> None:
    ada = await directory.user("ada@example.com", externalId="ada-1")
    owner_id = await make_owner(control, "ada@example.com", directory)
    status, _ = await directory.patch(ada, {"op": "replace", "path": "externalId", "value": "mallory-1"})
    assert status == 200
    status, body, _ = await saml.log_in(subject="mallory-1", email="mallory@example.com")
    assert status != 200 or body["user"]["id"] != owner_id, body
    assert status == 400
    assert await refusals(control) == ["account_exists"]


async def test_a_directory_does_not_change_the_account_of_an_owner(control: Control, directory: Directory) -> None:
    ada = await directory.user("ada@example.com", displayName="Ada")
    await make_owner(control, "ada@example.com", directory)
    changes: list[dict[str, Any]] = [
        {"op": "replace", "path": "displayName", "value": "Mallory"},
        {"op": "replace", "path": "emails", "value": [{"value": "mallory@example.com"}]},
    ]
    assert (await directory.patch(ada, *changes))[0] == 200
    members = await directory.members()
    assert members["ada@example.com"]["name"] == "Ada"
    assert "mallory@example.com" not in members


async def test_an_invitation_from_before_lets_nobody_in_who_was_taken_out(
    control: Control, directory: Directory
) -> None:
    for deleted in (False, True):
        email = f"ada-{deleted}@example.com"
        invitation = await invite(control, control.acme, email)
        ada = await directory.user(
            f"x{deleted}", emails=[{"value": "b@example.com", "primary": True}, {"value": email.title()}]
        )
        if deleted:
            assert (await directory.call("DELETE", f"/Users/{ada['id']}"))[0] == 204
        else:
            await directory.activate(ada, False)
        assert (await accept(control, invitation))[0] == 401
        assert await directory.members() == {}
        await directory.call("DELETE", f"/Users/{ada['id']}")


async def test_an_address_that_nobody_vouches_for_lets_nobody_in_who_was_taken_out(
    control: Control, directory: Directory, person: Any
) -> None:
    await map_roles(control, None)
    await person("ada@example.com", verified=True)
    ada = await directory.user("ada@example.com")
    await directory.activate(ada, False)
    for verified in (True, False):
        attributes = {"email": "ada@example.com", "email_verified": verified}
        status, body, _ = await control.call("POST", DRY_RUN, {"attributes": attributes, "subject": "somebody"})
        assert (status, body["account"]) == (200, "REFUSED"), body
