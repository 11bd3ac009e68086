"""Organizations that require single sign-on: who may log in with a password all the same.

One owner keeps a way in, should the provider fail (break glass): the one that the organization has named, as long as it
is an owner with a password, else the first such owner. Every function runs in the caller's transaction.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED
from chassis.auth.tables import memberships, organizations, principals, users
from chassis.errors import Forbidden
from control.identity.session_repository import Session
from proto.identity import Role

REQUIRED: Final = "This organization requires single sign-on."


class SsoRequired(Forbidden):
    """A password, however right, is no way into this organization."""

    def __init__(self) -> None:
        super().__init__(REQUIRED)


async def is_enforced(connection: AsyncConnection, org_id: str) -> bool:
    """Whether the organization requires single sign-on."""
    found = sa.select(organizations.c.sso_enforced).where(organizations.c.id == org_id)
    return bool(await connection.scalar(found))


async def blocks_user_tokens(connection: AsyncConnection, org_id: str) -> bool:
    """Whether access tokens of users do not work, because the organization requires single sign-on for these too."""
    found = sa.select(organizations.c.user_tokens_blocked).where(organizations.c.id == org_id)
    return bool(await connection.scalar(found))


async def find_break_glass(connection: AsyncConnection, org_id: str, *, besides: str = "") -> str | None:
    """The owner who may log in with a password, `besides` aside; None if no owner has one."""
    chosen = sa.select(organizations.c.break_glass_id).where(organizations.c.id == org_id).scalar_subquery()
    found = (
        sa.select(memberships.c.principal_id)
        .join(principals, principals.c.id == memberships.c.principal_id)
        .join(users, users.c.principal_id == memberships.c.principal_id)
        .where(
            memberships.c.org_id == org_id,
            memberships.c.role == Role.OWNER.value,
            memberships.c.principal_id != besides,
            principals.c.disabled_at.is_(None),
            users.c.password_hash.is_not(None),
        )
        .order_by(
            sa.case((memberships.c.principal_id == chosen, 0), else_=1),
            memberships.c.created_at,
            memberships.c.principal_id,
        )
        .limit(1)
    )
    owner: str | None = await connection.scalar(found)
    return owner


async def check_password_login(connection: AsyncConnection, org_id: str, user_id: str) -> bool:
    """Whether this login with a password is the one that enforcement leaves open. Raises SsoRequired."""
    if not await is_enforced(connection, org_id):
        return False
    if await find_break_glass(connection, org_id) != user_id:
        raise SsoRequired
    return True


async def permits(connection: AsyncConnection, session: Session) -> bool:
    """Whether a session may go on: one that a provider has vouched for, or that enforcement leaves open. Who keeps a
    way in may have changed since it began.
    """
    if FEDERATED in session.methods or not await is_enforced(connection, session.org_id):
        return True
    return await find_break_glass(connection, session.org_id) == session.principal_id
