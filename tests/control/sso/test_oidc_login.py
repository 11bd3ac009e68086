"""Logins through a certified provider, over TLS and the guarded egress, with the forms that its users fill in."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.sso.oidc.authorization import authorization_url, check_response_issuer, code_challenge
from control.sso.oidc.exchange import TokenResponse, exchange_code
from control.sso.oidc.id_token import IdToken, UnknownKey, verify_id_token
from control.sso.oidc.metadata import ProviderMetadata
from control.sso.oidc.provider import Providers
from control.sso.oidc.userinfo import fetch_userinfo
from control.sso.refusal import LoginRefused
from tests.control.outbound.going_out import LOOPBACK, opened
from tests.control.sso.oidc_provider import REDIRECT_URI, OidcProvider

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
SCOPES = ("email", "profile", "groups")


@dataclass
class RelyingParty:
    """What a login does, step by step."""

    provider: OidcProvider
    egress: Egress
    providers: Providers = field(init=False)

    def __post_init__(self) -> None:
        self.providers = Providers(self.egress)

    async def metadata(self) -> ProviderMetadata:
        return await self.providers.metadata(self.provider.issuer, account="acme")

    async def code(self, *, login: str = "ada", nonce: str = "n-1", cookies: aiohttp.CookieJar | None = None) -> str:
        metadata = await self.metadata()
        url = authorization_url(
            metadata,
            client_id=self.provider.client_id,
            redirect_uri=REDIRECT_URI,
            scopes=SCOPES,
            state="s-1",
            nonce=nonce,
            code_challenge=code_challenge(VERIFIER),
        )
        callback = await self.provider.authorize(url, login=login, cookies=cookies)
        query = {name: values[0] for name, values in parse_qs(urlsplit(callback).query).items()}
        assert query["state"] == "s-1"
        check_response_issuer(metadata, query["iss"])
        return query["code"]

    async def exchange(self, code: str, verifier: str = VERIFIER, secret: str | None = None) -> TokenResponse:
        return await exchange_code(
            self.egress,
            await self.metadata(),
            client_id=self.provider.client_id,
            client_secret=self.provider.client_secret if secret is None else secret,
            code=code,
            code_verifier=verifier,
            redirect_uri=REDIRECT_URI,
            account="acme",
        )

    async def verify(self, tokens: TokenResponse, nonce: str = "n-1") -> IdToken:
        metadata = await self.metadata()
        keys = await self.providers.key_set(metadata, account="acme")
        try:
            return self.verified(tokens, keys, nonce)
        except UnknownKey as unknown:
            keys = await self.providers.key_set(metadata, account="acme", unknown_kid=unknown.kid)
            return self.verified(tokens, keys, nonce)

    def verified(self, tokens: TokenResponse, keys: Any, nonce: str) -> IdToken:
        return verify_id_token(
            tokens.id_token,
            keys,
            issuer=self.provider.issuer,
            client_id=self.provider.client_id,
            nonce=nonce,
            now=datetime.now(UTC),
            access_token=tokens.access_token,
        )

    async def userinfo(self, tokens: TokenResponse) -> dict[str, Any]:
        assert tokens.access_token is not None
        return await fetch_userinfo(self.egress, await self.metadata(), tokens.access_token, account="acme")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    with OidcProvider(tmp_path_factory.mktemp("oidc")) as started:
        yield started


@pytest.fixture
async def party(provider: OidcProvider) -> AsyncIterator[RelyingParty]:
    tls = provider.authority.client_context()
    async with opened(EgressPolicy((LOOPBACK,)), tls=tls) as egress:
        yield RelyingParty(provider, egress)


async def refusal(party: RelyingParty, code: str, *, verifier: str = VERIFIER, secret: str | None = None) -> str:
    with pytest.raises(LoginRefused) as raised:
        await party.exchange(code, verifier, secret)
    assert raised.value.reason == "token_endpoint_error"
    return raised.value.detail


async def test_the_provider_is_discovered(party: RelyingParty) -> None:
    issuer = party.provider.issuer
    assert await party.metadata() == ProviderMetadata(
        issuer=issuer,
        authorization_endpoint=f"{issuer}/auth",
        token_endpoint=f"{issuer}/token",
        jwks_uri=f"{issuer}/jwks",
        userinfo_endpoint=f"{issuer}/me",
        authorization_response_iss_parameter_supported=True,
        token_endpoint_auth_methods_supported=(await party.metadata()).token_endpoint_auth_methods_supported,
    )
    assert "client_secret_basic" in (await party.metadata()).token_endpoint_auth_methods_supported


async def test_a_login_says_who_it_is_and_how_they_were_authenticated(party: RelyingParty) -> None:
    tokens = await party.exchange(await party.code())
    found = await party.verify(tokens)
    assert (found.subject, found.auth_methods, found.claims["iss"]) == ("ada", ("pwd", "otp"), party.provider.issuer)
    assert await party.userinfo(tokens) == {
        "sub": "ada",
        "amr": ["pwd", "otp"],
        "email": "ada@example.com",
        "email_verified": True,
        "name": "Ada Example",
        "groups": ["engineers", "owners"],
    }


async def test_a_second_login_has_a_token_of_its_own(party: RelyingParty) -> None:
    """With the cookies of the first the provider asks nothing."""
    cookies = aiohttp.CookieJar(unsafe=True)
    first = await party.exchange(await party.code(cookies=cookies, nonce="n-1"))
    second = await party.exchange(await party.code(cookies=cookies, nonce="n-2"))
    assert (await party.verify(first, "n-1")).subject == "ada"
    assert (await party.verify(second, "n-2")).subject == "ada"
    for tokens, nonce in ((first, "n-2"), (second, "n-1")):
        with pytest.raises(LoginRefused) as raised:
            await party.verify(tokens, nonce)
        assert raised.value.reason == "nonce_mismatch"


async def test_another_user_is_another_subject(party: RelyingParty) -> None:
    tokens = await party.exchange(await party.code(login="bob"))
    assert (await party.verify(tokens)).subject == "bob"
    assert (await party.userinfo(tokens))["email_verified"] is False


async def test_an_account_may_change_between_logins(party: RelyingParty) -> None:
    party.provider.set_account("eve", {"email": "eve@example.com"})
    tokens = await party.exchange(await party.code(login="eve"))
    assert await party.userinfo(tokens) == {"sub": "eve", "email": "eve@example.com"}


async def test_the_provider_refuses_what_the_standards_forbid(party: RelyingParty) -> None:
    assert await refusal(party, await party.code(), verifier="another-verifier" * 4) == "invalid_grant"
    assert await refusal(party, await party.code(), secret="another") == "invalid_client"
    assert await refusal(party, "unknown") == "invalid_grant"
    code = await party.code()
    tokens = await party.exchange(code)
    assert await refusal(party, code) == "invalid_grant"
    with pytest.raises(LoginRefused) as raised:  # a code that is used twice revokes what it issued
        await party.userinfo(tokens)
    assert (raised.value.reason, raised.value.detail) == ("userinfo_unavailable", "HTTP 401")


async def test_a_token_of_a_new_key_is_accepted_after_one_fetch(party: RelyingParty) -> None:
    before = await party.exchange(await party.code())
    assert (await party.verify(before)).subject == "ada"
    party.provider.rotate_keys()
    after = await party.exchange(await party.code())
    assert (await party.verify(after)).subject == "ada"
    with pytest.raises(UnknownKey) as raised:
        await party.verify(before)
    assert raised.value.kid == "key-1"


@pytest.mark.long
@pytest.mark.parametrize(("method", "algorithm"), [("client_secret_post", "PS256"), ("none", "ES256")])
async def test_clients_of_other_kinds_log_in(
    tmp_path_factory: pytest.TempPathFactory, method: str, algorithm: str
) -> None:
    with OidcProvider(
        tmp_path_factory.mktemp("oidc"), auth_method=method, algorithm=algorithm, claims_in_id_token=True
    ) as provider:
        tls = provider.authority.client_context()
        async with opened(EgressPolicy((LOOPBACK,)), tls=tls) as egress:
            party = RelyingParty(provider, egress)
            found = await party.verify(await party.exchange(await party.code()))
            assert (found.subject, found.claims["email"]) == ("ada", "ada@example.com")
