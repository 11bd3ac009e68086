"""`/auth/email/verification`: verify the address of the caller's account with a secret that is mailed to it.

The secret is useless alone: it counts only in a session of the account that asked for it. Otherwise a stranger could
create an account with another person's address, and would only have to make that person open a link. The database
holds the SHA-256 of the secret.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

import msgspec
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import email_verifications, new_email_verification, new_id
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import Conflict
from chassis.http.access import session
from chassis.http.declaration import route
from control.http.field_types import Timestamp
from control.identity.account.api import record_change
from control.identity.bodies import AUTH, Email, NewPassword, SecretInput
from control.identity.login.authentication import Authenticator
from control.identity.login.credentials import SessionUser, user_body
from control.identity.login.throttle import ReauthenticationFailed
from control.identity.mail import AccountMailer, minute, require_mail_rate
from control.identity.users import session_store, user_store
from control.identity.users.user_store import EmailTaken, User
from control.routing.arguments import Handlers, SessionTransaction, begin_session
from proto.identity import EMAIL_VERIFICATION_PREFIX, hash_secret, is_token

LIFETIME: Final = timedelta(minutes=30)


PATH: Final = "/auth/email/verification"
_TAKEN: Final = (
    "Another account has verified this e-mail address. To use the verified account in this organization, ask an "
    "administrator to remove the account of this session from the organization and to invite the address again. Then "
    "accept the invitation with existingAccount."
)


class RequestedVerification(msgspec.Struct, frozen=True, rename="camel"):
    """The address that the secret was mailed to, and the end of its validity."""

    email: Email
    expires_at: Timestamp


class VerificationConfirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The secret in the mail, and the new password of the account."""

    token: SecretInput
    password: NewPassword


@dataclass(frozen=True, slots=True)
class EmailVerification(Handlers):
    """Handlers of address verification, and their dependencies."""

    TAG: ClassVar = AUTH
    authenticator: Authenticator
    mailer: AccountMailer

    @route("POST", PATH, session(), status=202, errors=(409,))
    async def request_email_verification(
        self, caller: AuthenticatedCredential, request: web.Request
    ) -> RequestedVerification:
        """Mail a secret that verifies the address of the account.

        The secret is valid once within 30 minutes, in sessions of this account. It replaces an earlier secret, even if
        the mail fails. 409 if the address is already verified, if no mail server is configured
        (`SLUICE_CONTROL_SMTP_URL`), and if the mail server rejects the mail. 503 if the mail server is unavailable. The
        response does not depend on other accounts with the same address.
        """
        self.mailer.require_server()
        await require_mail_rate(request, caller.org_id, caller.principal_id)
        secret, now = new_email_verification(), to_milliseconds(datetime.now(UTC))
        async with begin_session(self.context, request) as transaction:
            user = await user_store.get_user(transaction.connection, caller.principal_id)
            _require_unverified(user)
            await _store_secret(transaction.connection, user, secret, now)
            await record_change(transaction, "email_verification.request", {"email": user.email})
        await _mail(self.mailer, user.email, secret, now, transaction.caller.org_slug)
        return RequestedVerification(user.email, format_time(now + LIFETIME))

    @route("POST", PATH + "/confirm", session(), errors=(409,))
    async def confirm_email_verification(
        self, body: VerificationConfirmation, caller: AuthenticatedCredential, request: web.Request
    ) -> SessionUser:
        """Verify the address of the account.

        The account may then join other organizations. Its password becomes the password of the request, because another
        person may have accepted the invitation and chosen the previous password. Its other sessions end. 409 if another
        account has verified the address first.
        """
        user = await self.authenticator.load_user(caller)
        _require_unverified(user)  # before the password is hashed: this failure does not count
        async with self.authenticator.throttle.account(request, caller):
            hashed = await self.authenticator.passwords.hash(body.password, salted_like=user.password_hash)
            async with begin_session(self.context, request) as transaction:
                user = await _verify(transaction, body.token, hashed)
        self.context.guards.invalidate_sessions(caller.principal_id)
        return user_body(user)


async def _store_secret(connection: AsyncConnection, user: User, secret: str, now: datetime) -> None:
    """Store a secret for the account's address. It replaces the previous secret."""
    row = {"principal_id": user.id, "email": user.email, "created_at": now, "expires_at": now + LIFETIME}
    await connection.execute(email_verifications.delete().where(email_verifications.c.principal_id == user.id))
    await connection.execute(email_verifications.insert().values(row | {"hash": hash_secret(secret)}))


async def _consume(connection: AsyncConnection, user: User, secret: str, now: datetime) -> bool:
    """Use a secret, once. False unless it was mailed to the present address of this account and has not expired."""
    if not is_token(secret, EMAIL_VERIFICATION_PREFIX):
        return False
    found = (
        (email_verifications.c.principal_id == user.id)
        & (email_verifications.c.hash == hash_secret(secret))
        & (email_verifications.c.email == user.email)
        & (email_verifications.c.expires_at > now)
    )
    return (await connection.execute(email_verifications.delete().where(found))).rowcount == 1


async def _verify(transaction: SessionTransaction, secret: str, hashed: str) -> User:
    """Verify the address of the caller's account, and set its password. Raises ReauthenticationFailed, Conflict."""
    connection, caller = transaction.connection, transaction.caller
    user = await user_store.get_user(connection, caller.principal_id)
    _require_unverified(user)
    if not await _consume(connection, user, secret, datetime.now(UTC)):
        raise ReauthenticationFailed("The token is not valid.")
    try:
        await user_store.verify_email(connection, user)
    except EmailTaken:
        raise Conflict(_TAKEN) from None
    await user_store.set_password(connection, user.id, hashed)
    await session_store.end_all(connection, user.id, datetime.now(UTC), except_session_id=caller.token_id)
    await record_change(transaction, "email_verification.confirm", {"email": user.email})
    return await user_store.get_user(connection, user.id)


async def _mail(mailer: AccountMailer, email: str, secret: str, now: datetime, org_slug: str) -> None:
    """Mail a secret that verifies the address of an account. Raises Conflict, ServiceUnavailable."""
    lines = [
        f"An account in the organization {org_slug} at {mailer.base_url}",
        "has this e-mail address. The user of the account asked to verify the address. If it was you, use this token:",
        "",
        f"    {secret}",
        "",
        *_how_to_verify(mailer, secret, org_slug),
        "",
        f"The token can be used once, until {minute(now + LIFETIME)}, and only by the account that asked for it.",
        "If it was not you, ignore this mail and do not pass on the token: another person has created an account",
        "with your address. Without the token, this account cannot be used in any other organization.",
    ]
    await mailer.send("verification", email, "Verify your e-mail address", lines, now, new_id("emv"))


def _how_to_verify(mailer: AccountMailer, secret: str, org_slug: str) -> list[str]:
    if (link := mailer.pages.verification(org_slug, secret)) is not None:
        return ["or open", "", f"    {link}"]
    return [
        "Insert the access token of your session and a new password for the account into this command:",
        "",
        "    curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\",
        f"      {mailer.base_url}/auth/email/verification/confirm \\",
        f"""      -d '{{"token": "{secret}", "password": "YOUR PASSWORD"}}'""",
    ]


def _require_unverified(user: User) -> None:
    if user.email_verified:
        raise Conflict("The e-mail address is already verified.")
