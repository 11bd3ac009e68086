"""Writes organizations and projects, and the principals, memberships and tokens that other modules build on. No other
module writes organizations and projects.

Every function runs in the caller's transaction (`Database.write`), so that several calls make one change. A secret is
returned once, by the function that generates it. The database holds its SHA-256. After a change to data that the
guards cache, the caller notifies them (`AuthGuards.invalidate_bearers`, `AuthGuards.invalidate_project`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from msgspec import UNSET, UnsetType
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import Principal
from chassis.auth.tables import (
    access_tokens,
    memberships,
    new_id,
    new_project_id,
    new_token,
    organizations,
    principals,
    projects,
    users,
)
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.identity.organizations.revocation import RevokedCounts, revoke_tree
from control.identity.organizations.rules import bounded_int, validate_exempt_keys, validate_name, validate_slug
from proto.identity import (
    MAX_MONTHLY_ITEMS,
    SENSITIVE_WORD_PATTERN,
    PrincipalKind,
    Role,
    Scope,
    hash_secret,
    secret_hint,
)

MAX_SENSITIVE_WORDS: Final = 100

_SENSITIVE_WORD: Final = re.compile(SENSITIVE_WORD_PATTERN)


class SlugTaken(Conflict):
    """Another organization, or another project of the organization, has this slug, or a deleted organization had it."""

    def __init__(self, slug: str, *, deleted: bool = False) -> None:
        super().__init__(
            f"A deleted organization had the slug {slug}. The slug cannot be used again."
            if deleted
            else f"The slug {slug} is already taken."
        )


@dataclass(frozen=True, slots=True)
class StoredOrganization:
    """A tenant. `monthly_items`: items that its projects may send per calendar month (UTC), 0 for unlimited."""

    id: str
    slug: str
    name: str
    monthly_items: int
    created_at: datetime


class ResolveOnMerge(StrEnum):
    """When a merged fix resolves issues: in the project's next release, or at once."""

    NEXT_RELEASE = "next_release"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class StoredProject:
    """A project, to which telemetry belongs. `id` is a positive 53-bit integer. `retention_days` None: the retention of
    the settings.
    """

    id: int
    org_id: str
    slug: str
    name: str
    sensitive_words: tuple[str, ...]
    created_at: datetime
    retention_days: int | None = None
    resolve_on_merge: ResolveOnMerge = ResolveOnMerge.NEXT_RELEASE
    exempt_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A personal access token and, only here, its secret."""

    id: str
    secret: str = field(repr=False)


async def has_any_organization(connection: AsyncConnection) -> bool:
    """Whether this database has been set up, even if all its organizations were deleted since."""
    return await connection.scalar(sa.select(organizations.c.id).limit(1)) is not None


async def create_organization(
    connection: AsyncConnection, slug: str, name: str, monthly_items: int = 0
) -> StoredOrganization:
    """Create an organization. Raises SlugTaken, also for the slug of a deleted organization. Raises ValueError for an
    invalid slug, name or quota.
    """
    organization = StoredOrganization(
        new_id("org"), validate_slug(slug), validate_name(name), bounded_int(MAX_MONTHLY_ITEMS, monthly_items), now()
    )
    retired = sa.select(organizations.c.id).where(organizations.c.retired_slug == hash_secret(slug))
    if await connection.scalar(retired) is not None:
        raise SlugTaken(slug, deleted=True)
    await _insert_slug(connection, organizations, asdict(organization))
    return organization


async def find_organization(connection: AsyncConnection, slug: str) -> StoredOrganization | None:
    """The organization with this slug."""
    return await _find_organization(connection, organizations.c.slug == slug)


async def find_first_organization(connection: AsyncConnection) -> StoredOrganization | None:
    """The oldest organization that is not deleted."""
    return await _find_organization(connection, sa.true())


async def _find_organization(connection: AsyncConnection, where: sa.ColumnElement[bool]) -> StoredOrganization | None:
    columns = [organizations.c[name] for name in StoredOrganization.__slots__]
    statement = sa.select(*columns).where(where, organizations.c.deleted_at.is_(None))
    row = (await connection.execute(statement.order_by(organizations.c.created_at).limit(1))).mappings().one_or_none()
    return None if row is None else StoredOrganization(**row)


async def rename_organization(connection: AsyncConnection, org_id: str, name: str) -> None:
    """Rename an organization. Raises ValueError for an invalid name."""
    await connection.execute(
        organizations.update().where(organizations.c.id == org_id).values(name=validate_name(name))
    )


async def set_quota(connection: AsyncConnection, org_id: str, monthly_items: int) -> None:
    """Set the monthly quota, also for the current month. Guards apply it within FRESH_S seconds. Raises ValueError if
    it is out of range.
    """
    values = {"monthly_items": bounded_int(MAX_MONTHLY_ITEMS, monthly_items)}
    await connection.execute(organizations.update().where(organizations.c.id == org_id).values(values))


async def create_project(
    connection: AsyncConnection,
    org_id: str,
    slug: str,
    name: str,
    sensitive_words: Sequence[str] = (),
    retention_days: int | None = None,
) -> StoredProject:
    """Create a project. Raises SlugTaken. Raises ValueError for an invalid slug, name or word. The caller checks the
    bounds of the retention.
    """
    row: dict[str, Any] = {
        "id": new_project_id(),
        "org_id": org_id,
        "slug": validate_slug(slug),
        "name": validate_name(name),
        "sensitive_words": _validate_sensitive_words(sensitive_words),
        "created_at": now(),
        "retention_days": retention_days,
    }
    await _insert_slug(connection, projects, row | {"sensitive_words": list(row["sensitive_words"])})
    return StoredProject(**row)


async def find_project(connection: AsyncConnection, org_id: str, slug: str) -> StoredProject | None:
    """The organization's project with this slug."""
    statement = sa.select(*_project_columns()).where(_live_project(org_id), projects.c.slug == slug)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _project(row)


