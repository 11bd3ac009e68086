"""`/auth/totp`: propose, confirm, verify and disable the second factor of the caller's account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.errors import Conflict
from chassis.http.access import authenticated_credential, session
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.identity import session_repository, user_repository
from control.identity.account_audit import record_in_all_orgs, session_actor
from control.identity.login import TAG
from control.identity.login_throttle import InvalidCredentials, LoginThrottle, ReauthenticationFailed
from control.identity.mfa_secrets import OTP, MfaSecrets
from control.identity.passwords import Passwords
from control.identity.refresh_cookie import require_same_origin, session_response
from control.identity.schemas import InCookie, MfaCodeInput, PasswordInput
from control.identity.session_issuer import SessionIssuer, SessionMaterial
from control.identity.user_repository import User
from proto.totp import RECOVERY_CODES, base32, otpauth_uri

ISSUER: Final = "Sluice"


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The password, to confirm that the user is present."""

    password: PasswordInput


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code of the second factor."""

    code: MfaCodeInput


class SessionVerification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code of the second factor, and where the session's new refresh token goes."""

    code: MfaCodeInput
    cookie: InCookie = False


class Removal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The password and a code, to confirm that the user is present and has the device."""

    password: PasswordInput
    code: MfaCodeInput


class Proposal(msgspec.Struct, frozen=True):
    """The secret for an authenticator app."""

    secret: Annotated[str, Meta(description="Base32, for manual entry.")]
    uri: Annotated[str, Meta(description="The same secret as an `otpauth:` URI, for a QR code.")]


class RecoveryCodes(msgspec.Struct, frozen=True, rename="camel"):
    """Each replaces a code once. They are shown only in this response."""

    recovery_codes: Annotated[list[str], Meta(min_length=RECOVERY_CODES, max_length=RECOVERY_CODES)]


PROPOSE: Final = Operation(
    "proposeTotp",
    TAG,
    (
        ResponseSpec(
            "The proposed secret. Codes are required only after `/auth/totp/confirm`.", json_content(Proposal), 201
        ),
    ),
    body=Body(json_content(Confirmation)),
    error_statuses=(409,),
)
CONFIRM: Final = Operation(
    "confirmTotp",
    TAG,
    (ResponseSpec("The second factor is enabled.", json_content(RecoveryCodes)),),
    body=Body(json_content(Code), example={"code": "123456"}),
    error_statuses=(409,),
)
VERIFY: Final = Operation(
    "verifyTotp",
    TAG,
    (ResponseSpec("The verified session, with new tokens.", json_content(SessionMaterial)),),
    body=Body(json_content(SessionVerification), example={"code": "123456"}),
    error_statuses=(409,),
)
DISABLE: Final = Operation(
    "disableTotp",
    TAG,
    (ResponseSpec("The second factor was disabled.", status=204),),
    body=Body(json_content(Removal)),
    error_statuses=(409,),
)


@dataclass(frozen=True, slots=True)
class Mfa:
    """Handlers of the second factor, and their dependencies."""

    context: HandlerContext
    throttle: LoginThrottle
    passwords: Passwords
    mfa_secrets: MfaSecrets
    issuer: SessionIssuer

    def routes(self) -> list[Route]:
        """Every route of this resource; all need a session."""
        return [
            Route("POST", "/auth/totp", self.propose, session(), operation=PROPOSE),
            Route("POST", "/auth/totp/confirm", self.confirm, session(), operation=CONFIRM),
            Route("POST", "/auth/totp/verify", self.verify, session(allows_pending_mfa=True), operation=VERIFY),
            Route("POST", "/auth/totp/disable", self.disable, session(), operation=DISABLE),
        ]

    async def propose(self, request: web.Request) -> web.StreamResponse:
        """Propose a second factor.

        Logins need no code until `/auth/totp/confirm` has accepted one. Another proposal replaces the secret.
        """
        body = await self.context.read_body(request, Confirmation)
        caller = authenticated_credential(request)
        user = await self._load_user(caller)
        _require(not user.has_factor, "The account already has a second factor.")
        async with self.throttle.account(request, caller):
            await self._require_password(user, body.password)
        secret = self.mfa_secrets.new_secret()
        async with self.context.session_transaction(request) as (connection, caller):
            proposed = await user_repository.enroll_factor(
                connection, user.id, self.mfa_secrets.encrypt_secret(user.id, secret)
            )
            _require(proposed, "The account already has a second factor.")
            await _record_audit(connection, request, caller, "second_factor.propose")
        return json_response(Proposal(base32(secret), otpauth_uri(secret, ISSUER, user.email)), status=201)

    async def confirm(self, request: web.Request) -> web.StreamResponse:
        """Confirm the proposed second factor.

        Later logins require a code; this session counts as verified.
        """
        body = await self.context.read_body(request, Code)
        caller = authenticated_credential(request)
        async with (
            self.throttle.account(request, caller),
            self.context.session_transaction(request) as (connection, caller),
        ):
            user = await user_repository.get_user(connection, caller.principal_id)
            _require(not user.has_factor, "The account already has a second factor.")
            _require(user.totp_secret is not None, "No second factor is proposed. Call POST /auth/totp first.")
            now = datetime.now(UTC)
            step = self.mfa_secrets.matching_step(user, body.code, now)
            if step is None:
                raise ReauthenticationFailed("The code is not valid.")
            await user_repository.confirm_factor(connection, user.id, step, now)
            codes = await self.mfa_secrets.new_recovery_codes(connection, user.id)
            await session_repository.add_method(connection, caller.token_id, OTP)
            await _record_audit(connection, request, caller, "second_factor.enable")
        self.context.guards.invalidate_sessions(caller.principal_id)
        return json_response(RecoveryCodes(codes))

    async def verify(self, request: web.Request) -> web.StreamResponse:
        """Verify the second factor of a session that still needs it.

        The session's earlier tokens stop working: the response has its new ones.
        """
        body = await self.context.read_body(request, SessionVerification)
        if body.cookie:
            require_same_origin(request)
        caller = authenticated_credential(request)
        _require(caller.mfa_pending, "The session does not need a second factor.")
        await self.issuer.ensure_key_published()
        async with (
            self.throttle.account(request, caller),
            self.context.session_transaction(request) as (connection, caller),
        ):
            user = await user_repository.get_user(connection, caller.principal_id)
            method = await self.mfa_secrets.consume_code(connection, user, body.code, datetime.now(UTC))
            if method is None:
                raise InvalidCredentials("The code is not valid.")
            issued = await session_repository.replace(connection, caller.token_id, method, datetime.now(UTC))
            if not caller.is_federated:
                await self.throttle.remember_address(connection, request, user.id)
            data = {"method": method, "session": issued.session.id}
            by = session_actor(caller, caller.org_id)
            await record(connection, by, "session.verify", caller.token_id, data, request_id(request))
        self.context.guards.invalidate_sessions(caller.principal_id)
        return session_response(self.issuer.issue(issued, user), in_cookie=body.cookie)

    async def disable(self, request: web.Request) -> web.StreamResponse:
        """Disable the second factor.

        Its recovery codes are deleted.
        """
        body = await self.context.read_body(request, Removal)
        caller = authenticated_credential(request)
        user = await self._load_user(caller)
        _require(user.has_factor, "The account has no second factor.")
        async with self.throttle.account(request, caller):
            await self._require_password(user, body.password)
            async with self.context.session_transaction(request) as (connection, caller):
                user = await user_repository.get_user(connection, caller.principal_id)
                if await self.mfa_secrets.consume_code(connection, user, body.code, datetime.now(UTC)) is None:
                    raise ReauthenticationFailed("The code is not valid.")
                await user_repository.remove_factor(connection, user.id)
                await _record_audit(connection, request, caller, "second_factor.disable")
        self.context.guards.invalidate_sessions(caller.principal_id)
        return web.Response(status=204)

    async def _load_user(self, caller: AuthenticatedCredential) -> User:
        async with self.context.database.read() as connection:
            return await user_repository.get_user(connection, caller.principal_id)

    async def _require_password(self, user: User, password: str) -> None:
        if not await self.passwords.matches(user.password_hash, password):
            raise ReauthenticationFailed("The password is not valid.")


def _require(state: bool, message: str) -> None:
    if not state:
        raise Conflict(message)


async def _record_audit(
    connection: AsyncConnection, request: web.Request, caller: AuthenticatedCredential, action: str
) -> None:
    """Record an event in every organization that the user is a member of."""
    by = partial(session_actor, caller)
    await record_in_all_orgs(connection, caller.principal_id, by, action, {}, request_id(request))
