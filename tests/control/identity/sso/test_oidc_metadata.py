"""Provider metadata: what is believed of it, and the authorization request that is made of it."""

import json
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace

from control.identity.sso.oidc.code_flow import authorization_url, check_response_issuer, code_challenge
from control.identity.sso.oidc.provider import ProviderMetadata, decode_metadata, metadata_url, parse_issuer
from control.identity.sso.refusal import LoginRefused

ISSUER = "https://idp.example.com"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://idp.example.com/authorize",
    "token_endpoint": "https://idp.example.com/token",
    "jwks_uri": "https://keys.example.com/jwks",
}
METADATA = ProviderMetadata(
    issuer=ISSUER,
    authorization_endpoint="https://idp.example.com/authorize",
    token_endpoint="https://idp.example.com/token",
    jwks_uri="https://keys.example.com/jwks",
    userinfo_endpoint=None,
    authorization_response_iss_parameter_supported=False,
    token_endpoint_auth_methods_supported=("client_secret_basic",),
)
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")


def decoded(**members: Any) -> ProviderMetadata:
    return decode_metadata(json.dumps({**DOCUMENT, **members}).encode(), ISSUER)


def refusal(body: bytes) -> LoginRefused:
    with pytest.raises(LoginRefused) as raised:
        decode_metadata(body, ISSUER)
    return raised.value


def test_the_required_members_are_enough() -> None:
    assert decoded() == METADATA


def test_every_member_is_read_and_others_are_ignored() -> None:
    assert decoded(
        userinfo_endpoint="https://idp.example.com/me?v=1",
        authorization_response_iss_parameter_supported=True,
        token_endpoint_auth_methods_supported=["client_secret_post", "private_key_jwt"],
        grant_types_supported=5,
    ) == replace(
        METADATA,
        userinfo_endpoint="https://idp.example.com/me?v=1",
        authorization_response_iss_parameter_supported=True,
        token_endpoint_auth_methods_supported=("client_secret_post", "private_key_jwt"),
    )


def test_another_issuer_is_refused() -> None:
    for issuer in (ISSUER + "/", "https://IDP.example.com", "https://idp.example.com:443", "", "x" * 9_000):
        assert refusal(json.dumps(DOCUMENT | {"issuer": issuer}).encode()).reason == "provider_issuer_mismatch"


NO_HTTPS_URLS = (
    *("", "/token", "http://idp.example.com/token", "javascript:alert(1)", "https://", "https://user@idp.example.com/"),
    *("https://user:password@idp.example.com/", "https://idp.example.com/#fragment", "https://idp.example.com/#"),
    *("https://idp.example.com:0/", "https://idp.example.com:99999/", "https://idp.example.com/a b"),
    *("https://idp.example.com/a\nb", "https://a..example.com/", "https://idp.example.com\\@evil.example/"),
    *("https://[::1/", "https://idp.example.com/" + "a" * 2_048),
)


def test_an_endpoint_that_is_no_https_url_is_refused() -> None:
    for name, url in product(ENDPOINTS, NO_HTTPS_URLS):
        refused = refusal(json.dumps({**DOCUMENT, name: url}).encode())
        assert (refused.reason, refused.detail.partition(":")[0]) == ("provider_metadata_invalid", name), url


def test_an_endpoint_is_stored_in_ascii() -> None:
    found = decoded(
        authorization_endpoint="https://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/\N{SNOWMAN}<x>"
    )
    assert found.authorization_endpoint == "https://xn--bcher-kva.example/%E2%98%83%3Cx%3E"


def test_a_document_without_a_required_member_is_refused() -> None:
    for name in DOCUMENT:
        refused = refusal(json.dumps({key: value for key, value in DOCUMENT.items() if key != name}).encode())
        assert (refused.reason, f"`{name}`" in refused.detail) == ("provider_metadata_invalid", True)


