"""Domains of an organization's e-mail addresses. Every function runs in the caller's transaction.

A domain is proven for one organization at most. Addresses of its subdomains are not covered: whoever controls
`example.com` need not control what `lab.example.com` mails.
"""

import secrets
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.identity.sso.tables import sso_domains

MAX_DOMAINS = 100  # of one organization


class DomainTaken(Conflict):
    """Another organization has proven the domain."""

    def __init__(self) -> None:
        super().__init__("Another organization has proven this domain.")


@dataclass(frozen=True, slots=True)
class StoredDomain:
    """`challenge`: the text that a TXT record of the domain has to have. `verified_at` None: not proven yet."""

    id: str
    org_id: str
    domain: str
    challenge: str
    created_at: datetime
    verified_at: datetime | None


_DOMAINS = sa.select(*(sso_domains.c[name] for name in StoredDomain.__slots__))


async def list_domains(connection: AsyncConnection, org_id: str) -> list[StoredDomain]:
    """Those of the organization, by name; at most MAX_DOMAINS."""
    rows = await connection.execute(_DOMAINS.where(sso_domains.c.org_id == org_id).order_by(sso_domains.c.domain))
    return [StoredDomain(**row) for row in rows.mappings()]


async def find(connection: AsyncConnection, org_id: str, domain_id: str) -> StoredDomain | None:
    """The organization's domain with this id."""
    found = _DOMAINS.where(sso_domains.c.org_id == org_id, sso_domains.c.id == domain_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else StoredDomain(**row)


async def find_by_name(connection: AsyncConnection, org_id: str, domain: str) -> StoredDomain | None:
    """The organization's domain with this name."""
    found = _DOMAINS.where(sso_domains.c.org_id == org_id, sso_domains.c.domain == domain)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else StoredDomain(**row)


async def is_verified(connection: AsyncConnection, org_id: str, domain: str) -> bool:
    """Whether the organization has proven the domain."""
    found = await find_by_name(connection, org_id, domain)
    return found is not None and found.verified_at is not None


async def add(connection: AsyncConnection, org_id: str, domain: str, now: datetime) -> StoredDomain:
    """A domain with a new challenge. Raises Conflict for one that the organization has, and beyond MAX_DOMAINS."""
    present = await list_domains(connection, org_id)
    if any(each.domain == domain for each in present):
        raise Conflict(f"The organization has the domain {domain} already.")
    if len(present) >= MAX_DOMAINS:
        raise Conflict(f"An organization can have at most {MAX_DOMAINS} domains.")
    stored = StoredDomain(
        new_id("dom"), org_id, domain, f"sluice-domain={secrets.token_urlsafe(24)}", to_milliseconds(now), None
    )
    await connection.execute(
        sso_domains.insert().values({name: getattr(stored, name) for name in StoredDomain.__slots__})
    )
    return stored


async def mark_verified(connection: AsyncConnection, stored: StoredDomain, now: datetime) -> StoredDomain:
    """Raises DomainTaken."""
    other = sa.select(sso_domains.c.id).where(
        sso_domains.c.domain == stored.domain, sso_domains.c.id != stored.id, sso_domains.c.verified_at.is_not(None)
    )
    if await connection.scalar(other) is not None:
        raise DomainTaken
    verified = replace(stored, verified_at=to_milliseconds(now))
    changed = sso_domains.update().where(sso_domains.c.id == stored.id).values(verified_at=verified.verified_at)
    try:
        await connection.execute(changed)
    except exc.IntegrityError as error:
        raise DomainTaken from error
    return verified


async def remove(connection: AsyncConnection, stored: StoredDomain) -> None:
    """Accounts that were linked by the domain stay linked."""
    await connection.execute(sso_domains.delete().where(sso_domains.c.id == stored.id))
