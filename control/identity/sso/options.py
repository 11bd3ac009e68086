"""`/orgs/{orgSlug}/sso/settings`: the organization's settings for all its connections, and the enforcement of single
sign-on, which follows from the settings and the connections.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import organizations, sessions
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.http.access import bearer
from chassis.http.declaration import route
from control.identity.bodies import PRINCIPAL_ID
from control.identity.members import member_store
from control.identity.sso import connection_store
from control.identity.sso.tables import MfaTrust, Protocol, sso_connections, sso_identities, sso_settings
from control.identity.users import user_store
from control.identity.users.session_store import find_break_glass, requires_sso
from control.routing.arguments import Handlers, Transaction
from proto.identity import Role, Scope

MFA: Final = "mfa"  # RFC 8176


class SsoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The organization's settings for all its connections."""

    mfa_trust: Annotated[
        MfaTrust,
        Meta(
            description="For users who have a second factor in Sluice: whether a login through a provider counts as a "
            "login with a second factor. NEVER, ASSERTED (if the provider asserts a second factor), or ALWAYS."
        ),
    ] = MfaTrust.ASSERTED
    personal_tokens: Annotated[
        bool, Meta(description="Whether personal access tokens of users work while single sign-on is enforced.")
    ] = True
    break_glass_principal_id: Annotated[
        Annotated[str, Meta(max_length=32)] | None,
        Meta(
            description="The owner who may log in with a password while single sign-on is enforced. Null: the first "
            "owner with a password.",
        ),
    ] = None


async def load_options(connection: AsyncConnection, org_id: str) -> SsoSettings:
    """The settings of the organization."""
    statement = (
        sa.select(sso_settings.c.mfa_trust, sso_settings.c.personal_tokens, organizations.c.break_glass_id)
        .select_from(organizations.outerjoin(sso_settings, sso_settings.c.org_id == organizations.c.id))
        .where(organizations.c.id == org_id)
    )
    row = (await connection.execute(statement)).one()
    if row.mfa_trust is None:
        return SsoSettings(break_glass_principal_id=row.break_glass_id)
    return SsoSettings(MfaTrust(row.mfa_trust), row.personal_tokens, row.break_glass_id)


async def save_options(connection: AsyncConnection, org_id: str, settings: SsoSettings, now: datetime) -> None:
    """Store the settings, and apply them."""
    values: dict[str, Any] = {
        "mfa_trust": settings.mfa_trust.value,
        "personal_tokens": settings.personal_tokens,
        "updated_at": to_milliseconds(now),
    }
    changed = await connection.execute(sso_settings.update().where(sso_settings.c.org_id == org_id).values(values))
    if not changed.rowcount:
        await connection.execute(sso_settings.insert().values(org_id=org_id, **values))
    named = organizations.update().where(organizations.c.id == org_id)
    await connection.execute(named.values(break_glass_id=settings.break_glass_principal_id))
    await update_enforcement(connection, org_id, now)


async def update_enforcement(connection: AsyncConnection, org_id: str, now: datetime) -> None:
    """Update the enforcement after a change of the settings or of a connection. The organization requires single
    sign-on while one of its connections is enforced. Sessions that began with a password then end, except for the one
    owner whose password is still accepted.
    """
    enforced = await connection.scalar(
        sa.select(sso_connections.c.id).where(sso_connections.c.org_id == org_id, sso_connections.c.enforced).limit(1)
    )
    settings = await load_options(connection, org_id)
    values = {
        "sso_enforced": enforced is not None,
        "user_tokens_blocked": enforced is not None and not settings.personal_tokens,
    }
    await connection.execute(organizations.update().where(organizations.c.id == org_id).values(values))
    if enforced is not None:
        break_glass_id = await find_break_glass(connection, org_id)  # None matches no session, so all others end
        await _end(connection, org_id, ~_is_federated() & (sessions.c.principal_id != break_glass_id), now)


async def end_federated_sessions(connection: AsyncConnection, org_id: str, connection_id: str, now: datetime) -> None:
    """End the single sign-on sessions of the users who are linked by this connection. Call before they are unlinked."""
    linked = sa.select(sso_identities.c.principal_id).where(sso_identities.c.connection_id == connection_id)
    await _end(connection, org_id, _is_federated() & sessions.c.principal_id.in_(linked), now)


