"""`/orgs/{orgSlug}/invitations`: list, create, revoke."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.directory.user_repository import find_for_login
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity import enforcement, member_repository
from control.identity import invitation_repository as store
from control.identity.invitation_repository import IssuedInvitation, StoredInvitation
from control.identity.mail import AccountMailer, require_mail_rate
from control.identity.schemas import INVITATION_ID, Email
from proto.identity import Role, Scope, normalize_email

InvitationState = Literal["OPEN", "ACCEPTED", "REVOKED", "EXPIRED"]
_INVALID_INVITATION: Final = "The invitation is not valid."


class NewInvitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The address to invite, and the role."""

    email: Email
    role: Role
    send_mail: Annotated[
        bool,
        Meta(
            description="Whether to mail the secret to the address, so that accepting verifies it. Otherwise the "
            "response has the secret."
        ),
    ] = False


class Invitation(msgspec.Struct, frozen=True, rename="camel"):
    """An invitation, without its secret."""

    id: Annotated[str, Meta(pattern=f"^{INVITATION_ID.pattern}$")]
    email: Email
    role: Role
    state: InvitationState
    mailed: Annotated[bool, Meta(description="Whether the secret was mailed, so that accepting verifies the address.")]
    invited_by_principal_id: str
    created_at: Timestamp
    expires_at: Timestamp


class MadeInvitation(Invitation, frozen=True, rename="camel"):
    """A new invitation, with its secret unless that was mailed."""

    invite_token: Annotated[
        str | None,
        Meta(
            description="The secret that accepts the invitation. Returned only in this response; null if it was mailed."
        ),
    ]


class InvitationPage(msgspec.Struct, rename="camel"):
    """A page of invitations, newest first."""

    data: list[Invitation]
    next_cursor: NextCursor
    has_more: bool


TAG: Final = Tag("members", "Members of an organization, and invitations.")
LIST: Final = Operation(
    "listInvitations", TAG, (ResponseSpec("A page.", json_content(InvitationPage)),), PAGE_PARAMETERS
)
CREATE: Final = Operation(
    "createInvitation",
    TAG,
    (ResponseSpec("The invitation, with its secret unless that was mailed.", json_content(MadeInvitation), 201),),
    body=Body(json_content(NewInvitation), example={"email": "ada@example.org", "role": "MEMBER"}),
    error_statuses=(409,),
)
_ID: Final = Parameter("invitationId", "path", Annotated[str, Meta(min_length=1)], "The invitation.")
REVOKE: Final = Operation("revokeInvitation", TAG, (ResponseSpec("The invitation was revoked.", status=204),), (_ID,))


@dataclass(frozen=True, slots=True)
class Invitations:
    """Handlers of invitations, and their dependencies."""

    context: HandlerContext
    mailer: AccountMailer

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/invitations"
        return [
            Route("GET", every, self.list, bearer(Scope.MEMBERS_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.MEMBERS_WRITE), operation=CREATE),
            Route("DELETE", every + "/{invitationId}", self.revoke, bearer(Scope.MEMBERS_WRITE), operation=REVOKE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List invitations, newest first, in every state."""
        caller = authorization_context(request)
        binding = f"invitations of {caller.org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await store.list_invitations(connection, caller.org_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, invitation_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create an invitation.

        Only users may invite: agents, services and tokens that act on behalf of a principal get 403. The secret is
        valid for seven days, while the inviter may still grant the role. It is returned as `inviteToken` only in this
        response, or with `sendMail` mailed to the address and shown to nobody. Earlier open invitations to the same
        address are revoked. 409 if the organization has a member with the address, if its directory has deactivated
        whoever has it, or if it requires single sign-on. With `sendMail`, 409 also if no mail server is configured, or
        if it rejects the mail; 503 if it is unavailable, and the mail may have been sent or not. A mail that was
        rejected or got 503 leaves the new invitation open, and earlier ones revoked: invite again, or revoke it.
        """
        store.require_can_invite(authorization_context(request))
        body = await self.context.read_body(request, NewInvitation)
        if body.send_mail:
            self.mailer.require_server()
            await require_mail_rate(request, authorization_context(request).org_id, normalize_email(body.email))
        async with self.context.write_transaction(request) as (connection, caller):
            issued = await _invite(connection, request, caller, body)
        if body.send_mail:
            await self.mailer.send_invitation(issued, caller.org_slug)
        fields = msgspec.structs.asdict(invitation_body(issued.invitation))
        secret = None if body.send_mail else issued.secret
        return json_response(MadeInvitation(**fields, invite_token=secret), status=201)

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke an invitation.

        If it was revoked or accepted before, the response is the same and nothing changes.
        """
        invitation_id = request.match_info["invitationId"]
        if INVITATION_ID.fullmatch(invitation_id) is None:  # a path may hold characters that no database column accepts
            raise NotFound
        async with self.context.write_transaction(request) as (connection, caller):
            revoked = await store.revoke(connection, caller.org_id, invitation_id)
            if revoked is None:
                raise NotFound
            if revoked:
                await record(connection, caller, "invitation.revoke", invitation_id, {}, request_id(request))
        return web.Response(status=204)


def invitation_body(invitation: StoredInvitation) -> Invitation:
    """The API representation."""
    return Invitation(
        id=invitation.id,
        email=invitation.email,
        role=invitation.role,
        state=_invitation_state(invitation, datetime.now(UTC)),
        mailed=invitation.mailed,
        invited_by_principal_id=invitation.created_by,
        created_at=format_time(invitation.created_at),
        expires_at=format_time(invitation.expires_at),
    )


def _invitation_state(invitation: StoredInvitation, now: datetime) -> InvitationState:
    if invitation.accepted_at is not None:
        return "ACCEPTED"
    if invitation.revoked_at is not None:
        return "REVOKED"
    return "EXPIRED" if invitation.expires_at <= now else "OPEN"


async def _invite(
    connection: AsyncConnection, request: web.Request, caller: AuthorizationContext, body: NewInvitation
) -> IssuedInvitation:
    """Raises Forbidden, Conflict."""
    store.require_can_invite(caller)
    member_repository.require_grantable(caller, body.role)
    await store.require_no_member(connection, caller.org_id, body.email)
    await _require_not_taken_out(connection, caller.org_id, body.email)
    if await enforcement.is_enforced(connection, caller.org_id):
        raise Conflict(f"{enforcement.REQUIRED} Its provider makes members; nobody could accept an invitation.")
    issued = await store.invite(connection, caller, body.email, body.role, mailed=body.send_mail)
    for replaced in issued.replaced:
        revoked_data = {"replacedBy": issued.invitation.id}
        await record(connection, caller, "invitation.revoke", replaced, revoked_data, request_id(request))
    data = {"email": issued.invitation.email, "role": body.role.value, "mailed": body.send_mail}
    await record(connection, caller, "invitation.create", issued.invitation.id, data, request_id(request))
    return issued


async def _require_not_taken_out(connection: AsyncConnection, org_id: str, email: str) -> None:
    """Raises Conflict for an address of somebody whom the organization's directory has deactivated."""
    found = await find_for_login(connection, org_id, "", email)
    if found is not None and not found.active:
        raise Conflict(
            "The organization's directory has deactivated the user with this address: activate the user there."
        )
