"""Keys of issuers in the database. Every function runs in the caller's transaction."""

from dataclasses import fields
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict
from control.approvals.proofs.model import IssuerKey, KeyAlgorithm, KeyStatus
from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys

MAX_ACTIVE_KEYS: Final = 50  # of an organization, neither revoked nor expired
MAX_KEYS: Final = 1_000
_ENDED: Final = frozenset({KeyStatus.EXPIRED, KeyStatus.REVOKED})


async def create(connection: AsyncConnection, key: IssuerKey, now: datetime) -> None:
    """Raises Conflict when the organization has MAX_ACTIVE_KEYS or MAX_KEYS, or one with this key id."""
    known = await list_keys(connection, key.org_id)
    if sum(one.status_at(now) not in _ENDED for one in known) >= MAX_ACTIVE_KEYS:
        raise Conflict(
            f"The organization has {MAX_ACTIVE_KEYS} issuer keys that are valid, the maximum. End one first."
        )
    if len(known) >= MAX_KEYS:
        raise Conflict(f"The organization has {MAX_KEYS} issuer keys, the maximum. Delete one that is not used.")
    if any(one.key_id == key.key_id for one in known):
        raise Conflict("The organization has an issuer key with this keyId.")
    if any(one.public_key == key.public_key for one in known):
        raise Conflict("The organization has this issuer key, with another keyId.")
    await connection.execute(proof_issuer_keys.insert().values(_row(key)))


async def list_keys(connection: AsyncConnection, org_id: str) -> list[IssuerKey]:
    """All keys of an organization, oldest first."""
    columns = proof_issuer_keys.c
    found = sa.select(proof_issuer_keys).where(columns.org_id == org_id).order_by(columns.id)
    return [_key(row) for row in (await connection.execute(found)).mappings()]


async def find(connection: AsyncConnection, org_id: str, key_id: str) -> IssuerKey | None:
    """The organization's key with this id (not the key id that envelopes name)."""
    columns = proof_issuer_keys.c
    found = sa.select(proof_issuer_keys).where(columns.org_id == org_id, columns.id == key_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _key(row)


async def change(connection: AsyncConnection, key: IssuerKey, *, name: str, valid_until: datetime | None) -> None:
    """Replace the name and the end of the validity. Raises Conflict if it is revoked."""
    if key.revoked_at is not None:
        raise Conflict("The issuer key is revoked.")
    values = {"name": name, "valid_until": valid_until}
    await connection.execute(proof_issuer_keys.update().where(proof_issuer_keys.c.id == key.id).values(values))


async def revoke(connection: AsyncConnection, key: IssuerKey, reason: str, now: datetime) -> None:
    """Raises Conflict if it is revoked: revocations are final."""
    if key.revoked_at is not None:
        raise Conflict("The issuer key is revoked already.")
    values = {"revoked_at": now, "revocation_reason": reason}
    await connection.execute(proof_issuer_keys.update().where(proof_issuer_keys.c.id == key.id).values(values))


async def delete(connection: AsyncConnection, key: IssuerKey) -> None:
    """Raises Conflict for a revoked key, which could be registered again, and if a bundle was verified with it."""
    if key.revoked_at is not None:
        raise Conflict("The key is revoked. It stays, so that nobody registers it again.")
    used = sa.select(proof_bundles.c.id).where(proof_bundles.c.issuer_key_id == key.id).limit(1)
    if await connection.scalar(used) is not None:
        raise Conflict("Bundles were verified with this key. Revoke it instead.")
    await connection.execute(proof_issuer_keys.delete().where(proof_issuer_keys.c.id == key.id))


def _key(row: Any) -> IssuerKey:
    values = {field.name: row[field.name] for field in fields(IssuerKey)}
    return IssuerKey(**values | {"algorithm": KeyAlgorithm(row["algorithm"])})


def _row(key: IssuerKey) -> dict[str, Any]:
    return {field.name: getattr(key, field.name) for field in fields(IssuerKey)} | {"algorithm": key.algorithm.value}
