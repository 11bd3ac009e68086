"""`/orgs/{orgSlug}/invitations`: list, create, revoke. The holder of an invitation may become a member, once and before
it expires (`login.acceptance`).

The secret is returned once, or mailed to the address. The database holds its SHA-256.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import any_disabled, common_scopes, load_membership_statuses
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import invitations, memberships, new_id, new_invitation, organizations, users
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, Forbidden
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import PageOf, route
from chassis.http.route import Body, Tag, json_content
from control.http.field_types import Timestamp
from control.identity.bodies import Email
from control.identity.directory.user_store import find_for_login
from control.identity.mail import AccountMailer, minute, require_mail_rate
from control.identity.members import member_store
from control.identity.organizations.revocation import is_open_invitation, issuing_token
from control.identity.users import session_store
from control.routing.arguments import Handlers, Transaction, begin
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import (
    INVITATION_PREFIX,
    ROLE_SCOPES,
    PrincipalKind,
    Role,
    Scope,
    hash_secret,
    is_token,
    normalize_email,
)

PATH: Final = "/orgs/{orgSlug}/invitations"
LIFETIME: Final = timedelta(days=7)
_WRITE: Final = bearer(Scope.MEMBERS_WRITE)
InvitationState = Literal["OPEN", "ACCEPTED", "REVOKED", "EXPIRED"]
Row = sa.Row[Any]


class NewInvitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The address to invite, and the role of the new member."""

    email: Email
    role: Role
    send_mail: Annotated[
        bool,
        Meta(
            description="Whether to mail the secret to the address. Accepting a mailed invitation verifies the "
            "address. If the secret is not mailed, the response has it."
        ),
    ] = False


class Invitation(msgspec.Struct, frozen=True, rename="camel"):
    """An invitation, without its secret."""

    id: Annotated[str, Meta(pattern=f"^{ids('inv')}$")]
    email: Email
    role: Role
    state: InvitationState
    mailed: Annotated[
        bool,
        Meta(description="Whether the secret was mailed. Accepting a mailed invitation verifies the address."),
    ]
    invited_by_principal_id: str
    created_at: Timestamp
    expires_at: Timestamp


class MadeInvitation(Invitation, frozen=True, rename="camel"):
    """A new invitation. It contains the secret, unless the secret was mailed."""

    invite_token: Annotated[
        str | None,
        Meta(
            description="The secret that accepts the invitation. Returned only in this response. Null if it was mailed."
        ),
    ]


def _state(row: Row) -> InvitationState:
    if row.accepted_at is not None:
        return "ACCEPTED"
    if row.revoked_at is not None:
        return "REVOKED"
    return "EXPIRED" if row.expires_at <= datetime.now(UTC) else "OPEN"


def _shown(row: Row, _caller: AuthorizationContext) -> Invitation:
    return shown_as(Invitation, row, state=_state(row), invited_by_principal_id=row.created_by)


NEW: Final = Body(json_content(NewInvitation), example={"email": "ada@example.org", "role": "MEMBER"})
INVITATIONS: Final = Resource(
    "invitationId",
    ids("inv"),
    Scope.MEMBERS_READ,
    invitations.c.id,
    in_organization(invitations),
    sa.select(invitations),
    _shown,
)


