"""`POST /auth/switch`: a session of one organization becomes one of another that the account is a member of."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED, SECOND_FACTORS
from chassis.errors import Forbidden, MfaRequired, Unauthorized
from chassis.http.access import anonymous
from chassis.http.declaration import declared_routes, route
from chassis.http.operation import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, Route
from chassis.limits.limiter import LimitClass
from control.http.field_types import Slug
from control.identity.bodies import AUTH, InCookie, SecretInput
from control.identity.login.api import (
    Logins,
    given_refresh_token,
    record_session_audit,
    select_organization,
    try_refresh,
)
from control.identity.login.credentials import SessionMaterial, session_response
from control.identity.users import session_store, user_store
from control.identity.users.session_store import IssuedSession, Session
from control.identity.users.user_store import User
from control.routing.arguments import control_arguments

FEDERATED_ELSEWHERE: Final = (
    "A session through an identity provider is valid in the organization of that provider only. Log in to the other "
    "organization."
)


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The organization to go on in, and the refresh token of the session; or `cookie`, which has it."""

    org_slug: Slug
    refresh_token: SecretInput | None = None
    cookie: InCookie = False


SWITCHED: Final = ResponseSpec("The session in the other organization.", json_content(SessionMaterial))


@dataclass(frozen=True, slots=True)
class OrganizationSwitch:
    """The handler, and its dependencies."""

    logins: Logins

    def routes(self) -> list[Route]:
        """The route of this resource."""
        arguments = control_arguments(self.logins.context)
        return declared_routes(self, AUTH, replace(arguments, read_body=self.logins.read_body))

    @route("POST", "/auth/switch", anonymous(), errors=(401, 403), responses=(SWITCHED,))
    async def switch_organization(self, body: Switch, request: web.Request) -> web.StreamResponse:
        """Go on in another organization.

        For a member of both. Consumes the refresh token as `/auth/refresh` does, ends the session and starts another
        one, which ends no later. The rules of a login hold: 401 `mfa_required` while the second factor is pending; 403
        if the other organization requires single sign-on, and for a session through an identity provider, which says
        nothing in another organization. After a refusal the session goes on, and its refresh token is still good.
        """
        refresh_token = given_refresh_token(request, body.refresh_token, in_cookie=body.cookie)
        issuer, guards = self.logins.issuer, self.logins.context.guards
        await issuer.ensure_key_published()
        await self._check_rate(request, refresh_token)
        session, switched = await self._switch(request, refresh_token, body.org_slug)
        if session is not None:
            guards.invalidate_sessions(session.principal_id)
        if switched is None:
            if refresh_token or not body.cookie:  # a browser that has never logged in has no cookie
                await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized("The refresh token is not valid.")
        return session_response(issuer.issue(*switched), in_cookie=body.cookie)

    async def _check_rate(self, request: web.Request, refresh_token: str) -> None:
        """Raises RateLimited. By user, because every switch makes another session."""
        async with self.logins.context.database.read() as connection:
            session = await session_store.find_by_token(connection, refresh_token)
        if session is not None:
            await request.app[RATE_LIMITS].take(request, LimitClass.REFRESH, session.principal_id)

    async def _switch(
        self, request: web.Request, refresh_token: str, org_slug: str
    ) -> tuple[Session | None, tuple[IssuedSession, User] | None]:
        """The session that has ended, and its successor; None, if the refresh token is not valid. Nothing is written
        when this raises.
        """
        now = datetime.now(UTC)
        async with self.logins.context.database.write() as connection:
            issued, invalid, reason = await try_refresh(connection, refresh_token, now)
            if issued is not None:
                return issued.session, await _go_on(connection, request, issued.session, org_slug, now)
            if invalid is not None:
                await self.logins.end_session(connection, request, invalid, reason)
            return invalid, None


async def _go_on(
    connection: AsyncConnection, request: web.Request, session: Session, org_slug: str, now: datetime
) -> tuple[IssuedSession, User]:
    """The session in the other organization. Raises Forbidden, MfaRequired."""
    if FEDERATED in session.methods:
        raise Forbidden(FEDERATED_ELSEWHERE)
    user = await user_store.get_user(connection, session.principal_id)
    if user.has_factor and SECOND_FACTORS.isdisjoint(session.methods):
        raise MfaRequired
    org_id = await select_organization(connection, user, org_slug, naming=False)
    break_glass = await session_store.check_password_login(connection, org_id, user.id)
    moved = await session_store.move(connection, session.id, org_id, now)
    await record_session_audit(connection, request, session, "session.end", {"reason": "switch"})
    data: dict[str, Any] = {"methods": list(session.methods), "switched": True}
    await record_session_audit(
        connection, request, moved.session, "session.start", data | ({"breakGlass": True} if break_glass else {})
    )
    return moved, user
