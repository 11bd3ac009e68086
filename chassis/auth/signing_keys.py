"""The public halves of signing keys in the relational store, by which processes know each other's signatures.

A control process publishes its key when it starts and says every hour that it is still in use; a key that nobody has
said so of for UNSEEN is no longer believed, nor is one that was withdrawn. So a key is replaced by replacing its file
and starting again, and several machines each have their own.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.jwt import PublicKey
from chassis.auth.tables import signing_keys
from chassis.db.database import to_milliseconds

TRUST_WINDOW: Final = timedelta(days=7)
KEEP_UNSEEN_FOR: Final = timedelta(
    days=90
)  # those that nobody has heard of since, for whoever looks into what was signed
PUBLISH_INTERVAL: Final = timedelta(hours=1)
MAX_SHOWN: Final = 100


class StoredKey(NamedTuple):
    """A key that some process has published."""

    kid: str
    created_at: datetime
    seen_at: datetime
    withdrawn_at: datetime | None

    def trusted_at(self, now: datetime) -> bool:
        """Whether what it has signed counts."""
        return self.withdrawn_at is None and self.seen_at > now - TRUST_WINDOW


async def publish_key(connection: AsyncConnection, key: PublicKey, now: datetime) -> bool:
    """Say that the key is in use. False when it was withdrawn, which is for good."""
    known, old = signing_keys.c.kid == key.kid, signing_keys.c.seen_at <= now - KEEP_UNSEEN_FOR
    await connection.execute(signing_keys.delete().where(old, signing_keys.c.withdrawn_at.is_(None)))
    if (await connection.execute(signing_keys.update().where(known).values(seen_at=now))).rowcount == 0:
        row = {"kid": key.kid, "public_key": key.raw, "created_at": now, "seen_at": now}
        await connection.execute(signing_keys.insert().values(row))
    return await connection.scalar(sa.select(signing_keys.c.withdrawn_at).where(known)) is None


async def find_key(connection: AsyncConnection, kid: str, now: datetime) -> PublicKey | None:
    """The key of this name, when it is believed."""
    found = sa.select(signing_keys).where(signing_keys.c.kid == kid, _trusted(now))
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else PublicKey(row.kid, bytes(row.public_key))


async def list_trusted_keys(connection: AsyncConnection, now: datetime) -> list[PublicKey]:
    """At most MAX_SHOWN of those that are believed; those in use come first, which were heard of last."""
    found = sa.select(signing_keys).where(_trusted(now)).order_by(signing_keys.c.seen_at.desc(), signing_keys.c.kid)
    return [PublicKey(row.kid, bytes(row.public_key)) for row in await connection.execute(found.limit(MAX_SHOWN))]


async def list_all_keys(connection: AsyncConnection, limit: int) -> list[StoredKey]:
    """At most `limit` of all that were ever published, in the same order."""
    columns = [signing_keys.c[name] for name in StoredKey._fields]
    found = sa.select(*columns).order_by(signing_keys.c.seen_at.desc(), signing_keys.c.kid).limit(limit)
    return [StoredKey(*row) for row in await connection.execute(found)]


async def withdraw_key(connection: AsyncConnection, kid: str, now: datetime) -> bool:
    """Nothing that it has signed, or signs yet, counts any more; again changes nothing. False when there is no such
    key.
    """
    known = signing_keys.c.kid == kid
    fresh = signing_keys.c.withdrawn_at.is_(None)
    await connection.execute(signing_keys.update().where(known, fresh).values(withdrawn_at=to_milliseconds(now)))
    return await connection.scalar(sa.select(signing_keys.c.kid).where(known)) is not None


def _trusted(now: datetime) -> sa.ColumnElement[bool]:
    return signing_keys.c.withdrawn_at.is_(None) & (signing_keys.c.seen_at > now - TRUST_WINDOW)