@dataclass(frozen=True, slots=True)
class Invitations(Handlers):
    """Handlers of invitations, and their dependencies."""

    TAG: ClassVar = Tag("members", "Members of an organization, and invitations.")
    mailer: AccountMailer

    @route("GET", PATH, bearer(Scope.MEMBERS_READ))
    async def list_invitations(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Invitation]:
        """List invitations, newest first, in every state."""
        return await page.of(INVITATIONS, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), body=NEW)
    async def create_invitation(self, request: web.Request) -> MadeInvitation:
        """Create an invitation.

        Only users may invite: agents, services and tokens that act on behalf of a principal get 403. The secret is
        valid for seven days, while the inviter may still grant the role. It is returned as `inviteToken` in this
        response only. With `sendMail` it is mailed to the address instead, and no response contains it. Earlier open
        invitations to the same address are revoked. 409 if the organization has a member with the address, if its
        directory has deactivated the user with the address, or if it requires single sign-on. With `sendMail`, also 409
        if no mail server is configured, or if the mail server rejects the mail. 503 if the mail server is unavailable:
        the mail may have been sent or not. After a rejected mail or a 503, the new invitation is open and earlier ones
        are revoked: invite again, or revoke the new invitation.
        """
        require_can_invite(authorization_context(request))
        body = await self.context.read_body(request, NewInvitation)
        if body.send_mail:
            self.mailer.require_server()
            await require_mail_rate(request, authorization_context(request).org_id, normalize_email(body.email))
        async with begin(self.context, request) as transaction:
            row, secret = await _invite(transaction, body)
        if body.send_mail:
            await _mail(self.mailer, row, secret, transaction.caller.org_slug)
        shown = _shown(row, transaction.caller)
        return MadeInvitation(**msgspec.structs.asdict(shown), invite_token=None if body.send_mail else secret)

    @route("DELETE", PATH + "/{invitationId}", _WRITE)
    async def revoke_invitation(self, invitation_id: str, transaction: Transaction) -> None:
        """Revoke an invitation.

        An invitation that was already revoked or accepted gets the same response, and nothing changes.
        """
        shown = await INVITATIONS.show(transaction.connection, transaction.caller, invitation_id)
        if shown.state in ("OPEN", "EXPIRED"):
            now = to_milliseconds(datetime.now(UTC))
            of_org = invitations.c.org_id == transaction.caller.org_id
            revoked = invitations.update().where(of_org, invitations.c.id == invitation_id).values(revoked_at=now)
            await transaction.connection.execute(revoked)
            await transaction.record("invitation.revoke", invitation_id, {})


def require_can_invite(by: AuthorizationContext) -> None:
    """Raises Forbidden unless `by` is a user acting for itself. Otherwise an agent could invite a user who then
    approves the agent's own requests.
    """
    if by.kind is not PrincipalKind.USER or by.on_behalf_of is not None:
        raise Forbidden(
            "Only users can invite members. Agents, services, and tokens that act on behalf of another principal "
            "cannot."
        )


async def _invite(transaction: Transaction, body: NewInvitation) -> tuple[Row, str]:
    """Create an invitation, and revoke open invitations to the same address. Returns the new invitation and its secret.
    Raises Forbidden, Conflict.
    """
    connection, caller = transaction.connection, transaction.caller
    await _require_invitable(connection, caller, body)
    token, now = await issuing_token(connection, caller), to_milliseconds(datetime.now(UTC))
    made, secret = new_id("inv"), new_invitation()
    for replaced in await revoke_addressed(connection, caller.org_id, [body.email], now):
        await transaction.record("invitation.revoke", replaced, {"replacedBy": made})
    row = {
        "id": made,
        "org_id": caller.org_id,
        "email": normalize_email(body.email),
        "role": body.role.value,
        "mailed": body.send_mail,
        "hash": hash_secret(secret),
        "minted_with": None if token is None else token.id,
        "created_by": caller.principal_id,
        "created_at": now,
        "expires_at": now + LIFETIME,
    }
    await connection.execute(invitations.insert().values(row))
    data = {"email": row["email"], "role": body.role.value, "mailed": body.send_mail}
    await transaction.record("invitation.create", made, data)
    return (await connection.execute(sa.select(invitations).where(invitations.c.id == made))).one(), secret


async def _require_invitable(connection: AsyncConnection, caller: AuthorizationContext, body: NewInvitation) -> None:
    """Raises Forbidden if the caller may not invite with this role. Raises Conflict if the address belongs to a member,
    or to a user whom the organization's directory has deactivated, and while single sign-on is required.
    """
    require_can_invite(caller)
    member_store.require_grantable(caller, body.role)
    await require_no_member(connection, caller.org_id, body.email)
    found = await find_for_login(connection, caller.org_id, "", body.email)
    if found is not None and not found.active:
        raise Conflict(
            "The organization's directory has deactivated the user with this address. Activate the user there."
        )
    if await session_store.requires_sso(connection, caller.org_id):
        raise Conflict(
            f"{session_store.SSO_REQUIRED} Users join when they log in through the identity provider. "
            "Invitations cannot be accepted."
        )


