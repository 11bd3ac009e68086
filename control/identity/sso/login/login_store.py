"""Begun logins, one-time codes, and accepted assertions. Each can be used once, even by concurrent requests, because
one statement of a serialized write transaction decides. Every function runs in the caller's transaction. The database
holds hashes of the secrets.
"""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import sessions
from chassis.db.database import to_milliseconds
from control.identity.sso.tables import (
    hash_text,
    sso_assertions,
    sso_connections,
    sso_handoff_codes,
    sso_link_requests,
    sso_logins,
)
from proto.identity import hash_secret

LOGIN_LIFETIME: Final = timedelta(minutes=10)
CODE_LIFETIME: Final = timedelta(seconds=60)
LINK_LIFETIME: Final = timedelta(minutes=10)
KEEP_ENDED_FOR: Final = timedelta(hours=1)  # to distinguish a second use from an unknown secret
_EXPIRING: Final = (sso_handoff_codes, sso_logins, sso_assertions, sso_link_requests)
FINISH_WITHIN: Final = timedelta(minutes=1)  # a login that takes longer counts as unfinished


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A login that a browser has begun. `link_principal_id`: the account to link, None if it links no account."""

    binding_hash: bytes
    request_id: str
    relay_state: str | None
    link_principal_id: str | None


@dataclass(frozen=True, slots=True)
class StoredCode:
    """The data that spending the code returns."""

    connection_id: str
    identity_id: str
    org_id: str
    principal_id: str
    methods: tuple[str, ...]
    provisioned: bool
    next: str | None
    session_expires_at: datetime | None


async def begin(
    connection: AsyncConnection,
    connection_id: str,
    org_id: str,
    now: datetime,
    *,
    state: str,
    binding: str,
    address: str,
    request_id: str = "",
    relay_state: str | None = None,
    link_principal_id: str | None = None,
) -> None:
    """Store a begun login. `address`: the key of the client's rate limits."""
    now = to_milliseconds(now)
    row = {
        "state_hash": hash_secret(state),
        "connection_id": connection_id,
        "org_id": org_id,
        "binding_hash": hash_secret(binding),
        "request_id": request_id,
        "relay_state": relay_state,
        "link_principal_id": link_principal_id,
        "address_hash": hash_text(address),
        "created_at": now,
        "expires_at": now + LOGIN_LIFETIME,
    }
    await connection.execute(sso_logins.insert().values(row))


async def count_unfinished(connection: AsyncConnection, address: str, now: datetime) -> int:
    """The number of logins that this client began within LOGIN_LIFETIME and did not finish within FINISH_WITHIN."""
    now = to_milliseconds(now)
    statement = sa.select(sa.func.count()).where(
        sso_logins.c.address_hash == hash_text(address),
        sso_logins.c.created_at > now - LOGIN_LIFETIME,
        sso_logins.c.created_at <= now - FINISH_WITHIN,
        sso_logins.c.used_at.is_(None),
    )
    return await connection.scalar(statement) or 0


async def forget_links(connection: AsyncConnection, org_id: str, principal_id: str) -> None:
    """Delete the logins that were begun to link this account."""
    of_org = sa.select(sso_connections.c.id).where(sso_connections.c.org_id == org_id)
    begun = sso_logins.c.connection_id.in_(of_org) & (sso_logins.c.link_principal_id == principal_id)
    await connection.execute(sso_logins.delete().where(begun))


async def find_login(connection: AsyncConnection, connection_id: str, state: str, now: datetime) -> StoredLogin | None:
    """The login with this state, unless it was used or has expired."""
    row = (await connection.execute(sa.select(sso_logins).where(_usable(connection_id, state, now)))).mappings().first()
    return None if row is None else StoredLogin(**{each.name: row[each.name] for each in fields(StoredLogin)})


async def use_login(connection: AsyncConnection, connection_id: str, state: str, now: datetime) -> bool:
    """Use the login. False if it was already used, or has expired."""
    used = sso_logins.update().where(_usable(connection_id, state, now)).values(used_at=to_milliseconds(now))
    return (await connection.execute(used)).rowcount == 1


