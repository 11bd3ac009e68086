"""`/orgs/{orgSlug}/sso/domains`: domains that the organization proves to own by a TXT record.

A domain is proven for one organization at most. Addresses of its subdomains are not covered, because the owner of
`example.com` may not control the addresses of `lab.example.com`.
"""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Protocol

import msgspec
import sqlalchemy as sa
import structlog
from aiohttp import web
from dns import asyncresolver, exception
from dns.rdtypes.ANY.TXT import TXT
from msgspec import Meta
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.http.access import bearer
from chassis.http.declaration import route
from control.http.field_types import Timestamp
from control.identity.sso.tables import MAX_DOMAIN_LENGTH, sso_domains
from control.routing.arguments import Handlers, Transaction, begin
from control.routing.resource import Resource, ids, in_organization, shown_as
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/sso/domains"
ONE: Final = PATH + "/{domainId}"
_WRITE: Final = bearer(Scope.SSO_WRITE)
MAX_DOMAINS: Final = 100  # per organization
LIFETIME_S: Final = 5.0  # seconds per look-up
MAX_RECORDS: Final = 100

log = structlog.get_logger(__name__)

DomainName = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=MAX_DOMAIN_LENGTH,
        pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+(?!\n)$",
        description="Must be a domain name of at least two labels. An internationalized name must be in its ASCII form "
        "(xn--).",
    ),
]


class NewDomain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A domain to prove."""

    domain: DomainName


class Domain(msgspec.Struct, frozen=True, rename="camel"):
    """A domain of the organization's e-mail addresses."""

    id: str
    domain: DomainName
    txt_record: Annotated[str, Meta(description="The text that a TXT record of the domain must contain.")]
    created_at: Timestamp
    verified_at: Annotated[Timestamp | None, Meta(description="Null if the domain is not proven yet.")]


class DomainList(msgspec.Struct, frozen=True):
    """The domains of the organization, by name."""

    data: Annotated[list[Domain], Meta(max_length=MAX_DOMAINS)]


DOMAINS: Final = Resource(
    "domainId",
    ids("dom"),
    Scope.SSO_READ,
    sso_domains.c.id,
    in_organization(sso_domains),
    sa.select(sso_domains),
    lambda row, _caller: shown_as(Domain, row, txt_record=row.challenge),
)


class TxtResolver(Protocol):
    """Looks up TXT records."""

    async def txt_records(self, domain: str) -> list[str]:
        """The texts of the domain's TXT records. Empty if it has none, or if the look-up fails."""


class DnsResolver:
    """Asks name servers over UDP, then TCP."""

    def __init__(self, nameservers: tuple[str, ...] = ()) -> None:
        """`nameservers`: IP addresses to ask. Empty: the name servers of this machine."""
        self._nameservers = nameservers

    async def txt_records(self, domain: str) -> list[str]:
        try:
            resolver = asyncresolver.Resolver(configure=not self._nameservers)
            if self._nameservers:
                resolver.nameservers = list(self._nameservers)
            answer = await resolver.resolve(f"{domain}.", "TXT", lifetime=LIFETIME_S, raise_on_no_answer=False)
        except (exception.DNSException, OSError) as error:
            log.info("TXT records not found", domain=domain, error=str(error))
            return []
        records = [record for record in answer if isinstance(record, TXT)]
        return [b"".join(record.strings).decode("utf-8", "replace") for record in records[:MAX_RECORDS]]


