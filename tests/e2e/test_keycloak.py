"""Logins through Keycloak, by SAML and by OpenID Connect, into a running Sluice: set up as docs/sso.md says, and the
mistakes that an administrator makes. Keycloak has TLS by an authority of its own and a private address, like most.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest

from control.identity.sso.login.browser import REFUSED
from tests.e2e.browser import Browser, Page
from tests.e2e.keycloak import PASSWORD, Keycloak, Realm
from tests.e2e.product import Sluice, run, running
from tests.e2e.test_sso import PUBLIC, api

pytestmark = pytest.mark.long

PROTOCOLS: Final = ("SAML", "OIDC")
ROLES: Final = {"platform-team": "ADMIN", "developers": "MEMBER"}


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with Keycloak(tmp_path_factory.mktemp("keycloak")) as started:
        yield started


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, keycloak: Keycloak) -> Iterator[Sluice]:
    """With what an operator sets for a provider in the private network, whose authority is the company's own."""
    directory = tmp_path_factory.mktemp("sluice")
    settings = {
        "SLUICE_PUBLIC_URL": PUBLIC,
        "SLUICE_CONTROL_SSO_ALLOW": "127.0.0.0/8",
        "SLUICE_FAILED_SSO_RATE": "0",
        "SSL_CERT_FILE": str(keycloak.authority.certificate),
    }
    sluice = running(directory / "data", directory / "up.log", **settings)
    try:
        yield sluice
    finally:
        sluice.kill()


@dataclass
class Company:
    """An organization and the realm that it is connected to, with Ada in it."""

    product: Sluice
    realm: Realm
    protocol: str
    stack: AsyncExitStack

    @property
    def start(self) -> str:
        """Where its people log in."""
        return f"{PUBLIC}/sso/{self.protocol.lower()}/{self.product.org}/start"

    async def new_browser(self) -> Browser:
        browser = Browser(self.realm.keycloak.authority, PUBLIC, self.product.control_url)
        return await self.stack.enter_async_context(browser)

    async def log_in(self, login: str = "ada") -> Any:
        """A login in a browser of its own, which succeeds."""
        return completed(await (await self.new_browser()).log_in(self.start, login, ending="json"))

    async def refused(self, login: str = "ada") -> str:
        """The reason of a login that Sluice refuses."""
        page = await (await self.new_browser()).log_in(self.start, login, ending="json")
        assert page.status == 400, page
        assert page.json()["error"]["message"] == REFUSED
        event = self.call("GET", "/audit?limit=1")["data"][0]
        assert event["action"] == "sso.refuse"
        return str(event["data"]["reason"])

    def connect(self, fields: Mapping[str, Any]) -> Any:
        """Change the connection."""
        return self.call("PUT", f"/sso/connections/{self.protocol}", fields)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The administrator's request, below the organization."""
        reply = api(self.product, method, f"/orgs/{self.product.org}{path}", body)
        assert reply.status in (200, 201, 204), reply
        return reply.json() if reply.body else None

    def new_member(self, email: str) -> Any:
        """The session of somebody who has accepted an invitation, with a password."""
        invited = self.call("POST", "/invitations", {"email": email, "role": "MEMBER"})["inviteToken"]
        accepted = {"inviteToken": invited, "name": "Some Member", "password": PASSWORD}
        return api(self.product, "POST", "/auth/invitations/accept", accepted).json()

    def status_with(self, token: str) -> int:
        """What a session gets in the organization."""
        return api(self.product, "GET", f"/orgs/{self.product.org}/projects", token=token).status


def completed(page: Page) -> Any:
    assert page.status == 200, page
    return page.json()


