"""Identity providers, browsers and domains of the tests of single sign-on."""

import base64
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree

from control.identity.sso.login.browser import REFUSED
from tests.control.conftest import Control
from tests.control.identity.conftest import person  # noqa: F401  # a fixture
from tests.control.identity.sso import saml_idp
from tests.control.identity.sso.saml_idp import Idp

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

    async def ask_to_link(self, access: str) -> tuple[int, Any, Any]:
        """For the account of this session."""
        return await self.call("POST", "/auth/sso/links", headers={"Authorization": f"Bearer {access}"})

    async def spend(self, code: str) -> tuple[int, Any, Any]:
        """Take the session for which a code stands."""
        return await self.call("POST", "/sso/handoff", json={"code": code})


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
    """A provider that says what a test wants, to this browser. `control` has it as acme's."""

    control: Control
    browser: Browser

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
        self, *, ending: str = "json", org: str = "acme", relay_state: str = "", **changes: Any
    ) -> tuple[int, Any, Any]:
        """A whole login."""
        begun = await self.browser.start(org=org, **({"relayState": relay_state} if relay_state else {}))
        return await self.answer(begun, self.response(begun, org=org, **changes), ending=ending, org=org)

    async def answer(
        self, begun: Begun, response: str, *, ending: str = "json", org: str = "acme", browser: Browser | None = None
    ) -> tuple[int, Any, Any]:
        """The browser posts what the provider gave it."""
        form = {"SAMLResponse": response, "RelayState": begun.query["RelayState"]}
        by = browser or self.browser
        return await by.call("POST", f"/sso/saml/{org}/acs", params={"format": ending}, data=form)

    async def handoff_code(self, **changes: Any) -> str:
        """The code that a login ends with, not yet spent."""
        status, _, headers = await self.log_in(ending="redirect", **changes)
        assert status == 303
        return str(urlsplit(headers["Location"]).fragment.removeprefix("code="))

    async def link(self, access: str, **changes: Any) -> None:
        """Link the account of a session to a user of the provider."""
        status, made, _ = await self.browser.ask_to_link(access)
        assert (status, made["startUrls"]) == (201, {"SAML": f"{PUBLIC}/sso/saml/acme/start?link=true"})
        begun = await self.browser.start(link="true")
        status, body, _ = await self.answer(begun, self.response(begun, **changes))
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


def refused(answer: tuple[int, Any, Any]) -> bool:
    """Whether the answer is the one to every login that is refused."""
    status, body, _ = answer
    return (status, body["error"]["code"], body["error"]["message"]) == (400, "bad_request", REFUSED)


def bearer(tokens: Any) -> str:
    """The access token of a login's response."""
    token: str = tokens["accessToken"]
    return token


async def prove(control: Control, records: Records, domain: str = "example.com") -> None:
    """The domain is acme's."""
    _, found, _ = await control.call("GET", "/orgs/acme/sso/domains")
    if any(each["domain"] == domain for each in found["data"]):
        return
    _, made, _ = await control.call("POST", "/orgs/acme/sso/domains", {"domain": domain})
    records.known[domain] = [made["txtRecord"]]
    assert (await control.call("POST", f"/orgs/acme/sso/domains/{made['id']}/verify"))[0] == 200


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def service_parts(records: Records) -> dict[str, Any]:
    return {"resolver": records}


@pytest.fixture
def browser(control: Control) -> Browser:
    return Browser(control)


@pytest.fixture
async def saml(control: Control, browser: Browser) -> SamlProvider:
    """Acme's provider."""
    provider = SamlProvider(control, browser)
    await provider.connect()
    return provider
