"""`/orgs/{orgSlug}/invitations`: list, create, revoke; and `/auth/invitations/accept`."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import BadRequest, Conflict, Issue, MfaRequired, NotFound, Unauthorized
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
from control.identity.invitation_repository import IssuedInvitation, StoredInvitation
from control.identity.login import TAG as AUTH
from control.identity.login import Logins
from control.identity.login_throttle import LoginThrottle
from control.identity.mail import AccountMailer, require_mail_rate
from control.identity.passwords import MIN_LENGTH, Passwords, same_salt
from control.identity.schemas import INVITATION_ID, Email, MfaCodeInput, PasswordInput, SecretInput
from control.identity.session_issuer import SessionIssuer, SessionMaterial
from control.identity.session_repository import IssuedSession
from control.identity.user_repository import User
from proto.identity import PrincipalKind, Role, Scope, normalize_email

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


class Acceptance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The new member: a new account, or the one that has verified the invited address."""

    invite_token: SecretInput
    name: Annotated[Name, Meta(description="The name of a new account; ignored for an existing one.")]
    password: Annotated[
        PasswordInput,
        Meta(
            description=f"The password of the existing account; for a new one, a password of at least {MIN_LENGTH} "
            "characters."
        ),
    ]
    totp: MfaCodeInput | None = None
    existing_account: Annotated[
        bool,
        Meta(
            description="Whether to join with the account that has verified the address. Implied when the invitation "
            "was mailed and there is such an account."
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
    """A new invitation; the only response that holds its secret."""

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
    mailer: AccountMailer

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

        Only users may invite: agents, services and tokens that act on behalf of a principal get 403. The secret is
        valid for seven days, while the inviter may still grant the role. It is returned as `inviteToken` only in this
        response, or with `sendMail` mailed to the address and shown to nobody. Earlier open invitations to the same
        address are revoked. 409 with `sendMail` if no mail server is configured or it rejects the address; after 503
        the invitation may have been mailed or not, and inviting again replaces it.
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

    async def accept(self, request: web.Request) -> web.StreamResponse:
        """Accept an invitation.

        Creates an account with a password of its own. If the invitation was mailed, its address is verified; otherwise
        the account is confined to this organization until it verifies the address (`/auth/email/verification`). With
        `existingAccount`, the account that has verified the address joins: `password` and, if it has a second factor,
        `totp` must be its own. Other accounts with the same address have no influence on the response.
        """
        body = await self.context.read_body(request, Acceptance)
        await self.issuer.ensure_key_published()
        async with self.context.database.read() as connection:
            found = await store.find_open(connection, body.invite_token, datetime.now(UTC))
            verified = found is not None and found.mailed and await _is_verified(connection, found.email)
        if found is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized(_INVALID_INVITATION)
        accept = self._join if body.existing_account or verified else self._create_account
        issued, user = await accept(request, found, body)
        self.context.guards.invalidate_bearers(found.org_id)
        return json_response(self.issuer.issue(issued, user), status=201)

    async def _join(
        self, request: web.Request, invitation: StoredInvitation, body: Acceptance
    ) -> tuple[IssuedSession, User]:
        """Make the account that has verified the address a member. Its failed passwords and codes count as those of a
        login that names no organization. Raises InvalidCredentials, MfaRequired, Unauthorized, Conflict.
        """
        async with self.throttle.login(request, invitation.email):
            authenticated = await self.logins.authenticate_verified(invitation.email, body.password)
            async with (
                self.logins.code_attempt(request, authenticated, body.totp),
                self.context.database.write() as connection,
            ):
                user = await user_repository.reload_if_unchanged(connection, authenticated)
                if user is None:
                    raise Unauthorized(_INVALID_INVITATION)
                methods = await self.logins.auth_methods(connection, user, body.totp)
                if user.has_factor and len(methods) == 1:
                    raise MfaRequired("The account has a second factor; send its code as totp.")
                accepted = await _accept(connection, body.invite_token)
                return await _add_member(connection, request, accepted, user, methods), user

    async def _create_account(
        self, request: web.Request, invitation: StoredInvitation, body: Acceptance
    ) -> tuple[IssuedSession, User]:
        """Make a new account a member. Raises BadRequest for a password that is too short, Unauthorized, Conflict."""
        if len(body.password) < MIN_LENGTH:
            issue = Issue("body.password", f"Must have at least {MIN_LENGTH} characters.", "too_short")
            raise BadRequest("The request body is not valid.", [issue])
        async with self.context.database.read() as connection:
            existing = await user_repository.find_password_hash(connection, invitation.email)
        hashed = await self.passwords.hash(body.password, salted_like=existing)
        async with self.context.database.write() as connection:
            existing = await user_repository.find_password_hash(connection, invitation.email)
            if same_salt(existing, hashed):
                return await _add_new_account(connection, request, body, hashed)
        # The first account with the address was created meanwhile, and its salt stays.
        hashed = await self.passwords.hash(body.password, salted_like=existing)
        async with self.context.database.write() as connection:
            return await _add_new_account(connection, request, body, hashed)


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
    await _require_no_member(connection, caller.org_id, body.email)
    issued = await store.invite(connection, caller, body.email, body.role, mailed=body.send_mail)
    for replaced in issued.replaced:
        revoked_data = {"replacedBy": issued.invitation.id}
        await record(connection, caller, "invitation.revoke", replaced, revoked_data, request_id(request))
    data = {"email": issued.invitation.email, "role": body.role.value, "mailed": body.send_mail}
    await record(connection, caller, "invitation.create", issued.invitation.id, data, request_id(request))
    return issued


async def _is_verified(connection: AsyncConnection, email: str) -> bool:
    return await user_repository.find_verified(connection, email) is not None


async def _require_no_member(connection: AsyncConnection, org_id: str, email: str) -> None:
    """Raises Conflict if a member has the address: an organization has at most one account of an address."""
    if await store.is_member(connection, org_id, email):
        raise Conflict("The organization already has a member with this e-mail address.")


async def _accept(connection: AsyncConnection, secret: str) -> StoredInvitation:
    """The invitation, if it can be accepted as of this transaction. Raises Unauthorized; Conflict if the organization
    has a member with the address.
    """
    invitation = await store.find_open(connection, secret, datetime.now(UTC))
    if invitation is None:
        raise Unauthorized(_INVALID_INVITATION)
    await _require_no_member(connection, invitation.org_id, invitation.email)
    return invitation


async def _add_new_account(
    connection: AsyncConnection, request: web.Request, body: Acceptance, hashed: str
) -> tuple[IssuedSession, User]:
    """Raises Unauthorized; Conflict if another account has verified the address of a mailed invitation meanwhile."""
    invitation = await _accept(connection, body.invite_token)
    home = None if invitation.mailed else invitation.org_id
    user = await user_repository.create_user(connection, invitation.email, body.name, hashed, home_org_id=home)
    return await _add_member(connection, request, invitation, user, ("pwd",)), user


async def _add_member(
    connection: AsyncConnection,
    request: web.Request,
    invitation: StoredInvitation,
    user: User,
    methods: tuple[str, ...],
) -> IssuedSession:
    """Add the user as a member, use up the invitation, and start a session. Raises Unauthorized, Conflict."""
    now = datetime.now(UTC)
    if not await store.accept(connection, invitation.id, user.id, now):
        raise Unauthorized(_INVALID_INVITATION)
    await organization_repository.add_membership(connection, invitation.org_id, user.id, invitation.role)
    issued = await session_repository.start(connection, invitation.org_id, user.id, methods, now)
    actor = Actor(invitation.org_id, user.id, PrincipalKind.USER, token_id=issued.session.id)
    data = {"role": invitation.role.value, "invitedBy": invitation.created_by, "emailVerified": user.email_verified}
    await record(connection, actor, "invitation.accept", invitation.id, data, request_id(request))
    return issued
