"""Single sign-on of a running Sluice, as an administrator and a user have it: every route of specification 4.7, the
shapes of 2.6 and 2.7, and a process that is killed while people log in.
"""

import json
import random
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.cookies import SimpleCookie
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest

from tests.control.identity.sso import saml_idp
from tests.control.identity.sso.conftest import IDP_SSO, Begun, moment
from tests.control.identity.sso.saml_idp import Idp
from tests.e2e.product import Sluice, running
from tests.selection import scaled

PUBLIC: Final = "https://sluice.example.com"
CONNECTION: Final = {
    "id", "orgId", "protocol", "enabled", "enforced", "defaultRole", "attributeMapping", "roleMapping", "idpEntityId",
    "idpSsoUrl", "idpCertificateConfigured", "idpCertificateAlternateCount", "oidcIssuer", "oidcClientId",
    "oidcClientSecretConfigured", "oidcScopes", "createdAt", "updatedAt",
}  # fmt: skip
COMPLETED: Final = {"user", "orgId", "role", "provisioned", "relayState", "tokens"}
HANDOFF: Final = {"orgId", "role", "provisioned", "tokens", "user", "next"}
TOKENS: Final = {"accessToken", "refreshToken", "expiresIn", "tokenType"}
USER: Final = {"id", "email", "name", "avatarUrl", "locale", "theme", "emailVerified", "mfaEnabled", "createdAt"}


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A browser of tests looks where it is sent, and stays."""


class Reply(NamedTuple):
    status: int
    headers: Any
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """Keeps cookies, as a browser behind a proxy with TLS does."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opener = build_opener(_NoRedirect)
        self.cookies: dict[str, str] = {}

    def call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        request = Request(self._url + path, data=body, headers=given, method=method)
        try:
            response = self._opener.open(request, timeout=30)
        except OSError as error:
            if not hasattr(error, "headers"):
                raise
            response = error
        with closing(response):
            for line in response.headers.get_all("Set-Cookie") or []:
                for name, morsel in SimpleCookie(line).items():
                    self.cookies[name] = morsel.value
            return Reply(response.status, response.headers, response.read())

    def start(self, org: str, relay_state: str = "") -> Begun:
        query = "?" + urlencode({"relayState": relay_state}) if relay_state else ""
        reply = self.call("GET", f"/sso/saml/{org}/start{query}")
        assert reply.status == 303, reply
        url = reply.headers["Location"]
        return Begun(url, {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})

    def log_in(self, org: str, subject: str, ending: str) -> Reply:
        """A whole login."""
        begun = self.start(org, "/orgs")
        form = urlencode({"SAMLResponse": assertion(begun, org, subject), "RelayState": begun.query["RelayState"]})
        kind = {"Content_Type": "application/x-www-form-urlencoded"}
        return self.call("POST", f"/sso/saml/{org}/acs?format={ending}", form.encode(), **kind)

    def spend(self, code: str) -> Reply:
        return self.call("POST", "/sso/handoff", json.dumps({"code": code}).encode(), Content_Type="application/json")


def assertion(begun: Begun, org: str, subject: str) -> str:
    acs = f"{PUBLIC}/sso/saml/{org}/acs"
    said = Idp(
        destination=acs,
        recipient=acs,
        audiences=(f"{PUBLIC}/sso/saml/{org}/metadata",),
        in_response_to=begun.request_id,
        response_in_response_to=begun.request_id,
        subject=subject,
        subject_format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
        confirmation_not_on_or_after=moment(300),
        not_before=moment(-300),
        not_on_or_after=moment(600),
        session_not_on_or_after=None,
        assertion_id=f"_{subject}{begun.request_id}",
        attributes=(("email", (f"{subject}@example.com",)), ("name", (subject.title(),))),
    )
    return saml_idp.post(saml_idp.sign(said.response()))


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    directory = tmp_path_factory.mktemp("sso")
    sluice = running(directory / "data", directory / "up.log", SLUICE_PUBLIC_URL=PUBLIC, SLUICE_FAILED_SSO_RATE="0")
    try:
        yield sluice
    finally:
        sluice.kill()


def api(sluice: Sluice, method: str, path: str, body: Any = None, token: str | None = None) -> Reply:
    raw = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token or sluice.token}", "Content_Type": "application/json"}
    return Browser(sluice.control_url).call(method, path, raw, **headers)


def connect(sluice: Sluice) -> Any:
    body = {
        "idpEntityId": saml_idp.IDP,
        "idpSsoUrl": IDP_SSO,
        "idpCertificate": saml_idp.certificate_pem(saml_idp.rsa_key()),
        "enabled": True,
    }
    reply = api(sluice, "PUT", f"/orgs/{sluice.org}/sso/connections/SAML", body)
    assert reply.status == 200, reply
    return reply.json()


