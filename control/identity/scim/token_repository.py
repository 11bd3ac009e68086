"""Tokens of directories. Every function runs in the caller's transaction."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id, new_scim_token
from chassis.auth.tables import organizations
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.identity.directory.tables import scim_tokens
from proto.identity import hash_secret, secret_hint

MAX_TOKENS: Final = 10  # valid ones of an organization


@dataclass(frozen=True, slots=True)
class StoredScimToken:
    """A token without its secret; `hint` is the end of the secret. A rotated token has `revoked_at` in the future."""

    id: str
    org_id: str
    name: str
    hint: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Whether requests with it are accepted."""
        return all(end is None or end > now for end in (self.expires_at, self.revoked_at))


@dataclass(frozen=True, slots=True)
class IssuedScimToken:
    """A token and, only here, its secret."""

    token: StoredScimToken
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AcceptedToken:
    """A token as a request presents it."""

    token: StoredScimToken
    org_slug: str


_COLUMNS: Final = [scim_tokens.c[name] for name in StoredScimToken.__slots__]


async def issue(
    connection: AsyncConnection, org_id: str, name: str, created_by: str, expires_at: datetime | None, now: datetime
) -> IssuedScimToken:
    """A new token. Raises Conflict beyond MAX_TOKENS."""
    now = to_milliseconds(now)
    if await _count_valid(connection, org_id, now) >= MAX_TOKENS:
        raise Conflict(f"An organization can have at most {MAX_TOKENS} valid SCIM tokens; revoke one first.")
    secret = new_scim_token()
    row: dict[str, Any] = {
        "id": new_id("sct"),
        "org_id": org_id,
        "name": name,
        "hint": secret_hint(secret),
        "created_by": created_by,
        "created_at": now,
        "expires_at": None if expires_at is None else to_milliseconds(expires_at),
        "last_used_at": None,
        "revoked_at": None,
    }
    await connection.execute(scim_tokens.insert().values(**row, hash=hash_secret(secret)))
    return IssuedScimToken(StoredScimToken(**row), secret)


async def find_accepted(connection: AsyncConnection, secret: str, now: datetime) -> AcceptedToken | None:
    """The token with this secret; None for an unknown one, and for one that has expired or is revoked."""
    found = (
        sa.select(*_COLUMNS, organizations.c.slug)
        .join(organizations, organizations.c.id == scim_tokens.c.org_id)
        .where(scim_tokens.c.hash == hash_secret(secret), organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(found)).mappings().one_or_none()
    if row is None:
        return None
    token = _token(row)
    return AcceptedToken(token, row["slug"]) if token.is_valid(now) else None


async def is_accepted(connection: AsyncConnection, token_id: str, now: datetime) -> bool:
    """Whether requests with this token are accepted."""
    found = (
        sa.select(*_COLUMNS)
        .join(organizations, organizations.c.id == scim_tokens.c.org_id)
        .where(scim_tokens.c.id == token_id, organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(found)).mappings().one_or_none()
    return row is not None and _token(row).is_valid(now)


async def find(connection: AsyncConnection, org_id: str, token_id: str) -> StoredScimToken | None:
    """The organization's token with this id, valid or not."""
    found = sa.select(*_COLUMNS).where(scim_tokens.c.org_id == org_id, scim_tokens.c.id == token_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _token(row)


async def list_tokens(
    connection: AsyncConnection, org_id: str, before_id: str | None, limit: int
) -> list[StoredScimToken]:
    """At most `limit` tokens, newest first, starting before `before_id` (None: from the newest)."""
    page = sa.select(*_COLUMNS).where(scim_tokens.c.org_id == org_id)
    if before_id is not None:
        page = page.where(scim_tokens.c.id < before_id)
    rows = await connection.execute(page.order_by(scim_tokens.c.id.desc()).limit(limit))
    return [_token(row) for row in rows.mappings()]


async def revoke(connection: AsyncConnection, token_id: str, at: datetime) -> None:
    """Revoke the token as of a time, unless it is revoked as of an earlier one."""
    at = to_milliseconds(at)
    later = scim_tokens.c.revoked_at.is_(None) | (scim_tokens.c.revoked_at > at)
    await connection.execute(scim_tokens.update().where(scim_tokens.c.id == token_id, later).values(revoked_at=at))


async def record_use(connection: AsyncConnection, token_id: str, now: datetime) -> None:
    """Store the time of the last use."""
    used = scim_tokens.update().where(scim_tokens.c.id == token_id)
    await connection.execute(used.values(last_used_at=to_milliseconds(now)))


async def _count_valid(connection: AsyncConnection, org_id: str, now: datetime) -> int:
    ends = (scim_tokens.c.expires_at, scim_tokens.c.revoked_at)
    valid = [end.is_(None) | (end > now) for end in ends]
    found = sa.select(sa.func.count()).select_from(scim_tokens).where(scim_tokens.c.org_id == org_id, *valid)
    return await connection.scalar(found) or 0


def _token(row: sa.RowMapping) -> StoredScimToken:
    return StoredScimToken(**{name: row[name] for name in StoredScimToken.__slots__})
