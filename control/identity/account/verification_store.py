"""Verification of e-mail addresses: an account returns a secret that was mailed to its address.

The secret alone is worth nothing: it counts only in a session of the account that asked for it. Otherwise somebody who
has created an account with another person's address would only have to make that person open a link.

Every function runs in the caller's transaction. The database holds the SHA-256 of the secret.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_email_verification, new_id
from chassis.auth.tables import email_verifications
from chassis.db.database import to_milliseconds
from control.identity.users.user_store import User
from proto.identity import EMAIL_VERIFICATION_PREFIX, hash_secret, is_token

LIFETIME: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class StoredVerification:
    """Requested by an account for `email`, which was its address at that time."""

    principal_id: str
    email: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class IssuedVerification:
    """A verification and, only here, its secret. `mail_id` identifies the mail."""

    verification: StoredVerification
    secret: str = field(repr=False)
    mail_id: str


async def request(connection: AsyncConnection, user: User, now: datetime) -> IssuedVerification:
    """Generate a secret for the account's address; it replaces the one before."""
    now = to_milliseconds(now)
    verification = StoredVerification(user.id, user.email, now, now + LIFETIME)
    secret = new_email_verification()
    await cancel(connection, user.id)
    row = {name: getattr(verification, name) for name in StoredVerification.__slots__}
    await connection.execute(email_verifications.insert().values(**row, hash=hash_secret(secret)))
    return IssuedVerification(verification, secret, new_id("emv"))


async def consume(connection: AsyncConnection, user: User, secret: str, now: datetime) -> bool:
    """Use a secret, once; False unless it was mailed to the present address of this account and has not expired."""
    if not is_token(secret, EMAIL_VERIFICATION_PREFIX):
        return False
    found = (
        (email_verifications.c.principal_id == user.id)
        & (email_verifications.c.hash == hash_secret(secret))
        & (email_verifications.c.email == user.email)
        & (email_verifications.c.expires_at > now)
    )
    return (await connection.execute(email_verifications.delete().where(found))).rowcount == 1


async def cancel(connection: AsyncConnection, user_id: str) -> None:
    """Delete the account's secret, if there is one."""
    await connection.execute(email_verifications.delete().where(email_verifications.c.principal_id == user_id))
