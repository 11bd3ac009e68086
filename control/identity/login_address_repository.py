"""Client addresses from which accounts have logged in within 30 days, as keyed hashes: passwords that are tried from
there do not count for all addresses together.

Every function runs in the caller's transaction.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text, to_milliseconds

KEPT_FOR: Final = timedelta(days=30)
MAX_ADDRESSES: Final = 50  # of one account; the one that was used least recently goes
_MAX_EXPIRED: Final = 500  # deleted with one login

login_addresses: Final = sa.Table(
    "login_addresses",
    metadata,
    sa.Column("principal_id", text(32), sa.ForeignKey("users.principal_id"), primary_key=True),
    sa.Column("address", text(32), primary_key=True),  # keyed hash of the account and an IPv4 address or IPv6 /64
    sa.Column("used_at", UtcTime, nullable=False),
    sa.Index(None, "used_at"),
)


async def remember(connection: AsyncConnection, principal_id: str, address: str, now: datetime) -> None:
    """Store that the account has logged in from there. Deletes what is too old, of any account, or too much."""
    columns, now = login_addresses.c, to_milliseconds(now)
    key = (columns.principal_id == principal_id) & (columns.address == address)
    if (await connection.execute(login_addresses.update().where(key).values(used_at=now))).rowcount == 0:
        row = {"principal_id": principal_id, "address": address, "used_at": now}
        try:
            async with connection.begin_nested():
                await connection.execute(login_addresses.insert().values(row))
        except exc.IntegrityError:  # of another login from there, at the same time
            return
    expired = sa.select(columns.principal_id, columns.address).where(columns.used_at <= now - KEPT_FOR)
    await _delete(connection, expired.limit(_MAX_EXPIRED))
    latest = sa.select(columns.principal_id, columns.address).where(columns.principal_id == principal_id)
    await _delete(connection, latest.order_by(columns.used_at.desc(), columns.address).offset(MAX_ADDRESSES))


async def are_known(connection: AsyncConnection, addresses: Mapping[str, str], now: datetime) -> bool:
    """Whether each of the accounts (id to hash of the address) has logged in from there; False for none."""
    columns = login_addresses.c
    found = sa.select(sa.func.count()).where(
        sa.tuple_(columns.principal_id, columns.address).in_(list(addresses.items())),
        columns.used_at > to_milliseconds(now) - KEPT_FOR,
    )
    return await connection.scalar(found) == len(addresses) > 0


async def _delete(connection: AsyncConnection, found: sa.Select[tuple[str, str]]) -> None:
    for row in (await connection.execute(found)).all():
        columns = login_addresses.c
        gone = (columns.principal_id == row.principal_id) & (columns.address == row.address)
        await connection.execute(login_addresses.delete().where(gone))
