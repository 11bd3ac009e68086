"""Users that a directory has provisioned. Every function runs in the caller's transaction and sees one organization."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from unicodedata import normalize

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.identity.directory.tables import scim_group_members, scim_groups, scim_user_emails, scim_users

BATCH: Final = 500  # ids in one statement


def batches(ids: Sequence[str]) -> list[Sequence[str]]:
    """The ids in their order, in batches of at most BATCH. No batch if there are no ids."""
    return [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]


@dataclass(frozen=True, slots=True)
class ProvisionedEmail:
    """An address in the form that filters compare."""

    value: str | None
    type: str | None
    is_primary: bool | None


@dataclass(frozen=True, slots=True)
class ProvisionedUser:
    """A person as the directory describes it. `document`: the resource without `id`, `meta` and `groups`. The other
    texts are folded. `principal_id`: its account. `owns_account`: the directory made that account.
    """

    id: str
    org_id: str
    principal_id: str | None
    owns_account: bool
    user_name: str
    external_id: str | None
    active: bool
    display_name: str | None
    family_name: str | None
    given_name: str | None
    document: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class GroupOfUser:
    """A group that a user is in, directly."""

    id: str
    display_name: str
    external_id: str | None


_USERS: Final = sa.select(*(scim_users.c[name] for name in ProvisionedUser.__slots__))


def fold(text: str) -> str:
    """The form in which case-insensitive texts are compared: NFC, lower case (RFC 7643 2.2)."""
    return normalize("NFC", normalize("NFC", text).lower())


async def find(connection: AsyncConnection, org_id: str, user_id: str) -> ProvisionedUser | None:
    """The user with this id."""
    return await _find(connection, (scim_users.c.org_id == org_id) & (scim_users.c.id == user_id))


async def find_by_principal(connection: AsyncConnection, org_id: str, principal_id: str) -> ProvisionedUser | None:
    """The user who has this account."""
    return await _find(connection, (scim_users.c.org_id == org_id) & (scim_users.c.principal_id == principal_id))


async def find_for_login(
    connection: AsyncConnection, org_id: str, subject: str, email: str | None
) -> ProvisionedUser | None:
    """The user whom an identity provider calls `subject`: by `externalId` or `userName`, otherwise by an address
    (`email`). Active users are preferred. None if several active users match equally well.
    """
    of_org = scim_users.c.org_id == org_id
    wheres: list[sa.ColumnElement[bool]] = []
    if (
        subject and subject.isprintable()
    ):  # true for all subjects that log in; a dry run may name other texts, which PostgreSQL refuses
        wheres += [scim_users.c.external_id == subject, scim_users.c.user_name == fold(subject)]
    if email is not None:
        addresses = sa.select(scim_user_emails.c.user_id).where(
            scim_user_emails.c.org_id == org_id, scim_user_emails.c.value == fold(email)
        )
        wheres.append((scim_users.c.user_name == fold(email)) | scim_users.c.id.in_(addresses))
    for where in wheres:
        matching = _USERS.where(of_org, where).order_by(scim_users.c.active.desc(), scim_users.c.id).limit(2)
        found = [ProvisionedUser(**row) for row in (await connection.execute(matching)).mappings()]
        if found:
            return None if len(found) > 1 and found[1].active else found[0]
    return None


async def rows_of(
    connection: AsyncConnection, found: sa.Select[Any], column: sa.Column[str], ids: Collection[str]
) -> list[sa.Row[*tuple[Any, ...]]]:
    """The rows of a statement in which the column is one of these ids, read in batches."""
    return [row for part in batches(sorted(ids)) for row in await connection.execute(found.where(column.in_(part)))]


async def find_existing(connection: AsyncConnection, org_id: str, user_ids: Collection[str]) -> set[str]:
    """The ids among `user_ids` that belong to users of the organization."""
    statement = sa.select(scim_users.c.id).where(scim_users.c.org_id == org_id)
    return {row.id for row in await rows_of(connection, statement, scim_users.c.id, user_ids)}


async def count(connection: AsyncConnection, org_id: str, where: sa.ColumnElement[bool] | None = None) -> int:
    """The number of users of the organization, or (`where`) of the matching users."""
    statement = sa.select(sa.func.count()).select_from(scim_users).where(scim_users.c.org_id == org_id)
    return await connection.scalar(statement if where is None else statement.where(where)) or 0


async def list_ids(connection: AsyncConnection, page: sa.Select[Any]) -> list[str]:
    """The ids that a statement over `scim_users.c.id` selects, in its order."""
    return list((await connection.scalars(page)).all())


async def document_sizes(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, int]:
    """The length of each user's document, in characters of JSON, by id."""
    length = sa.func.length(sa.cast(scim_users.c.document, sa.Text)).label("length")
    found = await rows_of(connection, sa.select(scim_users.c.id, length), scim_users.c.id, ids)
    return {row.id: row.length for row in found}


async def list_users(connection: AsyncConnection, ids: Sequence[str]) -> list[ProvisionedUser]:
    """The users with these ids in the same order. The caller knows that they exist."""
    found = {row.id: ProvisionedUser(*row) for row in await rows_of(connection, _USERS, scim_users.c.id, ids)}
    return [found[one] for one in ids]


