"""The public halves of signing keys in the relational store, by which processes know each other's signatures.

A control process publishes its key when it starts and says daily that it is still in use; a key that nobody has said so
of for UNSEEN is no longer believed. So a key is replaced by replacing its file and starting again, and several machines
each have their own.
"""

from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.signing import PublicKey
from chassis.identity.tables import signing_keys

UNSEEN: Final = timedelta(days=7)
SAY_AGAIN: Final = timedelta(days=1)
MAX_SHOWN: Final = 100


async def publish_key(connection: AsyncConnection, key: PublicKey, now: datetime) -> None:
    """Say that the key is in use."""
    known = signing_keys.c.kid == key.kid
    if (await connection.execute(signing_keys.update().where(known).values(seen_at=now))).rowcount == 0:
        row = {"kid": key.kid, "public_key": key.raw, "created_at": now, "seen_at": now}
        await connection.execute(signing_keys.insert().values(row))


async def find_key(connection: AsyncConnection, kid: str, now: datetime) -> PublicKey | None:
    """The key of this name, when it is believed."""
    found = sa.select(signing_keys).where(signing_keys.c.kid == kid, signing_keys.c.seen_at > now - UNSEEN)
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else PublicKey(row.kid, bytes(row.public_key))


async def list_keys(connection: AsyncConnection, now: datetime) -> list[PublicKey]:
    """Those that are believed, the one in use longest first."""
    found = sa.select(signing_keys).where(signing_keys.c.seen_at > now - UNSEEN).order_by(signing_keys.c.created_at)
    return [PublicKey(row.kid, bytes(row.public_key)) for row in await connection.execute(found.limit(MAX_SHOWN))]
