"""Requests and responses of browsers in a login: addresses, cookies that bind a login, redirects, generic errors."""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import Meta

from chassis.errors import ApiError, BadRequest, InternalError, NotFound, RateLimited
from chassis.http.access import Handler
from chassis.http.route import Parameter
from chassis.http.validation import Issues, check_length, must_be_one_of, single_value
from control.identity.sso.login import return_path
from control.identity.sso.login.login_store import LINK_LIFETIME, LOGIN_LIFETIME
from control.identity.sso.tables import MAX_RELAY_STATE_LENGTH, Protocol
from proto.identity import MAX_SLUG_LENGTH, is_slug


@dataclass(frozen=True, slots=True)
class SsoUrls:
    """Addresses of single sign-on. `base`: the public base URL, without a slash at the end."""

    base: str

    def entity_id(self, org_slug: str) -> str:
        """The entity id of the service provider, one for each organization: the address of its metadata."""
        return f"{self.base}/sso/saml/{org_slug}/metadata"

    def acs(self, org_slug: str) -> str:
        """The address to which a SAML provider posts its response (assertion consumer service)."""
        return f"{self.base}/sso/saml/{org_slug}/acs"

    def callback(self, org_slug: str) -> str:
        """The redirect URI of an OpenID provider."""
        return f"{self.base}/sso/oidc/{org_slug}/callback"

    def start(self, protocol: Protocol, org_slug: str) -> str:
        """The address at which a login begins."""
        return f"{self.base}/sso/{protocol.value.lower()}/{org_slug}/start"


REFUSED: Final = (
    "The sign-in could not be completed. Begin again at your organization's sign-in address. If it fails again, your "
    "administrator finds the reason in the audit log."
)
ERROR_STATUSES: Final = (400, 404, 429, 500)  # specification 4.7, as `only_specified_statuses` keeps them
ERROR_STATUSES_OF_CODES: Final = (400, 429, 500)
NO_STORE: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
ORG_SLUG: Final = Parameter(
    "orgSlug", "path", Annotated[str, Meta(min_length=1, max_length=MAX_SLUG_LENGTH)], "The organization."
)
Format = Literal["redirect", "json"]
FORMAT: Final = Parameter(
    "format",
    "query",
    Format,
    "redirect: redirects to the dashboard with a one-time code; json: returns the session in the response.",
    default="redirect",
)

MAX_LOGINS: Final = 20  # begun in a browser; each has a cookie of 80 bytes

_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits in base64url
_COOKIE_PREFIX: Final = "__Host-sluice-sso-"
_LINK_COOKIE: Final = "__Host-sluice-link"


def new_secret() -> str:
    """256 random bits in base64url, 43 characters: fits the 80 bytes that SAML gives a RelayState."""
    return secrets.token_urlsafe(32)


def is_secret(text: str | None) -> bool:
    """Whether the text has the form of `new_secret`."""
    return text is not None and _SECRET.fullmatch(text) is not None


