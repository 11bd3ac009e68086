"""Dry runs say what a login would do, and the login does it."""

from typing import Any

from control.identity.sso.tables import sso_identities
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson
from tests.control.identity.sso.conftest import Records, SamlProvider, prove, refusals

DRY_RUN = "/orgs/acme/sso/connections/SAML/dry-run"


async def said(control: Control, email: str = "ada@example.com", **more: Any) -> Any:
    attributes = {"email": email, "name": "Ada", "groups": ["dev", "x"]}
    status, body, _ = await control.call("POST", DRY_RUN, {"attributes": attributes, **more})
    assert status == 200, body
    return body


async def test_a_dry_run_says_what_a_login_does(
    saml: SamlProvider, control: Control, person: NewPerson, records: Records
) -> None:
    await saml.connect(roleMapping={"dev": "MEMBER"})
    assert await said(control) == {
        "account": "CREATED",
        "reason": None,
        "detail": None,
        "email": "ada@example.com",
        "name": "Ada",
        "groups": ["dev", "x"],
        "role": "MEMBER",
    }
    assert await control.count(sso_identities) == 0
    assert (await saml.log_in(groups=("dev",)))[1]["role"] == "MEMBER"
    assert (await said(control, subject="ada-1"))["account"] == "KNOWN"
    refused = await said(control, subject="ada-2")
    assert (refused["account"], refused["reason"]) == ("REFUSED", "account_exists")
    await person("bob@example.com")
    assert (await said(control, "bob@example.com"))["reason"] == "account_exists"
    await prove(control, records)
    assert (await said(control, "bob@example.com"))["account"] == "LINKED"
    assert (await said(control, subject="ada-2"))["reason"] == "account_linked"
    await saml.log_in(subject="ada-2")
    assert await refusals(control) == ["account_linked"]
    assert (await said(control, "no address"))["reason"] == "email_invalid"


async def test_who_may_ask(saml: SamlProvider, control: Control) -> None:
    del saml
    body: dict[str, Any] = {"attributes": {}}
    for role, status in ((Role.ADMIN, 200), (Role.MEMBER, 403)):
        _, token = await new_member_token(control.checks.database, control.acme, role)
        assert (await control.call("POST", DRY_RUN, body, token))[0] == status
    assert (await control.call("POST", DRY_RUN.replace("SAML", "OIDC"), body))[0] == 404
    assert (await control.call("POST", DRY_RUN.replace("SAML", "LDAP"), body))[0] == 400
    assert (await control.call("POST", DRY_RUN, {"attributes": {}, "more": 1}))[0] == 400


async def test_the_detail_says_why_an_address_does_not_suffice(
    saml: SamlProvider, control: Control, person: NewPerson, records: Records
) -> None:
    del saml
    await person("olga@example.com", role="OWNER")
    await person("bob@example.com")
    assert "has to prove the domain" in (await said(control, "bob@example.com"))["detail"]
    assert "An owner has the address" in (await said(control, "olga@example.com"))["detail"]
    await prove(control, records)
    assert "An owner has the address" in (await said(control, "olga@example.com"))["detail"]
    oidc = {"oidcIssuer": "https://idp.example.com", "oidcClientId": "sluice"}
    assert (await control.call("PUT", "/orgs/acme/sso/connections/OIDC", oidc))[0] == 200
    body = {"attributes": {"email": "bob@example.com"}}
    _, refused, _ = await control.call("POST", DRY_RUN.replace("SAML", "OIDC"), body)
    assert "does not say that it has verified it" in refused["detail"]
    verified = {"attributes": {"email": "bob@example.com", "email_verified": True}}
    assert (await control.call("POST", DRY_RUN.replace("SAML", "OIDC"), verified))[1]["account"] == "LINKED"
