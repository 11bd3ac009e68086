"""`/orgs/{orgSlug}/sso/settings`: what the organization decides for all its connections."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict
from chassis.http.access import bearer
from chassis.http.declaration import route
from control.http.context import HandlerContext
from control.identity import member_repository, user_repository
from control.identity.enforcement import find_break_glass, is_enforced
from control.identity.schemas import PRINCIPAL_ID
from control.identity.sso import connection_store, settings_repository
from control.identity.sso.settings_repository import SsoSettings
from control.identity.sso.tables import Protocol
from control.routing.arguments import Transaction
from proto.identity import Role, Scope

PATH: Final = "/orgs/{orgSlug}/sso/settings"


class ShownSettings(SsoSettings, frozen=True, rename="camel", kw_only=True):
    """The settings, and what follows from them."""

    enforced: Annotated[bool, Meta(description="Whether a connection is enforced.")]
    effective_break_glass_principal_id: Annotated[
        str | None, Meta(description="Who may log in with a password now, if single sign-on is enforced.")
    ]
    tested_protocols: Annotated[
        list[Protocol], Meta(description="Connections through which a login to the present provider succeeded.")
    ]
    confirmed_by_owner: Annotated[
        list[Protocol],
        Meta(description="Connections whose provider and certificates an owner has confirmed: owners may log in."),
    ]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Handlers of the options of all connections, and their dependencies."""

    context: HandlerContext

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def show_sso_settings(self, caller: AuthorizationContext, connection: AsyncConnection) -> ShownSettings:
        """Show what the organization decides for all its connections."""
        return await _shown(connection, caller.org_id)

    @route("PUT", PATH, bearer(Scope.SSO_WRITE), errors=(409,), example={"mfaTrust": "ALWAYS", "personalTokens": False})
    async def put_sso_settings(self, body: SsoSettings, transaction: Transaction) -> ShownSettings:
        """Replace what the organization decides for all its connections.

        While single sign-on is enforced and `personalTokens` is false, access tokens that users hold get 401; those of
        agents and services work on. `breakGlassPrincipalId` must be an owner with a password (409). Only users may.
        """
        connection, org_id = transaction.connection, transaction.caller.org_id
        await _require_break_glass(connection, org_id, body.break_glass_principal_id)
        await settings_repository.save(connection, org_id, body, datetime.now(UTC))
        data = {
            "mfaTrust": body.mfa_trust.value,
            "personalTokens": body.personal_tokens,
            "breakGlassPrincipalId": body.break_glass_principal_id or "",
        }
        await transaction.record("sso.settings.update", org_id, data)
        transaction.after_commit(self.context.guards.invalidate_bearers, org_id)
        return await _shown(connection, org_id)


async def _require_break_glass(connection: AsyncConnection, org_id: str, principal_id: str | None) -> None:
    """Raises Conflict for whoever could not log in with a password."""
    if principal_id is None:
        return
    is_id = PRINCIPAL_ID.fullmatch(principal_id) is not None  # a body may hold characters that no database column takes
    member = await member_repository.find_member(connection, org_id, principal_id) if is_id else None
    user = None if member is None else await user_repository.find_user(connection, principal_id)
    if member is None or member.role is not Role.OWNER or user is None or user.password_hash is None:
        raise Conflict("breakGlassPrincipalId must be an owner of the organization who has a password.")


async def _shown(connection: AsyncConnection, org_id: str) -> ShownSettings:
    found = await connection_store.list_connections(connection, org_id)
    return ShownSettings(
        **msgspec.structs.asdict(await settings_repository.load(connection, org_id)),
        enforced=await is_enforced(connection, org_id),
        effective_break_glass_principal_id=await find_break_glass(connection, org_id),
        tested_protocols=[each.protocol for each in found if each.tested_at is not None],
        confirmed_by_owner=[each.protocol for each in found if each.confirmed_by_owner],
    )
