"""Users: principals that log in with an e-mail address and a password, and their second factors.

Several accounts may have the same address. At most one of them has verified it, and may be a member of several
organizations. Every other account is confined to its home organization, where an invitation created it. When it is
removed from there, the account is closed, and another account there may have the address.

Every function runs in the caller's transaction. The caller hashes and encrypts, so this module handles no password or
secret in plain text.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy import exc
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
from chassis.errors import Conflict
from control.identity.organizations import organization_store
from control.identity.users.login_store import login_addresses
from proto.identity import PrincipalKind, normalize_email

Theme = Literal["system", "light", "dark"]
DEFAULT_LOCALE: Final = "en"
DEFAULT_THEME: Final[Theme] = "system"
MAX_ACCOUNTS: Final = 1_000  # of one address that a login without an organization considers, the oldest first


class EmailTaken(Conflict):
    """Another account has verified the address, or another account of the organization has it."""

    def __init__(self) -> None:
        super().__init__("Another account has this e-mail address.")


@dataclass(frozen=True, slots=True)
class User:
    """A user. `id` is the id of its principal. `home_org_id`: the organization that an unverified account is confined
    to, None if the account is closed. `totp_step`: the last accepted step.
    """

    id: str
    email: str
    name: str
    email_verified: bool
    home_org_id: str | None
    password_hash: str | None = field(repr=False)
    totp_secret: bytes | None = field(repr=False)
    totp_confirmed_at: datetime | None
    totp_step: int | None
    locale: str
    theme: Theme
    avatar_url: str | None
    disabled_at: datetime | None
    created_at: datetime

    @property
    def has_factor(self) -> bool:
        """Whether a second factor is required."""
        return self.totp_confirmed_at is not None


_USERS: Final = sa.select(
    principals.c.id,
    principals.c.name,
    principals.c.disabled_at,
    *(column for column in users.c if column.name != "principal_id"),
).join_from(users, principals, principals.c.id == users.c.principal_id)


async def create_user(
    connection: AsyncConnection, email: str, name: str, password_hash: str | None, *, home_org_id: str | None
) -> User:
    """Create a principal that can log in: an account confined to `home_org_id`, or (None) an account with a verified
    address. `password_hash` None: the account logs in through an identity provider only. Raises EmailTaken. Raises
    ValueError for an invalid name.
    """
    principal = await organization_store.create_principal(connection, PrincipalKind.USER, name)
    return await _insert(connection, principal.id, email, password_hash=password_hash, home_org_id=home_org_id)


async def create_account(connection: AsyncConnection, principal_id: str, email: str, org_id: str) -> User:
    """Create an account without a password for a user who has no account: the first owner. The account is confined to
    the organization. Raises EmailTaken.
    """
    return await _insert(connection, principal_id, email, password_hash=None, home_org_id=org_id)


async def _insert(
    connection: AsyncConnection, principal_id: str, email: str, *, password_hash: str | None, home_org_id: str | None
) -> User:
    row = {
        "principal_id": principal_id,
        "email": normalize_email(email),
        "email_verified": home_org_id is None,
        "home_org_id": home_org_id,
        "password_hash": password_hash,
        "locale": DEFAULT_LOCALE,
        "theme": DEFAULT_THEME,
        "created_at": to_milliseconds(datetime.now(UTC)),
    }
    try:
        await connection.execute(users.insert().values(row))
    except exc.IntegrityError as error:
        raise EmailTaken from error
    return await get_user(connection, principal_id)


async def find_verified(connection: AsyncConnection, email: str) -> User | None:
    """The account that has verified this address. The case of the address does not matter."""
    return await _load_user(connection, _USERS.where(users.c.email == normalize_email(email), users.c.email_verified))


async def find_in_organization(connection: AsyncConnection, email: str, org_slug: str) -> User | None:
    """The account with this address that is a member of the organization. There is at most one."""
    statement = (
        _USERS.join(memberships, memberships.c.principal_id == users.c.principal_id)
        .join(organizations, organizations.c.id == memberships.c.org_id)
        .where(users.c.email == normalize_email(email), organizations.c.slug == org_slug)
        .order_by(users.c.email_verified.desc(), users.c.principal_id)
        .limit(1)
    )
    return await _load_user(connection, statement)


async def list_accounts(connection: AsyncConnection, email: str) -> list[User]:
    """The accounts with this address that are not closed: the verified account first, then by age, at most
    MAX_ACCOUNTS.
    """
    is_open = users.c.email_verified | users.c.home_org_id.is_not(None)
    statement = (
        _USERS.where(users.c.email == normalize_email(email), is_open)
        .order_by(users.c.email_verified.desc(), users.c.principal_id)
        .limit(MAX_ACCOUNTS)
    )
    return [_user(row) for row in (await connection.execute(statement)).mappings()]


async def find_password_hash(connection: AsyncConnection, email: str) -> str | None:
    """The password hash of any account with this address, including closed accounts. All have the same salt."""
    statement = sa.select(users.c.password_hash).where(
        users.c.email == normalize_email(email), users.c.password_hash.is_not(None)
    )
    hashed: str | None = await connection.scalar(statement.limit(1))
    return hashed


async def find_user(connection: AsyncConnection, user_id: str) -> User | None:
    """The user with this id, None for principals that do not log in."""
    return await _load_user(connection, _USERS.where(users.c.principal_id == user_id))


async def get_user(connection: AsyncConnection, user_id: str) -> User:
    """The user with this id. The caller knows that the user exists: users are disabled, never removed. Raises
    LookupError.
    """
    found = await find_user(connection, user_id)
    if found is None:
        raise LookupError(f"there is no user {user_id}")
    return found


async def rename(connection: AsyncConnection, principal_id: str, name: str) -> None:
    """Set the name of a user, an agent or a service."""
    await connection.execute(principals.update().where(principals.c.id == principal_id).values(name=name))


async def change_user(
    connection: AsyncConnection, user_id: str, *, name: str | None = None, values: dict[str, Any]
) -> None:
    """Set the name of the user's principal, and columns of `users` by name."""
    if name is not None:
        await rename(connection, user_id, name)
    if values:
        await connection.execute(users.update().where(users.c.principal_id == user_id).values(values))


