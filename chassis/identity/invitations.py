"""Invitations: whoever holds one may become a member, once and until it expires.

Every function works within the transaction of its caller. The secret is returned once; the store holds its SHA-256.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.minting import new_id, new_invitation
from chassis.identity.tables import invitations, memberships, users
from chassis.relational import to_milliseconds
from proto.identity import INVITATION_PREFIX, Role, hash_secret, is_token, normal_email

LIFETIME: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Invitation:
    """`accepted_at` or `revoked_at`, when it is one of these; else it is open until `expires_at`."""

    id: str
    org_id: str
    email: str
    role: Role
    created_by: str | None
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """An invitation and, this once, its secret."""

    invitation: Invitation
    secret: str = field(repr=False)


async def invite(connection: AsyncConnection, org_id: str, email: str, role: Role, created_by: str) -> NewInvitation:
    """An invitation in the place of open ones to the same address."""
    now = to_milliseconds(datetime.now(UTC))
    address = normal_email(email)
    earlier = (invitations.c.org_id == org_id) & (invitations.c.email == address) & _open(now)
    await connection.execute(invitations.update().where(earlier).values(revoked_at=now))
    made = Invitation(new_id("inv"), org_id, address, role, created_by, now, now + LIFETIME, None, None)
    secret = new_invitation()
    row = {name: getattr(made, name) for name in Invitation.__slots__} | {"role": role.value}
    await connection.execute(invitations.insert().values(**row, hash=hash_secret(secret)))
    return NewInvitation(made, secret)


async def is_member(connection: AsyncConnection, org_id: str, email: str) -> bool:
    """Whether the organization has a user with this address."""
    found = (
        sa.select(users.c.principal_id)
        .join_from(users, memberships, memberships.c.principal_id == users.c.principal_id)
        .where(users.c.email == normal_email(email), memberships.c.org_id == org_id)
    )
    return await connection.scalar(found) is not None


async def list_invitations(
    connection: AsyncConnection, org_id: str, before_id: str | None, limit: int
) -> list[Invitation]:
    """At most `limit`, newest first, from the first older than `before_id`."""
    page = sa.select(invitations).where(invitations.c.org_id == org_id).order_by(invitations.c.id.desc())
    if before_id is not None:
        page = page.where(invitations.c.id < before_id)
    return [_invitation(row) for row in (await connection.execute(page.limit(limit))).mappings()]


async def revoke(connection: AsyncConnection, org_id: str, invitation_id: str) -> bool:
    """It can be accepted no more; again changes nothing. False when there is no such invitation."""
    where = (invitations.c.org_id == org_id) & (invitations.c.id == invitation_id)
    now = to_milliseconds(datetime.now(UTC))
    unused = invitations.c.revoked_at.is_(None) & invitations.c.accepted_at.is_(None)
    await connection.execute(invitations.update().where(where, unused).values(revoked_at=now))
    return await connection.scalar(sa.select(invitations.c.id).where(where)) is not None


async def find_open(connection: AsyncConnection, secret: str, now: datetime) -> Invitation | None:
    """The invitation with this secret, when it can be accepted."""
    if not is_token(secret, INVITATION_PREFIX):
        return None
    found = sa.select(invitations).where(invitations.c.hash == hash_secret(secret), _open(now))
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _invitation(row)


async def accept(connection: AsyncConnection, invitation_id: str, principal_id: str, now: datetime) -> bool:
    """Once; False when it cannot be any more."""
    spent = (
        invitations.update()
        .where(invitations.c.id == invitation_id, _open(now))
        .values(accepted_at=to_milliseconds(now), accepted_by=principal_id)
    )
    return (await connection.execute(spent)).rowcount == 1


def _open(now: datetime) -> sa.ColumnElement[bool]:
    unused = invitations.c.accepted_at.is_(None) & invitations.c.revoked_at.is_(None)
    return unused & (invitations.c.expires_at > now)


def _invitation(row: sa.RowMapping) -> Invitation:
    return Invitation(**{name: row[name] for name in Invitation.__slots__} | {"role": Role(row["role"])})
