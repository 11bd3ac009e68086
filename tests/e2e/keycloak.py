"""Keycloak, an identity provider that logins of the long tests go through, over TLS and by the forms of its pages.

    with Keycloak(directory) as keycloak:
        realm = keycloak.new_realm()
        realm.add_user("ada", groups=("developers",))
        secret = realm.add_oidc_client("https://sluice.example.com/sso/oidc/acme/callback")

Realms are set up through its administration API, by the steps of docs/sso.md. `make test-long` fetches it
(`scripts/keycloak`); it listens on 127.0.0.1 alone.
"""

import itertools
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from lxml import etree
from yarl import URL

from tests.control.identity.sso.authority import Authority, issue
from tests.e2e.product import eventually
from tests.ports import free_port

HOME: Final = Path(os.environ.get("KEYCLOAK") or Path(sys.prefix) / "keycloak")
PASSWORD: Final = "correct horse: +/%&=~ä"  # characters that an encoding may get wrong
# Predefined mappers of SAML: name, what they read, attribute.
X500: Final = (
    ("X500 email", "email", "urn:oid:1.2.840.113549.1.9.1"),
    ("X500 givenName", "firstName", "urn:oid:2.5.4.42"),
    ("X500 surname", "lastName", "urn:oid:2.5.4.4"),
)
_ADMIN: Final = "admin"
_ADMIN_PASSWORD: Final = "of tests"
_START_S: Final = 240.0  # a Java server that compiles as it goes, on a machine with other work
_STOP_S: Final = 60.0
_TOKEN_S: Final = 30.0  # of the 60 that a token of its administrator is valid for
_CERTIFICATE: Final = "{http://www.w3.org/2000/09/xmldsig#}X509Certificate"