async def list_projects(connection: AsyncConnection, org_id: str, after_slug: str, limit: int) -> list[StoredProject]:
    """At most `limit` projects by slug, starting after `after_slug` (empty: from the start)."""
    page = (
        sa.select(*_project_columns())
        .where(_live_project(org_id), projects.c.slug > after_slug)
        .order_by(projects.c.slug)
        .limit(limit)
    )
    return [_project(row) for row in (await connection.execute(page)).mappings()]


async def change_project(
    connection: AsyncConnection,
    org_id: str,
    slug: str,
    *,
    name: str | None = None,
    sensitive_words: Sequence[str] | None = None,
    retention_days: int | UnsetType | None = UNSET,
    resolve_on_merge: ResolveOnMerge | None = None,
    exempt_keys: Sequence[str] | None = None,
) -> StoredProject | None:
    """Set the given values (`retention_days` None: the retention of the settings). Returns the changed project, None if
    there is no such project. Raises ValueError for an invalid name, word or key.
    """
    given = {
        "name": None if name is None else validate_name(name),
        "sensitive_words": None if sensitive_words is None else list(_validate_sensitive_words(sensitive_words)),
        "resolve_on_merge": None if resolve_on_merge is None else resolve_on_merge.value,
        "exempt_keys": None if exempt_keys is None else validate_exempt_keys(exempt_keys),
    }
    values: dict[str, Any] = {column: value for column, value in given.items() if value is not None}
    if retention_days is not UNSET:
        values["retention_days"] = retention_days
    if values:
        where = _live_project(org_id) & (projects.c.slug == slug)
        await connection.execute(projects.update().where(where).values(values))
    return await find_project(connection, org_id, slug)


async def create_principal(
    connection: AsyncConnection, kind: PrincipalKind, name: str, owner_id: str | None = None
) -> Principal:
    """Create a user, or an agent or service with its owner. Raises ValueError for an invalid name, and for a wrong or
    missing owner.
    """
    if (kind is PrincipalKind.USER) != (owner_id is None):
        raise ValueError("agents and services have an owner, users have none")
    principal = Principal(new_id("prn"), kind, validate_name(name), owner_id)
    row = {"id": principal.id, "kind": kind.value, "name": principal.name, "owner_id": owner_id, "created_at": now()}
    await connection.execute(principals.insert().values(row))
    return principal


async def disable_principal(connection: AsyncConnection, principal_id: str) -> None:
    """Disable the principal. All its tokens stop working."""
    where = (principals.c.id == principal_id) & principals.c.disabled_at.is_(None)
    await connection.execute(principals.update().where(where).values(disabled_at=now()))


