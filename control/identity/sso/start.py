"""`GET /sso/{saml|oidc}/{orgSlug}/start`: begins a login, and binds it to the browser."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import BadRequest, NotFound, RateLimited
from chassis.http.access import anonymous
from chassis.http.route import Operation, Parameter, ResponseSpec
from chassis.http.validation import Issues, single_value
from chassis.http.web import RATE_LIMITS, Route
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext
from control.identity.sso import browser, connection_repository, login_repository
from control.identity.sso.browser import ORG_SLUG
from control.identity.sso.completion import Completion, require_unchanged
from control.identity.sso.connection_repository import ConnectionOfOrganization, StoredConnection
from control.identity.sso.connections import TAG
from control.identity.sso.login_repository import FINISH_WITHIN, LOGIN_LIFETIME, NewLogin
from control.identity.sso.oidc import authorization
from control.identity.sso.oidc.provider import Providers
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml import authn_request
from control.identity.sso.tables import MAX_RELAY_STATE_LENGTH, Protocol
from control.identity.sso.urls import SsoUrls

RELAY_STATE: Final = Parameter(
    "relayState",
    "query",
    Annotated[str, Meta(max_length=MAX_RELAY_STATE_LENGTH)],
    "A path of this origin, returned at the end of the login as browsers resolve it (URL Standard).",
    example="/orgs/acme/explore",
)
LINK: Final = Parameter(
    "link",
    "query",
    Literal["true"],
    "Links the provider's user to the account whose session has asked for it (`POST /auth/sso/links`) in this browser.",
)


def _operation(protocol: str) -> Operation:
    return Operation(
        f"start{protocol}Login",
        TAG,
        (ResponseSpec("To the identity provider.", status=303, headers={"Location": "The provider's address."}),),
        (ORG_SLUG, RELAY_STATE, LINK),
        only_error_statuses=browser.ERROR_STATUSES,
    )


@dataclass(frozen=True, slots=True)
class Start:
    """Handlers of logins that begin, and their dependencies."""

    context: HandlerContext
    urls: SsoUrls
    providers: Providers
    completion: Completion
    unfinished_per_minute: int

    def routes(self) -> list[Route]:
        """Both routes; they are anonymous."""
        saml, oidc = map(browser.only_specified_statuses, (self.start_saml, self.start_oidc))
        return [
            Route(
                "GET", "/sso/saml/{orgSlug}/start", saml, anonymous(), operation=_operation("Saml"), answers_head=False
            ),
            Route(
                "GET", "/sso/oidc/{orgSlug}/start", oidc, anonymous(), operation=_operation("Oidc"), answers_head=False
            ),
        ]

    async def start_saml(self, request: web.Request) -> web.StreamResponse:
        """Begin a login through the organization's SAML provider.

        The browser gets a cookie, and goes to the provider. 404 without an enabled connection.
        """
        return await self._start(request, Protocol.SAML)

    async def start_oidc(self, request: web.Request) -> web.StreamResponse:
        """Begin a login through the organization's OpenID provider.

        The browser gets a cookie, and goes to the provider. 404 without an enabled connection.
        """
        return await self._start(request, Protocol.OIDC)

    async def _start(self, request: web.Request, protocol: Protocol) -> web.StreamResponse:
        browser.require_navigation(request)
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        relay_state = browser.check_relay_state(
            single_value(request.query, RELAY_STATE.name, issues), "query.relayState", issues
        )
        link = single_value(request.query, LINK.name, issues)
        if link not in (None, "true"):
            issues.add("query.link", "Must be true.", "not_allowed")
        issues.raise_if_any()
        limits = request.app[RATE_LIMITS]
        await limits.check_address(request, LimitClass.FAILED_SSO)
        address = limits.address_key(request)
        now = datetime.now(UTC)
        async with self.context.database.read() as connection:
            found = await connection_repository.find_enabled(connection, org_slug, protocol)
            unfinished = await login_repository.count_unfinished(connection, address, now)
        if found is None:
            raise NotFound
        self._check_unfinished(unfinished)
        state, binding, request_id = browser.new_secret(), browser.new_secret(), ""
        try:
            if protocol is Protocol.SAML:
                request_id = authn_request.new_request_id()
                location = self._saml_location(found, state, request_id, now)
            else:
                location = await self._oidc_location(found, state, binding)
            async with self.context.database.write() as connection:
                await require_unchanged(connection, found.connection)
                principal_id = None
                if link is not None:
                    principal_id = await _use_link_request(connection, request, found.connection.org_id, now)
                new = NewLogin(
                    connection_id=found.connection.id,
                    org_id=found.connection.org_id,
                    state=state,
                    binding=binding,
                    request_id=request_id,
                    relay_state=relay_state,
                    link_principal_id=principal_id,
                    address=address,
                )
                await login_repository.begin(connection, new, now)
        except LoginRefused as refusal:
            raise await self.completion.refuse(request, found, refusal) from refusal
        response = browser.redirect(location)
        browser.delete_abandoned_cookies(request, response)
        browser.set_binding(response, protocol, state, binding)
        return response

    def _saml_location(self, found: ConnectionOfOrganization, state: str, request_id: str, now: datetime) -> str:
        return authn_request.redirect_url(
            _required(found.connection.idp_sso_url),
            request_id=request_id,
            issue_instant=now,
            issuer=self.urls.entity_id(found.org_slug),
            acs_url=self.urls.acs(found.org_slug),
            relay_state=state,
        )

    async def _oidc_location(self, found: ConnectionOfOrganization, state: str, binding: str) -> str:
        stored: StoredConnection = found.connection
        metadata = await self.providers.metadata(_required(stored.oidc_issuer), account=stored.org_id)
        return authorization.authorization_url(
            metadata,
            client_id=_required(stored.oidc_client_id),
            redirect_uri=self.urls.callback(found.org_slug),
            scopes=stored.oidc_scopes,
            state=state,
            nonce=browser.derive(binding, "nonce"),
            code_challenge=authorization.code_challenge(browser.derive(binding, "pkce")),
        )

    def _check_unfinished(self, unfinished: int) -> None:
        """Raises RateLimited for an address that begins logins and does not finish them."""
        most = self.unfinished_per_minute * int(LOGIN_LIFETIME / FINISH_WITHIN)
        if most and unfinished >= most:
            raise RateLimited(
                f"Too many unfinished single sign-ons from this address: {unfinished} in ten minutes.",
                int(FINISH_WITHIN.total_seconds()),
            )


async def _use_link_request(connection: AsyncConnection, request: web.Request, org_id: str, now: datetime) -> str:
    """The account that has asked, in this browser, to be linked. The secret is in a cookie and not in the address:
    otherwise a stranger could send his own address to a member, whose login would then be linked to the stranger's
    account. Raises BadRequest.
    """
    secret = browser.link_secret(request)
    found = None if secret is None else await login_repository.use_link_request(connection, secret, org_id, now)
    if found is None:
        raise BadRequest(
            "This browser has not asked to link an account, or too long ago: repeat POST /auth/sso/links in it."
        )
    return found


def _required(value: str | None) -> str:
    """A field without which no connection is enabled."""
    if value is None:
        raise ValueError("an enabled connection lacks a field")
    return value
