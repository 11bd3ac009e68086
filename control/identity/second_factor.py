"""`/auth/totp`: propose, confirm, show and disable the second factor of one's account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.access import grant, session
from chassis.errors import Conflict
from chassis.identity import sessions, users
from chassis.identity.model import Grant
from chassis.identity.users import User
from chassis.operation import Answer, Body, Operation, json_content
from chassis.web import Route, json_response, request_id
from control.audit.record import record
from control.desk import Desk
from control.identity.attempts import Attempts, NotConfirmed, NotRecognized
from control.identity.factors import OTP, Factors
from control.identity.issuing import Issuer, SessionMaterial
from control.identity.login import TAG
from control.identity.passwords import Passwords
from control.identity.shapes import GivenCode, GivenPassword
from control.identity.telling import actor, tell_everywhere
from proto.totp import RECOVERY_CODES, base32, otpauth_uri

ISSUER: Final = "Sluice"


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That it is still the user who asks."""

    password: GivenPassword


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code of the second factor."""

    code: GivenCode


class Removal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That it is still the user who asks, device and all."""

    password: GivenPassword
    code: GivenCode


class Proposal(msgspec.Struct, frozen=True):
    """What to put into an authenticator app."""

    secret: Annotated[str, Meta(description="In base 32, to be typed.")]
    uri: Annotated[str, Meta(description="The same as `otpauth:`, to be shown as a QR code.")]


class RecoveryCodes(msgspec.Struct, frozen=True, rename="camel"):
    """Each stands in for a code once. They are shown this once."""

    recovery_codes: Annotated[list[str], Meta(min_length=RECOVERY_CODES, max_length=RECOVERY_CODES)]


PROPOSE: Final = Operation(
    "proposeTotp",
    TAG,
    (Answer("A secret, which is not asked for before it is confirmed.", json_content(Proposal), 201),),
    body=Body(json_content(Confirmation)),
    refused=(409,),
)
CONFIRM: Final = Operation(
    "confirmTotp",
    TAG,
    (Answer("It is asked for from now on.", json_content(RecoveryCodes)),),
    body=Body(json_content(Code), example={"code": "123456"}),
    refused=(409,),
)
VERIFY: Final = Operation(
    "verifyTotp",
    TAG,
    (Answer("The session owes nothing any more.", json_content(SessionMaterial)),),
    body=Body(json_content(Code), example={"code": "123456"}),
    refused=(409,),
)
DISABLE: Final = Operation(
    "disableTotp",
    TAG,
    (Answer("It is asked for no more.", status=204),),
    body=Body(json_content(Removal)),
    refused=(409,),
)