@pytest.fixture
async def company(protocol: str, keycloak: Keycloak, product: Sluice) -> AsyncIterator[Company]:
    """Of the protocol that a test is given."""
    async with AsyncExitStack() as stack:
        company = Company(product, keycloak.new_realm(), protocol, stack)
        realm, base = company.realm, f"{PUBLIC}/sso/{protocol.lower()}/{product.org}"
        if protocol == "OIDC":
            secret = realm.add_oidc_client(f"{base}/callback")
            fields = {"oidcIssuer": realm.url, "oidcClientId": "sluice", "oidcClientSecret": secret}
        else:
            realm.add_saml_client(f"{base}/metadata", f"{base}/acs")
            (certificate,) = realm.published_certificates()
            fields = {
                "idpEntityId": realm.url,
                "idpSsoUrl": f"{realm.url}/protocol/saml",
                "idpCertificate": certificate,
            }
        realm.add_user("ada")
        company.connect({**fields, "enabled": True})
        yield company
        company.call("DELETE", f"/sso/connections/{protocol}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_first_login_makes_a_member_whom_later_ones_find(company: Company) -> None:
    company.realm.add_user("bob")
    browser = await company.new_browser()
    first = completed(await browser.log_in(company.start, "ada", ending="json"))
    assert (first["user"]["email"], first["user"]["name"]) == (company.realm.address("ada"), "Ada Example")
    assert (first["provisioned"], first["role"]) == (True, "VIEWER")
    assert company.status_with(first["tokens"]["accessToken"]) == 200
    again = completed(await browser.log_in(company.start, ending="json"))  # Keycloak knows this browser
    elsewhere = await company.log_in("ada")
    for later in (again, elsewhere):
        assert (later["user"], later["provisioned"], later["role"]) == (first["user"], False, "VIEWER")
    other = await company.log_in("bob")
    assert (other["provisioned"], other["user"]["email"]) == (True, company.realm.address("bob"))
    assert other["user"]["id"] != first["user"]["id"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_both_endings_of_a_login(company: Company) -> None:
    browser = await company.new_browser()
    page = await browser.log_in(f"{company.start}?relayState=/explore%3Fq%3Da%2526b", "ada")
    assert page.status == 303, page
    address, _, code = page.location.partition("#code=")
    assert address == f"{PUBLIC}/sso/complete"
    handoff = completed(await browser.open("POST", f"{PUBLIC}/sso/handoff", body={"code": code}))
    assert (handoff["next"], handoff["provisioned"]) == ("/explore?q=a%26b", True)
    assert handoff["user"]["email"] == company.realm.address("ada")
    assert company.status_with(handoff["tokens"]["accessToken"]) == 200
    assert (await browser.open("POST", f"{PUBLIC}/sso/handoff", body={"code": code})).status == 400
    page = await browser.log_in(f"{company.start}?relayState=/b", ending="json")
    session = completed(page)
    assert (session["relayState"], session["provisioned"]) == ("/b", False)
    assert session["user"]["id"] == handoff["user"]["id"]
    assert (await company.log_in())["relayState"] is None
    assert (await browser.log_in(f"{company.start}?relayState=//evil.example.com/")).status == 400


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_role_follows_the_groups_at_each_login(company: Company) -> None:
    company.connect({"roleMapping": ROLES})
    roles = [(await company.log_in())["role"]]
    company.realm.join("ada", "developers")
    roles.append((await company.log_in())["role"])
    company.realm.join("ada", "platform-team")
    roles.append((await company.log_in())["role"])
    company.realm.leave("ada", "platform-team")
    last = await company.log_in()
    assert [*roles, last["role"]] == ["VIEWER", "MEMBER", "ADMIN", "MEMBER"]
    assert company.call("GET", f"/members/{last['user']['id']}")["role"] == "MEMBER"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_somebody_who_is_disabled_does_not_get_in_and_loses_the_session_with_the_membership(
    company: Company,
) -> None:
    known = await company.new_browser()
    session = completed(await known.log_in(company.start, "ada", ending="json"))
    token = session["tokens"]["accessToken"]
    company.realm.change_user("ada", enabled=False)
    for browser in (known, await company.new_browser()):
        page = await browser.log_in(company.start, "ada", ending="json")
        assert page.url.startswith(company.realm.url)
        assert "Account is disabled" in page.text
    assert company.status_with(token) == 200
    company.call("DELETE", f"/members/{session['user']['id']}")
    assert company.status_with(token) == 401
    refresh = {"refreshToken": session["tokens"]["refreshToken"]}
    assert (await known.open("POST", f"{PUBLIC}/auth/refresh", body=refresh)).status == 401
    company.realm.change_user("ada", enabled=True)
    back = await company.log_in()
    assert back["provisioned"]
    assert back["user"]["id"] != session["user"]["id"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_members_who_have_an_account_are_linked(company: Company) -> None:
    realm = company.realm
    realm.add_user("bob")
    realm.add_user("carol", email_verified=False)
    ada, bob, carol = [company.new_member(realm.address(login)) for login in ("ada", "bob", "carol")]
    assert [await company.refused(login) for login in ("ada", "bob", "carol")] == ["account_exists"] * 3
    browser = await company.new_browser()
    page = await browser.open("POST", f"{PUBLIC}/auth/sso/links", token=ada["tokens"]["accessToken"])
    assert page.status == 201, page
    linked = completed(await browser.log_in(page.json()["startUrls"][company.protocol], "ada", ending="json"))
    assert (linked["user"]["id"], linked["provisioned"]) == (ada["user"]["id"], False)
    domain = realm.address("bob").partition("@")[2]
    run(
        "sso",
        "domain",
        "--data",
        str(company.product.data),
        "--org",
        company.product.org,
        "--domain",
        domain,
        environment={},
    )
    assert (await company.log_in("bob"))["user"]["id"] == bob["user"]["id"]
    if company.protocol == "OIDC":
        assert await company.refused("carol") == "account_exists", "Keycloak has not verified the address"
    else:
        assert (await company.log_in("carol"))["user"]["id"] == carol["user"]["id"]
    assert (await company.log_in("ada"))["user"]["id"] == ada["user"]["id"]


@pytest.mark.parametrize("protocol", ["SAML"])
async def test_a_certificate_is_changed_through_an_alternate(company: Company) -> None:
    realm = company.realm
    ada, old = (await company.log_in())["user"], realm.signing_key()
    new = realm.add_key(priority=50)
    assert set(realm.published_certificates()) == {realm.certificate(old), realm.certificate(new)}
    company.connect({"idpCertificateAlternates": [realm.certificate(new)]})
    assert (await company.log_in())["user"] == ada, "still signed with the old key"
    realm.set_priority(new, 200)
    assert realm.signing_key() == new
    assert (await company.log_in())["user"] == ada
    shown = company.connect({"idpCertificate": realm.certificate(new), "idpCertificateAlternates": []})
    assert shown["idpCertificateAlternateCount"] == 0
    assert (await company.log_in())["user"] == ada
    realm.set_priority(new, 50)
    assert realm.signing_key() == old
    assert await company.refused() == "signature_invalid"
    company.connect({"idpCertificateAlternates": [realm.certificate(old)]})
    assert (await company.log_in())["user"] == ada
    company.connect({"idpCertificateAlternates": []})
    assert await company.refused() == "signature_invalid"


@pytest.mark.parametrize("protocol", ["SAML"])
async def test_a_key_without_its_certificate_is_refused(company: Company) -> None:
    await company.log_in()
    company.realm.add_key(priority=200)
    assert await company.refused() == "signature_invalid"


@pytest.mark.parametrize("protocol", ["OIDC"])
async def test_a_changed_key_needs_nothing_of_the_administrator(company: Company) -> None:
    ada, old = (await company.log_in())["user"], company.realm.signing_key()
    new = company.realm.add_key(priority=200)
    company.realm.remove_key(old)
    assert company.realm.signing_key() == new
    assert (await company.log_in())["user"] == ada


@pytest.mark.parametrize("protocol", ["SAML"])
async def test_keycloak_imports_our_metadata(company: Company, keycloak: Keycloak) -> None:
    company.call("DELETE", "/sso/connections/SAML")
    company.connect({})
    metadata = await (await company.new_browser()).open("GET", f"{PUBLIC}/sso/saml/{company.product.org}/metadata")
    company.realm = keycloak.new_realm()
    company.realm.import_saml_client(metadata.text)
    assert company.realm.client_attributes()["saml_name_id_format"] == "persistent"
    company.realm.add_user("ada")
    (certificate,) = company.realm.published_certificates()
    company.connect(
        {
            "idpEntityId": company.realm.url,
            "idpSsoUrl": f"{company.realm.url}/protocol/saml",
            "idpCertificate": certificate,
            "enabled": True,
        }
    )
    assert (await company.log_in())["provisioned"]
    assert not (await company.log_in())["provisioned"]


@pytest.mark.parametrize(
    ("protocol", "attributes"),
    [
        ("SAML", {"saml.server.signature": "false"}),  # the assertion alone
        ("SAML", {"saml.assertion.signature": "false"}),  # the response alone
        ("SAML", {"saml.signature.algorithm": "RSA_SHA512"}),
        ("SAML", {"saml.signature.algorithm": "RSA_SHA256_MGF1"}),
        ("SAML", {"saml.onetimeuse.condition": "true"}),
        ("SAML", {"saml_signature_canonicalization_method": "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"}),
        ("SAML", {"saml.server.signature.keyinfo.xmlSigKeyInfoKeyNameTransformer": "NONE"}),
        ("OIDC", {"id.token.signed.response.alg": "PS256"}),
        ("OIDC", {"id.token.signed.response.alg": "ES256"}),
        ("OIDC", {"id.token.signed.response.alg": "EdDSA"}),
        ("OIDC", {"pkce.code.challenge.method": "S256"}),
    ],
)
async def test_other_settings_of_the_client_that_work(company: Company, attributes: Mapping[str, str]) -> None:
    company.realm.change_client(attributes)
    assert (await company.log_in())["provisioned"]
    assert not (await company.log_in())["provisioned"]


@pytest.mark.parametrize(
    ("protocol", "attributes", "reason"),
    [
        ("SAML", {"saml.server.signature": "false", "saml.assertion.signature": "false"}, "signature_missing"),
        ("SAML", {"saml.signature.algorithm": "RSA_SHA1"}, "digest_algorithm"),
        ("SAML", {"saml_name_id_format": "transient"}, "name_id_transient"),
        ("OIDC", {"id.token.signed.response.alg": "HS256"}, "algorithm_not_allowed"),
    ],
)
async def test_settings_of_the_client_that_the_audit_log_explains(
    company: Company, attributes: Mapping[str, str], reason: str
) -> None:
    company.realm.change_client(attributes)
    assert await company.refused() == reason


@pytest.mark.parametrize("protocol", ["SAML"])
async def test_encrypted_assertions_and_missing_addresses_are_explained(company: Company) -> None:
    company.realm.remove_mapper("X500 email")
    assert await company.refused() == "email_missing"
    (certificate,) = company.realm.published_certificates()  # any that has a key to encrypt for
    company.realm.change_client({"saml.encrypt": "true", "saml.encryption.certificate": certificate})
    assert await company.refused() == "encrypted_assertion"


@pytest.mark.parametrize("protocol", ["SAML"])
async def test_keycloak_refuses_requests_if_it_is_told_that_they_are_signed(company: Company) -> None:
    company.realm.change_client({"saml.client.signature": "true"})
    page = await (await company.new_browser()).log_in(company.start, "ada")
    assert (page.status, page.url.startswith(company.realm.url)) == (400, True)
    assert "Invalid requester" in page.text


@pytest.mark.parametrize("protocol", ["OIDC"])
async def test_a_wrong_secret_is_explained(company: Company) -> None:
    company.connect({"oidcClientSecret": "another"})
    assert await company.refused() == "token_endpoint_error"
