"""Organizations that require single sign-on: passwords, tokens, the owner who keeps a way in."""

from typing import Any

import pytest

from control.identity.users.session_store import SSO_REQUIRED
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol
from tests.control.identity.sso.conftest import SamlProvider, audit

SETTINGS = "/orgs/acme/sso/settings"


@pytest.fixture
async def olga(person: NewPerson) -> Person:
    """An owner with a password."""
    return await person("olga@example.com", role="OWNER")


async def enforce(saml: SamlProvider) -> Any:
    """After a first login; its response."""
    _, body, _ = await saml.log_in()
    await saml.connect(enforced=True)
    return body


@pytest.mark.both_stores
async def test_no_password_reaches_an_organization_that_requires_single_sign_on(
    saml: SamlProvider, control: Control, person: NewPerson, olga: Person
) -> None:
    bob = await person("bob@example.com")
    elsewhere = await person("cleo@example.com", org="globex")
    _, invitation, _ = await control.call(
        "POST", "/orgs/acme/invitations", {"email": "dan@example.com", "role": "MEMBER"}
    )
    login = await enforce(saml)
    assert (await bob.call("GET", "/auth/user"))[0] == 401
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": bob.refresh}))[0] == 401
    status, body, _ = await bob.login()
    assert (status, body["error"]["message"]) == (403, SSO_REQUIRED)
    assert (await bob.login(orgSlug="acme"))[0] == 403
    status, body, _ = await control.call(
        "POST",
        "/auth/invitations/accept",
        {"inviteToken": invitation["inviteToken"], "name": "Dan", "password": PASSWORD},
    )
    assert (status, body["error"]["message"]) == (403, SSO_REQUIRED)
    token = login["tokens"]["accessToken"]
    assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 200
    assert (await elsewhere.login())[0] == 200
    assert (await olga.call("GET", "/auth/user"))[0] == 200
    assert (await olga.login())[0] == 200
    assert (await audit(control, "session.start"))[-1][1] == {"methods": ["pwd"], "breakGlass": True}
    await saml.connect(enforced=False)
    assert (await bob.login())[0] == 200


async def test_tokens_of_users_work_as_the_organization_says(
    saml: SamlProvider, control: Control, olga: Person
) -> None:
    _, agent, _ = await control.call(
        "POST", "/orgs/acme/principals", {"kind": "agent", "name": "Bot", "role": "VIEWER"}
    )
    _, made, _ = await control.call("POST", f"/orgs/acme/principals/{agent['principalId']}/tokens", {"name": "t"})
    login = await enforce(saml)
    admin = login["tokens"]["accessToken"]
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
    status, shown, _ = await control.call("PUT", SETTINGS, {"personalTokens": False})
    assert (status, shown["personalTokens"], shown["enforced"]) == (200, False, True)
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 401
    assert (await control.call("GET", "/orgs/acme/projects", token=made["token"]))[0] == 200
    assert (await control.call("GET", "/orgs/acme/projects", token=admin))[0] == 200


async def test_the_settings_have_defaults_and_show_what_follows(
    saml: SamlProvider, control: Control, olga: Person
) -> None:
    _, shown, _ = await control.call("GET", SETTINGS)
    assert shown == {
        "mfaTrust": "ASSERTED",
        "personalTokens": True,
        "breakGlassPrincipalId": None,
        "enforced": False,
        "effectiveBreakGlassPrincipalId": olga.id,
        "testedProtocols": [],
        "confirmedByOwner": ["SAML"],
    }
    await saml.log_in()
    status, shown, _ = await control.call("PUT", SETTINGS, {"mfaTrust": "NEVER", "breakGlassPrincipalId": olga.id})
    assert (status, shown["mfaTrust"], shown["breakGlassPrincipalId"]) == (200, "NEVER", olga.id)
    assert shown["testedProtocols"] == ["SAML"]
    assert (await control.call("GET", SETTINGS))[1] == shown
    assert [data["mfaTrust"] for _, data in await audit(control, "sso.settings")] == ["NEVER"]


