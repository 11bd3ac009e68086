"""Which account a subject of a provider is: (connection, subject), never the e-mail address. Every function runs in the
caller's transaction.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import memberships
from chassis.db.database import to_milliseconds
from control.identity.sso.tables import sso_identities
from proto.identity import Role


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """A subject of a connection, and its account."""

    id: str
    connection_id: str
    org_id: str
    subject: str
    principal_id: str
    email: str
    created_at: datetime
    last_login_at: datetime


_IDENTITIES = sa.select(*(sso_identities.c[name] for name in StoredIdentity.__slots__))


async def find(connection: AsyncConnection, connection_id: str, subject: str) -> StoredIdentity | None:
    """The identity of a subject."""
    where = (sso_identities.c.connection_id == connection_id) & (sso_identities.c.subject_hash == _hash(subject))
    return await _load(connection, where)


async def find_by_id(connection: AsyncConnection, identity_id: str) -> StoredIdentity | None:
    """The identity with this id."""
    return await _load(connection, sso_identities.c.id == identity_id)


async def find_of_account(connection: AsyncConnection, connection_id: str, principal_id: str) -> StoredIdentity | None:
    """The identity of an account, which has at most one in a connection."""
    where = (sso_identities.c.connection_id == connection_id) & (sso_identities.c.principal_id == principal_id)
    return await _load(connection, where)


async def links_owner(connection: AsyncConnection, connection_id: str) -> bool:
    """Whether a subject of the connection is an owner."""
    found = (
        sa.select(sso_identities.c.id)
        .join(
            memberships,
            (memberships.c.org_id == sso_identities.c.org_id)
            & (memberships.c.principal_id == sso_identities.c.principal_id),
        )
        .where(sso_identities.c.connection_id == connection_id, memberships.c.role == Role.OWNER.value)
        .limit(1)
    )
    return await connection.scalar(found) is not None


async def list_identities(connection: AsyncConnection, org_id: str, after_id: str, limit: int) -> list[StoredIdentity]:
    """At most `limit` identities of the organization, by id, starting after `after_id`."""
    page = _IDENTITIES.where(sso_identities.c.org_id == org_id, sso_identities.c.id > after_id)
    rows = await connection.execute(page.order_by(sso_identities.c.id).limit(limit))
    return [StoredIdentity(**row) for row in rows.mappings()]


async def create(
    connection: AsyncConnection,
    connection_id: str,
    org_id: str,
    subject: str,
    principal_id: str,
    email: str,
    now: datetime,
) -> StoredIdentity:
    """Link a subject to the account of a member."""
    now = to_milliseconds(now)
    identity = StoredIdentity(new_id("ssi"), connection_id, org_id, subject, principal_id, email, now, now)
    row = {name: getattr(identity, name) for name in StoredIdentity.__slots__}
    await connection.execute(sso_identities.insert().values(**row, subject_hash=_hash(subject)))
    return identity


async def note_login(connection: AsyncConnection, identity_id: str, email: str, now: datetime) -> None:
    """Note the time, and the address that the provider names now."""
    changed = sso_identities.update().where(sso_identities.c.id == identity_id)
    await connection.execute(changed.values(email=email, last_login_at=to_milliseconds(now)))


async def remove(connection: AsyncConnection, identity_id: str) -> None:
    """Unlink an identity; the codes that were issued to it go with it."""
    await connection.execute(sso_identities.delete().where(sso_identities.c.id == identity_id))


async def _load(connection: AsyncConnection, where: sa.ColumnElement[bool]) -> StoredIdentity | None:
    row = (await connection.execute(_IDENTITIES.where(where))).mappings().one_or_none()
    return None if row is None else StoredIdentity(**row)


def _hash(subject: str) -> bytes:
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).digest()
