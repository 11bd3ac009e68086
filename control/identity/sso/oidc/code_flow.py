"""The requests of the authorization code flow: authorization, code exchange, userinfo (OpenID Connect Core 1.0,
sections 3.1.2, 3.1.3 and 5.3; RFC 6749, sections 2.3, 4.1.3; RFC 7636, 9207).
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode

import msgspec

from control.identity.sso.oidc.provider import ProviderMetadata
from control.identity.sso.refusal import LoginRefused, decode_document
from control.outbound.egress import Egress, EgressError, HttpReply


def authorization_url(
    metadata: ProviderMetadata,
    *,
    client_id: str,
    redirect_uri: str,
    scopes: Iterable[str],
    state: str,
    nonce: str,
    code_challenge: str,
) -> str:
    """The address that the browser is sent to. `openid` is always among the scopes. The challenge method is S256."""
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(dict.fromkeys(("openid", *scopes))),
        "state": state,
        "nonce": nonce,
        "code_challenge": code_challenge,
        "code_challenge_method": "S256",
    }
    endpoint = metadata.authorization_endpoint
    separator = "&" if "?" in endpoint else "?"  # RFC 6749, section 3.1: a query of the endpoint is retained
    return endpoint + separator + urlencode(parameters, quote_via=quote, errors="replace")


def code_challenge(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def check_response_issuer(metadata: ProviderMetadata, iss: str | None) -> None:
    """Raises LoginRefused unless `iss`, the parameter of the authorization response, is the provider's issuer. The
    parameter may be missing if the provider does not announce it (RFC 9207, section 2.4: mix-up attacks).
    """
    if iss is None:
        if metadata.authorization_response_iss_parameter_supported:
            raise LoginRefused("response_issuer_missing", f"Expected {metadata.issuer}")
    elif iss != metadata.issuer:
        raise LoginRefused("response_issuer_mismatch", f"Expected {metadata.issuer}, got {iss}")


_ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ACCESS_TOKEN: Final = re.compile(r"[\x21-\x7e]+")  # what a header can carry; RFC 6750, section 2.1 permits less


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The tokens as received. The ID token is not verified yet. The access token can be sent in a header."""

    id_token: str
    access_token: str | None

    def __repr__(self) -> str:  # a token must not be logged
        return "TokenResponse(...)"


class _Document(msgspec.Struct):
    token_type: str
    id_token: str
    access_token: str | None = None


class _ErrorDocument(msgspec.Struct):
    error: str


async def exchange_code(
    egress: Egress,
    metadata: ProviderMetadata,
    *,
    client_id: str,
    client_secret: str | None,
    code: str,
    code_verifier: str,
    redirect_uri: str,
    account: str,
) -> TokenResponse:
    """Exchange the code of an authorization response, once, because a provider revokes the tokens of a repeated code.
    The response has at most MAX_BODY_BYTES. `account`: the organization. Raises LoginRefused.
    """
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": code_verifier,
    }
    headers = {"Accept": "application/json"}
    if client_secret is None:
        form["client_id"] = client_id
    elif _chooses_basic(metadata):
        headers["Authorization"] = _basic(client_id, client_secret)
    else:
        form |= {"client_id": client_id, "client_secret": client_secret}
    try:
        reply = await egress.post_form(metadata.token_endpoint, form, headers, account=account)
    except EgressError as error:
        raise LoginRefused("provider_unavailable", f"Token endpoint: {error.detail}") from error
    return decode_token_response(reply)


def decode_token_response(reply: HttpReply) -> TokenResponse:
    """The tokens in a response of the token endpoint. Raises LoginRefused. For an error of the provider, the detail has
    only the error code, because the description may repeat secrets of the request.
    """
    if reply.status != 200:
        raise LoginRefused("token_endpoint_error", _error_code(reply))
    document = decode_document(reply.body, _Document, "token_response_invalid")
    if document.token_type.lower() != "bearer":
        raise LoginRefused("token_response_invalid", f"The token type is {document.token_type}")
    if document.access_token is not None and _ACCESS_TOKEN.fullmatch(document.access_token) is None:
        raise LoginRefused("token_response_invalid", "The access token has characters that no header can carry.")
    return TokenResponse(document.id_token, document.access_token)


def _chooses_basic(metadata: ProviderMetadata) -> bool:
    """Whether the secret goes into the header. If not, it goes into the form. Raises LoginRefused if the provider
    accepts no secret.
    """
    methods = metadata.token_endpoint_auth_methods_supported or ()
    if "client_secret_basic" not in methods and "client_secret_post" not in methods:
        raise LoginRefused("client_authentication_unsupported", f"The provider supports {', '.join(methods)}")
    return "client_secret_basic" in methods


def _basic(client_id: str, client_secret: str) -> str:
    """The header of client authentication. Both parts are form-encoded before they are joined (RFC 6749, section
    2.3.1).
    """
    credentials = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return "Basic " + base64.b64encode(credentials.encode("ascii")).decode("ascii")


def _error_code(reply: HttpReply) -> str:
    try:
        code = decode_document(reply.body, _ErrorDocument, "token_endpoint_error").error
    except LoginRefused:
        code = ""
    return code if _ERROR_CODE.fullmatch(code) else f"HTTP {reply.status}"


_JSON: Final = "application/json"


async def fetch_userinfo(
    egress: Egress, metadata: ProviderMetadata, access_token: str, *, account: str
) -> dict[str, Any]:
    """The claims, at most MAX_BODY_BYTES of JSON. They are not signed. The caller must check that `sub` is the `sub` of
    the ID token, or the claims are about another user (section 5.3.2). Raises LoginRefused.
    """
    if metadata.userinfo_endpoint is None:
        raise LoginRefused("userinfo_unavailable", "The provider has no userinfo endpoint.")
    headers = {"Accept": _JSON, "Authorization": f"Bearer {access_token}"}
    try:
        reply = await egress.get(metadata.userinfo_endpoint, headers, account=account)
    except EgressError as error:
        raise LoginRefused("userinfo_unavailable", error.detail) from error
    return decode_userinfo(reply)


def decode_userinfo(reply: HttpReply) -> dict[str, Any]:
    """The claims in a response. Signed or encrypted claims (application/jwt) are not read. Raises LoginRefused."""
    if reply.status != 200:
        raise LoginRefused("userinfo_unavailable", f"HTTP {reply.status}")
    media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != _JSON:
        raise LoginRefused("userinfo_invalid", f"The media type is {media_type or 'missing'}")
    return decode_document(reply.body, dict[str, Any], "userinfo_invalid")
