"""`/orgs/{orgSlug}/sso/identities`: which user of a provider is which member; list, unlink."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity.bodies import Email
from control.identity.sso import identity_repository as store
from control.identity.sso import settings_repository
from control.identity.sso.connections import TAG, require_user
from control.identity.sso.identity_repository import StoredIdentity
from control.identity.sso.tables import MAX_SUBJECT_LENGTH
from proto.identity import Scope

_ID: Final = re.compile(r"ssi_[0-9a-z]{26}")


class LinkedIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """A user of a provider, and the member who it is."""

    id: str
    connection_id: str
    subject: Annotated[str, Meta(max_length=MAX_SUBJECT_LENGTH, description="NameID of SAML, `sub` of OIDC.")]
    principal_id: str
    email: Annotated[Email, Meta(description="As the provider last named it; the account may have another.")]
    created_at: Timestamp
    last_login_at: Timestamp


class LinkedIdentityPage(msgspec.Struct, rename="camel"):
    """A page of identities, in the order of their creation."""

    data: list[LinkedIdentity]
    next_cursor: NextCursor
    has_more: bool


ID: Final = Parameter("identityId", "path", Annotated[str, Meta(min_length=1)], "The identity.")
LIST: Final = Operation(
    "listSsoIdentities", TAG, (ResponseSpec("A page.", json_content(LinkedIdentityPage)),), PAGE_PARAMETERS
)
UNLINK: Final = Operation("unlinkSsoIdentity", TAG, (ResponseSpec("The identity was unlinked.", status=204),), (ID,))


@dataclass(frozen=True, slots=True)
class Identities:
    """Handlers of identities, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/sso/identities"
        return [
            Route("GET", every, self.list, bearer(Scope.SSO_READ), operation=LIST),
            Route("DELETE", every + "/{identityId}", self.unlink, bearer(Scope.SSO_WRITE), operation=UNLINK),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List which users of the organization's providers are which members."""
        org_id = authorization_context(request).org_id
        binding = f"sso identities of {org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await store.list_identities(connection, org_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, _body, lambda one: one.id, self.context.cursors, binding))

    async def unlink(self, request: web.Request) -> web.StreamResponse:
        """Unlink a user of a provider from a member, whose sessions of single sign-on end.

        The member stays. At the next login the provider's user is somebody new, and has to be linked again. Only users
        may.
        """
        require_user(authorization_context(request))
        identity_id = request.match_info["identityId"]
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            found = await store.find_by_id(connection, identity_id) if _ID.fullmatch(identity_id) else None
            if found is None or found.org_id != caller.org_id:
                raise NotFound
            await settings_repository.end_federated_sessions_of(
                connection, caller.org_id, found.principal_id, datetime.now(UTC)
            )
            await store.remove(connection, found.id)
            data = {"principalId": found.principal_id, "connectionId": found.connection_id}
            await record(connection, caller, "sso.unlink", found.id, data, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return web.Response(status=204)


def _body(identity: StoredIdentity) -> LinkedIdentity:
    return LinkedIdentity(
        id=identity.id,
        connection_id=identity.connection_id,
        subject=identity.subject,
        principal_id=identity.principal_id,
        email=identity.email,
        created_at=format_time(identity.created_at),
        last_login_at=format_time(identity.last_login_at),
    )