@dataclass(frozen=True, slots=True)
class SecondFactors:
    """The handlers, with what they need."""

    desk: Desk
    attempts: Attempts
    passwords: Passwords
    factors: Factors
    issuer: Issuer

    def routes(self) -> list[Route]:
        """Every route of this resource, for sessions."""
        return [
            Route("POST", "/auth/totp", self.propose, session(), operation=PROPOSE),
            Route("POST", "/auth/totp/confirm", self.confirm, session(), operation=CONFIRM),
            Route("POST", "/auth/totp/verify", self.verify, session(owing=True), operation=VERIFY),
            Route("POST", "/auth/totp/disable", self.disable, session(), operation=DISABLE),
        ]

    async def propose(self, request: web.Request) -> web.StreamResponse:
        """Propose a second factor.

        Nothing is asked for until `/auth/totp/confirm` was shown a code of it. Again: another secret in its place.
        """
        body = await self.desk.read(request, Confirmation)
        user = await self._user(grant(request))
        _require(not user.has_factor, "The account has a second factor already.")
        async with self.attempts.at(request, user.email):
            await self._confirmed(user, body.password)
        secret = self.factors.new_secret()
        async with self.desk.change_own(request) as (connection, caller):
            proposed = await users.propose_factor(connection, user.id, self.factors.seal(user.id, secret))
            _require(proposed, "The account has a second factor already.")
            await _tell(connection, request, caller, "second_factor.propose")
        return json_response(Proposal(base32(secret), otpauth_uri(secret, ISSUER, user.email)), status=201)

    async def confirm(self, request: web.Request) -> web.StreamResponse:
        """Confirm the second factor that was proposed.

        From now on sessions owe it; this one has shown it.
        """
        body = await self.desk.read(request, Code)
        caller = grant(request)
        email = (await self._user(caller)).email
        async with self.attempts.at(request, email), self.desk.change_own(request) as (connection, caller):
            user = await users.existing_user(connection, caller.principal_id)
            _require(not user.has_factor, "The account has a second factor already.")
            _require(user.totp_secret is not None, "No second factor was proposed.")
            now = datetime.now(UTC)
            step = self.factors.matching_step(user, body.code, now)
            if step is None:
                raise NotConfirmed("The code is not valid.")
            await users.confirm_factor(connection, user.id, step, now)
            codes = await self.factors.new_recovery_codes(connection, user.id)
            await sessions.add_method(connection, caller.token_id, OTP)
            await _tell(connection, request, caller, "second_factor.enable")
        self.desk.checks.forget_sessions(caller.principal_id)
        return json_response(RecoveryCodes(codes))

    async def verify(self, request: web.Request) -> web.StreamResponse:
        """Show the second factor that a session owes.

        What the session held before works no more: the answer has its new tokens.
        """
        body = await self.desk.read(request, Code)
        caller = grant(request)
        _require(caller.owes_factor, "The session owes no second factor.")
        await self.issuer.get_ready()
        email = (await self._user(caller)).email
        async with self.attempts.at(request, email), self.desk.change_own(request) as (connection, caller):
            user = await users.existing_user(connection, caller.principal_id)
            method = await self.factors.accept(connection, user, body.code, datetime.now(UTC))
            if method is None:
                raise NotRecognized("The code is not valid.")
            continued = await sessions.replace(connection, caller.token_id, method, datetime.now(UTC))
            told = {"method": method, "session": continued.session.id}
            by = actor(caller, caller.org_id)
            await record(connection, by, "session.verify", caller.token_id, told, request_id(request))
        self.desk.checks.forget_sessions(caller.principal_id)
        return json_response(self.issuer.material(continued, user))

    async def disable(self, request: web.Request) -> web.StreamResponse:
        """Do without the second factor.

        Recovery codes go with it.
        """
        body = await self.desk.read(request, Removal)
        caller = grant(request)
        user = await self._user(caller)
        _require(user.has_factor, "The account has no second factor.")
        async with self.attempts.at(request, user.email):
            await self._confirmed(user, body.password)
            async with self.desk.change_own(request) as (connection, caller):
                user = await users.existing_user(connection, caller.principal_id)
                if await self.factors.accept(connection, user, body.code, datetime.now(UTC)) is None:
                    raise NotConfirmed("The code is not valid.")
                await users.remove_factor(connection, user.id)
                await _tell(connection, request, caller, "second_factor.disable")
        self.desk.checks.forget_sessions(caller.principal_id)
        return web.Response(status=204)

    async def _user(self, caller: Grant) -> User:
        async with self.desk.database.read() as connection:
            return await users.existing_user(connection, caller.principal_id)

    async def _confirmed(self, user: User, password: str) -> None:
        if not await self.passwords.matches(user.password_hash, password):
            raise NotConfirmed("The password is not valid.")


def _require(state: bool, message: str) -> None:
    if not state:
        raise Conflict(message)


async def _tell(connection: AsyncConnection, request: web.Request, caller: Grant, action: str) -> None:
    """The audit of every organization that the user is in."""
    by = partial(actor, caller)
    await tell_everywhere(connection, caller.principal_id, by, action, {}, request_id(request))