async def reload_if_unchanged(connection: AsyncConnection, seen: User) -> User | None:
    """The user as of this transaction. None if the user has been disabled or has another password than `seen`, so that
    the earlier verification no longer counts. Verifying passwords is slow and happens outside of transactions.
    """
    now = await get_user(connection, seen.id)
    return None if now.disabled_at is not None or now.password_hash != seen.password_hash else now


async def verify_email(connection: AsyncConnection, user: User) -> None:
    """Mark the address as verified, which ends the confinement to one organization. Raises EmailTaken if another
    account has verified the address.
    """
    try:
        await change_user(connection, user.id, values={"email_verified": True, "home_org_id": None})
    except exc.IntegrityError as error:
        raise EmailTaken from error


async def leave_home(connection: AsyncConnection, user_id: str, org_id: str) -> None:
    """Close an account that is confined to the organization, so that the organization can invite its address again.
    Call this after the removal of a membership. An account that joined several organizations before addresses were
    verified is not closed, but confined to the next organization. A closed account never works again, so its second
    factor and the secret mailed to it are deleted. Its password hash stays, because it has the salt of the address.
    """
    next_home = (
        sa.select(memberships.c.org_id)
        .where(memberships.c.principal_id == user_id)
        .order_by(memberships.c.created_at, memberships.c.org_id)
        .limit(1)
    )
    confined = (users.c.principal_id == user_id) & (users.c.home_org_id == org_id)
    left = await connection.execute(users.update().where(confined).values(home_org_id=next_home.scalar_subquery()))
    home = sa.select(users.c.home_org_id).where(users.c.principal_id == user_id)
    if left.rowcount == 1 and await connection.scalar(home) is None:
        await remove_factor(connection, user_id)
        await connection.execute(email_verifications.delete().where(email_verifications.c.principal_id == user_id))


