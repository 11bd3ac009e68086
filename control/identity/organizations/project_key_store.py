"""Writes project keys, which authenticate telemetry exports. No other module writes them.

Every function runs in the caller's transaction (`Database.write`). A secret is returned once, by the function that
generates it. The database holds its SHA-256. After a change the caller notifies the guards
(`AuthGuards.invalidate_key`).
"""

from dataclasses import asdict, dataclass, field
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, new_project_key, project_keys
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.identity.organizations.organization_store import now
from control.identity.organizations.rules import bounded_int, validate_name
from proto.identity import MAX_KEY_RATE, hash_secret, secret_hint


@dataclass(frozen=True, slots=True)
class StoredProjectKey:
    """A key without its secret. `hint` is the end of the secret. `rate`: requests per second, None for the rate of the
    settings.
    """

    id: str
    project_id: int
    name: str
    hint: str
    enabled: bool
    revoked_at: datetime | None
    created_at: datetime
    rate: int | None = None


@dataclass(frozen=True, slots=True)
class IssuedProjectKey:
    """A key and, only here, its secret."""

    key: StoredProjectKey
    secret: str = field(repr=False)


async def create_project_key(
    connection: AsyncConnection,
    org_id: str,
    project_id: int,
    name: str,
    created_by: str | None = None,
    rate: int | None = None,
) -> IssuedProjectKey:
    """Create an enabled key of the project. Raises ValueError for an invalid name or rate."""
    secret = new_project_key()
    key = StoredProjectKey(
        new_id("key"), project_id, validate_name(name), secret_hint(secret), True, None, now(), _validate_rate(rate)
    )
    row = asdict(key) | {"org_id": org_id, "hash": hash_secret(secret), "created_by": created_by}
    await connection.execute(project_keys.insert().values(row))
    return IssuedProjectKey(key, secret)


async def list_project_keys(
    connection: AsyncConnection, project_id: int, before_id: str | None, limit: int
) -> list[StoredProjectKey]:
    """At most `limit` keys including revoked ones, newest first, starting with the first key older than `before_id`."""
    of_project = project_keys.c.project_id == project_id
    older = of_project if before_id is None else of_project & (project_keys.c.id < before_id)
    return await _list(connection, older, limit)


async def rename_project_key(connection: AsyncConnection, project_id: int, key_id: str, name: str) -> None:
    """Rename a key. Raises ValueError for an invalid name."""
    where = (project_keys.c.project_id == project_id) & (project_keys.c.id == key_id)
    await connection.execute(project_keys.update().where(where).values(name=validate_name(name)))


async def revoke_project_key(
    connection: AsyncConnection, project_id: int, key_id: str, at: datetime | None = None
) -> bytes | None:
    """Revoke the key permanently, now or at a future time `at`. A key that is revoked, or will be sooner, is not
    changed. Returns the key's hash for the guards, None if there is no such key.
    """
    where = (project_keys.c.project_id == project_id) & (project_keys.c.id == key_id)
    ends_at = now() if at is None else to_milliseconds(at)
    later = project_keys.c.revoked_at.is_(None) | (project_keys.c.revoked_at > ends_at)
    await connection.execute(project_keys.update().where(where, later).values(revoked_at=ends_at))
    return await connection.scalar(sa.select(project_keys.c.hash).where(where))


async def enable_project_key(connection: AsyncConnection, project_id: int, key_id: str, enabled: bool) -> bytes | None:
    """Enable or disable the key. Returns its hash for the guards, None if there is no such key."""
    where = (project_keys.c.project_id == project_id) & (project_keys.c.id == key_id)
    await connection.execute(project_keys.update().where(where).values(enabled=enabled))
    return await connection.scalar(sa.select(project_keys.c.hash).where(where))


async def set_key_rate(connection: AsyncConnection, org_id: str, key_id: str, rate: int | None) -> bytes | None:
    """Set the key's requests per second (None: the rate of the settings, 0: unlimited). Returns the key's hash for the
    guards, None if the organization has no such key. Raises ValueError for an invalid rate.
    """
    where = (project_keys.c.org_id == org_id) & (project_keys.c.id == key_id)
    await connection.execute(project_keys.update().where(where).values(rate=_validate_rate(rate)))
    return await connection.scalar(sa.select(project_keys.c.hash).where(where))


async def check_key_limit(connection: AsyncConnection, project_id: int, max_keys: int) -> None:
    """Raises Conflict if the project has `max_keys` active keys."""
    statement = sa.select(sa.func.count()).where(project_keys.c.project_id == project_id, active_at(now()))
    if (await connection.scalar(statement) or 0) >= max_keys:
        raise Conflict(f"A project can have at most {max_keys} active keys. Revoke some first.")


async def list_keys_with_rate(connection: AsyncConnection, org_id: str, limit: int) -> list[StoredProjectKey]:
    """At most `limit` active keys of the organization that have their own rate, newest first."""
    with_rate = (project_keys.c.org_id == org_id) & project_keys.c.rate.is_not(None)
    return await _list(connection, with_rate & active_at(now()), limit)


async def _list(connection: AsyncConnection, where: sa.ColumnElement[bool], limit: int) -> list[StoredProjectKey]:
    columns = [project_keys.c[name] for name in StoredProjectKey.__slots__]
    statement = sa.select(*columns).where(where).order_by(project_keys.c.id.desc()).limit(limit)
    return [StoredProjectKey(**row) for row in (await connection.execute(statement)).mappings()]


def _validate_rate(rate: int | None) -> int | None:
    return None if rate is None else bounded_int(MAX_KEY_RATE, rate)


def active_at(moment: datetime) -> sa.ColumnElement[bool]:
    """Condition: the project key is not revoked at `moment`."""
    return project_keys.c.revoked_at.is_(None) | (project_keys.c.revoked_at > moment)