async def end_federated_sessions_of(connection: AsyncConnection, org_id: str, principal_id: str, now: datetime) -> None:
    """End the single sign-on sessions of one user."""
    await _end(connection, org_id, _is_federated() & (sessions.c.principal_id == principal_id), now)


async def _end(connection: AsyncConnection, org_id: str, which: sa.ColumnElement[bool], now: datetime) -> None:
    live = (sessions.c.org_id == org_id) & sessions.c.revoked_at.is_(None) & which
    await connection.execute(sessions.update().where(live).values(revoked_at=to_milliseconds(now)))


def _is_federated() -> sa.ColumnElement[bool]:
    return sa.cast(sessions.c.methods, sa.Text).contains(f'"{FEDERATED}"')


PATH: Final = "/orgs/{orgSlug}/sso/settings"


class ShownSettings(SsoSettings, frozen=True, rename="camel", kw_only=True):
    """The settings, and their effect."""

    enforced: Annotated[bool, Meta(description="Whether the organization enforces single sign-on.")]
    effective_break_glass_principal_id: Annotated[
        str | None,
        Meta(
            description="The owner who can log in with a password if single sign-on is enforced: "
            "`breakGlassPrincipalId`, or the first owner with a password."
        ),
    ]
    tested_protocols: Annotated[
        list[Protocol],
        Meta(description="Protocols of the connections through which a login at the current provider has succeeded."),
    ]
    confirmed_by_owner: Annotated[
        list[Protocol],
        Meta(
            description="Protocols of the connections whose provider and certificates an owner has confirmed. Owners "
            "can log in through these connections."
        ),
    ]


class ConnectionOptions(Handlers):
    """Handlers of the options of all connections, and their dependencies."""

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def show_sso_settings(self, caller: AuthorizationContext, connection: AsyncConnection) -> ShownSettings:
        """Show the organization's settings for all its connections."""
        return await _shown(connection, caller.org_id)

    @route("PUT", PATH, bearer(Scope.SSO_WRITE), errors=(409,), example={"mfaTrust": "ALWAYS", "personalTokens": False})
    async def put_sso_settings(self, body: SsoSettings, transaction: Transaction) -> ShownSettings:
        """Replace the organization's settings for all its connections.

        While single sign-on is enforced and `personalTokens` is false, access tokens of users get 401. Access tokens of
        agents and services continue to work. `breakGlassPrincipalId` must be an owner with a password (409). Only users
        may change the settings.
        """
        connection, org_id = transaction.connection, transaction.caller.org_id
        await _require_break_glass(connection, org_id, body.break_glass_principal_id)
        await save_options(connection, org_id, body, datetime.now(UTC))
        data = {
            "mfaTrust": body.mfa_trust.value,
            "personalTokens": body.personal_tokens,
            "breakGlassPrincipalId": body.break_glass_principal_id or "",
        }
        await transaction.record("sso.settings.update", org_id, data)
        transaction.after_commit(self.context.guards.invalidate_bearers, org_id)
        return await _shown(connection, org_id)


async def _require_break_glass(connection: AsyncConnection, org_id: str, principal_id: str | None) -> None:
    """Raises Conflict for a principal who cannot log in with a password."""
    if principal_id is None:
        return
    is_id = PRINCIPAL_ID.fullmatch(principal_id) is not None  # a body may hold characters that no database column takes
    member = await member_store.find_member(connection, org_id, principal_id) if is_id else None
    user = None if member is None else await user_store.find_user(connection, principal_id)
    if member is None or member.role is not Role.OWNER or user is None or user.password_hash is None:
        raise Conflict("breakGlassPrincipalId must be an owner of the organization who has a password.")


async def _shown(connection: AsyncConnection, org_id: str) -> ShownSettings:
    found = await connection_store.list_connections(connection, org_id)
    return ShownSettings(
        **msgspec.structs.asdict(await load_options(connection, org_id)),
        enforced=await requires_sso(connection, org_id),
        effective_break_glass_principal_id=await find_break_glass(connection, org_id),
        tested_protocols=[each.protocol for each in found if each.tested_at is not None],
        confirmed_by_owner=[each.protocol for each in found if each.confirmed_by_owner],
    )
