"""Data of logins besides sessions: one-time codes of `sluice open`, and client addresses from which accounts have
logged in within 30 days, as keyed hashes. Passwords that are tried from a known address are not counted in the common
limit of new addresses.

Every function runs in the caller's transaction.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text, to_milliseconds
from proto.identity import hash_secret

CODE_LIFETIME: Final = timedelta(minutes=10)
_ENTROPY_BYTES: Final = 32
_MAX_DELETED: Final = 500  # rows deleted with one insert

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


async def create_code(connection: AsyncConnection, org_id: str, principal_id: str, now: datetime) -> str:
    """Create a code and return it in plain text. Expired codes are deleted."""
    code, now = secrets.token_urlsafe(_ENTROPY_BYTES), to_milliseconds(now)
    columns = login_codes.c
    expired = sa.select(columns.hash).where(columns.expires_at <= now).limit(_MAX_DELETED)
    await connection.execute(login_codes.delete().where(columns.hash.in_(expired)))
    row = {"hash": hash_secret(code), "org_id": org_id, "principal_id": principal_id, "created_at": now}
    await connection.execute(login_codes.insert().values(row | {"expires_at": now + CODE_LIFETIME}))
    return code


async def spend_code(connection: AsyncConnection, code: str, now: datetime) -> sa.Row[*tuple[Any, ...]] | None:
    """Use the code, which is then deleted. Returns `org_id` and `principal_id` of the user that it logs in, None for an
    unknown or expired code. Of several requests at the same time, only one succeeds.
    """
    columns = login_codes.c
    usable = (columns.hash == hash_secret(code)) & (columns.expires_at > to_milliseconds(now))
    known = (await connection.execute(sa.select(columns.org_id, columns.principal_id).where(usable))).one_or_none()
    if known is None or (await connection.execute(login_codes.delete().where(usable))).rowcount != 1:
        return None
    return known


KEPT_FOR: Final = timedelta(days=30)
MAX_ADDRESSES: Final = 50  # per account; the least recently used address is deleted

login_addresses: Final = sa.Table(
    "login_addresses",
    metadata,
    sa.Column("principal_id", text(32), sa.ForeignKey("users.principal_id"), primary_key=True),
    sa.Column("address", text(32), primary_key=True),  # keyed hash of the account and an IPv4 address or IPv6 /64
    sa.Column("used_at", UtcTime, nullable=False),
    sa.Index(None, "used_at"),
)


async def remember_address(connection: AsyncConnection, principal_id: str, address: str, now: datetime) -> None:
    """Store that the account has logged in from the address. Deletes expired addresses of any account, and addresses
    beyond MAX_ADDRESSES.
    """
    columns, now = login_addresses.c, to_milliseconds(now)
    key = (columns.principal_id == principal_id) & (columns.address == address)
    if (await connection.execute(login_addresses.update().where(key).values(used_at=now))).rowcount == 0:
        row = {"principal_id": principal_id, "address": address, "used_at": now}
        try:
            async with connection.begin_nested():
                await connection.execute(login_addresses.insert().values(row))
        except exc.IntegrityError:  # another login from the address at the same time
            return
    expired = sa.select(columns.principal_id, columns.address).where(columns.used_at <= now - KEPT_FOR)
    await _delete_addresses(connection, expired.limit(_MAX_DELETED))
    latest = sa.select(columns.principal_id, columns.address).where(columns.principal_id == principal_id)
    await _delete_addresses(connection, latest.order_by(columns.used_at.desc(), columns.address).offset(MAX_ADDRESSES))


async def are_known_addresses(connection: AsyncConnection, addresses: Mapping[str, str], now: datetime) -> bool:
    """Whether each account (`addresses`: id to hash of the address) has logged in from its address. False for none."""
    columns = login_addresses.c
    statement = sa.select(sa.func.count()).where(
        sa.tuple_(columns.principal_id, columns.address).in_(list(addresses.items())),
        columns.used_at > to_milliseconds(now) - KEPT_FOR,
    )
    return await connection.scalar(statement) == len(addresses) > 0


async def _delete_addresses(connection: AsyncConnection, found: sa.Select[tuple[str, str]]) -> None:
    for row in (await connection.execute(found)).all():
        columns = login_addresses.c
        gone = (columns.principal_id == row.principal_id) & (columns.address == row.address)
        await connection.execute(login_addresses.delete().where(gone))