async def set_password(connection: AsyncConnection, user_id: str, password_hash: str) -> None:
    """Set the password. The caller ends sessions."""
    await change_user(connection, user_id, values={"password_hash": password_hash})


async def rehash_password(connection: AsyncConnection, seen: User, password_hash: str) -> bool:
    """Store another hash of the same password. False, without a change, if the user has another password by now."""
    if await reload_if_unchanged(connection, seen) is None:
        return False
    await set_password(connection, seen.id, password_hash)
    return True


async def enroll_factor(connection: AsyncConnection, user_id: str, encrypted_secret: bytes) -> bool:
    """Store a secret that is not required until it is confirmed. It replaces an earlier proposed secret. False, without
    a change, if a secret was already confirmed.
    """
    unconfirmed = (users.c.principal_id == user_id) & users.c.totp_confirmed_at.is_(None)
    proposed = users.update().where(unconfirmed).values(totp_secret=encrypted_secret, totp_step=None)
    return (await connection.execute(proposed)).rowcount == 1


async def confirm_factor(connection: AsyncConnection, user_id: str, step: int, now: datetime) -> None:
    """Require the second factor from now on."""
    await change_user(connection, user_id, values={"totp_confirmed_at": now, "totp_step": step})


async def remove_factor(connection: AsyncConnection, user_id: str) -> None:
    """Delete the second factor and its recovery codes."""
    await change_user(connection, user_id, values={"totp_secret": None, "totp_confirmed_at": None, "totp_step": None})
    await connection.execute(recovery_codes.delete().where(recovery_codes.c.principal_id == user_id))


async def consume_totp_step(connection: AsyncConnection, user_id: str, step: int) -> bool:
    """Accept the code of a step, once and in order. False if this or a later step was accepted before."""
    later = users.c.totp_step.is_(None) | (users.c.totp_step < step)
    consumed = users.update().where(users.c.principal_id == user_id, later).values(totp_step=step)
    return (await connection.execute(consumed)).rowcount == 1


async def replace_recovery_codes(connection: AsyncConnection, user_id: str, hashes: Iterable[bytes]) -> None:
    """Delete the earlier codes and store the new ones."""
    await connection.execute(recovery_codes.delete().where(recovery_codes.c.principal_id == user_id))
    await connection.execute(recovery_codes.insert(), [{"principal_id": user_id, "hash": digest} for digest in hashes])


async def consume_recovery_code(connection: AsyncConnection, user_id: str, digest: bytes, now: datetime) -> bool:
    """Accept a recovery code, once. False if it is unknown or was used."""
    unused = (recovery_codes.c.hash == digest) & recovery_codes.c.used_at.is_(None)
    consumed = recovery_codes.update().where(recovery_codes.c.principal_id == user_id, unused).values(used_at=now)
    return (await connection.execute(consumed)).rowcount == 1


async def _load_user(connection: AsyncConnection, found: sa.Select[Any]) -> User | None:
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _user(row)


def _user(row: sa.RowMapping) -> User:
    return User(**{name: row[name] for name in User.__slots__})


EMAIL_DOMAIN: Final = "deleted.invalid"  # RFC 2606: no mailbox


async def anonymize_orphans(connection: AsyncConnection, ids: Collection[str], now: datetime) -> None:
    """Anonymize principals whose organizations are all deleted. Idempotent. A user loses password, second factor and
    e-mail address. The address can be used again.
    """
    is_member = (
        sa.exists()
        .where(memberships.c.principal_id == principals.c.id, organizations.c.id == memberships.c.org_id)
        .where(organizations.c.deleted_at.is_(None))
    )
    statement = sa.select(principals.c.id).where(principals.c.id.in_(sorted(ids)), ~is_member)
    orphans = list((await connection.scalars(statement)).all())
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
