"""Invitations: the holder of one may become a member, once and until it expires.

Every function runs in the caller's transaction. The secret is returned once; the database holds its SHA-256.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id, new_invitation
from chassis.auth.membership_status import any_disabled, common_scopes, load_membership_statuses
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import invitations, memberships, organizations, users
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, Forbidden
from control.identity.organizations.revocation import is_open_invitation, issuing_token
from proto.identity import (
    INVITATION_PREFIX,
    ROLE_SCOPES,
    PrincipalKind,
    Role,
    hash_secret,
    is_token,
    normalize_email,
)

LIFETIME: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class StoredInvitation:
    """An invitation. It is open until `expires_at`, unless `accepted_at` or `revoked_at` is set. `mailed`: its secret
    was sent to the address and shown to nobody, so whoever presents it has the mailbox.
    """

    id: str
    org_id: str
    email: str
    role: Role
    created_by: str
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    revoked_at: datetime | None
    mailed: bool


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """An invitation and, only here, its secret. `replaced`: ids of the invitations that it replaces."""

    invitation: StoredInvitation
    secret: str = field(repr=False)
    replaced: tuple[str, ...] = ()


def require_can_invite(by: AuthorizationContext) -> None:
    """Raises Forbidden unless `by` is a user acting for itself. Otherwise an agent could invite a user who then
    approves the agent's own requests.
    """
    if by.kind is not PrincipalKind.USER or by.on_behalf_of is not None:
        raise Forbidden(
            "Only users can invite members: not agents, services, or tokens that act on behalf of another principal."
        )


async def invite(
    connection: AsyncConnection, by: AuthorizationContext, email: str, role: Role, *, mailed: bool
) -> IssuedInvitation:
    """Create an invitation; open ones to the same address are revoked. With `mailed` the caller sends the secret to the
    address, and shows it to nobody.
    """
    now = to_milliseconds(datetime.now(UTC))
    address = normalize_email(email)
    same_address = (invitations.c.org_id == by.org_id) & (invitations.c.email == address) & is_open_invitation(now)
    replaced = tuple((await connection.execute(sa.select(invitations.c.id).where(same_address))).scalars())
    await connection.execute(invitations.update().where(same_address).values(revoked_at=now))
    invitation = StoredInvitation(
        id=new_id("inv"),
        org_id=by.org_id,
        email=address,
        role=role,
        created_by=by.principal_id,
        created_at=now,
        expires_at=now + LIFETIME,
        accepted_at=None,
        revoked_at=None,
        mailed=mailed,
    )
    secret = new_invitation()
    token = await issuing_token(connection, by)
    row = {name: getattr(invitation, name) for name in StoredInvitation.__slots__} | {"role": role.value}
    row["minted_with"] = None if token is None else token.id
    await connection.execute(invitations.insert().values(**row, hash=hash_secret(secret)))
    return IssuedInvitation(invitation, secret, replaced)


async def is_member(connection: AsyncConnection, org_id: str, email: str) -> bool:
    """Whether the organization has a user with this address."""
    found = (
        sa.select(users.c.principal_id)
        .join_from(users, memberships, memberships.c.principal_id == users.c.principal_id)
        .where(users.c.email == normalize_email(email), memberships.c.org_id == org_id)
    )
    return await connection.scalar(found) is not None


async def require_no_member(connection: AsyncConnection, org_id: str, email: str) -> None:
    """Raises Conflict if a user of the organization has this address: at most one has."""
    if await is_member(connection, org_id, email):
        raise Conflict("The organization already has a member with this e-mail address.")


async def list_invitations(
    connection: AsyncConnection, org_id: str, before_id: str | None, limit: int
) -> list[StoredInvitation]:
    """At most `limit` invitations, newest first, starting with the first one older than `before_id`."""
    page = sa.select(invitations).where(invitations.c.org_id == org_id).order_by(invitations.c.id.desc())
    if before_id is not None:
        page = page.where(invitations.c.id < before_id)
    return [_invitation(row) for row in (await connection.execute(page.limit(limit))).mappings()]


async def revoke(connection: AsyncConnection, org_id: str, invitation_id: str) -> bool | None:
    """Revoke an invitation. False when it was revoked or accepted before; None when there is none with this id."""
    where = (invitations.c.org_id == org_id) & (invitations.c.id == invitation_id)
    now = to_milliseconds(datetime.now(UTC))
    unused = invitations.c.revoked_at.is_(None) & invitations.c.accepted_at.is_(None)
    revoked = await connection.execute(invitations.update().where(where, unused).values(revoked_at=now))
    if revoked.rowcount == 1:
        return True
    return None if await connection.scalar(sa.select(invitations.c.id).where(where)) is None else False


async def revoke_addressed(
    connection: AsyncConnection, org_id: str, emails: Collection[str], now: datetime
) -> list[str]:
    """Revoke the open invitations to these addresses; their ids."""
    now = to_milliseconds(now)
    addresses = [normalize_email(email) for email in emails]
    where = (invitations.c.org_id == org_id) & invitations.c.email.in_(addresses) & is_open_invitation(now)
    found = (await connection.scalars(sa.select(invitations.c.id).where(where).order_by(invitations.c.id))).all()
    await connection.execute(invitations.update().where(where).values(revoked_at=now))
    return list(found)


async def find_open(connection: AsyncConnection, secret: str, now: datetime) -> StoredInvitation | None:
    """The invitation with this secret, if it can be accepted: it is open, and its inviter may still grant its role."""
    if not is_token(secret, INVITATION_PREFIX):
        return None
    found = (
        sa.select(invitations)
        .join_from(invitations, organizations, organizations.c.id == invitations.c.org_id)
        .where(invitations.c.hash == hash_secret(secret), is_open_invitation(now), organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(found)).mappings().one_or_none()
    invitation = None if row is None else _invitation(row)
    return invitation if invitation is not None and await _inviter_still_entitled(connection, invitation) else None


async def accept(connection: AsyncConnection, invitation_id: str, principal_id: str, now: datetime) -> bool:
    """Accept the invitation, once; False when it is no longer open."""
    accepted = (
        invitations.update()
        .where(invitations.c.id == invitation_id, is_open_invitation(now))
        .values(accepted_at=to_milliseconds(now), accepted_by=principal_id)
    )
    return (await connection.execute(accepted)).rowcount == 1


async def _inviter_still_entitled(connection: AsyncConnection, invitation: StoredInvitation) -> bool:
    found = await load_membership_statuses(connection, invitation.org_id, [invitation.created_by])
    scopes, inviter = common_scopes(found, None), found[invitation.created_by]
    if scopes is None or any_disabled(found) or inviter.kind is not PrincipalKind.USER:
        return False
    return ROLE_SCOPES[invitation.role] <= scopes and (invitation.role is not Role.OWNER or inviter.role is Role.OWNER)


def _invitation(row: sa.RowMapping) -> StoredInvitation:
    return StoredInvitation(**{name: row[name] for name in StoredInvitation.__slots__} | {"role": Role(row["role"])})
