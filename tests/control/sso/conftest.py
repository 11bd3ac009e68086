"""Identity providers, browsers and domains of the tests of single sign-on."""

import base64
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree

from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving
from tests.control.identity.conftest import person  # noqa: F401  # a fixture
from tests.control.sso import saml_idp
from tests.control.sso.saml_idp import Idp

PUBLIC: Final = "https://sluice.example.org"
IDP_SSO: Final = "https://idp.example.com/sso?tenant=1"


@dataclass
class Records:
    """A resolver that knows these TXT records."""

    known: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def txt_records(self, domain: str) -> list[str]:
        self.asked.append(domain)
        return self.known.get(domain, [])


@dataclass
class Browser:
    """Keeps cookies, and follows no redirect by itself."""

    control: Control
    cookies: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any, Any]:
        """Status, body (decoded if it is JSON) and headers."""
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        headers |= options.pop("headers", {})
        async with self.control.client.request(
            method, path, headers=headers, allow_redirects=False, **options
        ) as answer:
            for line in answer.headers.getall("Set-Cookie", []):
                for name, morsel in SimpleCookie(line).items():
                    assert morsel["secure"]
                    assert morsel["httponly"]
                    assert morsel["path"] == "/"
                    if morsel.value and morsel["max-age"] != "0":
                        self.cookies[name] = morsel.value
                    else:
                        self.cookies.pop(name, None)
            body = await (answer.json() if answer.content_type == "application/json" else answer.text())
            return answer.status, body, answer.headers

    async def start(self, protocol: str = "saml", org: str = "acme", **query: str) -> "Begun":
        """Begin a login; what the provider gets."""
        status, body, headers = await self.call("GET", f"/sso/{protocol}/{org}/start", params=query)
        assert status == 303, body
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        return begun_at(headers["Location"])


@dataclass
class Begun:
    """Where the provider was asked, and with which parameters."""

    url: str
    query: dict[str, str]

    @property
    def request_id(self) -> str:
        """Of a SAML request."""
        xml = zlib.decompress(base64.b64decode(self.query["SAMLRequest"]), -15)
        return etree.fromstring(xml).get("ID") or ""


def begun_at(url: str) -> Begun:
    """The login that sends the browser there."""
    return Begun(url, {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})


@dataclass
class SamlProvider:
    """A provider that says what a test wants. `control` has it as acme's."""

    control: Control

    async def connect(self, **fields: Any) -> None:
        status, body, _ = await self.control.call(
            "PUT",
            "/orgs/acme/sso/connections/SAML",
            {
                "idpEntityId": saml_idp.IDP,
                "idpSsoUrl": IDP_SSO,
                "idpCertificate": saml_idp.certificate_pem(saml_idp.rsa_key()),
                "enabled": True,
            }
            | fields,
        )
        assert status == 200, body

    def response(self, begun: Begun, subject: str = "ada-1", org: str = "acme", **changes: Any) -> str:
        """The form field with a signed assertion about the subject; `changes`: fields of `Idp`, and those of `sign`."""
        acs = f"{PUBLIC}/sso/saml/{org}/acs"
        key = changes.pop("key", None)
        groups = changes.pop("groups", ())
        email = changes.pop("email", "ada@example.com")
        said: dict[str, Any] = {
            "destination": acs,
            "recipient": acs,
            "audiences": (f"{PUBLIC}/sso/saml/{org}/metadata",),
            "in_response_to": begun.request_id,
            "response_in_response_to": begun.request_id,
            "subject": subject,
            "subject_format": "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
            "confirmation_not_on_or_after": moment(300),
            "not_before": moment(-300),
            "not_on_or_after": moment(600),
            "session_not_on_or_after": None,
            "assertion_id": f"_{subject}-{begun.request_id}",
            "attributes": (("email", (email,)), ("name", ("Ada Example",)), ("groups", tuple(groups))),
        }
        context = changes.pop("authn_context", None)
        root = Idp(**said | changes).response()
        if context is not None:
            saml_idp.find(root, "saml:AuthnContextClassRef").text = context
        return saml_idp.post(saml_idp.sign(root, key=key))

    async def log_in(
        self, browser: Browser, *, ending: str = "json", org: str = "acme", relay_state: str = "", **changes: Any
    ) -> tuple[int, Any, Any]:
        """A whole login."""
        begun = await browser.start(org=org, **({"relayState": relay_state} if relay_state else {}))
        return await self.answer(browser, begun, self.response(begun, org=org, **changes), ending=ending, org=org)

    async def answer(
        self, browser: Browser, begun: Begun, response: str, *, ending: str = "json", org: str = "acme"
    ) -> tuple[int, Any, Any]:
        """The browser posts what the provider gave it."""
        form = {"SAMLResponse": response, "RelayState": begun.query["RelayState"]}
        return await browser.call("POST", f"/sso/saml/{org}/acs", params={"format": ending}, data=form)


async def link(saml: SamlProvider, browser: Browser, access: str, **changes: Any) -> None:
    """Link the account of a session to a user of the provider."""
    status, made, _ = await browser.call("POST", "/auth/sso/links", headers={"Authorization": f"Bearer {access}"})
    assert status == 201, made
    assert made["startUrls"] == {"SAML": f"{PUBLIC}/sso/saml/acme/start?link=true"}
    begun = await browser.start(link="true")
    status, body, _ = await saml.answer(browser, begun, saml.response(begun, **changes))
    assert status == 200, body


def moment(seconds: float) -> str:
    """So many seconds from now, as providers write it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


async def audit(control: Control, prefix: str = "", org: str = "acme") -> list[tuple[str, Any]]:
    """Actions and data of the organization's events, oldest first."""
    token = (control.acme if org == "acme" else control.globex).token.secret
    _, page, _ = await control.call("GET", f"/orgs/{org}/audit?limit=100", token=token)
    return [(each["action"], each["data"]) for each in reversed(page["data"]) if each["action"].startswith(prefix)]


async def refusals(control: Control, org: str = "acme") -> list[str]:
    """Reasons of the refused logins, oldest first."""
    return [data["reason"] for _, data in await audit(control, "sso.refuse", org)]


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def control_settings() -> ControlSettings:
    """With room for a SAML response and for certificates."""
    return ControlSettings(max_body_bytes=64 * 1_024)


@pytest.fixture
async def control(
    migrated_url: str,
    tenants: tuple[Tenant, Tenant] | None,
    tmp_path: Path,
    control_settings: ControlSettings,
    records: Records,
) -> AsyncIterator[Control]:
    parts = {"resolver": records}
    async with serving(migrated_url, tmp_path, control_settings, tenants=tenants, parts=parts) as control:
        yield control


@pytest.fixture
def browser(control: Control) -> Browser:
    return Browser(control)


@pytest.fixture
async def saml(control: Control) -> SamlProvider:
    """Acme's provider."""
    provider = SamlProvider(control)
    await provider.connect()
    return provider