@pytest.mark.both_stores
async def test_whoever_keeps_a_way_in_is_an_owner_with_a_password(
    saml: SamlProvider, control: Control, person: NewPerson, olga: Person
) -> None:
    bob = await person("bob@example.com", role="ADMIN")
    second = await person("pia@example.com", role="OWNER")
    for other in (bob.id, control.acme.owner_id, control.globex.owner_id, "prn_" + "0" * 26, "\0"):
        status, body, _ = await control.call("PUT", SETTINGS, {"breakGlassPrincipalId": other})
        assert (status, body["error"]["code"]) == (409, "conflict")
    assert (await control.call("PUT", SETTINGS, {"breakGlassPrincipalId": second.id}))[0] == 200
    await enforce(saml)
    assert (await second.login())[0] == 200
    assert (await olga.login())[0] == 403
    assert (await control.call("DELETE", f"/orgs/acme/members/{second.id}"))[0] == 204
    assert (await olga.login())[0] == 200, "the next one"


async def test_whoever_loses_the_way_in_loses_the_session(
    saml: SamlProvider, control: Control, person: NewPerson, olga: Person
) -> None:
    await enforce(saml)
    one = f"/orgs/acme/members/{olga.id}"
    for method, body in (("DELETE", None), ("PATCH", {"role": "ADMIN"})):
        status, answer, _ = await control.call(method, one, body)
        assert (status, answer["error"]["code"]) == (409, "conflict"), "the other owner has a token and no password"
    await saml.connect(enforced=False)
    pia = await person("pia@example.com", role="OWNER")
    await saml.connect(enforced=True)
    assert (await control.call("PATCH", one, {"role": "MEMBER"}))[0] == 200
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": olga.refresh}))[0] == 401
    assert (await audit(control, "session.end"))[-1][1] == {"reason": "the organization requires single sign-on"}
    status, session, _ = await pia.login()
    assert status == 200
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": session["tokens"]["refreshToken"]}))[0] == 200


async def test_without_an_owner_with_a_password_nothing_is_enforced(saml: SamlProvider, control: Control) -> None:
    await saml.log_in()
    status, body, _ = await control.call("PUT", "/orgs/acme/sso/connections/SAML", {"enforced": True})
    assert (status, body["error"]["code"]) == (409, "conflict")


async def test_an_enforced_connection_keeps_its_provider(saml: SamlProvider, control: Control, olga: Person) -> None:
    await enforce(saml)
    one = "/orgs/acme/sso/connections/SAML"
    for change in ({"idpEntityId": "https://other.example.com"}, {"enabled": False}, {"idpSsoUrl": None}):
        assert (await control.call("PUT", one, change))[0] == 409
    assert (await control.call("DELETE", one))[0] == 200
    assert (await control.call("GET", SETTINGS))[1]["enforced"] is False


async def test_what_the_providers_second_factor_is_worth(
    saml: SamlProvider, control: Control, person: NewPerson
) -> None:
    ada, refeds = await person("ada@example.com"), {"authn_context": "https://refeds.org/profile/mfa"}
    await enrol(ada)
    await saml.link(ada.access)
    for trust, said, answered in (
        ("NEVER", refeds, (401, "mfa_required")),
        ("ASSERTED", refeds, (200, None)),
        ("ASSERTED", {}, (401, "mfa_required")),
        ("ALWAYS", {}, (200, None)),
    ):
        assert (await control.call("PUT", SETTINGS, {"mfaTrust": trust}))[0] == 200
        _, body, _ = await saml.log_in(**said)
        status, answer, _ = await control.call("GET", "/orgs/acme/projects", token=body["tokens"]["accessToken"])
        assert (status, answer.get("error", {}).get("code")) == answered, (trust, said)
