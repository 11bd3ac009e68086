"""`/orgs/{orgSlug}/invitations`: list, create, revoke; and `/auth/invitations/accept`."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import format_time
from chassis.errors import BadRequest, Conflict, Issue, NotFound, Unauthorized
from chassis.http.access import anonymous, authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import RATE_LIMITS, Route, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.http.field_types import Name, Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity import invitation_repository as store
from control.identity import member_repository, organization_repository, session_repository, user_repository
from control.identity.login import TAG as AUTH
from control.identity.login import Logins
from control.identity.login_throttle import LoginThrottle
from control.identity.passwords import MIN_LENGTH, Passwords
from control.identity.schemas import INVITATION_ID, Email, PasswordInput, SecretInput
from control.identity.session_issuer import SessionIssuer, SessionMaterial
from control.identity.session_repository import IssuedSession
from control.identity.user_repository import User
from proto.identity import PrincipalKind, Role, Scope

InvitationState = Literal["OPEN", "ACCEPTED", "REVOKED", "EXPIRED"]
_INVALID_INVITATION: Final = "The invitation is not valid."


class NewInvitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address to invite, and the role."""

    email: Email
    role: Role


class Acceptance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The new member. `name` is ignored if a user with the address exists."""

    invite_token: SecretInput
    name: Name
    password: Annotated[
        PasswordInput,
        Meta(
            description=f"An existing user's password; for a new user, a password of at least {MIN_LENGTH} characters."
        ),
    ]


class Invitation(msgspec.Struct, frozen=True, rename="camel"):
    """An invitation, without its secret."""

    id: Annotated[str, Meta(pattern=f"^{INVITATION_ID.pattern}$")]
    email: Email
    role: Role
    state: InvitationState
    invited_by_principal_id: str
    created_at: Timestamp
    expires_at: Timestamp


class MadeInvitation(Invitation, frozen=True, rename="camel"):
    """A new invitation; the only response that holds its secret."""

    invite_token: Annotated[
        str, Meta(description="The secret that accepts the invitation. Returned only in this response.")
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
    (ResponseSpec("The invitation, with its secret.", json_content(MadeInvitation), 201),),
    body=Body(json_content(NewInvitation), example={"email": "ada@example.org", "role": "MEMBER"}),
    error_statuses=(409,),
)
_ID: Final = Parameter("invitationId", "path", Annotated[str, Meta(min_length=1)], "The invitation.")
REVOKE: Final = Operation("revokeInvitation", TAG, (ResponseSpec("The invitation was revoked.", status=204),), (_ID,))
ACCEPT: Final = Operation(
    "acceptInvitation",
    AUTH,
    (ResponseSpec("A session for the new member.", json_content(SessionMaterial), 201),),
    body=Body(json_content(Acceptance)),
    error_statuses=(401, 409),
)


@dataclass(frozen=True, slots=True)
class Invitations:
    """Handlers of invitations, and their dependencies."""

    context: HandlerContext
    throttle: LoginThrottle
    passwords: Passwords
    logins: Logins
    issuer: SessionIssuer

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/invitations"
        return [
            Route("GET", every, self.list, bearer(Scope.MEMBERS_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.MEMBERS_WRITE), operation=CREATE),
            Route("DELETE", every + "/{invitationId}", self.revoke, bearer(Scope.MEMBERS_WRITE), operation=REVOKE),
            Route("POST", "/auth/invitations/accept", self.accept, anonymous(), operation=ACCEPT),
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

        Only users may invite: agents, services and tokens that act on behalf of a principal get 403. `inviteToken`
        is valid for seven days, while the inviter may still grant the role, and is returned only in
        this response. Earlier open invitations to the same address are revoked.
        """
        store.require_can_invite(authorization_context(request))
        body = await self.context.read_body(request, NewInvitation)
        async with self.context.write_transaction(request) as (connection, caller):
            store.require_can_invite(caller)
            member_repository.require_grantable(caller, body.role)
            if await store.is_member(connection, caller.org_id, body.email):
                raise Conflict("The organization already has a member with this e-mail address.")
            issued = await store.invite(connection, caller, body.email, body.role)
            for replaced in issued.replaced:
                revoked_data = {"replacedBy": issued.invitation.id}
                await record(connection, caller, "invitation.revoke", replaced, revoked_data, request_id(request))
            data = {"email": issued.invitation.email, "role": body.role.value}
            await record(connection, caller, "invitation.create", issued.invitation.id, data, request_id(request))
        fields = msgspec.structs.asdict(invitation_body(issued.invitation))
        return json_response(MadeInvitation(**fields, invite_token=issued.secret), status=201)

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

    async def accept(self, request: web.Request) -> web.StreamResponse:
        """Accept an invitation.

        Creates the user. If a user with the invited address exists, that user becomes a member; the password must be
        that user's.
        """
        body = await self.context.read_body(request, Acceptance)
        await self.issuer.ensure_key_published()
        async with self.context.database.read() as connection:
            found = await store.find_open(connection, body.invite_token, datetime.now(UTC))
        if found is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized(_INVALID_INVITATION)
        existing, hashed = await self._authenticate_or_hash(request, found.email, body.password)
        async with self.context.database.write() as connection:
            user = await self._reload_or_create_user(connection, existing, found.email, body.name, hashed)
            issued = await _add_member(connection, request, body.invite_token, user)
        self.context.guards.invalidate_bearers(found.org_id)
        return json_response(self.issuer.issue(issued, user), status=201)

    async def _authenticate_or_hash(self, request: web.Request, email: str, password: str) -> tuple[User | None, str]:
        """The existing user with the address, after verifying the password; else the hash for a new user. Raises
        InvalidCredentials; BadRequest for a new password that is too short.
        """
        async with self.context.database.read() as connection:
            existing = await user_repository.find_user_by_email(connection, email)
        if existing is not None:
            async with self.throttle.attempt(request, email):
                return await self.logins.authenticate(email, password), ""
        if len(password) < MIN_LENGTH:
            issue = Issue("body.password", f"Must have at least {MIN_LENGTH} characters.", "too_short")
            raise BadRequest("The request body is not valid.", [issue])
        return None, await self.passwords.hash(password)

    async def _reload_or_create_user(
        self, connection: AsyncConnection, existing: User | None, email: str, name: str, hashed: str
    ) -> User:
        """The authenticated user as of this transaction, else a new one. Raises Unauthorized, EmailTaken."""
        if existing is None:
            return await user_repository.create_user(connection, email, name, hashed)
        user = await user_repository.reload_if_unchanged(connection, existing)
        if user is None:
            raise Unauthorized(_INVALID_INVITATION)
        return user