async def add_membership(
    connection: AsyncConnection, org_id: str, principal_id: str, role: Role, *, managed: bool = False
) -> None:
    """Make the principal a member. `managed`: the organization's directory manages the member. Raises Conflict if the
    principal is already a member, and for an account with an unverified address outside of its home organization. Only
    this function enforces the confinement, because credentials work nowhere without a membership.
    """
    if await connection.scalar(_confined_elsewhere(org_id, principal_id)) is not None:
        raise Conflict("The account is confined to another organization until its e-mail address is verified.")
    row = {"org_id": org_id, "principal_id": principal_id, "role": role.value, "managed": managed, "created_at": now()}
    try:
        await connection.execute(memberships.insert().values(row))
    except exc.IntegrityError as error:
        raise Conflict("The principal is already a member of the organization.") from error


async def set_role(connection: AsyncConnection, org_id: str, principal_id: str, role: Role) -> bool:
    """Change a member's role. False if there is no such member."""
    where = (memberships.c.org_id == org_id) & (memberships.c.principal_id == principal_id)
    return (await connection.execute(memberships.update().where(where).values(role=role.value))).rowcount == 1


async def remove_membership(connection: AsyncConnection, org_id: str, principal_id: str) -> bool:
    """Remove a member, which can no longer see the organization. False if there is no such member."""
    where = (memberships.c.org_id == org_id) & (memberships.c.principal_id == principal_id)
    return (await connection.execute(memberships.delete().where(where))).rowcount == 1


async def create_token(
    connection: AsyncConnection,
    org_id: str,
    principal_id: str,
    name: str,
    *,
    scopes: Iterable[Scope] | None = None,
    expires_at: datetime | None = None,
    minted_with: str | None = None,
) -> IssuedToken:
    """Create a personal access token of the organization. `scopes` None: all scopes of the holder's role. The token is
    revoked together with the token `minted_with`.

    Raises ValueError for an invalid name. The caller checks whether these scopes may be granted.
    """
    secret = new_token()
    row = {
        "id": new_id("tok"),
        "org_id": org_id,
        "principal_id": principal_id,
        "name": validate_name(name),
        "hash": hash_secret(secret),
        "hint": secret_hint(secret),
        "scopes": None if scopes is None else sorted(scope.value for scope in scopes),
        "expires_at": expires_at,
        "created_at": now(),
        "minted_with": minted_with,
    }
    await connection.execute(access_tokens.insert().values(row))
    return IssuedToken(str(row["id"]), secret)


async def revoke_token(connection: AsyncConnection, org_id: str, token_id: str) -> RevokedCounts | None:
    """Revoke the token and everything created with it, permanently and idempotently. None if there is no such token."""
    where = (access_tokens.c.org_id == org_id) & (access_tokens.c.id == token_id)
    if await connection.scalar(sa.select(access_tokens.c.id).where(where)) is None:
        return None
    return await revoke_tree(connection, org_id, token_id, now())


def _confined_elsewhere(org_id: str, principal_id: str) -> sa.Select[tuple[str]]:
    at_home = users.c.home_org_id.is_not(None) & (users.c.home_org_id == org_id)
    return sa.select(users.c.principal_id).where(
        users.c.principal_id == principal_id, users.c.email_verified.is_(False), sa.not_(at_home)
    )


async def _insert_slug(connection: AsyncConnection, table: sa.Table, row: dict[str, Any]) -> None:
    try:
        await connection.execute(table.insert().values(row))
    except exc.IntegrityError as error:
        raise SlugTaken(row["slug"]) from error


def _project_columns() -> list[sa.Column[Any]]:
    return [projects.c[name] for name in StoredProject.__slots__]


def _live_project(org_id: str) -> sa.ColumnElement[bool]:
    return (projects.c.org_id == org_id) & projects.c.deleted_at.is_(None)


def _project(row: sa.RowMapping) -> StoredProject:
    typed = {
        "sensitive_words": tuple(row["sensitive_words"]),
        "resolve_on_merge": ResolveOnMerge(row["resolve_on_merge"]),
        "exempt_keys": tuple(row["exempt_keys"]),
    }
    return StoredProject(**{**row, **typed})


def _validate_sensitive_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words without duplicates, in order. Raises ValueError."""
    bad = [word for word in words if _SENSITIVE_WORD.search(word) is None]
    if bad or len(words) > MAX_SENSITIVE_WORDS:
        raise ValueError(
            f"must be at most {MAX_SENSITIVE_WORDS} words of lowercase letters, digits, dots, hyphens and underscores: "
            f"{bad}"
        )
    return tuple(dict.fromkeys(words))


def now() -> datetime:
    """The current time in the precision of the database, milliseconds."""
    return to_milliseconds(datetime.now(UTC))
