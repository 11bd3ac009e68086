"""The authorization request and what its response must say (OpenID Connect Core 1.0, section 3.1.2; RFC 7636, 9207)."""

import base64
import hashlib
from collections.abc import Iterable
from urllib.parse import quote, urlencode

from control.identity.sso.oidc.metadata import ProviderMetadata
from control.identity.sso.refusal import LoginRefused


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
    """Where the browser is sent. `openid` is always among the scopes; the challenge is that of S256."""
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
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def check_response_issuer(metadata: ProviderMetadata, iss: str | None) -> None:
    """Raises LoginRefused unless `iss`, the parameter of the authorization response, is the provider's issuer; a
    provider that does not announce the parameter may leave it out (RFC 9207, section 2.4: mix-up attacks).
    """
    if iss is None:
        if metadata.authorization_response_iss_parameter_supported:
            raise LoginRefused("response_issuer_missing", f"Expected {metadata.issuer}")
    elif iss != metadata.issuer:
        raise LoginRefused("response_issuer_mismatch", f"Expected {metadata.issuer}, got {iss}")
