"""The code exchange at the token endpoint (OpenID Connect Core 1.0, section 3.1.3; RFC 6749, sections 2.3, 4.1.3)."""

import base64
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

import msgspec

from control.identity.sso.oidc.metadata import ProviderMetadata
from control.identity.sso.refusal import LoginRefused
from control.outbound.egress import Egress, EgressError, HttpReply

_ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ACCESS_TOKEN: Final = re.compile(r"[\x21-\x7e]+")  # what a header can carry; RFC 6750, section 2.1 permits less


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The tokens as received. The ID token is not verified yet; the access token is fit for a header."""

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
    """Exchange the code of an authorization response, once: a provider revokes what a repeated code issued. The
    response has at most MAX_BODY_BYTES. `account`: the organization. Raises LoginRefused.
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
    """The tokens in a response of the token endpoint. Raises LoginRefused, of an error with its code alone: its
    description may repeat what was sent.
    """
    if reply.status != 200:
        raise LoginRefused("token_endpoint_error", _error_code(reply))
    try:
        document = msgspec.json.decode(reply.body, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LoginRefused("token_response_invalid", str(error)) from error
    if document.token_type.lower() != "bearer":
        raise LoginRefused("token_response_invalid", f"The token type is {document.token_type}")
    if document.access_token is not None and _ACCESS_TOKEN.fullmatch(document.access_token) is None:
        raise LoginRefused("token_response_invalid", "The access token has characters that no header can carry.")
    return TokenResponse(document.id_token, document.access_token)


def _chooses_basic(metadata: ProviderMetadata) -> bool:
    """Whether the secret goes into the header, else into the form. Raises LoginRefused if the provider takes no
    secret.
    """
    methods = metadata.token_endpoint_auth_methods_supported
    if "client_secret_basic" not in methods and "client_secret_post" not in methods:
        raise LoginRefused("client_authentication_unsupported", f"The provider supports {', '.join(methods)}")
    return "client_secret_basic" in methods


def _basic(client_id: str, client_secret: str) -> str:
    """RFC 6749, section 2.3.1: both are form-encoded before they are joined."""
    credentials = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return "Basic " + base64.b64encode(credentials.encode("ascii")).decode("ascii")


def _error_code(reply: HttpReply) -> str:
    try:
        code = msgspec.json.decode(reply.body, type=_ErrorDocument).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        code = ""
    return code if _ERROR_CODE.fullmatch(code) else f"HTTP {reply.status}"
