"""`/orgs/{orgSlug}/sso/settings`: what the organization decides for all its connections."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.identity.bodies import PRINCIPAL_ID
from control.identity.members import member_store
from control.identity.sso import connection_repository, settings_repository
from control.identity.sso.connections import TAG, require_user
from control.identity.sso.schemas import ShownSettings, SsoSettings
from control.identity.sso.settings_repository import StoredSettings
from control.identity.users import user_store
from control.identity.users.session_store import find_break_glass, requires_sso
from proto.identity import Role, Scope

_CONTENT: Final = json_content(ShownSettings)
SHOW: Final = Operation("showSsoSettings", TAG, (ResponseSpec("The settings.", _CONTENT),))
PUT: Final = Operation(
    "putSsoSettings",
    TAG,
    (ResponseSpec("The settings.", _CONTENT),),
    body=Body(json_content(SsoSettings), example={"mfaTrust": "ALWAYS", "personalTokens": False}),
    error_statuses=(409,),
)


@dataclass(frozen=True, slots=True)
class SettingsHandlers:
    """Handlers of the settings, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        path = "/orgs/{orgSlug}/sso/settings"
        return [
            Route("GET", path, self.show, bearer(Scope.SSO_READ), operation=SHOW),
            Route("PUT", path, self.put, bearer(Scope.SSO_WRITE), operation=PUT),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show what the organization decides for all its connections."""
        async with self.context.database.read() as connection:
            return json_response(await _shown(connection, authorization_context(request).org_id))

    async def put(self, request: web.Request) -> web.StreamResponse:
        """Replace what the organization decides for all its connections.

        While single sign-on is enforced and `personalTokens` is false, access tokens that users hold get 401; those of
        agents and services work on. `breakGlassPrincipalId` must be an owner with a password (409). Only users may.
        """
        require_user(authorization_context(request))
        body = await self.context.read_body(request, SsoSettings)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            await _require_break_glass(connection, caller.org_id, body.break_glass_principal_id)
            settings = StoredSettings(body.mfa_trust, body.personal_tokens, body.break_glass_principal_id)
            await settings_repository.save(connection, caller.org_id, settings, datetime.now(UTC))
            data = {
                "mfaTrust": body.mfa_trust.value,
                "personalTokens": body.personal_tokens,
                "breakGlassPrincipalId": body.break_glass_principal_id or "",
            }
            await record(connection, caller, "sso.settings.update", caller.org_id, data, request_id(request))
            shown = await _shown(connection, caller.org_id)
        self.context.guards.invalidate_bearers(caller.org_id)
        return json_response(shown)


async def _require_break_glass(connection: AsyncConnection, org_id: str, principal_id: str | None) -> None:
    """Raises Conflict for whoever could not log in with a password."""
    if principal_id is None:
        return
    is_id = PRINCIPAL_ID.fullmatch(principal_id) is not None  # a body may hold characters that no database column takes
    member = await member_store.find_member(connection, org_id, principal_id) if is_id else None
    user = None if member is None else await user_store.find_user(connection, principal_id)
    if member is None or member.role is not Role.OWNER or user is None or user.password_hash is None:
        raise Conflict("breakGlassPrincipalId must be an owner of the organization who has a password.")


async def _shown(connection: AsyncConnection, org_id: str) -> ShownSettings:
    settings = await settings_repository.load(connection, org_id)
    found = await connection_repository.list_connections(connection, org_id)
    return ShownSettings(
        mfa_trust=settings.mfa_trust,
        personal_tokens=settings.personal_tokens,
        break_glass_principal_id=settings.break_glass_id,
        enforced=await requires_sso(connection, org_id),
        effective_break_glass_principal_id=await find_break_glass(connection, org_id),
        tested_protocols=[each.protocol for each in found if each.tested_at is not None],
        confirmed_by_owner=[each.protocol for each in found if each.confirmed_by_owner],
    )