def invitation_body(invitation: store.StoredInvitation) -> Invitation:
    """The API representation."""
    return Invitation(
        id=invitation.id,
        email=invitation.email,
        role=invitation.role,
        state=_invitation_state(invitation, datetime.now(UTC)),
        invited_by_principal_id=invitation.created_by,
        created_at=format_time(invitation.created_at),
        expires_at=format_time(invitation.expires_at),
    )


def _invitation_state(invitation: store.StoredInvitation, now: datetime) -> InvitationState:
    if invitation.accepted_at is not None:
        return "ACCEPTED"
    if invitation.revoked_at is not None:
        return "REVOKED"
    return "EXPIRED" if invitation.expires_at <= now else "OPEN"


async def _add_member(connection: AsyncConnection, request: web.Request, secret: str, user: User) -> IssuedSession:
    """Add the user as a member and start a session. Raises Unauthorized when the invitation can no longer be accepted,
    Conflict when the user is a member already.
    """
    now = datetime.now(UTC)
    invitation = await store.find_open(connection, secret, now)
    if invitation is None or not await store.accept(connection, invitation.id, user.id, now):
        raise Unauthorized(_INVALID_INVITATION)
    await organization_repository.add_membership(connection, invitation.org_id, user.id, invitation.role)
    issued = await session_repository.start(connection, invitation.org_id, user.id, ("pwd",), now)
    actor = Actor(invitation.org_id, user.id, PrincipalKind.USER, token_id=issued.session.id)
    data = {"role": invitation.role.value, "invitedBy": invitation.created_by}
    await record(connection, actor, "invitation.accept", invitation.id, data, request_id(request))
    return issued