async def require_no_member(connection: AsyncConnection, org_id: str, email: str) -> None:
    """Raises Conflict if a user of the organization has this address. At most one user has."""
    statement = (
        sa.select(users.c.principal_id)
        .join_from(users, memberships, memberships.c.principal_id == users.c.principal_id)
        .where(users.c.email == normalize_email(email), memberships.c.org_id == org_id)
    )
    if await connection.scalar(statement) is not None:
        raise Conflict("The organization already has a member with this e-mail address.")


async def _mail(mailer: AccountMailer, row: Row, secret: str, org_slug: str) -> None:
    """Mail the secret of an invitation to its address. Raises Conflict, ServiceUnavailable."""
    lines = [
        f"You are invited to the organization {org_slug} at {mailer.base_url}, with the role {row.role}.",
        "",
        *_how_to_accept(mailer, secret),
        "",
        f"The invitation is valid until {minute(row.expires_at)}. If you do not expect it, ignore this",
        "mail. Do not pass on the token: its holder can join with your address.",
    ]
    subject = f"Invitation to the organization {org_slug}"
    await mailer.send("invitation", row.email, subject, lines, row.created_at, row.id)


def _how_to_accept(mailer: AccountMailer, secret: str) -> list[str]:
    if (link := mailer.pages.invitation(secret)) is not None:
        return ["Accept the invitation at", "", f"    {link}"]
    return [
        "Accept the invitation with the command below. If no account has verified this address before, the",
        "command creates an account: choose its name and its password (at least 12 characters). If one of your",
        'accounts has verified this address, use its password, and add its second factor as "totp" if it has one.',
        "",
        f"    curl -H 'Content-Type: application/json' {mailer.base_url}/auth/invitations/accept -d '{{",
        f'      "inviteToken": "{secret}",',
        """      "name": "YOUR NAME", "password": "YOUR PASSWORD"}'""",
    ]


async def revoke_addressed(
    connection: AsyncConnection, org_id: str, emails: Collection[str], now: datetime
) -> list[str]:
    """Revoke the open invitations to these addresses. Returns the ids of the invitations."""
    now = to_milliseconds(now)
    addresses = [normalize_email(email) for email in emails]
    where = (invitations.c.org_id == org_id) & invitations.c.email.in_(addresses) & is_open_invitation(now)
    found = (await connection.scalars(sa.select(invitations.c.id).where(where).order_by(invitations.c.id))).all()
    await connection.execute(invitations.update().where(where).values(revoked_at=now))
    return list(found)


async def find_open_invitation(connection: AsyncConnection, secret: str, now: datetime) -> Row | None:
    """The invitation with this secret, if it is open and its inviter may still grant its role. Otherwise None."""
    if not is_token(secret, INVITATION_PREFIX):
        return None
    statement = (
        sa.select(invitations)
        .join_from(invitations, organizations, organizations.c.id == invitations.c.org_id)
        .where(invitations.c.hash == hash_secret(secret), is_open_invitation(now), organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(statement)).one_or_none()
    return row if row is not None and await _inviter_still_entitled(connection, row) else None


async def accept_invitation(connection: AsyncConnection, invitation_id: str, principal_id: str, now: datetime) -> bool:
    """Accept the invitation, once. False if it is no longer open."""
    accepted = (
        invitations.update()
        .where(invitations.c.id == invitation_id, is_open_invitation(now))
        .values(accepted_at=to_milliseconds(now), accepted_by=principal_id)
    )
    return (await connection.execute(accepted)).rowcount == 1


async def _inviter_still_entitled(connection: AsyncConnection, invitation: Row) -> bool:
    found = await load_membership_statuses(connection, invitation.org_id, [invitation.created_by])
    scopes, inviter = common_scopes(found, None), found[invitation.created_by]
    if scopes is None or any_disabled(found) or inviter.kind is not PrincipalKind.USER:
        return False
    role = Role(invitation.role)
    return ROLE_SCOPES[role] <= scopes and (role is not Role.OWNER or inviter.role is Role.OWNER)