def test_a_document_of_another_form_is_refused() -> None:
    values: dict[str, tuple[Any, ...]] = {
        "issuer": (5, None),
        "token_endpoint": (5, None, ["https://idp.example.com/"]),
        "userinfo_endpoint": (5, []),
        "authorization_response_iss_parameter_supported": ("true", 1, None),
        "token_endpoint_auth_methods_supported": ("none", [5], ["a"] * 33, ["a" * 101]),
    }
    for body in (
        *(b"", b"<html></html>", b"[]", b"null", b"5", b"\xff", b'{"issuer":"\xff"}'),
        *(begun + b"[" * 60_000 for begun in (b"", b'{"issuer":', b'{"x":')),
        *(json.dumps({**DOCUMENT, name: value}).encode() for name, every in values.items() for value in every),
    ):
        assert refusal(body).reason == "provider_metadata_invalid", body[:200]


def test_the_metadata_is_under_the_issuer() -> None:
    for path in ("", "/t/1"):
        for issuer in (ISSUER + path, ISSUER + path + "/"):
            url = f"{ISSUER}{path}/.well-known/openid-configuration"
            assert (parse_issuer(issuer), metadata_url(issuer)) == (issuer, url)


def test_an_issuer_that_is_no_https_url_is_refused() -> None:
    for issuer in (
        *("", "idp.example.com", "http://idp.example.com", "https://user@idp.example.com"),
        *(ISSUER + more for more in ("?a=b", "?", "#a", "/#", "\n", "/" + "a" * 2_048)),
    ):
        with pytest.raises(ValueError, match="Must"):
            parse_issuer(issuer)
        with pytest.raises(LoginRefused, match=r"^issuer_invalid$"):
            metadata_url(issuer)


def requested(metadata: ProviderMetadata, scopes: list[str], client_id: str = "a&b=c d") -> str:
    return authorization_url(
        metadata,
        client_id=client_id,
        redirect_uri="https://sluice.example.com/sso/oidc/acme/callback",
        scopes=scopes,
        state="s+/=",
        nonce="n",
        code_challenge="c",
    )


def test_an_authorization_request_has_every_parameter_once() -> None:
    parts = urlsplit(requested(METADATA, ["email", "openid", "email"]))
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "idp.example.com", "/authorize")
    assert parse_qsl(parts.query, strict_parsing=True) == [
        ("response_type", "code"),
        ("client_id", "a&b=c d"),
        ("redirect_uri", "https://sluice.example.com/sso/oidc/acme/callback"),
        ("scope", "openid email"),
        ("state", "s+/="),
        ("nonce", "n"),
        ("code_challenge", "c"),
        ("code_challenge_method", "S256"),
    ]
    assert "+" not in parts.query  # a space is %20: some servers take + for itself


def test_openid_is_a_scope_of_every_request() -> None:
    assert dict(parse_qsl(urlsplit(requested(METADATA, [])).query))["scope"] == "openid"


def test_the_query_of_the_endpoint_stays() -> None:
    metadata = decoded(authorization_endpoint="https://idp.example.com/authorize?tenant=1")
    assert requested(metadata, []).startswith("https://idp.example.com/authorize?tenant=1&response_type=code&")


def test_a_client_id_that_is_no_text_does_not_fail_the_request() -> None:
    assert "client_id=%3F&" in requested(METADATA, [], client_id="\ud800")


def test_the_challenge_is_that_of_the_rfc() -> None:
    """RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert code_challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_a_response_of_another_issuer_is_refused() -> None:
    for is_announced in (True, False):
        metadata = decoded(authorization_response_iss_parameter_supported=is_announced)
        check_response_issuer(metadata, ISSUER)
        for iss in ("", ISSUER + "/", "https://other.example.com"):
            with pytest.raises(LoginRefused, match=r"^response_issuer_mismatch$"):
                check_response_issuer(metadata, iss)


def test_a_response_without_an_issuer_is_refused_if_the_provider_announces_it() -> None:
    check_response_issuer(METADATA, None)
    with pytest.raises(LoginRefused, match=r"^response_issuer_missing$"):
        check_response_issuer(decoded(authorization_response_iss_parameter_supported=True), None)
