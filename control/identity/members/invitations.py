"""`/orgs/{orgSlug}/invitations`: list, create, revoke."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import PageOf, declared_routes, route
from chassis.http.operation import Body, Tag, json_content
from chassis.http.web import Route
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.identity.bodies import Email
from control.identity.directory.user_store import find_for_login
from control.identity.mail import AccountMailer, minute, require_mail_rate
from control.identity.members import invitation_store as store
from control.identity.members import member_store
from control.identity.members.invitation_store import IssuedInvitation, StoredInvitation
from control.identity.users import session_store
from control.routing.arguments import Transaction, begin, control_arguments
from control.routing.resource import PageReader, ids, shown_as
from proto.identity import Role, Scope, normalize_email

TAG: Final = Tag("members", "Members of an organization, and invitations.")
PATH: Final = "/orgs/{orgSlug}/invitations"
_WRITE: Final = bearer(Scope.MEMBERS_WRITE)
InvitationState = Literal["OPEN", "ACCEPTED", "REVOKED", "EXPIRED"]


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

    id: Annotated[str, Meta(pattern=f"^{ids('inv')}$")]
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


NEW: Final = Body(json_content(NewInvitation), example={"email": "ada@example.org", "role": "MEMBER"})


@dataclass(frozen=True, slots=True)
class Invitations:
    """Handlers of invitations, and their dependencies."""

    context: HandlerContext
    mailer: AccountMailer

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", PATH, bearer(Scope.MEMBERS_READ))
    async def list_invitations(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Invitation]:
        """List invitations, newest first, in every state."""

        async def fetch(connection: AsyncConnection, before: str | None, limit: int) -> Sequence[StoredInvitation]:
            return await store.list_invitations(connection, caller.org_id, before, limit)

        return await page.read(
            ("invitations", caller.org_id), fetch, lambda one: shown_as(Invitation, one, **_computed(one))
        )

    @route("POST", PATH, _WRITE, status=201, errors=(409,), body=NEW)
    async def create_invitation(self, request: web.Request) -> MadeInvitation:
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
        async with begin(self.context, request) as transaction:
            issued = await _invite(transaction, body)
        if body.send_mail:
            await _mail(self.mailer, issued, transaction.caller.org_slug)
        invitation, secret = issued.invitation, None if body.send_mail else issued.secret
        return shown_as(MadeInvitation, invitation, invite_token=secret, **_computed(invitation))

    @route("DELETE", PATH + "/{invitationId}", _WRITE)
    async def revoke_invitation(self, invitation_id: str, transaction: Transaction) -> None:
        """Revoke an invitation.

        If it was revoked or accepted before, the response is the same and nothing changes.
        """
        revoked = await store.revoke(transaction.connection, transaction.caller.org_id, invitation_id)
        if revoked is None:
            raise NotFound
        if revoked:
            await transaction.record("invitation.revoke", invitation_id, {})


def _computed(invitation: StoredInvitation) -> dict[str, Any]:
    """What is shown of an invitation besides its columns."""
    state = _invitation_state(invitation, datetime.now(UTC))
    return {"state": state, "invited_by_principal_id": invitation.created_by}


def _invitation_state(invitation: StoredInvitation, now: datetime) -> InvitationState:
    if invitation.accepted_at is not None:
        return "ACCEPTED"
    if invitation.revoked_at is not None:
        return "REVOKED"
    return "EXPIRED" if invitation.expires_at <= now else "OPEN"


async def _invite(transaction: Transaction, body: NewInvitation) -> IssuedInvitation:
    """Raises Forbidden, Conflict."""
    connection, caller = transaction.connection, transaction.caller
    store.require_can_invite(caller)
    member_store.require_grantable(caller, body.role)
    await store.require_no_member(connection, caller.org_id, body.email)
    await _require_not_taken_out(connection, caller.org_id, body.email)
    if await session_store.requires_sso(connection, caller.org_id):
        raise Conflict(f"{session_store.SSO_REQUIRED} Its provider makes members; nobody could accept an invitation.")
    issued = await store.invite(connection, caller, body.email, body.role, mailed=body.send_mail)
    for replaced in issued.replaced:
        await transaction.record("invitation.revoke", replaced, {"replacedBy": issued.invitation.id})
    data = {"email": issued.invitation.email, "role": body.role.value, "mailed": body.send_mail}
    await transaction.record("invitation.create", issued.invitation.id, data)
    return issued


async def _mail(mailer: AccountMailer, issued: IssuedInvitation, org_slug: str) -> None:
    """Mail the secret of an invitation to its address. Raises Conflict, ServiceUnavailable."""
    invitation = issued.invitation
    lines = [
        f"You are invited to the organization {org_slug} at {mailer.base_url}, with the role {invitation.role}.",
        "",
        *_how_to_accept(mailer, issued.secret),
        "",
        f"The invitation is valid until {minute(invitation.expires_at)}. If you do not expect it, ignore this",
        "mail. Do not pass on the token: whoever has it can join with your address.",
    ]
    subject = f"Invitation to the organization {org_slug}"
    await mailer.send("invitation", invitation.email, subject, lines, invitation.created_at, invitation.id)


def _how_to_accept(mailer: AccountMailer, secret: str) -> list[str]:
    if (link := mailer.pages.invitation(secret)) is not None:
        return ["Accept it at", "", f"    {link}"]
    return [
        "Accept it with this command. A new account gets the name and the password (at least 12 characters)",
        "in it. If you have verified this address before, use the password of that account, and add its",
        'second factor as "totp" if it has one.',
        "",
        f"    curl -H 'Content-Type: application/json' {mailer.base_url}/auth/invitations/accept -d '{{",
        f'      "inviteToken": "{secret}",',
        """      "name": "YOUR NAME", "password": "YOUR PASSWORD"}'""",
    ]


async def _require_not_taken_out(connection: AsyncConnection, org_id: str, email: str) -> None:
    """Raises Conflict for an address of somebody whom the organization's directory has deactivated."""
    found = await find_for_login(connection, org_id, "", email)
    if found is not None and not found.active:
        raise Conflict(
            "The organization's directory has deactivated the user with this address: activate the user there."
        )
