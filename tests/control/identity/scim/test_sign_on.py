"""Single sign-on of people whom a directory has provisioned: it finds their account, and refuses who is out."""

from typing import Any

from control.identity.organizations import organization_store
from proto.identity import Role
from tests.control.conftest import Control
from tests.control.identity.conftest import verify
from tests.control.identity.scim.conftest import Directory, map_roles
from tests.control.identity.sso.conftest import Browser, SamlProvider, browser, refusals, saml

__all__ = ("browser", "saml")


async def test_the_account_is_the_directorys(directory: Directory, saml: SamlProvider) -> None:
    """Found by the external id, the name of the user, the name that is an address, or another address."""
    found: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"externalId": "ada-1"}, {"email": "elsewhere@example.com"}),
        ({"userName": "ADA-2"}, {"email": "elsewhere@example.com"}),
        ({}, {"email": "Ada3@example.com"}),
        ({"userName": "x", "emails": [{"value": "b@example.com"}, {"value": "ada4@example.com"}]}, {}),
    )
    for number, (attributes, said) in enumerate(found, 1):
        made = await directory.user(f"ada{number}@example.com", **attributes)
        before = await directory.members()
        address = next(each for each in before if each in str(made))
        status, body, _ = await saml.log_in(**{"subject": f"ada-{number}", "email": f"ada{number}@example.com"} | said)
        assert status == 200, body
        assert (body["user"]["id"], body["provisioned"]) == (before[address]["principalId"], False)
        assert (await directory.call("GET", f"/Users/{made['id']}"))[1] == made
        assert len(await directory.members()) == number


async def test_a_login_gives_no_role_to_whom_the_directory_manages(directory: Directory, saml: SamlProvider) -> None:
    await saml.connect(roleMapping={"admins": "ADMIN", "billing": "BILLING"})
    ada = await directory.user("ada@example.com")
    await directory.group("billing", ada)
    status, body, _ = await saml.log_in(groups=["admins"])
    assert (status, body["role"]) == (200, "BILLING")
    assert (await directory.members())["ada@example.com"]["role"] == "BILLING"


async def test_who_is_out_cannot_log_in_and_can_when_back(
    control: Control, directory: Directory, saml: SamlProvider, browser: Browser
) -> None:
    ada = await directory.user("ada@example.com")
    status, body, _ = await saml.log_in()
    assert status == 200
    access = body["tokens"]["accessToken"]
    begun = await browser.start()
    answer = saml.response(begun)
    await directory.activate(ada, False)
    assert (await control.call("GET", "/orgs/acme/projects", token=access))[0] == 401
    # A login that was begun before is refused, too; so is a new one, by whatever address.
    assert (await saml.answer(begun, answer))[0] == 400
    assert (await saml.log_in())[0] == 400
    assert await refusals(control) == ["account_deactivated"] * 2
    await directory.activate(ada, True)
    status, body, _ = await saml.log_in()
    assert status == 200
    assert (await control.call("GET", "/orgs/acme/projects", token=access))[0] == 401
    assert (await control.call("GET", "/orgs/acme/projects", token=body["tokens"]["accessToken"]))[0] == 200


async def test_a_code_that_was_not_spent_is_worth_nothing(
    directory: Directory, saml: SamlProvider, browser: Browser
) -> None:
    ada = await directory.user("ada@example.com")
    code = await saml.handoff_code()
    await directory.activate(ada, False)
    await directory.activate(ada, True)
    assert (await browser.spend(code))[0] in (400, 401)


async def test_an_account_that_a_person_brought_is_not_linked_by_a_directory(
    control: Control, directory: Directory, saml: SamlProvider, person: Any
) -> None:
    await person("ada@example.com")
    await directory.user("ada@example.com", externalId="ada-1")
    assert (await saml.log_in())[0] == 400
    assert await refusals(control) == ["account_exists"]


DRY_RUN = "/orgs/acme/sso/connections/OIDC/dry-run"


async def test_an_address_counts_only_if_the_provider_vouches_for_it(control: Control, directory: Directory) -> None:
    await map_roles(control, None)
    await directory.user("ada@example.com")
    for verified, subject, expected in (
        (True, "somebody", "LINKED"),
        (False, "somebody", "REFUSED"),
        (False, "ada@example.com", "LINKED"),
    ):
        attributes = {"email": "ada@example.com", "email_verified": verified}
        status, body, _ = await control.call("POST", DRY_RUN, {"attributes": attributes, "subject": subject})
        assert (status, body["account"]) == (200, expected), body


async def test_a_dry_run_may_name_any_subject(control: Control, directory: Directory) -> None:
    await map_roles(control, None)
    body = {"attributes": {"email": "ada@example.com"}, "subject": "\0"}
    assert (await control.call("POST", DRY_RUN, body))[0] == 200


async def test_who_is_out_is_refused_by_any_address(control: Control, directory: Directory) -> None:
    """Else an account that is not confined to the organization would be followed by a new one."""
    await map_roles(control, None)
    ada = await directory.user("ada@example.com")
    await verify(control, (await directory.members())["ada@example.com"]["principalId"])
    await directory.activate(ada, False)
    attributes = {"email": "ada@example.com", "email_verified": False}
    _, body, _ = await control.call("POST", DRY_RUN, {"attributes": attributes, "subject": "somebody"})
    assert (body["account"], body["reason"]) == ("REFUSED", "account_deactivated")
    await directory.user("ada", emails=[{"value": "ada@example.com"}])  # who has the address now is no matter of theirs
    attributes["email_verified"] = True
    _, body, _ = await control.call("POST", DRY_RUN, {"attributes": attributes, "subject": "somebody"})
    assert body["account"] == "LINKED"


async def test_the_directory_does_not_choose_who_logs_in_as_an_owner(
    control: Control, directory: Directory, saml: SamlProvider
) -> None:
    ada = await directory.user("ada@example.com", externalId="ada-7")
    owner = (await directory.members())["ada@example.com"]
    assert (await control.call("PATCH", f"/orgs/acme/members/{owner['principalId']}", {"role": "OWNER"}))[0] == 200
    taken = {"userName": "eve", "externalId": "eve-1", "displayName": "Eve", "emails": [{"value": "eve@example.com"}]}
    assert (await directory.call("PUT", f"/Users/{ada['id']}", taken))[0] == 200
    assert (await saml.log_in(subject="eve-1", email="eve@example.com"))[0] == 400
    assert await refusals(control) == ["account_exists"]
    assert (await directory.members())["ada@example.com"]["name"] == owner["name"]


async def test_the_directory_does_not_choose_who_logs_in_as_a_member_of_others(
    control: Control, directory: Directory, saml: SamlProvider
) -> None:
    ada = await directory.user("ada@example.com")
    member = (await directory.members())["ada@example.com"]
    await verify(control, member["principalId"])
    async with control.checks.database.write() as connection:
        await organization_store.add_membership(
            connection, control.globex.organization.id, member["principalId"], Role.MEMBER
        )
    taken = {"userName": "eve", "externalId": "eve-1", "displayName": "Eve", "emails": [{"value": "eve@example.com"}]}
    assert (await directory.call("PUT", f"/Users/{ada['id']}", taken))[0] == 200
    assert (await saml.log_in(subject="eve-1", email="eve@example.com"))[0] == 400
    assert await refusals(control) == ["account_exists"]
    assert (await directory.members())["ada@example.com"]["name"] == member["name"]
