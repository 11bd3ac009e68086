"""A real OpenID provider for tests: the certified `oidc-provider` of npm, over TLS, and a browser for its forms.

    with OidcProvider(directory, accounts={"ada": {"email": "ada@example.com"}}) as provider:
        callback = await provider.authorize(url, login="ada")

It has one client and listens on 127.0.0.1. Clients must trust `provider.authority.certificate` and may have to permit
the address: `EgressPolicy((ip_network("127.0.0.0/8"),))`. It refuses a request without PKCE, and whatever else the
standards forbid.
"""

import json
import select
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urljoin

import aiohttp
from joserfc.jwk import ECKey, KeyParameters, RSAKey

from tests.control.identity.sso.authority import Authority, issue
from tests.control.identity.sso.forms import first_form
from tests.programs import packages, program

SERVER: Final = Path(__file__).parent / "oidc_server"
CLIENT_ID: Final = "sluice"
CLIENT_SECRET: Final = "of tests: +/%&=~"  # characters that an encoding may get wrong
REDIRECT_URI: Final = "https://sluice.example.com/sso/oidc/acme/callback"
ACCOUNTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ada": {
        "email": "ada@example.com",
        "email_verified": True,
        "name": "Ada Example",
        "groups": ["engineers", "owners"],
        "amr": ["pwd", "otp"],
    },
    "bob": {"email": "bob@example.com", "email_verified": False, "name": "Bob Example", "groups": []},
}
_START_S: Final = 60.0  # for the process to listen
_MAX_STEPS: Final = 20  # pages and redirects of a login


class OidcProvider:
    """The running provider. `accounts`: claims by login, `amr` among them: how the account authenticates.
    `auth_method`: how the client authenticates; `none` for one without a secret. `claims_in_id_token`: whether e-mail,
    name and groups are in the ID token too, else only at the userinfo endpoint.
    """

    def __init__(
        self,
        directory: Path,
        *,
        accounts: Mapping[str, Mapping[str, Any]] = ACCOUNTS,
        redirect_uris: tuple[str, ...] = (REDIRECT_URI,),
        auth_method: str = "client_secret_basic",
        algorithm: str = "RS256",
        claims_in_id_token: bool = False,
    ) -> None:
        self.authority: Authority = issue(directory)
        self.client_id = CLIENT_ID
        self.client_secret = None if auth_method == "none" else CLIENT_SECRET
        self.issuer = ""
        self._redirect_uris = redirect_uris
        self._algorithm = algorithm
        self._keys = 0
        self._log = directory / "oidc-provider.log"
        self._options = {
            "key": str(self.authority.server_key),
            "certificate": str(self.authority.server_certificate),
            "accounts": accounts,
            "claimsInIdToken": claims_in_id_token,
            "client": {
                "client_id": CLIENT_ID,
                "redirect_uris": redirect_uris,
                "response_types": ["code"],
                "grant_types": ["authorization_code"],
                "token_endpoint_auth_method": auth_method,
                "id_token_signed_response_alg": algorithm,
                **({} if self.client_secret is None else {"client_secret": self.client_secret}),
            },
        }

    def __enter__(self) -> Self:
        packages(SERVER)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program("node"), "server.mjs"],
                cwd=SERVER,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            self.issuer = self._ask({**self._options, "jwks": self._new_keys()})["issuer"]
        except BaseException:
            self._process.kill()
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def rotate_keys(self) -> None:
        """Sign with a new key from now on; the old one is no longer published."""
        self._ask({"jwks": self._new_keys()})

    async def authorize(self, url: str, *, login: str, password: str = "any") -> str:
        """Open the URL as a browser does, sign in and consent; returns the URL that the provider sends the browser
        back to.
        """
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=self.authority.client_context())
        answers = {"login": login, "password": password}
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as browser:
            method, fields = "GET", None
            for _ in range(_MAX_STEPS):
                if url.startswith(self._redirect_uris):
                    return url
                async with browser.request(method, url, data=fields, allow_redirects=False) as response:
                    page = await response.text()
                    if response.status in (302, 303):
                        method, fields, url = "GET", None, urljoin(url, response.headers["Location"])
                        continue
                    assert response.status == 200, f"{method} {url}: {response.status} {page}"
                form = first_form(page)
                assert form is not None, f"no form: {page}"
                method, url = "POST", urljoin(url, form.action)
                fields = {name: answers.get(name, value) for name, value in form.fields.items()}
        raise AssertionError(f"the login does not end: {url}")

    def _stop(self) -> None:
        """The process ends with its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_START_S)
        self._process.stdout.close()

    def _new_keys(self) -> dict[str, Any]:
        """A JWK set with one private key, with an id of its own."""
        self._keys += 1
        parameters: KeyParameters = {"kid": f"key-{self._keys}", "use": "sig", "alg": self._algorithm}
        key = (ECKey if self._algorithm.startswith("ES") else RSAKey).generate_key(parameters=parameters)
        return {"keys": [key.as_dict(private=True)]}

    def _ask(self, question: Mapping[str, Any]) -> Any:
        """Send a line and return the line that answers it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _START_S)
        line = self._process.stdout.readline() if ready else ""
        assert line, f"oidc-provider does not answer: {self._log.read_text(errors='replace')}"
        return json.loads(line)
