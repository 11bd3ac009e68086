"""Which account a subject of a provider is: (connection, subject), never the e-mail address. Every function runs in the
caller's transaction.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import memberships
from chassis.db.database import to_milliseconds
from control.http.field_types import Timestamp
from control.identity.schemas import Email
from control.identity.sso.tables import MAX_SUBJECT_LENGTH, sso_identities
from control.routing.resource import shown_as
from proto.identity import Role


class LinkedIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """A user of a provider, and the member who it is."""

    id: str
    connection_id: str
    subject: Annotated[str, Meta(max_length=MAX_SUBJECT_LENGTH, description="NameID of SAML, `sub` of OIDC.")]
    principal_id: str
    email: Annotated[Email, Meta(description="As the provider last named it; the account may have another.")]
    created_at: Timestamp
    last_login_at: Timestamp


async def find(connection: AsyncConnection, connection_id: str, subject: str) -> LinkedIdentity | None:
    """The identity of a subject."""
    where = (sso_identities.c.connection_id == connection_id) & (sso_identities.c.subject_hash == _hash(subject))
    return await _load(connection, where)


async def find_by_id(connection: AsyncConnection, identity_id: str) -> LinkedIdentity | None:
    """The identity with this id."""
    return await _load(connection, sso_identities.c.id == identity_id)


async def find_of_account(connection: AsyncConnection, connection_id: str, principal_id: str) -> LinkedIdentity | None:
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


async def list_identities(
    connection: AsyncConnection, after_id: str | None, limit: int, *, org_id: str
) -> Sequence[sa.Row[Any]]:
    """The rows of at most `limit` identities of the organization, by id, starting after `after_id`."""
    page = sa.select(sso_identities).where(sso_identities.c.org_id == org_id, sso_identities.c.id > (after_id or ""))
    return (await connection.execute(page.order_by(sso_identities.c.id).limit(limit))).all()


async def create(
    connection: AsyncConnection,
    connection_id: str,
    org_id: str,
    subject: str,
    principal_id: str,
    email: str,
    now: datetime,
) -> str:
    """Link a subject to the account of a member. The id of the identity."""
    now, identity_id = to_milliseconds(now), new_id("ssi")
    row = {
        "id": identity_id,
        "connection_id": connection_id,
        "org_id": org_id,
        "subject": subject,
        "subject_hash": _hash(subject),
        "principal_id": principal_id,
        "email": email,
        "created_at": now,
        "last_login_at": now,
    }
    await connection.execute(sso_identities.insert().values(row))
    return identity_id


async def note_login(connection: AsyncConnection, identity_id: str, email: str, now: datetime) -> None:
    """Note the time, and the address that the provider names now."""
    changed = sso_identities.update().where(sso_identities.c.id == identity_id)
    await connection.execute(changed.values(email=email, last_login_at=to_milliseconds(now)))


async def _load(connection: AsyncConnection, where: sa.ColumnElement[bool]) -> LinkedIdentity | None:
    row = (await connection.execute(sa.select(sso_identities).where(where))).one_or_none()
    return None if row is None else identity_body(row)


def identity_body(row: Any) -> LinkedIdentity:
    """The identity of a row."""
    return shown_as(LinkedIdentity, row)


def _hash(subject: str) -> bytes:
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).digest()