def derive(binding: str, purpose: str) -> str:
    """A secret of a login that is derived from its cookie, so that it is not stored: the PKCE verifier (RFC 7636, 4.1:
    43 characters), the nonce.
    """
    digest = hmac.digest(binding.encode(), f"sluice sso {purpose}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def binding_of(request: web.Request, state: str) -> str | None:
    """The secret that this browser got when it began the login with this state."""
    value = request.cookies.get(_cookie_name(state))
    return value if is_secret(value) else None


def set_binding(response: web.StreamResponse, protocol: Protocol, state: str, binding: str) -> None:
    """Bind the login to the browser. The response of a SAML provider is posted across sites, so its cookie needs
    SameSite=None. The response of an OpenID provider is a navigation and does not need it.
    """
    response.set_cookie(
        _cookie_name(state),
        binding,
        max_age=int(LOGIN_LIFETIME.total_seconds()),
        path="/",
        secure=True,
        httponly=True,
        samesite="None" if protocol is Protocol.SAML else "Lax",
    )


def delete_abandoned_cookies(request: web.Request, response: web.StreamResponse) -> None:
    """Delete the cookies of earlier logins of this browser, if there are many. Any page can begin logins in the
    browser, for example by images. A request with too many cookies exceeds the size that a server reads, and the
    browser would be locked out.
    """
    names = [name for name in request.cookies if name.startswith(_COOKIE_PREFIX)]
    if len(names) >= MAX_LOGINS:
        for name in names:
            response.del_cookie(name, path="/", secure=True, httponly=True, samesite="None")


def clear_binding(response: web.StreamResponse, protocol: Protocol, state: str) -> None:
    """Delete the cookie of a finished login."""
    response.del_cookie(
        _cookie_name(state),
        path="/",
        secure=True,
        httponly=True,
        samesite="None" if protocol is Protocol.SAML else "Lax",
    )


def link_secret(request: web.Request) -> str | None:
    """The secret that this browser got when an account asked to be linked."""
    value = request.cookies.get(_LINK_COOKIE)
    return value if is_secret(value) else None


def set_link_secret(response: web.StreamResponse, secret: str) -> None:
    """Store the secret in a cookie. It is Strict, so that only a page of Sluice can begin the login that links."""
    response.set_cookie(
        _LINK_COOKIE,
        secret,
        max_age=int(LINK_LIFETIME.total_seconds()),
        path="/",
        secure=True,
        httponly=True,
        samesite="Strict",
    )


def redirect(location: str) -> web.Response:
    """303 (RFC 9110, 15.4.4: the next request is a GET), without caching and without a referrer."""
    return web.Response(status=303, headers={"Location": location, **NO_STORE})


def check_relay_state(text: str | None, path: str, issues: Issues) -> str | None:
    """The path on this origin that the browser goes to at the end. Records an issue for anything else, because an open
    redirector would be a risk (RFC 9700, 4.11).
    """
    if text is None or text == "":
        return None
    resolved = return_path.resolve(text) if len(text) <= MAX_RELAY_STATE_LENGTH else text
    if resolved is None:
        refused = "Paths that resolve to another host or begin with `//` are refused."
        issues.add(path, f"Must be a path on this host, for example `/ui/acme`. {refused}", "format")
    elif len(resolved) > MAX_RELAY_STATE_LENGTH:
        issues.add(path, f"Must have at most {MAX_RELAY_STATE_LENGTH} characters after percent-encoding.", "too_long")
        return None
    return resolved


def read_format(request: web.Request, issues: Issues) -> Format:
    """The end of the login that the client wants."""
    value = single_value(request.query, FORMAT.name, issues)
    if value == "json":
        return "json"
    if value not in (None, "redirect"):
        issues.add(f"query.{FORMAT.name}", must_be_one_of(("redirect", "json")), "not_allowed")
    return "redirect"


def org_slug_of(request: web.Request, issues: Issues) -> str:
    """The slug in the path. Records an issue if it is too long. Raises NotFound for a text that is not a slug."""
    slug = request.match_info["orgSlug"]
    if check_length("path.orgSlug", slug, 1, MAX_SLUG_LENGTH, issues) and not is_slug(slug):
        raise NotFound
    return slug


def require_navigation(request: web.Request) -> None:
    """Raises BadRequest for a request that a page of another site makes to load an image or a frame (Fetch Metadata).
    Such a request is not a login, but its failures would count for all users behind the client address. Call this
    before anything counts.
    """
    headers = request.headers
    if headers.get("Sec-Fetch-Site") == "cross-site" and headers.get("Sec-Fetch-Dest", "document") != "document":
        raise BadRequest(REFUSED)


def only_specified_statuses(handler: Handler) -> Handler:
    """A handler whose errors are only 400, 404, 429 and 500 (specification 4.7), because browsers on their way through
    a login understand no other errors. A body that is too large or has another type gets 400, an unavailable store 500.
    """

    async def checked(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except (BadRequest, NotFound, RateLimited):
            raise
        except ApiError as error:
            raise _specified(error) from error

    return checked


def _specified(error: ApiError) -> ApiError:
    """Map an error to a specified one. Errors that close the connection concern a body that the client sent too slowly,
    or in an unknown coding.
    """
    is_ours = error.status >= 500 and not error.close
    return InternalError() if is_ours else BadRequest(error.message, close=error.close)


def _cookie_name(state: str) -> str:
    """The cookie of one login. Each login has its own, so that two tabs do not interfere."""
    return _COOKIE_PREFIX + hashlib.sha256(state.encode()).hexdigest()[:16]