async def list_principals(
    connection: AsyncConnection, org_id: str, user_ids: Collection[str] | None = None
) -> list[tuple[str, str]]:
    """Id and account of every active user who has an account, among these users or (None) all users."""
    of_org = sa.select(scim_users.c.id, scim_users.c.principal_id).where(
        scim_users.c.org_id == org_id, scim_users.c.principal_id.is_not(None), scim_users.c.active
    )
    if user_ids is not None:
        return [(row.id, row.principal_id) for row in await rows_of(connection, of_org, scim_users.c.id, user_ids)]
    return [(row.id, row.principal_id) for row in await connection.execute(of_org.order_by(scim_users.c.id))]


async def insert(connection: AsyncConnection, user: ProvisionedUser, emails: Sequence[ProvisionedEmail]) -> None:
    """Store a new user. Raises sqlalchemy.exc.IntegrityError for a `userName` that another user has."""
    await connection.execute(scim_users.insert().values(_row(user)))
    await _insert_emails(connection, user, emails)


async def update(
    connection: AsyncConnection, user: ProvisionedUser, emails: Sequence[ProvisionedEmail], now: datetime
) -> ProvisionedUser:
    """Store a changed user, as its next version. Raises sqlalchemy.exc.IntegrityError for a `userName` that another
    user has.
    """
    changed = replace(user, version=user.version + 1, updated_at=now)
    await connection.execute(scim_users.update().where(scim_users.c.id == user.id).values(_row(changed)))
    await connection.execute(scim_user_emails.delete().where(scim_user_emails.c.user_id == user.id))
    await _insert_emails(connection, changed, emails)
    return changed


async def list_addresses(connection: AsyncConnection, user_id: str) -> list[str]:
    """The user's addresses, folded."""
    statement = sa.select(scim_user_emails.c.value).where(
        scim_user_emails.c.user_id == user_id, scim_user_emails.c.value.is_not(None)
    )
    return list((await connection.scalars(statement.order_by(scim_user_emails.c.position))).all())


async def set_principal(connection: AsyncConnection, user_id: str, principal_id: str, *, owns_account: bool) -> None:
    """Store the account of a user. `owns_account`: whether the directory made the account."""
    values = {"principal_id": principal_id, "owns_account": owns_account}
    await connection.execute(scim_users.update().where(scim_users.c.id == user_id).values(values))


async def delete(connection: AsyncConnection, user_id: str) -> None:
    """Delete the user, and remove it from its groups."""
    await connection.execute(scim_users.delete().where(scim_users.c.id == user_id))


async def touch(connection: AsyncConnection, user_ids: Collection[str], now: datetime) -> None:
    """Give users the next version, because their `groups` have changed."""
    for part in batches(sorted(user_ids)):
        changed = scim_users.update().where(scim_users.c.id.in_(part))
        await connection.execute(changed.values(version=scim_users.c.version + 1, updated_at=now))


async def count_groups_of(connection: AsyncConnection, user_ids: Sequence[str]) -> dict[str, int]:
    """The number of groups that each of these users is in, by user."""
    members = scim_group_members.c
    counted = sa.select(members.user_id, sa.func.count().label("groups")).group_by(members.user_id)
    found = await rows_of(connection, counted, members.user_id, user_ids)
    return dict.fromkeys(user_ids, 0) | {row.user_id: row.groups for row in found}


async def list_groups_of(connection: AsyncConnection, user_ids: Collection[str]) -> dict[str, list[GroupOfUser]]:
    """The groups of these users, by user, in the order of the groups' creation."""
    groups: dict[str, list[GroupOfUser]] = {one: [] for one in user_ids}
    columns = (scim_groups.c.id, scim_groups.c.display_name, scim_groups.c.external_id)
    statement = (
        sa.select(*columns, scim_group_members.c.user_id)
        .join(scim_groups, scim_groups.c.id == scim_group_members.c.group_id)
        .order_by(scim_group_members.c.user_id, scim_groups.c.id)
    )
    for row in await rows_of(connection, statement, scim_group_members.c.user_id, user_ids):
        groups[row.user_id].append(GroupOfUser(row.id, row.display_name, row.external_id))
    return groups


async def _find(connection: AsyncConnection, where: sa.ColumnElement[bool]) -> ProvisionedUser | None:
    row = (await connection.execute(_USERS.where(where))).mappings().one_or_none()
    return None if row is None else ProvisionedUser(**row)


async def _insert_emails(
    connection: AsyncConnection, user: ProvisionedUser, emails: Sequence[ProvisionedEmail]
) -> None:
    rows = [
        {
            "user_id": user.id,
            "position": position,
            "org_id": user.org_id,
            "value": email.value,
            "type": email.type,
            "is_primary": email.is_primary,
        }
        for position, email in enumerate(emails)
    ]
    if rows:
        await connection.execute(scim_user_emails.insert(), rows)


def _row(user: ProvisionedUser) -> dict[str, Any]:
    return {name: getattr(user, name) for name in ProvisionedUser.__slots__}
