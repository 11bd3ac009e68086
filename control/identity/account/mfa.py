"""`/auth/totp`: propose, confirm, verify and disable the second factor of the caller's account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.model import AuthenticatedCredential
from chassis.errors import Conflict
from chassis.http.access import session
from chassis.http.declaration import route
from control.audit.record import record
from control.identity.account.api import record_change, session_actor
from control.identity.bodies import MfaCodeInput, PasswordInput, SessionRequest
from control.identity.login.authentication import OTP, Authenticator
from control.identity.login.credentials import SESSION, SessionHandlers
from control.identity.login.throttle import InvalidCredentials, ReauthenticationFailed
from control.identity.users import session_store, user_store
from control.routing.arguments import begin_session
from proto.totp import RECOVERY_CODES, base32, otpauth_uri

PATH: Final = "/auth/totp"
CODE: Final = {"code": "123456"}


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The password, to confirm that the user is present."""

    password: PasswordInput


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code of the second factor."""

    code: MfaCodeInput


class SessionVerification(SessionRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A code of the second factor. With `cookie`, the session's new refresh token goes into the cookie."""

    code: MfaCodeInput


class Removal(Confirmation, frozen=True, forbid_unknown_fields=True):
    """The password and a code, to confirm that the user is present and has the device."""

    code: MfaCodeInput


class Proposal(msgspec.Struct, frozen=True):
    """The proposed secret for an authenticator app. Codes are required only after `/auth/totp/confirm`."""

    secret: Annotated[str, Meta(description="Base32, for manual entry.")]
    uri: Annotated[str, Meta(description="The same secret as an `otpauth:` URI, for a QR code.")]


class RecoveryCodes(msgspec.Struct, frozen=True, rename="camel"):
    """Recovery codes of the second factor, which is now enabled. Each code can be used once instead of a code of the
    app. Only this response has them.
    """

    recovery_codes: Annotated[list[str], Meta(min_length=RECOVERY_CODES, max_length=RECOVERY_CODES)]


@dataclass(frozen=True, slots=True)
class Mfa(SessionHandlers):
    """Handlers of the second factor, and their dependencies."""

    authenticator: Authenticator

    @route("POST", PATH, session(), status=201, errors=(409,))
    async def propose_totp(self, body: Confirmation, caller: AuthenticatedCredential, request: web.Request) -> Proposal:
        """Propose a second factor.

        Logins need no code until `/auth/totp/confirm` has accepted one. A repeated proposal replaces the secret.
        """
        user = await self.authenticator.load_user(caller)
        _require(not user.has_factor, "The account already has a second factor.")
        async with self.authenticator.throttle.account(request, caller):
            await self._require_password(user, body.password)
        secret = self.authenticator.mfa_secrets.new_secret()
        async with begin_session(self.context, request) as transaction:
            proposed = await user_store.enroll_factor(
                transaction.connection, user.id, self.authenticator.mfa_secrets.encrypt_secret(user.id, secret)
            )
            _require(proposed, "The account already has a second factor.")
            await record_change(transaction, "second_factor.propose", {})
        return Proposal(base32(secret), otpauth_uri(secret, "Sluice", user.email))

    @route("POST", PATH + "/confirm", session(), errors=(409,), example=CODE)
    async def confirm_totp(self, body: Code, caller: AuthenticatedCredential, request: web.Request) -> RecoveryCodes:
        """Confirm the proposed second factor.

        Later logins require a code. This session counts as verified.
        """
        async with (
            self.authenticator.throttle.account(request, caller),
            begin_session(self.context, request) as transaction,
        ):
            connection, caller = transaction.connection, transaction.caller
            user = await user_store.get_user(connection, caller.principal_id)
            _require(not user.has_factor, "The account already has a second factor.")
            _require(user.totp_secret is not None, "No second factor is proposed. Call POST /auth/totp first.")
            now = datetime.now(UTC)
            step = self.authenticator.mfa_secrets.matching_step(user, body.code, now)
            if step is None:
                raise ReauthenticationFailed("The code is not valid.")
            await user_store.confirm_factor(connection, user.id, step, now)
            codes = await self.authenticator.mfa_secrets.new_recovery_codes(connection, user.id)
            await session_store.add_method(connection, caller.token_id, OTP)
            await record_change(transaction, "second_factor.enable", {})
        self.context.guards.invalidate_sessions(caller.principal_id)
        return RecoveryCodes(codes)

    @route(
        "POST", PATH + "/verify", session(allows_pending_mfa=True), errors=(409,), example=CODE, responses=(SESSION,)
    )
    async def verify_totp(
        self, body: SessionVerification, caller: AuthenticatedCredential, request: web.Request
    ) -> web.StreamResponse:
        """Verify the second factor of a session in which it is pending.

        The session's earlier tokens stop working. The response has the new tokens.
        """
        _require(caller.mfa_pending, "The session does not need a second factor.")
        await self.issuer.ensure_key_published()
        async with (
            self.authenticator.throttle.account(request, caller),
            begin_session(self.context, request) as transaction,
        ):
            connection, caller = transaction.connection, transaction.caller
            user = await user_store.get_user(connection, caller.principal_id)
            method = await self.authenticator.mfa_secrets.consume_code(connection, user, body.code, datetime.now(UTC))
            if method is None:
                raise InvalidCredentials("The code is not valid.")
            issued = await session_store.replace(connection, caller.token_id, datetime.now(UTC), method=method)
            if not caller.is_federated:
                await self.authenticator.throttle.remember_address(connection, request, user.id)
            data = {"method": method, "session": issued.session.id}
            by = session_actor(caller, caller.org_id)
            await record(connection, by, "session.verify", caller.token_id, data, transaction.request_id)
        self.context.guards.invalidate_sessions(caller.principal_id)
        return self.issuer.respond(issued, user, in_cookie=body.cookie)

    @route("POST", PATH + "/disable", session(), errors=(409,))
    async def disable_totp(self, body: Removal, caller: AuthenticatedCredential, request: web.Request) -> None:
        """Disable the second factor.

        Its recovery codes are deleted.
        """
        user = await self.authenticator.load_user(caller)
        _require(user.has_factor, "The account has no second factor.")
        async with self.authenticator.throttle.account(request, caller):
            await self._require_password(user, body.password)
            async with begin_session(self.context, request) as transaction:
                connection = transaction.connection
                user = await user_store.get_user(connection, caller.principal_id)
                if (
                    await self.authenticator.mfa_secrets.consume_code(connection, user, body.code, datetime.now(UTC))
                    is None
                ):
                    raise ReauthenticationFailed("The code is not valid.")
                await user_store.remove_factor(connection, user.id)
                await record_change(transaction, "second_factor.disable", {})
        self.context.guards.invalidate_sessions(caller.principal_id)

    async def _require_password(self, user: user_store.User, password: str) -> None:
        if not await self.authenticator.passwords.matches(user.password_hash, password):
            raise ReauthenticationFailed("The password is not valid.")


def _require(state: bool, message: str) -> None:
    if not state:
        raise Conflict(message)
