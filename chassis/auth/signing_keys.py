"""The public halves of signing keys in the database, with which processes verify each other's signatures.

A control process publishes its key when it starts, and every PUBLISH_INTERVAL (an hour) while it uses it. A key that
was not published for TRUST_WINDOW is no longer trusted, nor is a withdrawn one. So a key is replaced by replacing its
file and restarting, and several machines each have their own.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.jwt import PublicKey
from chassis.auth.tables import signing_keys
from chassis.db.database import to_milliseconds

TRUST_WINDOW: Final = timedelta(days=7)
KEEP_UNSEEN_FOR: Final = timedelta(days=90)  # unpublished keys are kept for this long, to investigate old signatures
PUBLISH_INTERVAL: Final = timedelta(hours=1)
MAX_SHOWN: Final = 100


class StoredKey(NamedTuple):
    """A published key."""

    kid: str
    created_at: datetime
    seen_at: datetime
    withdrawn_at: datetime | None

    def trusted_at(self, now: datetime) -> bool:
        """Whether its signatures are valid at `now`."""
        return self.withdrawn_at is None and self.seen_at > now - TRUST_WINDOW


async def publish_key(connection: AsyncConnection, key: PublicKey, now: datetime) -> bool:
    """Record that the key is in use, and delete keys unseen for KEEP_UNSEEN_FOR. False when it is withdrawn, which is
    final.
    """
    is_key, is_unseen = signing_keys.c.kid == key.kid, signing_keys.c.seen_at <= now - KEEP_UNSEEN_FOR
    await connection.execute(signing_keys.delete().where(is_unseen, signing_keys.c.withdrawn_at.is_(None)))
    if (await connection.execute(signing_keys.update().where(is_key).values(seen_at=now))).rowcount == 0:
        row = {"kid": key.kid, "public_key": key.raw, "created_at": now, "seen_at": now}
        await connection.execute(signing_keys.insert().values(row))
    return await connection.scalar(sa.select(signing_keys.c.withdrawn_at).where(is_key)) is None


async def find_key(connection: AsyncConnection, kid: str, now: datetime) -> PublicKey | None:
    """The key with this id, if it is trusted."""
    found = sa.select(signing_keys).where(signing_keys.c.kid == kid, _trusted(now))
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else PublicKey(row.kid, bytes(row.public_key))


async def list_trusted_keys(connection: AsyncConnection, now: datetime) -> list[PublicKey]:
    """At most MAX_SHOWN trusted keys, the most recently published first."""
    found = sa.select(signing_keys).where(_trusted(now)).order_by(signing_keys.c.seen_at.desc(), signing_keys.c.kid)
    return [PublicKey(row.kid, bytes(row.public_key)) for row in await connection.execute(found.limit(MAX_SHOWN))]


async def list_all_keys(connection: AsyncConnection, limit: int) -> list[StoredKey]:
    """At most `limit` of all stored keys, in the same order."""
    columns = [signing_keys.c[name] for name in StoredKey._fields]
    found = sa.select(*columns).order_by(signing_keys.c.seen_at.desc(), signing_keys.c.kid).limit(limit)
    return [StoredKey(*row) for row in await connection.execute(found)]


async def withdraw_key(connection: AsyncConnection, kid: str, now: datetime) -> bool:
    """Invalidate all signatures of the key, past and future; idempotent. False when there is no such key."""
    is_key = signing_keys.c.kid == kid
    not_withdrawn = signing_keys.c.withdrawn_at.is_(None)
    await connection.execute(
        signing_keys.update().where(is_key, not_withdrawn).values(withdrawn_at=to_milliseconds(now))
    )
    return await connection.scalar(sa.select(signing_keys.c.kid).where(is_key)) is not None


def _trusted(now: datetime) -> sa.ColumnElement[bool]:
    return signing_keys.c.withdrawn_at.is_(None) & (signing_keys.c.seen_at > now - TRUST_WINDOW)
