"""`/auth/invitations/accept`: join with a new account, or with the account that has verified the invited address."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import BadRequest, Forbidden, Issue, MfaRequired, Unauthorized
from chassis.http.access import anonymous
from chassis.http.declaration import route
from chassis.http.route import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.field_types import Name
from control.identity.bodies import MfaCodeInput, PasswordInput, SecretInput, SessionRequest
from control.identity.login.authentication import Authenticator
from control.identity.login.credentials import SessionHandlers, SessionMaterial, StartedSession
from control.identity.login.throttle import InvalidCredentials
from control.identity.members import invitations as store
from control.identity.organizations import organization_store
from control.identity.users import session_store, user_store
from control.identity.users.passwords import MIN_LENGTH, same_salt
from control.identity.users.session_store import SSO_REQUIRED, requires_sso
from proto.identity import PrincipalKind, Role

_INVALID_INVITATION: Final = "The invitation is not valid."
# The message is the same whether such an account exists or not.
_NO_SUCH_ACCOUNT: Final = (
    "This password and second factor do not belong to an account that has verified the invited address. An account of "
    "another organization has to verify its address first."
)


class Acceptance(SessionRequest, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The new member: a new account, or the account that has verified the invited address."""

    invite_token: SecretInput
    name: Annotated[Name, Meta(description="The name of a new account. Ignored for an existing account.")]
    password: Annotated[
        PasswordInput,
        Meta(
            description=f"The password of the existing account. For a new account, a password of at least {MIN_LENGTH} "
            "characters."
        ),
    ]
    totp: MfaCodeInput | None = None
    existing_account: Annotated[
        bool,
        Meta(
            description="Whether the account that has verified the address becomes the member, instead of a new "
            "account. After a mailed invitation, the verified account becomes the member in any case, if there is one."
        ),
    ] = False


ACCEPTED: Final = ResponseSpec("A session for the new member.", json_content(SessionMaterial), 201)
EXAMPLE: Final = {
    "inviteToken": "inv_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm",
    "name": "Ada",
    "password": "correct horse battery",
    "existingAccount": False,
}


