"""Anonymizes principals that are members of no organization any more: their rows stay, because audit events and other
rows name their ids, and nothing in them says who it was.

Every function runs in the caller's transaction.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import (
    DELETED_NAME,
    email_verifications,
    memberships,
    organizations,
    principals,
    recovery_codes,
    users,
)
from chassis.db.database import to_milliseconds
from control.identity.login_address_repository import login_addresses
from control.identity.user_repository import DEFAULT_LOCALE, DEFAULT_THEME

EMAIL_DOMAIN: Final = "deleted.invalid"  # RFC 2606: no mailbox


async def anonymize_orphans(connection: AsyncConnection, ids: Collection[str], now: datetime) -> None:
    """Anonymize those of the principals that are in no organization, deleted ones aside; idempotent. A user loses
    password, second factor and e-mail address; the address is free again.
    """
    is_member = (
        sa.exists()
        .where(memberships.c.principal_id == principals.c.id, organizations.c.id == memberships.c.org_id)
        .where(organizations.c.deleted_at.is_(None))
    )
    found = sa.select(principals.c.id).where(principals.c.id.in_(sorted(ids)), ~is_member)
    orphans = list((await connection.scalars(found)).all())
    if not orphans:
        return
    column = principals.c.disabled_at
    disabled_at = sa.func.coalesce(column, sa.literal(to_milliseconds(now), column.type))
    await connection.execute(
        principals.update().where(principals.c.id.in_(orphans)).values(name=DELETED_NAME, disabled_at=disabled_at)
    )
    for table in (recovery_codes, email_verifications, login_addresses):
        await connection.execute(table.delete().where(table.c.principal_id.in_(orphans)))
    account = {
        "email": users.c.principal_id.concat(f"@{EMAIL_DOMAIN}"),
        "email_verified": False,
        "home_org_id": None,
        "password_hash": None,
        "totp_secret": None,
        "totp_confirmed_at": None,
        "totp_step": None,
        "locale": DEFAULT_LOCALE,
        "theme": DEFAULT_THEME,
        "avatar_url": None,
    }
    await connection.execute(users.update().where(users.c.principal_id.in_(orphans)).values(account))
