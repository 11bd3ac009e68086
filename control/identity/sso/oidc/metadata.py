"""Provider metadata (OpenID Connect Discovery 1.0, section 3): where the endpoints of an issuer are."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from control.identity.sso.refusal import LoginRefused
from control.outbound.egress_policy import parse_url

WELL_KNOWN: Final = "/.well-known/openid-configuration"
DEFAULT_AUTH_METHODS: Final = ("client_secret_basic",)  # OpenID Connect Discovery 1.0, section 3
_MAX_AUTH_METHODS: Final = 32
_MAX_WORD_LENGTH: Final = 100  # characters of an authentication method


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """What a login needs of the metadata. Every endpoint is an https URL without user name, password or fragment."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    authorization_response_iss_parameter_supported: bool  # RFC 9207, section 3
    token_endpoint_auth_methods_supported: tuple[str, ...]


_Word = Annotated[str, msgspec.Meta(max_length=_MAX_WORD_LENGTH)]
_AuthMethods = Annotated[tuple[_Word, ...], msgspec.Meta(max_length=_MAX_AUTH_METHODS)]


class _Document(msgspec.Struct):
    """The metadata on the wire; members that are not named here are ignored."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: _AuthMethods | None = None


def parse_issuer(text: str) -> str:
    """An issuer identifier, as it is: an https URL without query and fragment (OpenID Connect Core 1.0, section 2).
    Raises ValueError with a sentence for the user.
    """
    parse_url(text, allow_http=False)
    if "?" in text or "#" in text:
        raise ValueError("Must not contain a query or a fragment.")
    return text


def metadata_url(issuer: str) -> str:
    """Where the metadata of the issuer is (OpenID Connect Discovery 1.0, section 4.1). Raises LoginRefused."""
    try:
        return parse_issuer(issuer).removesuffix("/") + WELL_KNOWN
    except ValueError as error:
        raise LoginRefused("issuer_invalid", f"{error} It is {issuer}") from error


def decode_metadata(body: bytes, issuer: str) -> ProviderMetadata:
    """The metadata in a response, which must be that of `issuer`. Raises LoginRefused."""
    try:
        document = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LoginRefused("provider_metadata_invalid", str(error)) from error
    if document.issuer != issuer:
        raise LoginRefused("provider_issuer_mismatch", f"Expected {issuer}, got {document.issuer}")
    userinfo = document.userinfo_endpoint
    methods = document.token_endpoint_auth_methods_supported
    return ProviderMetadata(
        issuer=issuer,
        authorization_endpoint=_endpoint("authorization_endpoint", document.authorization_endpoint),
        token_endpoint=_endpoint("token_endpoint", document.token_endpoint),
        jwks_uri=_endpoint("jwks_uri", document.jwks_uri),
        userinfo_endpoint=None if userinfo is None else _endpoint("userinfo_endpoint", userinfo),
        authorization_response_iss_parameter_supported=document.authorization_response_iss_parameter_supported,
        token_endpoint_auth_methods_supported=DEFAULT_AUTH_METHODS if methods is None else methods,
    )


def _endpoint(name: str, text: str) -> str:
    """The URL in its normal form: with an ASCII host and what must be escaped escaped. Raises LoginRefused."""
    try:
        if "#" in text:
            raise ValueError("Must not contain a fragment.")
        return str(parse_url(text, allow_http=False))
    except ValueError as error:
        raise LoginRefused("provider_metadata_invalid", f"{name}: {error}") from error
