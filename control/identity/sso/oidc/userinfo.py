"""The userinfo endpoint (OpenID Connect Core 1.0, section 5.3): the claims that are not in the ID token."""

from typing import Any, Final

import msgspec

from control.identity.sso.oidc.metadata import ProviderMetadata
from control.identity.sso.refusal import LoginRefused
from control.outbound.egress import Egress, EgressError, HttpReply

_JSON: Final = "application/json"


async def fetch_userinfo(
    egress: Egress, metadata: ProviderMetadata, access_token: str, *, account: str
) -> dict[str, Any]:
    """The claims, at most MAX_BODY_BYTES of JSON. They are not signed, and of the token's user only if their `sub` is
    that of the ID token (section 5.3.2): the caller compares. Raises LoginRefused.
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
    """The claims in a response. A signed or encrypted one (application/jwt) is not read. Raises LoginRefused."""
    if reply.status != 200:
        raise LoginRefused("userinfo_unavailable", f"HTTP {reply.status}")
    media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != _JSON:
        raise LoginRefused("userinfo_invalid", f"The media type is {media_type or 'missing'}")
    try:
        return msgspec.json.decode(reply.body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LoginRefused("userinfo_invalid", str(error)) from error
