"""`/orgs/{orgSlug}/sso/domains`: domains that the organization proves to own by a TXT record.

A domain is proven for one organization at most. Addresses of its subdomains are not covered: the owner of `example.com` need
not control what `lab.example.com` mails. Functions with a `connection` run in the caller's transaction.
"""

import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Final, Protocol

import msgspec
import sqlalchemy as sa
import structlog
from aiohttp import web
from dns import asyncresolver, exception
from dns.rdtypes.ANY.TXT import TXT
from msgspec import Meta
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.identity.sso.connections import TAG, require_user
from control.identity.sso.tables import MAX_DOMAIN_LENGTH, sso_domains
from proto.identity import Scope

LIFETIME_S: Final = 5.0
MAX_RECORDS: Final = 100

log = structlog.get_logger(__name__)


class TxtResolver(Protocol):
    """Looks up TXT records."""

    async def txt_records(self, domain: str) -> list[str]:
        """The texts of the domain's TXT records; none if there are none, or if the look-up fails."""


class DnsResolver:
    """Asks name servers over UDP, then TCP."""

    def __init__(self, nameservers: tuple[str, ...] = ()) -> None:
        """`nameservers`: IP addresses to ask; empty: those of this machine."""
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


async def find_domain(connection: AsyncConnection, org_id: str, domain_id: str) -> StoredDomain | None:
    """The organization's domain with this id."""
    found = _DOMAINS.where(sso_domains.c.org_id == org_id, sso_domains.c.id == domain_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else StoredDomain(**row)


async def find_domain_by_name(connection: AsyncConnection, org_id: str, domain: str) -> StoredDomain | None:
    """The organization's domain with this name."""
    found = _DOMAINS.where(sso_domains.c.org_id == org_id, sso_domains.c.domain == domain)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else StoredDomain(**row)


async def is_domain_verified(connection: AsyncConnection, org_id: str, domain: str) -> bool:
    """Whether the organization has proven the domain."""
    found = await find_domain_by_name(connection, org_id, domain)
    return found is not None and found.verified_at is not None


async def add_domain(connection: AsyncConnection, org_id: str, domain: str, now: datetime) -> StoredDomain:
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


async def remove_domain(connection: AsyncConnection, stored: StoredDomain) -> None:
    """Accounts that were linked by the domain stay linked."""
    await connection.execute(sso_domains.delete().where(sso_domains.c.id == stored.id))


DomainName = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=MAX_DOMAIN_LENGTH,
        pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+(?!\n)$",
        description="Must be a domain name of two labels or more, an internationalized one in its ASCII form (xn--).",
    ),
]
_ID: Final = re.compile(r"dom_[0-9a-z]{26}")


class NewDomain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A domain to prove."""

    domain: DomainName


class Domain(msgspec.Struct, frozen=True, rename="camel"):
    """A domain of the organization's e-mail addresses."""

    id: str
    domain: DomainName
    txt_record: Annotated[str, Meta(description="What a TXT record of the domain has to contain.")]
    created_at: Timestamp
    verified_at: Annotated[Timestamp | None, Meta(description="Null: not proven yet.")]


class DomainList(msgspec.Struct, frozen=True):
    """The domains of the organization, by name."""

    data: Annotated[list[Domain], Meta(max_length=MAX_DOMAINS)]


ID: Final = Parameter("domainId", "path", Annotated[str, Meta(min_length=1)], "The domain.")
LIST: Final = Operation("listSsoDomains", TAG, (ResponseSpec("The domains.", json_content(DomainList)),))
ADD: Final = Operation(
    "addSsoDomain",
    TAG,
    (ResponseSpec("The domain, with what its TXT record has to contain.", json_content(Domain), 201),),
    body=Body(json_content(NewDomain), example={"domain": "example.com"}),
    error_statuses=(409,),
)
VERIFY: Final = Operation(
    "verifySsoDomain", TAG, (ResponseSpec("The proven domain.", json_content(Domain)),), (ID,), error_statuses=(409,)
)
REMOVE: Final = Operation("removeSsoDomain", TAG, (ResponseSpec("The domain was removed.", status=204),), (ID,))


@dataclass(frozen=True, slots=True)
class Domains:
    """Handlers of domains, and their dependencies."""

    context: HandlerContext
    resolver: TxtResolver

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, write = "/orgs/{orgSlug}/sso/domains", bearer(Scope.SSO_WRITE)
        one = every + "/{domainId}"
        return [
            Route("GET", every, self.list, bearer(Scope.SSO_READ), operation=LIST),
            Route("POST", every, self.add, write, operation=ADD),
            Route("POST", one + "/verify", self.verify, write, operation=VERIFY),
            Route("DELETE", one, self.remove, write, operation=REMOVE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the domains of the organization."""
        async with self.context.database.read() as connection:
            found = await list_domains(connection, authorization_context(request).org_id)
        return json_response(DomainList([_body(each) for each in found]))

    async def add(self, request: web.Request) -> web.StreamResponse:
        """Add a domain to prove.

        Then add `txtRecord` as a TXT record of the domain, and verify it. Members whose address is in a proven domain
        are linked to the provider's user with that address. Subdomains are not covered. Only users may.
        """
        require_user(authorization_context(request))
        body = await self.context.read_body(request, NewDomain)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            stored = await add_domain(connection, caller.org_id, body.domain.lower(), datetime.now(UTC))
            await record(
                connection, caller, "sso.domain.add", stored.id, {"domain": stored.domain}, request_id(request)
            )
        return json_response(_body(stored), status=201)

    async def verify(self, request: web.Request) -> web.StreamResponse:
        """Verify a domain by its TXT record.

        409 while the record is not found, and if another organization has proven the domain. The record may be removed
        afterwards.
        """
        require_user(authorization_context(request))
        async with self.context.database.read() as connection:
            found = await _load(connection, request, authorization_context(request).org_id)
        if found.verified_at is None and found.challenge not in await self.resolver.txt_records(found.domain):
            raise Conflict(f"No TXT record of {found.domain} is {found.challenge!r}; a new one may take some minutes.")
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            found = await _load(connection, request, caller.org_id)
            if found.verified_at is None:
                found = await mark_verified(connection, found, datetime.now(UTC))
                data = {"domain": found.domain, "by": "dns"}
                await record(connection, caller, "sso.domain.verify", found.id, data, request_id(request))
        return json_response(_body(found))

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Remove a domain. Members who were linked by it stay linked."""
        require_user(authorization_context(request))
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            found = await _load(connection, request, caller.org_id)
            await remove_domain(connection, found)
            data = {"domain": found.domain, "verified": found.verified_at is not None}
            await record(connection, caller, "sso.domain.remove", found.id, data, request_id(request))
        return web.Response(status=204)


async def _load(connection: AsyncConnection, request: web.Request, org_id: str) -> StoredDomain:
    """The domain in the path. Raises NotFound."""
    domain_id = request.match_info["domainId"]
    found = await find_domain(connection, org_id, domain_id) if _ID.fullmatch(domain_id) else None
    if found is None:
        raise NotFound
    return found


def _body(stored: StoredDomain) -> Domain:
    return Domain(
        id=stored.id,
        domain=stored.domain,
        txt_record=stored.challenge,
        created_at=format_time(stored.created_at),
        verified_at=None if stored.verified_at is None else format_time(stored.verified_at),
    )
