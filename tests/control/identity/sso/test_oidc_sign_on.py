"""Logins through the strict OpenID provider over HTTP and TLS, from the start to the session."""

import asyncio
import ipaddress
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from control.identity.sso.login.responses import MAX_AT_PROVIDER
from control.identity.sso.refusal import LoginRefused
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson
from tests.control.identity.sso.conftest import PUBLIC, Browser, Records, audit, prove, refusals, refused
from tests.control.identity.sso.oidc_provider import OidcProvider

CALLBACK = f"{PUBLIC}/sso/oidc/acme/callback"
LOOPBACK = EgressPolicy((ipaddress.ip_network("127.0.0.0/8"),))


@pytest.fixture(scope="module")
def provider(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    """`param`: options of another one than the usual."""
    options = getattr(request, "param", {})
    with OidcProvider(tmp_path_factory.mktemp("oidc"), redirect_uris=(CALLBACK,), **options) as running:
        yield running


@pytest.fixture
def service_parts(records: Records, provider: OidcProvider) -> dict[str, Any]:
    """The service trusts the authority of the provider, and may reach it."""
    return {"resolver": records, "provider_egress": Egress(LOOPBACK, tls=provider.authority.client_context())}


@pytest.fixture(autouse=True)
async def connected(control: Control, provider: OidcProvider) -> None:
    """Acme has the provider."""
    fields = {"oidcIssuer": provider.issuer, "oidcClientId": provider.client_id, "enabled": True}
    status, body = await connect(control, **fields, oidcClientSecret=provider.client_secret)
    assert status == 200, body


async def connect(control: Control, **fields: Any) -> tuple[int, Any]:
    return (await control.call("PUT", "/orgs/acme/sso/connections/OIDC", fields))[:2]


async def returned(provider: OidcProvider, browser: Browser, login: str, **query: str) -> str:
    """Where the provider sends the browser back to."""
    begun = await browser.start("oidc", **query)
    return await provider.authorize(begun.url, login=login)


async def complete(
    browser: Browser, url: str, ending: str = "json", changes: Mapping[str, str | None] = MappingProxyType({})
) -> tuple[int, Any, Any]:
    """The browser returns; `changes` of the query, None removes a parameter."""
    query: dict[str, str | None] = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    present = {name: value for name, value in {**query, **changes}.items() if value is not None}
    return await browser.call("GET", f"/sso/oidc/acme/callback?{urlencode(present | {'format': ending})}")


async def test_a_login_from_the_start_to_the_session(
    provider: OidcProvider, browser: Browser, control: Control
) -> None:
    status, first, _ = await complete(browser, await returned(provider, browser, "ada", relayState="/x"))
    assert status == 200, first
    assert (first["user"]["email"], first["user"]["name"]) == ("ada@example.com", "Ada Example")
    assert (first["provisioned"], first["role"], first["relayState"]) == (True, "VIEWER", "/x")
    token = first["tokens"]["accessToken"]
    assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 200
    assert not browser.cookies
    status, _, headers = await complete(browser, await returned(provider, browser, "ada"), "redirect")
    assert status == 303
    status, second, _ = await browser.spend(urlsplit(headers["Location"]).fragment.removeprefix("code="))
    assert (status, second["user"]["id"], second["provisioned"]) == (200, first["user"]["id"], False)


async def test_groups_and_a_verified_address(
    provider: OidcProvider, browser: Browser, control: Control, person: NewPerson, records: Records
) -> None:
    scopes = ["openid", "email", "profile", "groups"]
    await connect(control, roleMapping={"engineers": "MEMBER"}, oidcScopes=scopes)
    ada, bob = await person("ada@example.com"), await person("bob@example.com")
    await prove(control, records)
    status, body, _ = await complete(browser, await returned(provider, browser, "ada"))
    assert (status, body["user"]["id"], body["role"]) == (200, ada.id, "MEMBER")
    assert refused(await complete(browser, await returned(provider, browser, "bob"))), "not verified by the provider"
    assert await refusals(control) == ["account_exists"]
    assert bob.id


async def test_a_callback_belongs_to_one_login_of_one_browser(
    provider: OidcProvider, browser: Browser, control: Control
) -> None:
    url = await returned(provider, browser, "ada")
    assert refused(await complete(Browser(control), url))
    assert refused(await complete(browser, url, changes={"state": "x" * 43}))
    assert refused(await complete(browser, url, changes={"state": None}))
    answers = await asyncio.gather(*(complete(Browser(control, dict(browser.cookies)), url) for _ in range(4)))
    assert sorted(status for status, *_ in answers) == [200, 400, 400, 400]
    assert sorted(await refusals(control)) == sorted(["browser_mismatch", *["state_unknown"] * 4, "state_missing"])


async def test_what_comes_back_is_checked_and_the_login_is_used(
    provider: OidcProvider, browser: Browser, control: Control
) -> None:
    back: list[tuple[dict[str, str | None], str]] = [
        ({"code": "wrong"}, "token_endpoint_error"),
        ({"code": None}, "code_missing"),
        ({"iss": "https://evil.example.com"}, "response_issuer_mismatch"),
        ({"iss": None}, "response_issuer_missing"),
        ({"code": None, "error": "access_denied", "error_description": "No."}, "provider_error"),
    ]
    for changes, _ in back:
        url = await returned(provider, browser, "ada")
        assert refused(await complete(browser, url, changes=changes))
        assert refused(await complete(browser, url))
    assert await refusals(control) == [each for _, reason in back for each in (reason, "state_unknown")]


async def test_a_login_of_another_cookie_has_another_verifier_and_nonce(
    provider: OidcProvider, browser: Browser, control: Control
) -> None:
    """Both logins are of this browser; the code of the one is brought to the state of the other."""
    first, second = await returned(provider, browser, "ada"), await returned(provider, browser, "ada")
    code = parse_qs(urlsplit(first).query)["code"][0]
    assert refused(await complete(browser, second, changes={"code": code}))
    assert await refusals(control) == ["token_endpoint_error"]


async def test_userinfo_of_another_subject_is_refused(
    provider: OidcProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The access token may be that of somebody else (OpenID Connect core 5.3.2)."""

    async def of_eve(*_: object, **__: object) -> dict[str, Any]:
        return {"sub": "eve", "email": "ada@example.com", "email_verified": True}

    monkeypatch.setattr("control.identity.sso.login.responses.fetch_userinfo", of_eve)
    assert refused(await complete(browser, await returned(provider, browser, "ada")))
    assert await refusals(control) == ["userinfo_subject_mismatch"]


async def test_a_rotated_key_is_fetched(provider: OidcProvider, browser: Browser, control: Control) -> None:
    assert (await complete(browser, await returned(provider, browser, "ada")))[0] == 200
    provider.rotate_keys()
    assert (await complete(browser, await returned(provider, browser, "ada")))[0] == 200
    assert not await refusals(control)


async def test_bounds_of_the_query(browser: Browser) -> None:
    for query in (
        *({"code": "x" * 4_097}, {"code": ""}, {"state": "x" * 513}),
        *({"error": "x" * 257}, {"error_description": "x" * 1_025}, {"format": "xml"}),
    ):
        status, body, _ = await browser.call("GET", "/sso/oidc/acme/callback", params=query)
        assert (status, body["error"]["details"][0]["path"]) == (400, f"query.{next(iter(query))}")


async def test_a_provider_that_is_away_is_a_refusal(browser: Browser, control: Control) -> None:
    await connect(control, oidcIssuer="https://127.0.0.1:1")
    assert refused(await browser.call("GET", "/sso/oidc/acme/start"))
    await connect(control, oidcIssuer="https://10.0.0.1")
    assert refused(await browser.call("GET", "/sso/oidc/acme/start"))
    assert await refusals(control) == ["provider_unavailable"] * 2
    assert not await audit(control, "sso.login")


async def test_a_login_that_has_to_wait_for_its_turn_may_try_again(
    provider: OidcProvider, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of its organization wait for the provider; the login itself is not used."""
    url = await returned(provider, browser, "ada")
    entered, released = asyncio.Semaphore(0), asyncio.Event()

    async def slowly(*_: Any, **__: Any) -> Any:
        entered.release()
        await released.wait()
        raise LoginRefused("provider_unavailable", "slow")

    with monkeypatch.context() as slow:
        slow.setattr("control.identity.sso.login.responses.ProviderResponses._complete_oidc", slowly)
        waiting = [asyncio.create_task(complete(browser, url)) for _ in range(MAX_AT_PROVIDER)]
        for _ in waiting:
            await entered.acquire()
        status, body, headers = await complete(browser, url)
        assert (status, body["error"]["code"], headers["Retry-After"]) == (429, "rate_limited", "5")
        released.set()
        await asyncio.gather(*waiting)
    status, body, _ = await complete(browser, url)
    assert status == 200, body


@pytest.mark.long
@pytest.mark.parametrize(
    "provider",
    [
        {"auth_method": "client_secret_post", "algorithm": "PS256", "claims_in_id_token": True},
        {"auth_method": "none", "algorithm": "ES256", "claims_in_id_token": True},
    ],
    indirect=True,
)
async def test_clients_of_other_kinds_log_in(provider: OidcProvider, browser: Browser) -> None:
    status, body, _ = await complete(browser, await returned(provider, browser, "ada"))
    assert (status, body["user"]["email"]) == (200, "ada@example.com")
