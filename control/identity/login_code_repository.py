"""One-time codes with which a browser logs in: `sluice open` creates one, `POST /auth/exchange` spends it.

Every function runs in the caller's transaction.
"""

import secrets
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text, to_milliseconds
from proto.identity import hash_secret

LIFETIME: Final = timedelta(minutes=10)
_ENTROPY_BYTES: Final = 32
_MAX_EXPIRED: Final = 500  # deleted with one insert

login_codes: Final = sa.Table(
    "login_codes",
    metadata,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Index(None, "org_id"),
    sa.Index(None, "principal_id"),
    sa.Index(None, "expires_at"),
)


class LoginCode(NamedTuple):
    """Whom a code logs in, and where."""

    org_id: str
    principal_id: str


async def create(connection: AsyncConnection, org_id: str, principal_id: str, now: datetime) -> str:
    """A new code, in plain text; expired ones are deleted."""
    code, now = secrets.token_urlsafe(_ENTROPY_BYTES), to_milliseconds(now)
    columns = login_codes.c
    expired = sa.select(columns.hash).where(columns.expires_at <= now).limit(_MAX_EXPIRED)
    await connection.execute(login_codes.delete().where(columns.hash.in_(expired)))
    row = {"hash": hash_secret(code), "org_id": org_id, "principal_id": principal_id, "created_at": now}
    await connection.execute(login_codes.insert().values(row | {"expires_at": now + LIFETIME}))
    return code


async def spend(connection: AsyncConnection, code: str, now: datetime) -> LoginCode | None:
    """Use the code, which is then gone; None unless it is there and has not expired. Of several at once one has it."""
    columns = login_codes.c
    usable = (columns.hash == hash_secret(code)) & (columns.expires_at > to_milliseconds(now))
    known = (await connection.execute(sa.select(columns.org_id, columns.principal_id).where(usable))).one_or_none()
    if known is None or (await connection.execute(login_codes.delete().where(usable))).rowcount != 1:
        return None
    return LoginCode(known.org_id, known.principal_id)
