"""`/orgs/{orgSlug}/sso/domains`: domains that the organization proves to own by a TXT record."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import format_time
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.route import Body, Operation, Parameter, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.identity.sso import domain_repository as store
from control.identity.sso.connections import TAG, require_user
from control.identity.sso.dns import TxtResolver
from control.identity.sso.domain_repository import StoredDomain
from control.identity.sso.tables import MAX_DOMAIN_LENGTH
from proto.identity import Scope

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

    data: Annotated[list[Domain], Meta(max_length=store.MAX_DOMAINS)]


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
            found = await store.list_domains(connection, authorization_context(request).org_id)
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
            stored = await store.add(connection, caller.org_id, body.domain.lower(), datetime.now(UTC))
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
                found = await store.mark_verified(connection, found, datetime.now(UTC))
                data = {"domain": found.domain, "by": "dns"}
                await record(connection, caller, "sso.domain.verify", found.id, data, request_id(request))
        return json_response(_body(found))

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Remove a domain. Members who were linked by it stay linked."""
        require_user(authorization_context(request))
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            found = await _load(connection, request, caller.org_id)
            await store.remove(connection, found)
            data = {"domain": found.domain, "verified": found.verified_at is not None}
            await record(connection, caller, "sso.domain.remove", found.id, data, request_id(request))
        return web.Response(status=204)


async def _load(connection: AsyncConnection, request: web.Request, org_id: str) -> StoredDomain:
    """The domain in the path. Raises NotFound."""
    domain_id = request.match_info["domainId"]
    found = await store.find(connection, org_id, domain_id) if _ID.fullmatch(domain_id) else None
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
