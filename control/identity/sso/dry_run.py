"""`POST /orgs/{orgSlug}/sso/connections/{protocol}/dry-run`: what a login with certain attributes would do."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response
from control.http.context import HandlerContext
from control.identity.members import member_store
from control.identity.sso import accounts, connection_repository, identity_repository, mapping
from control.identity.sso.connections import PROTOCOL, TAG, parse_protocol
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import MAX_SUBJECT_LENGTH, Protocol
from control.identity.users import user_store
from proto.identity import Role, Scope

_Value = str | bool | float | None | list[str]


class ConnectionDryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a provider would say: attributes of an assertion, or claims of an ID token."""

    attributes: Annotated[dict[str, _Value], Meta(max_length=200)]
    subject: Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT_LENGTH)] | None = None


class ConnectionDryRunResult(msgspec.Struct, frozen=True, rename="camel"):
    """What would follow. `account`: the linked one (KNOWN), one that would be linked by its address (LINKED) or
    created (CREATED), or none (REFUSED), for the reason that the audit log would have.
    """

    account: Literal["KNOWN", "LINKED", "CREATED", "REFUSED"]
    reason: str | None
    detail: str | None
    email: str | None
    name: str | None
    groups: list[str]
    role: Annotated[
        Role | None,
        Meta(
            description="The role of a new member. Existing members keep theirs unless there is a `roleMapping`; "
            "owners, and the last administrator, always do."
        ),
    ]


DRY_RUN: Final = Operation(
    "dryRunSsoConnection",
    TAG,
    (ResponseSpec("What would follow.", json_content(ConnectionDryRunResult)),),
    (PROTOCOL,),
    body=Body(
        json_content(ConnectionDryRun),
        example={"attributes": {"email": "ada@example.com", "name": "Ada", "groups": ["platform-team"]}},
    ),
)


@dataclass(frozen=True, slots=True)
class ConnectionDryRuns:
    """The handler of dry runs, and its dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """The route of this resource."""
        path = "/orgs/{orgSlug}/sso/connections/{protocol}/dry-run"
        return [Route("POST", path, self.dry_run, bearer(Scope.SSO_READ), operation=DRY_RUN)]

    async def dry_run(self, request: web.Request) -> web.StreamResponse:
        """Show what a login with these attributes would do, without doing it.

        Maps them as the connection is configured now, enabled or not. A `subject` of SAML that is an address counts as
        a NameID whose format says so.
        """
        protocol, caller = parse_protocol(request), authorization_context(request)
        body = await self.context.read_body(request, ConnectionDryRun)
        async with self.context.database.read() as connection:
            stored = await connection_repository.find_connection(connection, caller.org_id, protocol)
            if stored is None:
                raise NotFound
            claims: dict[str, Any] = dict(body.attributes)
            try:
                named = (body.subject or "") if protocol is Protocol.SAML and "@" in (body.subject or "") else ""
                profile = mapping.read_profile(protocol, stored.attribute_mapping, claims, named)
            except LoginRefused as refusal:
                return json_response(_refused(refusal, None, None))
            role = mapping.role_of(stored.role_mapping, stored.default_role, profile.groups)
            known = None
            if body.subject is not None:
                known = await identity_repository.find(connection, stored.id, body.subject)
            existing = await user_store.find_in_organization(connection, profile.email, caller.org_slug)
            account: Literal["KNOWN", "LINKED", "CREATED"] = "CREATED" if known is None else "KNOWN"
            try:
                provisioned = (
                    await accounts.find_provisioned(connection, stored, body.subject or "", profile)
                    if known is None
                    else None
                )
                linked = provisioned or existing
                if known is None and linked is not None:
                    account = "LINKED"
                    if provisioned is None:
                        await accounts.require_linkable(connection, stored, linked, profile)
                    await accounts.require_unlinked(connection, stored, linked)
            except LoginRefused as refusal:
                return json_response(_refused(refusal, profile, role))
            principal_id = known.principal_id if known is not None else linked and linked.id
            member = principal_id and await member_store.find_member(connection, caller.org_id, principal_id)
            if member and member.managed:
                role = member.role
        return json_response(
            ConnectionDryRunResult(account, None, None, profile.email, profile.name, sorted(profile.groups), role)
        )


def _refused(refusal: LoginRefused, profile: mapping.Profile | None, role: Role | None) -> ConnectionDryRunResult:
    return ConnectionDryRunResult(
        account="REFUSED",
        reason=refusal.reason,
        detail=refusal.detail,
        email=None if profile is None else profile.email,
        name=None if profile is None else profile.name,
        groups=[] if profile is None else sorted(profile.groups),
        role=role,
    )
