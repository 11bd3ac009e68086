"""The token and userinfo endpoints: what is sent to them, and what of their responses is accepted."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import pytest

from control.identity.sso.oidc.code_flow import TokenResponse, exchange_code, fetch_userinfo
from control.identity.sso.oidc.provider import ProviderMetadata
from control.identity.sso.refusal import LoginRefused
from control.outbound.egress import MAX_BODY_BYTES, Egress
from control.outbound.egress_policy import EgressPolicy
from tests.control.identity.sso.authority import Authority, issue
from tests.control.identity.sso.site import Site, serving, truncated
from tests.control.outbound.going_out import LOOPBACK, opened

CLIENT_ID = "sluice:1 +%"
SECRET = "of tests: +/%&=~\N{EURO SIGN}"
REDIRECT_URI = "https://sluice.example.com/sso/oidc/acme/callback"
TOKENS = {"token_type": "Bearer", "id_token": "a.b.c", "access_token": "of-tests", "expires_in": 60}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return issue(tmp_path_factory.mktemp("authority"))


@dataclass
class World:
    site: Site
    egress: Egress

    def metadata(self, *methods: str, userinfo: bool = True) -> ProviderMetadata:
        url = self.site.url
        return ProviderMetadata(
            issuer=url,
            authorization_endpoint=f"{url}/authorize",
            token_endpoint=f"{url}/token",
            jwks_uri=f"{url}/jwks",
            userinfo_endpoint=f"{url}/userinfo" if userinfo else None,
            authorization_response_iss_parameter_supported=True,
            token_endpoint_auth_methods_supported=methods or ("client_secret_basic",),
        )

    async def exchange(self, *methods: str, secret: str | None = SECRET, code: str = "code&1") -> TokenResponse:
        return await exchange_code(
            self.egress,
            self.metadata(*methods),
            client_id=CLIENT_ID,
            client_secret=secret,
            code=code,
            code_verifier="verifier",
            redirect_uri=REDIRECT_URI,
            account="acme",
        )

    async def refusal(self, *methods: str) -> tuple[str, str]:
        with pytest.raises(LoginRefused) as raised:
            await self.exchange(*methods)
        return raised.value.reason, raised.value.detail

    async def userinfo_refusal(self) -> tuple[str, str]:
        with pytest.raises(LoginRefused) as raised:
            await fetch_userinfo(self.egress, self.metadata(), "of-tests", account="acme")
        return raised.value.reason, raised.value.detail


@pytest.fixture
async def at(authority: Authority) -> AsyncIterator[World]:
    async with serving(authority) as site, opened(EgressPolicy((LOOPBACK,)), tls=authority.client_context()) as egress:
        site.publish("/token", TOKENS)
        site.publish("/userinfo", {"sub": "1"})
        yield World(site, egress)


FORM = {"grant_type": "authorization_code", "code": "code&1", "redirect_uri": REDIRECT_URI, "code_verifier": "verifier"}


async def test_the_secret_is_in_the_header_if_the_provider_takes_it_there(at: World) -> None:
    for methods in ((), ("client_secret_basic",), ("client_secret_post", "client_secret_basic", "private_key_jwt")):
        assert await at.exchange(*methods) == TokenResponse("a.b.c", "of-tests")
        headers, form = at.site.last
        assert form == FORM
        assert headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert headers["Accept"] == "application/json"
        scheme, _, encoded = headers["Authorization"].partition(" ")
        user, _, password = base64.b64decode(encoded).decode("ascii").partition(":")
        assert (scheme, unquote_plus(user), unquote_plus(password)) == ("Basic", CLIENT_ID, SECRET)
        assert not {":", " "} & {*user, *password}


async def test_the_secret_is_in_the_form_if_the_provider_takes_it_only_there(at: World) -> None:
    await at.exchange("private_key_jwt", "client_secret_post")
    headers, form = at.site.last
    assert form == {**FORM, "client_id": CLIENT_ID, "client_secret": SECRET}
    assert "Authorization" not in headers


async def test_a_client_without_a_secret_says_its_name_alone(at: World) -> None:
    for method in ("none", "client_secret_basic"):
        await at.exchange(method, secret=None)
        headers, form = at.site.last
        assert form == {**FORM, "client_id": CLIENT_ID}
        assert "Authorization" not in headers


async def test_a_secret_is_not_sent_to_a_provider_that_takes_none(at: World) -> None:
    expected = ("client_authentication_unsupported", "The provider supports private_key_jwt, none")
    assert await at.refusal("private_key_jwt", "none") == expected
    assert at.site.requests == []


async def test_a_code_of_any_characters_is_sent(at: World) -> None:
    await at.exchange(code="\N{SNOWMAN}\ud800\x00")
    assert at.site.last[1]["code"] == "\N{SNOWMAN}?\x00"


async def test_the_access_token_is_optional(at: World) -> None:
    at.site.publish("/token", {"token_type": "BEARER", "id_token": "a.b.c"})
    assert await at.exchange() == TokenResponse("a.b.c", None)


async def test_tokens_are_not_in_the_representation(at: World) -> None:
    assert repr(await at.exchange()) == "TokenResponse(...)"


async def test_a_response_of_another_form_is_refused(at: World) -> None:
    wrong: dict[str, tuple[Any, ...]] = {
        "token_type": (None, 5, "", "mac", "DPoP"),
        "id_token": (None, 5, ["a"]),
        "access_token": (5, "", "a b", "a\nb", "a\r\nX: y", "\N{SNOWMAN}", "a\x7f"),
    }
    documents: tuple[object, ...] = (
        *(b"", b"<html></html>", b"access_token=a&token_type=bearer", b"[]", b"[" * 60_000),
        *({}, {"error": "invalid_grant"}),
        *(TOKENS | {name: value} for name, values in wrong.items() for value in values),
    )
    for document in documents:
        at.site.publish("/token", document)
        assert (await at.refusal())[0] == "token_response_invalid", document


async def test_of_an_error_only_the_code_is_said(at: World) -> None:
    errors: tuple[tuple[object, int, str], ...] = (
        ({"error": "invalid_grant", "error_description": f"of {SECRET}"}, 400, "invalid_grant"),
        ({"error": "invalid_client"}, 401, "invalid_client"),
        *(({"error": error}, 400, "HTTP 400") for error in ("x" * 65, f"a\n{SECRET}", {"code": 5})),
        (b"<html></html>", 502, "HTTP 502"),
        (b"[" * 60_000, 400, "HTTP 400"),
        *((TOKENS, status, f"HTTP {status}") for status in (201, 302)),
    )
    for document, status, detail in errors:
        at.site.publish("/token", document, status)
        assert await at.refusal() == ("token_endpoint_error", detail)


async def test_a_response_that_is_too_large_or_breaks_off_is_refused(at: World) -> None:
    at.site.publish("/token", {**TOKENS, "x": "a" * MAX_BODY_BYTES})
    assert await at.refusal() == ("provider_unavailable", "Token endpoint: The response is too large.")
    at.site.answers["/token"] = truncated(b'{"token_type":"Bearer","id_token":"a"}', 100)
    assert await at.refusal() == ("provider_unavailable", "Token endpoint: The connection was lost.")


async def test_userinfo_is_fetched_with_the_access_token(at: World) -> None:
    document = {"sub": "1", "email": "ada@example.com", "groups": ["a"]}
    at.site.publish("/userinfo", document, Content_Type="application/JSON; charset=utf-8")
    assert await fetch_userinfo(at.egress, at.metadata(), "of-tests", account="acme") == document
    assert at.site.requests == ["GET /userinfo"]
    assert at.site.last[0]["Authorization"] == "Bearer of-tests"


async def test_userinfo_of_another_form_is_refused(at: World) -> None:
    answers: tuple[tuple[object, dict[str, Any], str, str], ...] = (
        ({"error": "invalid_token"}, {"status": 401}, "unavailable", "HTTP 401"),
        (b"a.b.c", {"Content_Type": "application/jwt"}, "invalid", "The media type is application/jwt"),
        ({"sub": "1"}, {"Content_Type": "text/html"}, "invalid", "The media type is text/html"),
        ([], {}, "invalid", "Expected `object`, got `array`"),
        (b"", {}, "invalid", "Input data was truncated"),
        (b"{" + b" " * MAX_BODY_BYTES, {}, "unavailable", "The response is too large."),
    )
    for document, options, reason, detail in answers:
        at.site.publish("/userinfo", document, **options)
        assert await at.userinfo_refusal() == (f"userinfo_{reason}", detail)
    at.site.publish("/userinfo", b'{"a":' + b"[" * 60_000)
    assert (await at.userinfo_refusal())[0] == "userinfo_invalid"


async def test_a_provider_without_userinfo_is_not_asked(at: World) -> None:
    with pytest.raises(LoginRefused) as raised:
        await fetch_userinfo(at.egress, at.metadata(userinfo=False), "of-tests", account="acme")
    assert raised.value.reason == "userinfo_unavailable"


async def test_an_access_token_that_no_header_can_carry_is_refused(at: World) -> None:
    with pytest.raises(LoginRefused) as raised:
        await fetch_userinfo(at.egress, at.metadata(), "a\r\nX: y", account="acme")
    assert raised.value.reason == "userinfo_unavailable"
    assert at.site.requests == []