class Keycloak:
    """The running server, with nothing in it but its administrator."""

    def __init__(self, directory: Path) -> None:
        self.authority: Authority = issue(directory)
        self.url = f"https://127.0.0.1:{free_port()}"
        self._directory = directory
        self._log = directory / "keycloak.log"
        self._numbers = itertools.count(1)
        self._context: ssl.SSLContext = self.authority.client_context()
        self._token = ""
        self._token_until = 0.0

    def __enter__(self) -> Self:
        start = HOME / "bin" / "kc.sh"
        if not (HOME / ".made").exists() or shutil.which("java") is None:
            raise AssertionError(f"Keycloak in {HOME} or Java is missing; `make test-long` brings them")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("sh", str(start), "start", "--optimized", "--cache=local", f"--hostname={self.url}"),
                    *("--http-host=127.0.0.1", "--http-enabled=false", f"--https-port={URL(self.url).port}"),
                    f"--https-certificate-file={self.authority.server_certificate}",
                    f"--https-certificate-key-file={self.authority.server_key}",
                ],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx512m",
                    "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
                    "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN_PASSWORD,
                },
            )
        try:
            eventually(self._has_started, "Keycloak answers", _START_S)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def new_realm(self) -> "Realm":
        """An empty realm of its own."""
        name = f"realm-{next(self._numbers)}"
        self.administer("POST", "", {"realm": name, "enabled": True})
        return Realm(self, name)

    def administer(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """A request to the administration API below `/admin/realms`; the decoded response. Of what was created, the
        identifier.
        """
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._fresh_token()}", "Content-Type": content_type}
        created, answer = self._call(method, f"{self.url}/admin/realms{path}", data, headers)
        return json.loads(answer) if answer else created.rpartition("/")[2]

    def document(self, url: str) -> bytes:
        """A public document."""
        return self._call("GET", url, None, {})[1]

    def _fresh_token(self) -> str:
        if time.monotonic() > self._token_until:
            asked = {"grant_type": "password", "client_id": "admin-cli"}
            form = urlencode({**asked, "username": _ADMIN, "password": _ADMIN_PASSWORD}).encode()
            url = f"{self.url}/realms/master/protocol/openid-connect/token"
            self._token = json.loads(self._call("POST", url, form, {})[1])["access_token"]
            self._token_until = time.monotonic() + _TOKEN_S
        return self._token

    def _call(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> tuple[str, bytes]:
        """`Location` and body of a response."""
        request = urllib.request.Request(url, data=data, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._context) as response:
                return response.headers.get("Location", ""), response.read()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {url}: {error.code} {error.read()!r}") from error

    def _has_started(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"Keycloak ended:\n{self._log.read_text(errors='replace')}")
        try:
            return bool(self.document(f"{self.url}/realms/master"))
        except OSError:
            return False


@dataclass
class Realm:
    """A realm, and what an administrator does in its console."""

    keycloak: Keycloak
    name: str
    users: dict[str, str] = field(default_factory=dict)  # identifier by login
    groups: dict[str, str] = field(default_factory=dict)  # likewise, by name
    client: str = ""  # identifier of the client that was added last

    @property
    def url(self) -> str:
        """The issuer of OpenID Connect, and the entity ID of SAML."""
        return f"{self.keycloak.url}/realms/{self.name}"

    def address(self, login: str) -> str:
        """The e-mail address of a user."""
        return f"{login}@{self.name}.example.com"

    def add_user(self, login: str, *, groups: Iterable[str] = (), email_verified: bool = True) -> None:
        """*Users*, *Add user*; *Credentials*, not temporary."""
        self.users[login] = self.administer(
            "POST",
            "/users",
            {
                "username": login,
                "enabled": True,
                "email": self.address(login),
                "emailVerified": email_verified,
                "firstName": login.title(),
                "lastName": "Example",
                "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}],
            },
        )
        for group in groups:
            self.join(login, group)

    def change_user(self, login: str, **changes: Any) -> None:
        """*Users*: some fields of a user."""
        path = f"/users/{self.users[login]}"
        self.administer("PUT", path, {**self.administer("GET", path), **changes})

    def join(self, login: str, group: str) -> None:
        """*Groups*, *Members*; the group is made if there is none."""
        if group not in self.groups:
            self.groups[group] = self.administer("POST", "/groups", {"name": group})
        self.administer("PUT", f"/users/{self.users[login]}/groups/{self.groups[group]}")

    def leave(self, login: str, group: str) -> None:
        """*Groups*, *Members*."""
        self.administer("DELETE", f"/users/{self.users[login]}/groups/{self.groups[group]}")

    def add_oidc_client(self, redirect_uri: str) -> str:
        """*Create client*, as docs/sso.md says; the secret of *Credentials*."""
        self.client = self.administer(
            "POST",
            "/clients",
            {
                "protocol": "openid-connect",
                "clientId": "sluice",
                "publicClient": False,  # Client authentication
                "standardFlowEnabled": True,
                "directAccessGrantsEnabled": False,
                "implicitFlowEnabled": False,
                "serviceAccountsEnabled": False,
                "redirectUris": [redirect_uri],
            },
        )
        self.add_mapper(
            "oidc-group-membership-mapper",
            "groups",
            {
                "claim.name": "groups",
                "full.path": "false",
                "id.token.claim": "true",
                "access.token.claim": "true",
                "userinfo.token.claim": "true",
            },
        )
        return str(self.administer("GET", f"/clients/{self.client}/client-secret")["value"])

    def add_saml_client(self, entity_id: str, acs_url: str) -> None:
        """*Create client*, as docs/sso.md says."""
        self.client = self.administer(
            "POST",
            "/clients",
            {
                "protocol": "saml",
                "clientId": entity_id,
                "redirectUris": [acs_url],
                "adminUrl": acs_url,  # Master SAML Processing URL
                "attributes": {
                    "saml_name_id_format": "persistent",
                    "saml.force.post.binding": "true",
                    "saml.assertion.signature": "true",
                    "saml.signature.algorithm": "RSA_SHA256",
                    "saml.client.signature": "false",
                },
            },
        )
        self.add_saml_mappers()

    def import_saml_client(self, metadata: str) -> None:
        """*Clients*, *Import client*, with the metadata of Sluice; then what it does not say, as docs/sso.md has it."""
        converted = self.administer("POST", "/client-description-converter", metadata, "application/xml")
        self.client = self.administer("POST", "/clients", converted)
        self.change_client({"saml.client.signature": "false"})
        self.add_saml_mappers()

    def add_saml_mappers(self) -> None:
        """*Client scopes*, the dedicated one: *Add predefined mapper* for the user, *Add mapper* for the groups."""
        for name, attribute, oid in X500:
            config = {"user.attribute": attribute, "attribute.name": oid, "attribute.nameformat": "URI Reference"}
            self.add_mapper("saml-user-property-mapper", name, config)
        config = {"attribute.name": "groups", "attribute.nameformat": "Basic", "single": "true", "full.path": "false"}
        self.add_mapper("saml-group-membership-mapper", "groups", config)

    def add_mapper(self, kind: str, name: str, config: Mapping[str, str]) -> None:
        """A mapper of the client."""
        protocol = "saml" if kind.startswith("saml") else "openid-connect"
        mapper = {"name": name, "protocol": protocol, "protocolMapper": kind, "config": config}
        self.administer("POST", f"/clients/{self.client}/protocol-mappers/models", mapper)

    def remove_mapper(self, name: str) -> None:
        """A mapper of the client, by its name."""
        path = f"/clients/{self.client}/protocol-mappers/models"
        (found,) = [each["id"] for each in self.administer("GET", path) if each["name"] == name]
        self.administer("DELETE", f"{path}/{found}")

    def client_attributes(self) -> dict[str, str]:
        """Settings of the client, under the names that the API has for them."""
        return dict(self.administer("GET", f"/clients/{self.client}")["attributes"])

    def change_client(self, attributes: Mapping[str, str]) -> None:
        """Change some of these."""
        path = f"/clients/{self.client}"
        client = self.administer("GET", path)
        client["attributes"] = client["attributes"] | dict(attributes)
        self.administer("PUT", path, client)

    def add_key(self, priority: int) -> str:
        """*Realm settings*, *Keys*, *Add provider*, *rsa-generated*; its identifier. Of several keys the one with the
        highest priority signs; the first one of a realm has 100.
        """
        body = {
            "name": "another key",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": [str(priority)], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]},
        }
        return str(self.administer("POST", "/components", body))

    def set_priority(self, key: str, priority: int) -> None:
        """*Keys*, *Providers*."""
        component = self.administer("GET", f"/components/{key}")
        component["config"]["priority"] = [str(priority)]
        self.administer("PUT", f"/components/{key}", component)

    def remove_key(self, key: str) -> None:
        """*Keys*, *Providers*."""
        self.administer("DELETE", f"/components/{key}")

    def signing_key(self) -> str:
        """The provider of the key that signs."""
        keys = self.administer("GET", "/keys")
        return str(next(key["providerId"] for key in keys["keys"] if key["kid"] == keys["active"]["RS256"]))

    def certificate(self, key: str) -> str:
        """*Keys*, *Certificate*: base64 without the lines around it."""
        keys = self.administer("GET", "/keys")["keys"]
        return str(next(each["certificate"] for each in keys if each["providerId"] == key))

    def published_certificates(self) -> list[str]:
        """Those of the descriptor, in its order."""
        descriptor = etree.fromstring(self.keycloak.document(f"{self.url}/protocol/saml/descriptor"))
        return [each.text or "" for each in descriptor.iter(_CERTIFICATE)]

    def administer(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """A request to the administration API, below this realm."""
        return self.keycloak.administer(method, f"/{quote(self.name)}{path}", body, content_type)