@dataclass(frozen=True, slots=True)
class Domains(Handlers):
    """Handlers of domains, and their dependencies."""

    resolver: TxtResolver

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def list_sso_domains(self, caller: AuthorizationContext, connection: AsyncConnection) -> DomainList:
        """List the domains of the organization."""
        statement = DOMAINS.rows.where(sso_domains.c.org_id == caller.org_id).order_by(sso_domains.c.domain)
        return DomainList([DOMAINS.body(row, caller) for row in await connection.execute(statement)])

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example={"domain": "example.com"})
    async def add_sso_domain(self, body: NewDomain, transaction: Transaction) -> Domain:
        """Add a domain to prove.

        Then add `txtRecord` as a TXT record of the domain, and verify the domain. Members whose address is in a proven
        domain are linked to the provider's user with that address. Subdomains are not covered. Only users may add one.
        """
        connection, caller = transaction.connection, transaction.caller
        domain_id = await add_domain(connection, caller.org_id, body.domain.lower(), datetime.now(UTC))
        added = await DOMAINS.show(connection, caller, domain_id)
        await transaction.record("sso.domain.add", domain_id, {"domain": added.domain})
        return added

    @route("POST", ONE + "/verify", _WRITE, errors=(409,))
    async def verify_sso_domain(self, domain_id: str, request: web.Request, caller: AuthorizationContext) -> Domain:
        """Verify a domain by its TXT record.

        409 while the record is not found, and if another organization has proven the domain. You may remove the record
        afterwards.
        """
        async with self.context.database.read() as connection:
            found = await DOMAINS.show(connection, caller, domain_id)
        if found.verified_at is None and found.txt_record not in await self.resolver.txt_records(found.domain):
            message = f"No TXT record of {found.domain} is {found.txt_record!r}. A new record may take some minutes."
            raise Conflict(message)
        async with begin(self.context, request) as transaction:
            found = await DOMAINS.show(transaction.connection, transaction.caller, domain_id)
            if found.verified_at is not None:
                return found
            await mark_verified(transaction.connection, domain_id, datetime.now(UTC))
            await transaction.record("sso.domain.verify", domain_id, {"domain": found.domain, "by": "dns"})
            return await DOMAINS.show(transaction.connection, transaction.caller, domain_id)

    @route("DELETE", ONE, _WRITE)
    async def remove_sso_domain(self, domain_id: str, transaction: Transaction) -> None:
        """Remove a domain.

        Members who were linked because of the domain stay linked.
        """
        found = await DOMAINS.show(transaction.connection, transaction.caller, domain_id)
        await DOMAINS.delete(transaction.connection, transaction.caller, domain_id)
        data = {"domain": found.domain, "verified": found.verified_at is not None}
        await transaction.record("sso.domain.remove", domain_id, data)


async def find_domain(connection: AsyncConnection, org_id: str, domain: str) -> sa.Row[Any] | None:
    """The row of the organization's domain with this name. `verified_at` None: the domain is not proven yet."""
    statement = sa.select(sso_domains).where(sso_domains.c.org_id == org_id, sso_domains.c.domain == domain)
    return (await connection.execute(statement)).one_or_none()


async def is_domain_verified(connection: AsyncConnection, org_id: str, domain: str) -> bool:
    """Whether the organization has proven the domain."""
    found = await find_domain(connection, org_id, domain)
    return found is not None and found.verified_at is not None


async def add_domain(connection: AsyncConnection, org_id: str, domain: str, now: datetime) -> str:
    """Add a domain with a new challenge and return its id. Raises Conflict for a domain that the organization has, and
    beyond MAX_DOMAINS.
    """
    names = set(await connection.scalars(sa.select(sso_domains.c.domain).where(sso_domains.c.org_id == org_id)))
    if domain in names:
        raise Conflict(f"The organization already has the domain {domain}.")
    if len(names) >= MAX_DOMAINS:
        raise Conflict(f"An organization can have at most {MAX_DOMAINS} domains.")
    domain_id = new_id("dom")
    row = {
        "id": domain_id,
        "org_id": org_id,
        "domain": domain,
        "challenge": f"sluice-domain={secrets.token_urlsafe(24)}",
        "created_at": to_milliseconds(now),
    }
    await connection.execute(sso_domains.insert().values(row))
    return domain_id


async def mark_verified(connection: AsyncConnection, domain_id: str, now: datetime) -> None:
    """Mark the domain as proven. Raises Conflict if another organization has proven it."""
    changed = sso_domains.update().where(sso_domains.c.id == domain_id).values(verified_at=to_milliseconds(now))
    try:
        await connection.execute(changed)
    except exc.IntegrityError as error:
        raise Conflict("Another organization has proven this domain.") from error