def test_every_route_of_the_specification(product: Sluice) -> None:
    org = product.org
    every = f"/orgs/{org}/sso/connections"
    assert api(product, "GET", every).json() == {"connections": []}
    made = connect(product)
    assert set(made) == CONNECTION
    assert api(product, "GET", every).json() == {"connections": [made]}
    assert (
        api(
            product, "PUT", f"{every}/OIDC", {"oidcIssuer": "https://127.0.0.1:1", "oidcClientId": "x", "enabled": True}
        ).status
        == 200
    )
    for reply, status in (
        (api(product, "GET", every, token="pat_x"), 401),
        (api(product, "PUT", f"{every}/LDAP", {}), 400),
        (api(product, "PUT", f"{every}/SAML", {"enabled": 1}), 400),
        (api(product, "GET", "/orgs/nobody/sso/connections"), 404),
        (api(product, "DELETE", f"{every}/OIDC"), 200),
        (api(product, "DELETE", f"{every}/OIDC"), 404),
    ):
        assert reply.status == status, reply
    browser = Browser(product.control_url)
    reply = browser.log_in(org, "ada", "json")
    assert reply.status == 200, reply
    first = reply.json()
    assert set(first) == COMPLETED
    assert set(first["tokens"]) == TOKENS
    assert first["tokens"]["tokenType"] == "Bearer"
    assert set(first["user"]) == {"id", "email", "name"}
    assert (first["provisioned"], first["relayState"], first["role"]) == (True, "/orgs", "VIEWER")
    reply = browser.log_in(org, "ada", "redirect")
    assert reply.status == 303
    code = code_of(reply)
    reply = browser.spend(code)
    assert reply.status == 200, reply
    assert set(reply.json()) == HANDOFF
    assert set(reply.json()["user"]) == USER
    assert (reply.json()["next"], reply.json()["provisioned"]) == ("/orgs", False)
    token = reply.json()["tokens"]["accessToken"]
    assert api(product, "GET", f"/orgs/{org}/projects", token=token).status == 200
    assert browser.spend(code).status == 400
    assert browser.call("GET", f"/sso/oidc/{org}/callback?state=x").status == 404
    assert (
        browser.call(
            "POST", "/sso/saml/nobody/acs", b"SAMLResponse=x", Content_Type="application/x-www-form-urlencoded"
        ).status
        == 404
    )


def code_of(reply: Reply) -> str:
    found = re.fullmatch(rf"{re.escape(PUBLIC)}/sso/complete#code=([A-Za-z0-9_-]{{43}})", reply.headers["Location"])
    assert found is not None, reply
    return found[1]


@pytest.mark.sized
def test_a_killed_process_leaves_no_half_made_member_and_no_code_that_is_spent_twice(product: Sluice) -> None:
    connect(product)
    drawn = random.Random(16)
    codes: list[str] = []
    completed: set[str] = set()
    spent: Counter[str] = Counter()
    stop = threading.Event()

    def people(worker: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            subject, browser = f"w{worker}n{number}", Browser(product.control_url)
            try:
                reply = browser.log_in(product.org, subject, "redirect")
                if reply.status != 303:
                    continue
                completed.add(subject)
                code = code_of(reply)
                codes.append(code)
                if browser.spend(code).status == 200:
                    spent[code] += 1
            except (OSError, AssertionError):
                time.sleep(0.05)  # it is away

    workers = [threading.Thread(target=people, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(scaled(3, 30)):
            time.sleep(drawn.uniform(0.2, 1.0))
            product.kill()
            product.start()
    finally:
        time.sleep(0.5)
        stop.set()
        for worker in workers:
            worker.join()
    for code in codes:  # those whose answer was lost were spent, or are not
        spent[code] += Browser(product.control_url).spend(code).status == 200
    assert codes
    assert max(spent.values()) == 1
    with closing(sqlite3.connect(product.data / "sluice.db")) as database:
        members = dict(
            database.execute(
                "SELECT users.email, memberships.role FROM users JOIN memberships USING (principal_id)"
                " WHERE users.password_hash IS NULL"
            ).fetchall()
        )
        linked = {row[0] for row in database.execute("SELECT subject FROM sso_identities")}
    assert {f"{subject}@example.com" for subject in completed} <= set(members)
    assert {f"{subject}@example.com" for subject in linked} == set(members), "no account without its link, and no link"
    assert set(members.values()) == {"VIEWER"}
