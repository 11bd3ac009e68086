"""`POST /auth/sso/links`: an account asks to be linked to a user of the provider. It proves itself by its session."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.db.database import format_time
from chassis.errors import Conflict, Forbidden
from chassis.http.access import session
from chassis.http.operation import Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.identity.sso import browser, connection_repository, login_repository
from control.identity.sso.browser import NO_STORE
from control.identity.sso.connections import TAG
from control.identity.sso.urls import SsoUrls
from control.identity.users import user_store
from proto.identity import PrincipalKind, Role


class AccountLink(msgspec.Struct, frozen=True, rename="camel"):
    """Where to begin the login that links the account, in the browser that has the cookie of this response."""

    start_urls: Annotated[dict[str, str], Meta(description="By protocol, of the connections that are enabled.")]
    expires_at: Timestamp


CREATE: Final = Operation(
    "linkSsoAccount",
    TAG,
    (ResponseSpec("Where to begin.", json_content(AccountLink), 201),),
    error_statuses=(409,),
)


@dataclass(frozen=True, slots=True)
class Links:
    """Handlers of links, and their dependencies."""

    context: HandlerContext
    urls: SsoUrls

    def routes(self) -> list[Route]:
        """The route of this resource."""
        return [Route("POST", "/auth/sso/links", self.create, session(), operation=CREATE)]

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Link the account of this session to a user of the organization's identity provider.

        The browser gets a cookie; the next login that it begins at one of `startUrls` within ten minutes links
        whoever the provider vouches for to this account. 403 in a session of single sign-on, if the account is an owner
        or has a password: it has to log in with that. 409 without an enabled connection.
        """
        async with self.context.session_transaction(request) as (connection, caller):
            await _require_own_credential(connection, caller)
            found = await connection_repository.list_connections(connection, caller.org_id)
            enabled = [each for each in found if each.enabled]
            if not enabled:
                raise Conflict("The organization has no enabled connection to an identity provider.")
            secret, now = browser.new_secret(), datetime.now(UTC)
            expires_at = await login_repository.request_link(
                connection, secret, caller.org_id, caller.principal_id, caller.token_id, now
            )
            actor = Actor(caller.org_id, caller.principal_id, PrincipalKind.USER, token_id=caller.token_id)
            await record(connection, actor, "sso.link_request", caller.principal_id, {}, request_id(request))
        body = AccountLink(
            {each.protocol.value: f"{self.urls.start(each.protocol, caller.org_slug)}?link=true" for each in enabled},
            format_time(expires_at),
        )
        response = json_response(body, status=201, headers=NO_STORE)
        browser.set_link_secret(response, secret)
        return response


async def _require_own_credential(connection: AsyncConnection, caller: AuthenticatedCredential) -> None:
    """Raises Forbidden in a session that a provider has vouched for: its word for an account is no proof of the
    account. Accounts that only a provider has ever vouched for have no other; they pass, unless they are owners.
    """
    if not caller.is_federated:
        return
    user = await user_store.get_user(connection, caller.principal_id)
    if caller.role is Role.OWNER or user.password_hash is not None:
        raise Forbidden("Log in with your password to link the account.")
