"""Logins through a SAML provider over HTTP: both endings, who gets which account, what is refused."""

import asyncio
from http.cookies import SimpleCookie
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from chassis.auth.tables import memberships, principals, sessions, users
from control.identity.sso.login.browser import MAX_LOGINS
from control.identity.sso.tables import sso_handoff_codes, sso_identities, sso_logins
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson, enrol
from tests.control.identity.login.test_sessions import count_lookups
from tests.control.identity.sso import saml_idp
from tests.control.identity.sso.conftest import (
    PUBLIC,
    Browser,
    Records,
    SamlProvider,
    audit,
    bearer,
    moment,
    prove,
    refusals,
    refused,
)

OWNER_KEYS: Final = {"id", "email", "name"}


@pytest.mark.both_stores
async def test_a_first_login_makes_a_member_and_a_second_one_finds_it(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    status, first, headers = await saml.log_in(relay_state="/orgs/acme/explore")
    assert status == 200, first
    assert set(first) == {"user", "orgId", "role", "provisioned", "relayState", "tokens"}
    assert set(first["user"]) == OWNER_KEYS
    assert set(first["tokens"]) == {"accessToken", "refreshToken", "expiresIn", "tokenType"}
    assert (first["orgId"], first["role"], first["provisioned"]) == (control.acme.organization.id, "VIEWER", True)
    assert (first["user"]["email"], first["user"]["name"]) == ("ada@example.com", "Ada Example")
    assert first["relayState"] == "/orgs/acme/explore"
    assert headers["Cache-Control"] == "no-store"
    assert not browser.cookies, "the login is over"
    status, second, _ = await saml.log_in()
    assert status == 200
    assert (second["user"], second["provisioned"], second["relayState"]) == (first["user"], False, None)
    status, user, _ = await control.call("GET", "/auth/user", token=bearer(second["tokens"]))
    assert (status, user["id"], user["emailVerified"]) == (200, first["user"]["id"], False)
    assert (await control.call("GET", "/orgs/acme/projects", token=bearer(second["tokens"])))[0] == 200
    assert (await control.call("GET", "/orgs/globex/projects", token=bearer(second["tokens"])))[0] == 404
    status, user, _ = await control.call("PATCH", "/auth/user", {"name": "Ada L."}, bearer(second["tokens"]))
    assert (status, user["name"]) == (200, "Ada L."), "the account is nowhere else"
    assert [action for action, _ in await audit(control)][-6:] == [
        "member.provision", "sso.login", "session.start", "sso.login", "session.start", "user.update"
    ]  # fmt: skip


@pytest.mark.both_stores
async def test_with_a_redirect_the_session_begins_when_its_code_is_spent(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    status, _, headers = await saml.log_in(ending="redirect", relay_state="/x?a=1")
    assert status == 303
    url = urlsplit(headers["Location"])
    assert f"{url.scheme}://{url.netloc}{url.path}" == f"{PUBLIC}/sso/complete"
    assert not url.query
    assert headers["Referrer-Policy"] == "no-referrer"
    name, _, code = url.fragment.partition("=")
    assert name == "code"
    assert await control.count(sessions) == 0
    answers = await asyncio.gather(*(browser.spend(code) for _ in range(5)))
    (won,) = [body for status, body, _ in answers if status == 200]
    assert all(refused(answer) for answer in answers if answer[0] != 200)
    assert set(won) == {"orgId", "role", "provisioned", "tokens", "user", "next"}
    assert (won["next"], won["provisioned"], won["role"]) == ("/x?a=1", True, "VIEWER")
    assert set(won["user"]) == {
        "id", "email", "name", "avatarUrl", "locale", "theme", "emailVerified", "mfaEnabled", "createdAt"
    }  # fmt: skip
    assert (await control.call("GET", "/auth/user", token=bearer(won["tokens"])))[0] == 200
    assert [data["reason"] for _, data in await audit(control, "sso.handoff")] == ["code_used_or_expired"] * 4


async def test_the_page_gets_the_refresh_token_in_a_cookie(saml: SamlProvider, control: Control) -> None:
    body = {"code": await saml.handoff_code(relay_state="/ui/acme/settings"), "cookie": True}
    assert (await control.call("POST", "/sso/handoff", body))[0] == 400, "another page may have sent it"
    page = {"Sec-Fetch-Site": "same-origin"}
    status, material, headers = await control.call("POST", "/sso/handoff", body, headers=page)
    assert (status, material["tokens"]["refreshToken"], material["next"]) == (200, "", "/ui/acme/settings")
    cookie = SimpleCookie(headers["Set-Cookie"])["__Secure-sluice"]
    assert (cookie["path"], cookie["secure"], cookie["httponly"], cookie["samesite"]) == ("/auth", True, True, "Strict")
    given = {"Cookie": f"__Secure-sluice={cookie.value}"} | page
    assert (await control.call("POST", "/auth/refresh", {"cookie": True}, headers=given))[0] == 200


async def test_a_code_is_worth_nothing_once_access_has_ended(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    waiting = await saml.handoff_code()
    await saml.connect(enabled=False)
    assert refused(await browser.spend(waiting))
    await saml.connect()
    waiting = await saml.handoff_code()
    (member,) = await control.scalars(sa.select(sso_identities.c.principal_id))
    assert (await control.call("DELETE", f"/orgs/acme/members/{member}"))[0] == 204
    assert refused(await browser.spend(waiting))
    for nonsense in ("x", "y" * 43, "é"):
        assert refused(await browser.spend(nonsense))
    bad: list[object] = [{}, {"code": ""}, {"code": "x", "more": 1}, []]
    for body in bad:
        assert (await browser.call("POST", "/sso/handoff", json=body))[0] == 400
    assert (await browser.call("POST", "/sso/handoff", data=b"x" * 70_000))[0] == 400


async def test_a_code_of_a_deleted_organization_is_worth_nothing(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    code = await saml.handoff_code()
    assert (await control.call("DELETE", "/orgs/acme?confirm=acme"))[0] == 202
    assert refused(await browser.spend(code))
    assert await control.count(sessions) == 0


async def test_a_login_that_changes_nothing_makes_nobody_be_looked_up_again(
    saml: SamlProvider, control: Control
) -> None:
    assert (await saml.log_in())[0] == 200
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
    before = await count_lookups(control)
    assert (await saml.log_in())[0] == 200
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
    assert await count_lookups(control) == before


async def test_who_was_removed_gets_another_account_and_who_is_disabled_none(
    saml: SamlProvider, control: Control
) -> None:
    _, first, _ = await saml.log_in()
    assert (await control.call("DELETE", f"/orgs/acme/members/{first['user']['id']}"))[0] == 204
    assert (await control.call("GET", "/auth/user", token=bearer(first["tokens"])))[0] == 401
    _, second, _ = await saml.log_in()
    assert second["provisioned"]
    assert second["user"]["id"] != first["user"]["id"]
    disabled = principals.update().where(principals.c.id == second["user"]["id"])
    await control.execute(disabled.values(disabled_at=sa.func.now()))
    assert refused(await saml.log_in())
    assert await refusals(control) == ["account_disabled"]


async def test_groups_give_the_role_at_every_login(saml: SamlProvider, control: Control) -> None:
    await saml.connect(defaultRole="BILLING", roleMapping={"dev": "MEMBER", "platform": "ADMIN"})
    roles = []
    for groups in (("dev", "platform"), ("dev",), ("others",), (), ("platform",)):
        _, body, _ = await saml.log_in(groups=groups)
        roles.append((body["role"], body["provisioned"]))
    assert roles == [
        ("ADMIN", True), ("MEMBER", False), ("BILLING", False), ("BILLING", False), ("ADMIN", False)
    ]  # fmt: skip
    changes = [(data["before"], data["role"]) for _, data in await audit(control, "member.update")]
    assert changes == [("ADMIN", "MEMBER"), ("MEMBER", "BILLING"), ("BILLING", "ADMIN")]
    await saml.connect(roleMapping=None, defaultRole="VIEWER")
    assert (await saml.log_in())[1]["role"] == "ADMIN", "without a mapping the role is set once"


async def test_an_owner_and_the_last_administrator_keep_their_roles(
    saml: SamlProvider, control: Control, person: NewPerson
) -> None:
    owner = await person("olga@example.com", role="OWNER")
    await saml.link(owner.access, email="olga@example.com", subject="olga")
    await saml.connect(roleMapping={"x": "VIEWER"}, defaultRole="VIEWER")
    _, body, _ = await saml.log_in(subject="olga", email="olga@example.com", groups=("x",))
    assert body["role"] == "OWNER"
    assert (await audit(control, "sso.login"))[-1][1]["mappedRole"] == "VIEWER"


async def test_nobody_is_taken_over_by_an_address(
    saml: SamlProvider, control: Control, person: NewPerson, records: Records
) -> None:
    member = await person("ada@example.com")
    assert refused(await saml.log_in())
    assert await refusals(control) == ["account_exists"]
    await saml.link(member.access)
    assert (await saml.log_in())[1]["user"]["id"] == member.id
    for name, role in (("bea", "ADMIN"), ("carl", "OWNER")):
        other = await person(f"{name}@example.com", role=role)
        assert refused(await saml.log_in(subject=name, email=f"{name}@example.com"))
        await prove(control, records)
        answer = await saml.log_in(subject=name, email=f"{name}@example.com")
        assert refused(answer) if role == "OWNER" else answer[1]["user"]["id"] == other.id
    assert (await audit(control, "sso.link"))[-1][1]["email"] == "bea@example.com"


async def test_accounts_of_other_organizations_are_out_of_reach(
    saml: SamlProvider, control: Control, person: NewPerson, records: Records
) -> None:
    elsewhere = await person("ada@example.com", org="globex", verified=True)
    await prove(control, records)
    _, body, _ = await saml.log_in()
    assert body["user"]["id"] != elsewhere.id
    assert (await elsewhere.call("GET", "/orgs/globex/projects"))[0] == 200
    assert (await control.call("GET", "/orgs/globex/projects", token=bearer(body["tokens"])))[0] == 404
    _, organizations, _ = await control.call("GET", "/auth/organizations", token=bearer(body["tokens"]))
    assert [each["slug"] for each in organizations["data"]] == ["acme"]


async def test_a_provider_has_no_say_over_an_account_elsewhere(
    saml: SamlProvider, control: Control, person: NewPerson
) -> None:
    """The account is a member of both organizations; acme's provider vouches for it in acme."""
    await person("ada@example.com", org="globex", verified=True)
    ada = await person("ada@example.com", existing=True)
    app, _ = await enrol(ada)
    await saml.link(ada.access)
    await control.call("PUT", "/orgs/acme/sso/settings", {"mfaTrust": "ALWAYS"})
    _, body, _ = await saml.log_in()
    token = bearer(body["tokens"])
    _, own, _ = await control.call("GET", "/auth/organizations", token=token)
    assert [each["slug"] for each in own["data"]] == ["acme"]
    assert (await control.call("PATCH", "/auth/user", {"name": "Eve"}, token))[0] == 403
    assert (await ada.call("PATCH", "/auth/user", {"name": "Ada L."}))[0] == 200
    change = {"current": "x", "password": "y" * 12}
    tried = [(await control.call("POST", "/auth/password", change, token))[0] for _ in range(6)]
    assert tried == [403] * 5 + [429]
    assert (await ada.login(orgSlug="globex", totp=app.now()))[0] == 200, "it has failed in acme alone"


async def test_the_word_of_a_provider_is_no_proof_for_a_further_link(
    saml: SamlProvider, browser: Browser, control: Control, person: NewPerson
) -> None:
    async def asks(**changes: Any) -> tuple[int, str]:
        _, body, _ = await saml.log_in(**changes)
        asked = {"Authorization": f"Bearer {bearer(body['tokens'])}"}
        return (await browser.call("POST", "/auth/sso/links", headers=asked))[0], body["user"]["id"]

    ada = await person("ada@example.com")
    await saml.link(ada.access)
    assert await asks() == (403, ada.id)
    status, bob = await asks(subject="bob", email="bob@example.com")
    assert status == 201, "he has no password"
    assert (await control.call("PATCH", f"/orgs/acme/members/{bob}", {"role": "OWNER"}))[0] == 200
    assert await asks(subject="bob", email="bob@example.com") == (403, bob)


async def test_one_user_of_the_provider_is_one_account(
    saml: SamlProvider, browser: Browser, control: Control, person: NewPerson
) -> None:
    ada, bob = await person("ada@example.com"), await person("bob@example.com")
    await saml.link(ada.access)
    made, _, _ = await browser.ask_to_link(bob.access)
    assert made == 201
    begun = await browser.start(link="true")
    assert refused(await saml.answer(begun, saml.response(begun)))
    assert await refusals(control) == ["link_taken"]


async def test_a_link_needs_the_browser_and_the_session_that_asked_for_it(
    saml: SamlProvider, browser: Browser, control: Control, person: NewPerson
) -> None:
    ada, start = await person("ada@example.com"), "/sso/saml/acme/start"
    await browser.ask_to_link(ada.access)
    assert (await Browser(control).call("GET", f"{start}?link=true"))[0] == 400
    assert (await browser.call("GET", f"{start}?link=yes"))[0] == 400
    await browser.start(link="true")
    assert (await browser.call("GET", f"{start}?link=true"))[0] == 400, "once"
    await browser.ask_to_link(ada.access)
    assert (await control.call("POST", "/auth/logout", {"refreshToken": ada.refresh}))[0] == 204
    assert (await browser.call("GET", f"{start}?link=true"))[0] == 400


async def test_what_the_provider_says_is_checked(saml: SamlProvider, control: Control) -> None:
    said: list[tuple[dict[str, Any], str]] = [
        ({"issuer": "https://evil.example.com"}, "issuer_mismatch"),
        ({"audiences": (f"{PUBLIC}/sso/saml/globex/metadata",)}, "audience_mismatch"),
        ({"recipient": f"{PUBLIC}/sso/saml/globex/acs"}, "recipient_mismatch"),
        ({"destination": f"{PUBLIC}/sso/saml/globex/acs"}, "destination_mismatch"),
        ({"email": "not an address"}, "email_invalid"),
        ({"attributes": ()}, "email_missing"),
    ]
    for changes, _ in said:
        assert refused(await saml.log_in(**changes))
    assert await refusals(control) == [reason for _, reason in said]
    assert await control.count(sso_identities) == 0


async def test_a_response_belongs_to_one_login_of_one_browser_and_organization(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    begun = await browser.start()
    response = saml.response(begun)
    stranger = Browser(control)
    assert refused(await saml.answer(begun, response, browser=stranger))
    other = await browser.start()
    assert refused(await saml.answer(other, response)), "it answers another request"
    assert (await saml.answer(begun, response, org="globex"))[0] == 404
    cookies = dict(browser.cookies)
    assert (await saml.answer(begun, response))[0] == 200
    browser.cookies = cookies
    assert refused(await saml.answer(begun, response)), "it was used"
    assert refused(await browser.call("POST", "/sso/saml/acme/acs", data={"SAMLResponse": response}))
    assert (await saml.log_in(assertion_id="_same"))[0] == 200
    assert refused(await saml.log_in(assertion_id="_same")), "an assertion is accepted once, whatever asks for it"
    assert await refusals(control) == [
        "browser_mismatch", "in_response_to_mismatch", "state_unknown", "state_missing", "assertion_replayed"
    ]  # fmt: skip


async def test_a_fault_of_ours_is_no_refusal(
    saml: SamlProvider, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("control.identity.sso.accounts.find_account", broken)
    status, body, _ = await saml.log_in()
    assert (status, body["error"]["code"]) == (500, "internal_error")
    assert await refusals(control) == []
    async with control.client.get("/metrics") as answer:
        counted = [line for line in (await answer.text()).splitlines() if line.startswith("sluice_sso_logins_total")]
    assert {line.split()[0] for line in counted if float(line.split()[1])} == {
        'sluice_sso_logins_total{outcome="failed",protocol="SAML"}'
    }


@pytest.mark.both_stores
async def test_of_many_posts_of_one_response_one_wins(saml: SamlProvider, browser: Browser, control: Control) -> None:
    begun = await browser.start()
    response = saml.response(begun)
    browsers = [Browser(control, dict(browser.cookies)) for _ in range(6)]
    answers = await asyncio.gather(*(saml.answer(begun, response, browser=each) for each in browsers))
    assert sorted(status for status, *_ in answers) == [200] + [400] * 5
    assert [await control.count(table) for table in (sso_identities, sessions)] == [1, 1]


async def test_an_alternate_certificate_counts_and_a_removed_one_does_not(saml: SamlProvider, control: Control) -> None:
    new = saml_idp.ec_key()
    assert refused(await saml.log_in(key=new))
    await saml.connect(idpCertificateAlternates=[saml_idp.certificate_pem(new)])
    assert (await saml.log_in(key=new))[0] == 200
    await saml.connect(idpCertificate=saml_idp.certificate_pem(new), idpCertificateAlternates=[])
    assert (await saml.log_in(key=new))[0] == 200
    assert refused(await saml.log_in())
    assert set(await refusals(control)) == {"signature_invalid"}


async def test_no_administrator_becomes_an_owner_by_a_certificate(
    saml: SamlProvider, control: Control, person: NewPerson
) -> None:
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    olga, one = await person("olga@example.com", role="OWNER"), "/orgs/acme/sso/connections/SAML"
    ours, forged = (saml_idp.certificate_pem(key) for key in (saml_idp.rsa_key(), saml_idp.ec_key()))
    changes: list[dict[str, Any]] = [{"idpCertificate": forged}, {"idpCertificateAlternates": [forged]}]
    for each in (*changes, {"idpCertificate": ours, "idpCertificateAlternates": []}):
        assert (await control.call("PUT", one, each, admin))[0] == 200, "nobody is at risk"
    assert (await control.call("PUT", one, {}))[0] == 200, "an owner confirms what is there"
    await saml.link(olga.access, subject="olga", email="olga@example.com")
    for each in changes:
        assert (await control.call("PUT", one, each, admin))[0] == 403
    assert refused(await saml.log_in(subject="olga", key=saml_idp.ec_key()))
    assert (await control.call("PUT", one, {"idpCertificate": ours, "defaultRole": "MEMBER"}, admin))[0] == 200
    assert (await control.call("PUT", one, changes[1]))[0] == 200, "an owner may"
    assert (await control.call("PUT", one, changes[0], admin))[0] == 200, "it is an alternate already"


async def test_another_provider_asserts_nobody_of_the_one_before(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    _, first, _ = await saml.log_in()
    begun = await browser.start()
    await saml.connect(idpEntityId="https://other.example.com")
    assert (await control.call("GET", "/auth/user", token=bearer(first["tokens"])))[0] == 401
    assert refused(await saml.answer(begun, saml.response(begun)))
    other = {"issuer": "https://other.example.com", "response_issuer": "https://other.example.com"}
    assert refused(await saml.log_in(**other)), "the address has an account, which is not linked any more"
    assert (await refusals(control))[-1] == "account_exists"


@pytest.mark.both_stores
async def test_sessions_end_with_their_connection_and_no_others(
    saml: SamlProvider, control: Control, person: NewPerson
) -> None:
    _, body, _ = await saml.log_in()
    bob = await person("bob@example.com")
    oidc = {"oidcIssuer": "https://idp.example.com", "oidcClientId": "sluice", "enabled": True}
    assert (await control.call("PUT", "/orgs/acme/sso/connections/OIDC", oidc))[0] == 200
    token = bearer(body["tokens"])
    assert (await control.call("PUT", "/orgs/acme/sso/connections/OIDC", {"enabled": False}))[0] == 200
    assert (await control.call("DELETE", "/orgs/acme/sso/connections/OIDC"))[0] == 200
    assert (await control.call("GET", "/auth/user", token=token))[0] == 200
    await saml.connect(enabled=False)
    assert (await control.call("GET", "/auth/user", token=token))[0] == 401
    refresh = {"refreshToken": body["tokens"]["refreshToken"]}
    assert (await control.call("POST", "/auth/refresh", refresh))[0] == 401
    assert (await bob.call("GET", "/auth/user"))[0] == 200
    await saml.connect()
    assert (await saml.log_in())[1]["user"]["id"] == body["user"]["id"], "the link has stayed"


async def test_the_session_ends_when_the_provider_says(saml: SamlProvider, control: Control, person: NewPerson) -> None:
    """Also the one that a second factor of ours begins."""
    ada = await person("ada@example.com")
    await saml.link(ada.access)
    app, _ = await enrol(ada)
    _, body, _ = await saml.log_in(session_not_on_or_after=moment(3_600))
    status, verified, _ = await control.call("POST", "/auth/totp/verify", {"code": app.now()}, bearer(body["tokens"]))
    assert status == 200, verified
    async with control.checks.database.read() as connection:
        rows = (await connection.execute(sa.select(sessions))).mappings().all()
    federated = min((row for row in rows if row["methods"] == ["fed"]), key=lambda row: row["expires_at"])
    (with_both,) = [row for row in rows if row["methods"] == ["fed", "otp"]]
    assert 3_500 < (federated["expires_at"] - federated["created_at"]).total_seconds() <= 3_600
    assert with_both["expires_at"] == federated["expires_at"]
    assert (await control.call("GET", "/auth/user", token=bearer(verified["tokens"])))[0] == 200


@pytest.mark.usefixtures("saml")
async def test_a_relay_state_leads_to_our_origin_only(browser: Browser) -> None:
    for relay_state in (
        *("//evil.example", "/\\evil.example", "https://evil.example", "x", "/" + "a" * 1024, "/" + "\u00fc" * 400),
        *("/.//evil.example", "/x/..//", "/%2e//evil.example", "/\t/evil.example", "/.\n/\\evil.example"),
    ):
        status, body, _ = await browser.call("GET", "/sso/saml/acme/start", params={"relayState": relay_state})
        named = [each["path"] for each in body["error"]["details"]]
        assert (status, named) == (400, ["query.relayState"]), relay_state


async def test_a_login_leads_back_to_where_a_browser_goes(saml: SamlProvider, browser: Browser) -> None:
    begun = await browser.start(relayState="/orgs/acme/secret-project")
    assert begun.url.startswith("https://idp.example.com/sso?tenant=1&")
    assert "secret-project" not in begun.url, "the provider sees nothing of it"
    assert len(begun.query["RelayState"]) <= 80
    _, body, _ = await saml.log_in(relay_state="/ui/x/..\\./%2E%2e/\u00fc\t?q= #a")
    assert body["relayState"] == "/%C3%BC?q=%20#a"


async def test_a_login_that_an_earlier_release_has_begun_leads_nowhere_else(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    for ending, key in (("json", "relayState"), ("redirect", "next")):
        begun = await browser.start(relayState="/x")
        await control.execute(sso_logins.update().values(relay_state="/.//evil.example"))
        status, body, headers = await saml.answer(begun, saml.response(begun), ending=ending)
        if ending == "redirect":
            await control.execute(sso_handoff_codes.update().values(next="/x/..//evil.example"))
            code = headers["Location"].partition("#code=")[2]
            status, body, _ = await browser.spend(code)
        assert (status, body[key]) == (200, None)


async def test_without_an_enabled_connection_there_is_nothing(saml: SamlProvider, browser: Browser) -> None:
    form = {"data": {"SAMLResponse": "x"}}
    for org in ("globex", "nobody", "~x", "x" * 64):
        for method, path in (("GET", "start"), ("POST", "acs"), ("GET", "metadata")):
            options = form if method == "POST" else {}
            assert (await browser.call(method, f"/sso/saml/{org}/{path}", **options))[0] == 404
    assert (await browser.call("GET", "/sso/oidc/acme/start"))[0] == 404
    assert (await browser.call("GET", "/sso/oidc/acme/callback?state=x"))[0] == 404
    await saml.connect(enabled=False)
    assert (await browser.call("GET", "/sso/saml/acme/start"))[0] == 404
    status, metadata, headers = await browser.call("GET", "/sso/saml/acme/metadata")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "application/samlmetadata+xml")
    assert f'entityID="{PUBLIC}/sso/saml/acme/metadata"' in metadata


@pytest.mark.usefixtures("saml")
async def test_bodies_that_are_none_are_400(browser: Browser) -> None:
    form = "application/x-www-form-urlencoded"
    for media_type, body in (
        ("text/plain", b"x"),
        *(("application/json", body) for body in (b"{}", b"{", b'{"SAMLResponse": 1}')),
        *((form, body) for body in (b"", b"SAMLResponse=a&SAMLResponse=b", b"\xff", b"a=1&" * 30)),
        (form, b"SAMLResponse=" + b"x" * 600_000),
    ):
        headers = {"Content-Type": media_type}
        status, error, _ = await browser.call("POST", "/sso/saml/acme/acs", data=body, headers=headers)
        assert (status, error["error"]["code"]) == (400, "bad_request"), (media_type, body[:40])


@pytest.mark.chassis_settings(failed_sso_rate=5)
async def test_failures_of_an_address_are_limited_and_successes_are_not(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    for _ in range(7):
        assert (await saml.log_in())[0] == 200
    for _ in range(5):
        assert refused(await browser.call("POST", "/sso/saml/acme/acs", data={"SAMLResponse": "x"}))
    for method, path in (("POST", "/sso/saml/acme/acs"), ("GET", "/sso/saml/acme/start"), ("POST", "/sso/handoff")):
        options = {"json": {"code": "x"}} if method == "POST" else {}
        status, body, headers = await browser.call(method, path, **options)
        assert (status, body["error"]["code"]) == (429, "rate_limited")
        assert int(headers["Retry-After"]) >= 1
    assert len(await refusals(control)) == 5


async def test_logins_that_a_page_begins_do_not_fill_the_browser(saml: SamlProvider, browser: Browser) -> None:
    for _ in range(MAX_LOGINS + 4):
        await browser.start()
        assert len(browser.cookies) <= MAX_LOGINS
    begun = await browser.start()
    assert len(browser.cookies) == 5
    assert (await saml.answer(begun, saml.response(begun)))[0] == 200


async def test_unfinished_logins_of_an_address_are_limited(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    await browser.start()
    async with control.checks.database.write() as connection:
        row = (await connection.execute(sa.select(sso_logins))).mappings().one()
        for number in range(200):
            long_ago = row["created_at"] - (row["expires_at"] - row["created_at"]) / 2
            other = {"state_hash": number.to_bytes(32, "big"), "created_at": long_ago}
            await connection.execute(sso_logins.insert().values({**row, **other}))
    assert (await browser.call("GET", "/sso/saml/acme/start"))[0] == 429


async def test_the_audit_log_is_no_target(
    saml: SamlProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chassis.limits.rate_limits.RateLimits.check_address", _nothing)
    monkeypatch.setattr("chassis.limits.rate_limits.RateLimits.record_address_failure", _nothing)
    started = monotonic()
    for _ in range(70):
        answer = await browser.call("POST", "/sso/saml/acme/acs", data={"SAMLResponse": "x"})
        assert refused(answer)
        assert answer[2]["x-ratelimit-limit"] == "300", "the one of the address, and not that of the audit log"
    refilled = int(monotonic() - started) + 1  # one a second
    assert 60 <= len(await refusals(control)) <= min(60 + refilled, 70)


async def _nothing(*_: object) -> None: ...


async def test_a_member_by_invitation_is_no_obstacle_elsewhere(saml: SamlProvider, control: Control) -> None:
    """Two subjects with one address are two people to the provider; only one can be the account with the address."""
    assert (await saml.log_in())[0] == 200
    assert refused(await saml.log_in(subject="ada-2"))
    assert await refusals(control) == ["account_exists"]
    _, token = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    _, members, _ = await control.call("GET", "/orgs/acme/members?limit=50", token=token)
    assert [each["email"] for each in members["data"]].count("ada@example.com") == 1
    async with control.checks.database.read() as connection:
        rows = (await connection.execute(sa.select(users.c.password_hash, users.c.home_org_id))).all()
        assert (None, control.acme.organization.id) in [tuple(row) for row in rows]
        assert await connection.scalar(sa.select(sa.func.count()).select_from(memberships)) == 4


async def test_an_owner_logs_in_once_an_owner_has_confirmed_the_provider(
    saml: SamlProvider, browser: Browser, control: Control, person: NewPerson
) -> None:
    """A certificate that an administrator has planted before an owner links an account."""
    olga, ada = await person("olga@example.com", role="OWNER"), await person("ada@example.com", role="ADMIN")
    connection, settings = "/orgs/acme/sso/connections/SAML", "/orgs/acme/sso/settings"
    planted = {"idpCertificateAlternates": [saml_idp.certificate_pem(saml_idp.ec_key())]}

    async def confirmed() -> list[str]:
        return list((await control.call("GET", settings))[1]["confirmedByOwner"])

    assert await confirmed() == ["SAML"]
    assert (await ada.call("PUT", connection, {"defaultRole": "MEMBER"}))[0] == 200
    assert await confirmed() == ["SAML"], "roles are an administrator's affair"
    assert (await ada.call("PUT", connection, planted))[0] == 200
    assert await confirmed() == []
    await browser.ask_to_link(olga.access)
    begun = await browser.start(link="true")
    assert refused(await saml.answer(begun, saml.response(begun, subject="olga-1")))
    assert await refusals(control) == ["not_confirmed"]
    assert (await saml.log_in(subject="bob-1", email="bob@example.com"))[0] == 200, "others are not concerned"
    assert (await control.call("PUT", connection, {"idpCertificateAlternates": []}))[0] == 200
    assert await confirmed() == ["SAML"]
    await saml.link(olga.access, subject="olga-1")
    status, body, _ = await saml.log_in(subject="olga-1")
    assert (status, body["role"]) == (200, "OWNER")