async def use_assertion(
    connection: AsyncConnection, connection_id: str, org_id: str, assertion_id: str, expires_at: datetime
) -> bool:
    """Store that an assertion was accepted. False if it was accepted before."""
    digest = hash_text(assertion_id)
    seen = sa.select(sso_assertions.c.org_id).where(
        sso_assertions.c.connection_id == connection_id, sso_assertions.c.assertion_hash == digest
    )
    if await connection.scalar(seen) is not None:  # write transactions are serialized, so no other inserts meanwhile
        return False
    row = {
        "connection_id": connection_id,
        "assertion_hash": digest,
        "org_id": org_id,
        "expires_at": to_milliseconds(expires_at),
    }
    await connection.execute(sso_assertions.insert().values(row))
    return True


async def issue_code(connection: AsyncConnection, code: str, stored: StoredCode, now: datetime) -> None:
    """Store a one-time code."""
    now = to_milliseconds(now)
    row = {each.name: getattr(stored, each.name) for each in fields(StoredCode)}
    row |= {
        "hash": hash_secret(code),
        "methods": list(stored.methods),
        "created_at": now,
        "expires_at": now + CODE_LIFETIME,
    }
    await connection.execute(sso_handoff_codes.insert().values(row))


async def find_code(connection: AsyncConnection, code: str) -> StoredCode | None:
    """The code, even if it is spent or expired."""
    statement = sa.select(sso_handoff_codes).where(sso_handoff_codes.c.hash == hash_secret(code))
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        return None
    values = {each.name: row[each.name] for each in fields(StoredCode)}
    return StoredCode(**{**values, "methods": tuple(row["methods"])})


async def spend_code(connection: AsyncConnection, code: str, now: datetime) -> bool:
    """Use the code. False if it was already used, or has expired."""
    now = to_milliseconds(now)
    usable = (
        (sso_handoff_codes.c.hash == hash_secret(code))
        & sso_handoff_codes.c.used_at.is_(None)
        & (sso_handoff_codes.c.expires_at > now)
    )
    return (await connection.execute(sso_handoff_codes.update().where(usable).values(used_at=now))).rowcount == 1


async def request_link(
    connection: AsyncConnection, secret: str, org_id: str, principal_id: str, session_id: str, now: datetime
) -> datetime:
    """Store that the account asks to be linked. Returns the expiry of this request."""
    now = to_milliseconds(now)
    row = {
        "hash": hash_secret(secret),
        "org_id": org_id,
        "principal_id": principal_id,
        "session_id": session_id,
        "created_at": now,
        "expires_at": now + LINK_LIFETIME,
    }
    await connection.execute(sso_link_requests.insert().values(row))
    return now + LINK_LIFETIME


async def use_link_request(connection: AsyncConnection, secret: str, org_id: str, now: datetime) -> str | None:
    """The account to link. None if the request was already used, is of another organization or has expired. Also None
    if the session that asked has ended, so that ending a stolen session also ends its link.
    """
    now = to_milliseconds(now)
    asked_by = sa.exists().where(
        sessions.c.id == sso_link_requests.c.session_id, sessions.c.revoked_at.is_(None), sessions.c.expires_at > now
    )
    usable = (
        (sso_link_requests.c.hash == hash_secret(secret))
        & (sso_link_requests.c.org_id == org_id)
        & sso_link_requests.c.used_at.is_(None)
        & (sso_link_requests.c.expires_at > now)
        & asked_by
    )
    if (await connection.execute(sso_link_requests.update().where(usable).values(used_at=now))).rowcount != 1:
        return None
    found: str | None = await connection.scalar(
        sa.select(sso_link_requests.c.principal_id).where(sso_link_requests.c.hash == hash_secret(secret))
    )
    return found


async def has_expired(connection: AsyncConnection, now: datetime) -> bool:
    """Whether `delete_expired` would delete something."""
    before = to_milliseconds(now) - KEEP_ENDED_FOR
    for table in _EXPIRING:
        if await connection.scalar(sa.select(table.c.expires_at).where(table.c.expires_at < before).limit(1)):
            return True
    return False


async def delete_expired(connection: AsyncConnection, now: datetime) -> int:
    """Delete rows that expired more than KEEP_ENDED_FOR ago. Returns the number of rows."""
    before = to_milliseconds(now) - KEEP_ENDED_FOR
    number = 0
    for table in _EXPIRING:
        number += (await connection.execute(table.delete().where(table.c.expires_at < before))).rowcount
    return number


def _usable(connection_id: str, state: str, now: datetime) -> sa.ColumnElement[bool]:
    return (
        (sso_logins.c.state_hash == hash_secret(state))
        & (sso_logins.c.connection_id == connection_id)
        & sso_logins.c.used_at.is_(None)
        & (sso_logins.c.expires_at > to_milliseconds(now))
    )