@dataclass(frozen=True, slots=True)
class Acceptances(SessionHandlers):
    """Handlers of acceptances, and their dependencies."""

    authenticator: Authenticator

    @route(
        "POST", "/auth/invitations/accept", anonymous(), errors=(401, 403, 409), example=EXAMPLE, responses=(ACCEPTED,)
    )
    async def accept_invitation(self, body: Acceptance, request: web.Request) -> web.StreamResponse:
        """Accept an invitation.

        Creates an account with the given password. If the invitation was mailed, the address of the account is
        verified. Otherwise the account is confined to this organization until it verifies the address
        (`/auth/email/verification`). With `existingAccount`, the account that has verified the address joins:
        `password` and, if the account has a second factor, `totp` must be the account's. Unless the invitation was
        mailed, accounts with the same address in other organizations have no influence on the response to a request
        without `existingAccount`. 409 if the organization has a member with the address. 403 while the organization
        requires single sign-on, because single sign-on creates its members.
        """
        await self.issuer.ensure_key_published()
        async with self.context.database.read() as connection:
            found = await store.find_open_invitation(connection, body.invite_token, datetime.now(UTC))
            mailed_to = found.email if found is not None and found.mailed else None
            verified = mailed_to is not None and await user_store.find_verified(connection, mailed_to) is not None
        if found is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized(_INVALID_INVITATION)
        accept = self._join if body.existing_account or verified else self._create_account
        issued, user = await accept(request, found, body)
        self.context.guards.invalidate_bearers(found.org_id)
        return self.issuer.respond(issued, user, in_cookie=body.cookie, status=201)

    async def _join(self, request: web.Request, invitation: sa.Row[Any], body: Acceptance) -> StartedSession:
        """Make the account that has verified the address a member. Failed passwords count for the address and the
        organization of the invitation. Raises InvalidCredentials, MfaRequired, Unauthorized, Conflict.
        """
        async with self.authenticator.throttle.acceptance(request, invitation.email, invitation.org_id):
            try:
                user = await self.authenticator.find_verified_account(invitation.email, body.password)
                return await self._add_verified_account(request, user, body)
            except InvalidCredentials:
                raise InvalidCredentials(_NO_SUCH_ACCOUNT) from None

    async def _add_verified_account(
        self, request: web.Request, authenticated: user_store.User, body: Acceptance
    ) -> StartedSession:
        """Verify the second factor, if there is one, and add the member in one transaction, so that a code is consumed
        only if the invitation is accepted. Raises the errors of `_join`.
        """
        code_attempt = self.authenticator.code_attempt(request, authenticated, body.totp)
        async with code_attempt, self.context.database.write() as connection:
            user = await user_store.reload_if_unchanged(connection, authenticated)
            if user is None:
                raise InvalidCredentials
            methods = await self.authenticator.auth_methods(connection, user, body.totp)
            if user.has_factor and len(methods) == 1:
                raise MfaRequired("The account has a second factor. Send its code as totp.")
            invitation = await _find_acceptable(connection, body.invite_token)
            return await self._add_member(connection, request, invitation, user, methods)

    async def _create_account(self, request: web.Request, invitation: sa.Row[Any], body: Acceptance) -> StartedSession:
        """Make a new account a member. Raises BadRequest for a password that is too short, Unauthorized, Conflict."""
        if len(body.password) < MIN_LENGTH:
            issue = Issue("body.password", f"Must have at least {MIN_LENGTH} characters.", "too_short")
            raise BadRequest("The request body is not valid.", [issue])
        async with self.context.database.read() as connection:
            existing = await user_store.find_password_hash(connection, invitation.email)
        hashed = await self.authenticator.passwords.hash(body.password, salted_like=existing)
        async with self.context.database.write() as connection:
            existing = await user_store.find_password_hash(connection, invitation.email)
            if same_salt(existing, hashed):
                return await self._add_new_account(connection, request, body, hashed)
        # If the first account with the address was created meanwhile, the salt of that account stays.
        hashed = await self.authenticator.passwords.hash(body.password, salted_like=existing)
        async with self.context.database.write() as connection:
            return await self._add_new_account(connection, request, body, hashed)

    async def _add_new_account(
        self, connection: AsyncConnection, request: web.Request, body: Acceptance, hashed: str
    ) -> StartedSession:
        """Create the account and add it. Raises Unauthorized. Raises Conflict if another account has verified the
        address of a mailed invitation.
        """
        invitation = await _find_acceptable(connection, body.invite_token)
        home = None if invitation.mailed else invitation.org_id
        user = await user_store.create_user(connection, invitation.email, body.name, hashed, home_org_id=home)
        return await self._add_member(connection, request, invitation, user, ("pwd",))

    async def _add_member(
        self,
        connection: AsyncConnection,
        request: web.Request,
        invitation: sa.Row[Any],
        user: user_store.User,
        methods: tuple[str, ...],
    ) -> StartedSession:
        """Add the user as a member, use up the invitation, and start a session. Raises Unauthorized, Conflict."""
        if await requires_sso(connection, invitation.org_id):
            raise Forbidden(SSO_REQUIRED)
        now = datetime.now(UTC)
        if not await store.accept_invitation(connection, invitation.id, user.id, now):
            raise Unauthorized(_INVALID_INVITATION)
        await organization_store.add_membership(connection, invitation.org_id, user.id, Role(invitation.role))
        issued = await session_store.start(connection, invitation.org_id, user.id, methods, now)
        await self.authenticator.throttle.remember_address(connection, request, user.id)
        actor = Actor(invitation.org_id, user.id, PrincipalKind.USER, token_id=issued.session.id)
        data = {"role": invitation.role, "invitedBy": invitation.created_by, "emailVerified": user.email_verified}
        await record(connection, actor, "invitation.accept", invitation.id, data, request_id(request))
        return issued, user


async def _find_acceptable(connection: AsyncConnection, secret: str) -> sa.Row[Any]:
    """The invitation, if it can be accepted as of this transaction. Raises Unauthorized. Raises Conflict if the
    organization has a member with the address.
    """
    invitation = await store.find_open_invitation(connection, secret, datetime.now(UTC))
    if invitation is None:
        raise Unauthorized(_INVALID_INVITATION)
    await store.require_no_member(connection, invitation.org_id, invitation.email)
    return invitation
