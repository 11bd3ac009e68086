"""The start of logins: `GET /sso/{saml|oidc}/{orgSlug}/start`. Also `POST /auth/sso/links`, after which the next login
links an account, and the metadata of Sluice for a SAML provider.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.db.database import format_time
from chassis.errors import BadRequest, Conflict, Forbidden, NotFound, RateLimited
from chassis.http.access import anonymous, session
from chassis.http.declaration import route
from chassis.http.route import Parameter, ResponseSpec, json_content
from chassis.http.validation import Issues, single_value
from chassis.http.web import RATE_LIMITS, json_response
from control.audit.record import Actor, record
from control.http.field_types import Timestamp
from control.identity.sso import connection_store
from control.identity.sso.login import browser, login_store
from control.identity.sso.login.completion import Completion, require_unchanged
from control.identity.sso.oidc import code_flow
from control.identity.sso.oidc.provider import Providers
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml import service_provider
from control.identity.sso.tables import MAX_RELAY_STATE_LENGTH, Protocol
from control.identity.users import user_store
from control.routing.arguments import Handlers, SessionTransaction
from proto.identity import PrincipalKind, Role


class AccountLink(msgspec.Struct, frozen=True, rename="camel"):
    """The addresses where the login that links the account begins, in the browser with the cookie of this response."""

    start_urls: Annotated[dict[str, str], Meta(description="Addresses to begin at, by protocol.")]
    expires_at: Timestamp


_METADATA: Final = "application/samlmetadata+xml"
LINKED: Final = ResponseSpec("The addresses at which the login begins.", json_content(AccountLink), 201)
RELAY_STATE: Final = Parameter(
    "relayState",
    "query",
    Annotated[str, Meta(max_length=MAX_RELAY_STATE_LENGTH)],
    "A path of this origin. The response at the end of the login has this path, as browsers resolve it (URL Standard).",
    example="/orgs/acme/explore",
)
LINK: Final = Parameter(
    "link",
    "query",
    Literal["true"],
    "Whether the login links the provider's user to an account. The session of this account must have asked for the "
    "link in this browser (`POST /auth/sso/links`).",
)


_begins: Final = partial(
    route,
    "GET",
    access=anonymous(),
    parameters=(browser.ORG_SLUG, RELAY_STATE, LINK),
    responses=(
        ResponseSpec("Redirect to the identity provider.", status=303, headers={"Location": "The provider's address."}),
    ),
    only_errors=browser.ERROR_STATUSES,
    answers_head=False,
)


@dataclass(frozen=True, slots=True)
class Start(Handlers):
    """Handlers of beginning logins, of links and metadata, and their dependencies."""

    urls: browser.SsoUrls
    providers: Providers
    completion: Completion
    unfinished_per_minute: int

    @_begins("/sso/saml/{orgSlug}/start")
    async def start_saml_login(self, request: web.Request) -> web.StreamResponse:
        """Begin a login through the organization's SAML provider.

        The browser gets a cookie, and goes to the provider. 404 without an enabled connection.
        """
        return await self._start(request, Protocol.SAML)

    @_begins("/sso/oidc/{orgSlug}/start")
    async def start_oidc_login(self, request: web.Request) -> web.StreamResponse:
        """Begin a login through the organization's OpenID provider.

        The browser gets a cookie, and goes to the provider. 404 without an enabled connection.
        """
        return await self._start(request, Protocol.OIDC)

    @route("POST", "/auth/sso/links", session(), errors=(409,), responses=(LINKED,))
    async def link_sso_account(self, transaction: SessionTransaction) -> web.StreamResponse:
        """Link the account of this session to a user of the organization's identity provider.

        The browser gets a cookie. The next login that it begins at one of `startUrls` within ten minutes links the
        user whom the provider identifies to this account. 403 in a single sign-on session, if the account is an owner
        or has a password: log in with the password instead. 409 without an enabled connection.
        """
        connection, caller = transaction.connection, transaction.caller
        await _require_own_credential(connection, caller)
        enabled = [each for each in await connection_store.list_connections(connection, caller.org_id) if each.enabled]
        if not enabled:
            raise Conflict("The organization has no enabled connection to an identity provider.")
        secret, now = browser.new_secret(), datetime.now(UTC)
        expires_at = await login_store.request_link(
            connection, secret, caller.org_id, caller.principal_id, caller.token_id, now
        )
        actor = Actor(caller.org_id, caller.principal_id, PrincipalKind.USER, token_id=caller.token_id)
        await record(connection, actor, "sso.link_request", caller.principal_id, {}, transaction.request_id)
        body = AccountLink(
            {each.protocol.value: f"{self.urls.start(each.protocol, caller.org_slug)}?link=true" for each in enabled},
            format_time(expires_at),
        )
        response = json_response(body, status=201, headers=browser.NO_STORE)
        browser.set_link_secret(response, secret)
        return response

    @route(
        "GET",
        "/sso/saml/{orgSlug}/metadata",
        anonymous(),
        parameters=(browser.ORG_SLUG,),
        responses=(ResponseSpec("The metadata (SAML metadata 2.0).", {_METADATA: None}),),
        errors=(404,),
    )
    async def get_saml_metadata(self, request: web.Request) -> web.StreamResponse:
        """Get the metadata of the service provider, for the identity provider.

        404 without a SAML connection, enabled or not.
        """
        issues = Issues()
        org_slug = browser.org_slug_of(request, issues)
        issues.raise_if_any("The path is not valid.")
        async with self.context.database.read() as connection:
            if await connection_store.find_by_slug(connection, org_slug, Protocol.SAML) is None:
                raise NotFound
        document = service_provider.build_metadata(self.urls.entity_id(org_slug), self.urls.acs(org_slug))
        return web.Response(body=document, content_type=_METADATA)

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
        found = await self.completion.find_connection(request, org_slug, protocol)
        address, now = request.app[RATE_LIMITS].address_key(request), datetime.now(UTC)
        async with self.context.database.read() as connection:
            self._check_unfinished(await login_store.count_unfinished(connection, address, now))
        state, binding, request_id = browser.new_secret(), browser.new_secret(), ""
        try:
            if protocol is Protocol.SAML:
                request_id = service_provider.new_request_id()
                location = self._saml_location(found, state, request_id, now)
            else:
                location = await self._oidc_location(found, state, binding)
            async with self.context.database.write() as connection:
                await require_unchanged(connection, found.connection)
                principal_id = None
                if link is not None:
                    principal_id = await _use_link_request(connection, request, found.connection.org_id, now)
                await login_store.begin(
                    connection,
                    found.connection.id,
                    found.connection.org_id,
                    now,
                    state=state,
                    binding=binding,
                    address=address,
                    request_id=request_id,
                    relay_state=relay_state,
                    link_principal_id=principal_id,
                )
        except LoginRefused as refusal:
            raise await self.completion.refuse(request, found, refusal) from refusal
        response = browser.redirect(location)
        browser.delete_abandoned_cookies(request, response)
        browser.set_binding(response, protocol, state, binding)
        return response

    def _saml_location(
        self, found: connection_store.ConnectionOfOrganization, state: str, request_id: str, now: datetime
    ) -> str:
        return service_provider.redirect_url(
            _required(found.connection.idp_sso_url),
            request_id=request_id,
            issue_instant=now,
            issuer=self.urls.entity_id(found.org_slug),
            acs_url=self.urls.acs(found.org_slug),
            relay_state=state,
        )

    async def _oidc_location(self, found: connection_store.ConnectionOfOrganization, state: str, binding: str) -> str:
        stored: connection_store.StoredConnection = found.connection
        metadata = await self.providers.metadata(_required(stored.oidc_issuer), account=stored.org_id)
        return code_flow.authorization_url(
            metadata,
            client_id=_required(stored.oidc_client_id),
            redirect_uri=self.urls.callback(found.org_slug),
            scopes=stored.oidc_scopes,
            state=state,
            nonce=browser.derive(binding, "nonce"),
            code_challenge=code_flow.code_challenge(browser.derive(binding, "pkce")),
        )

    def _check_unfinished(self, unfinished: int) -> None:
        """Raises RateLimited for an address that begins logins and does not finish them."""
        most = self.unfinished_per_minute * int(login_store.LOGIN_LIFETIME / login_store.FINISH_WITHIN)
        if most and unfinished >= most:
            raise RateLimited(
                f"Too many unfinished single sign-ons from this address: {unfinished} in ten minutes.",
                int(login_store.FINISH_WITHIN.total_seconds()),
            )


async def _require_own_credential(connection: AsyncConnection, caller: AuthenticatedCredential) -> None:
    """Raises Forbidden in a single sign-on session, because the provider's assertion does not prove the account.
    Accounts that have no other way to log in pass, unless they are owners.
    """
    if not caller.is_federated:
        return
    user = await user_store.get_user(connection, caller.principal_id)
    if caller.role is Role.OWNER or user.password_hash is not None:
        raise Forbidden("Log in with your password to link the account.")


async def _use_link_request(connection: AsyncConnection, request: web.Request, org_id: str, now: datetime) -> str:
    """The account that has asked, in this browser, to be linked. The secret is in a cookie and not in the address.
    Otherwise a stranger could send the address to a member, whose login would then be linked to the stranger's account.
    Raises BadRequest.
    """
    secret = browser.link_secret(request)
    found = None if secret is None else await login_store.use_link_request(connection, secret, org_id, now)
    if found is None:
        raise BadRequest(
            "This browser has not asked to link an account, or the request has expired. Repeat POST /auth/sso/links in "
            "this browser."
        )
    return found


def _required(value: str | None) -> str:
    """The value of a field without which no connection is enabled."""
    if value is None:
        raise ValueError("an enabled connection lacks a field")
    return value
