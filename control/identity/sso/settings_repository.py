"""What an organization decides for all its connections, and the enforcement that follows from it and from them. Every
function runs in the caller's transaction.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED
from chassis.auth.tables import organizations, sessions
from chassis.db.database import to_milliseconds
from control.identity.sso.tables import MfaTrust, sso_connections, sso_identities, sso_settings
from control.identity.users.session_store import find_break_glass

MFA: Final = "mfa"  # RFC 8176


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """`personal_tokens`: whether access tokens of users work while single sign-on is enforced. `break_glass_id`: the
    owner that was named, None: the first one.
    """

    mfa_trust: MfaTrust = MfaTrust.ASSERTED
    personal_tokens: bool = True
    break_glass_id: str | None = None


async def load(connection: AsyncConnection, org_id: str) -> StoredSettings:
    """The settings of the organization."""
    found = (
        sa.select(sso_settings.c.mfa_trust, sso_settings.c.personal_tokens, organizations.c.break_glass_id)
        .select_from(organizations.outerjoin(sso_settings, sso_settings.c.org_id == organizations.c.id))
        .where(organizations.c.id == org_id)
    )
    row = (await connection.execute(found)).one()
    if row.mfa_trust is None:
        return StoredSettings(break_glass_id=row.break_glass_id)
    return StoredSettings(MfaTrust(row.mfa_trust), row.personal_tokens, row.break_glass_id)


async def save(connection: AsyncConnection, org_id: str, settings: StoredSettings, now: datetime) -> None:
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
    await connection.execute(named.values(break_glass_id=settings.break_glass_id))
    await apply_enforcement(connection, org_id, now)


async def apply_enforcement(connection: AsyncConnection, org_id: str, now: datetime) -> None:
    """Call after a change of the settings or of a connection: the organization requires single sign-on while one of its
    connections does. Sessions that a password began end, but those of the owner who keeps a way in.
    """
    enforced = await connection.scalar(
        sa.select(sso_connections.c.id).where(sso_connections.c.org_id == org_id, sso_connections.c.enforced).limit(1)
    )
    settings = await load(connection, org_id)
    values = {
        "sso_enforced": enforced is not None,
        "user_tokens_blocked": enforced is not None and not settings.personal_tokens,
    }
    await connection.execute(organizations.update().where(organizations.c.id == org_id).values(values))
    if enforced is not None:
        await _end_password_sessions(connection, org_id, await find_break_glass(connection, org_id), now)


async def end_federated_sessions(connection: AsyncConnection, org_id: str, connection_id: str, now: datetime) -> None:
    """End the sessions that a provider has vouched for, of the users who are linked by this connection. Call before
    they are unlinked.
    """
    linked = sa.select(sso_identities.c.principal_id).where(sso_identities.c.connection_id == connection_id)
    await _end(connection, org_id, _is_federated() & sessions.c.principal_id.in_(linked), now)


async def end_federated_sessions_of(connection: AsyncConnection, org_id: str, principal_id: str, now: datetime) -> None:
    """End the sessions of one user that a provider has vouched for."""
    await _end(connection, org_id, _is_federated() & (sessions.c.principal_id == principal_id), now)


async def _end_password_sessions(
    connection: AsyncConnection, org_id: str, break_glass_id: str | None, now: datetime
) -> None:
    others = ~_is_federated()
    if break_glass_id is not None:
        others &= sessions.c.principal_id != break_glass_id
    await _end(connection, org_id, others, now)


async def _end(connection: AsyncConnection, org_id: str, which: sa.ColumnElement[bool], now: datetime) -> None:
    live = (sessions.c.org_id == org_id) & sessions.c.revoked_at.is_(None) & which
    await connection.execute(sessions.update().where(live).values(revoked_at=to_milliseconds(now)))


def _is_federated() -> sa.ColumnElement[bool]:
    return sa.cast(sessions.c.methods, sa.Text).contains(f'"{FEDERATED}"')
