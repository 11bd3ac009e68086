"""`POST /auth/login/link`: mails a link that lifts the limit of new addresses for the browser that asks."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog
from aiohttp import web

from chassis.db.database import format_time
from chassis.errors import ApiError
from chassis.http.access import anonymous
from chassis.http.declaration import declared_routes, route
from chassis.http.operation import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, Route, json_response
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.identity.bodies import AUTH, Email
from control.identity.login import link_cookie
from control.identity.login.challenge import LINK_LIFETIME, LoginChallenges
from control.identity.mail import AccountMailer
from control.identity.users import user_store
from control.routing.arguments import control_arguments
from proto.identity import normalize_email

MAX_WAITING: Final = 16  # mails of this process that wait; further ones are dropped

log = structlog.get_logger(__name__)


class LoginLinkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The e-mail address of the account."""

    email: Email


class RequestedLoginLink(msgspec.Struct, frozen=True, rename="camel"):
    """When the link expires."""

    expires_at: Timestamp


SENT: Final = ResponseSpec("A mail is sent, if there is such an account.", json_content(RequestedLoginLink), 202)


@dataclass(frozen=True, slots=True)
class LoginLink:
    """The handler, and its dependencies."""

    context: HandlerContext
    challenges: LoginChallenges
    mailer: AccountMailer
    _mails: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def routes(self) -> list[Route]:
        """The route of this resource."""
        return declared_routes(self, AUTH, control_arguments(self.context))

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Ends what is still being sent with the process."""
        yield
        for task in list(self._mails):
            task.cancel()
        await asyncio.gather(*self._mails, return_exceptions=True)

    @route(
        "POST", "/auth/login/link", anonymous(), errors=(409,), example={"email": "ada@example.org"}, responses=(SENT,)
    )
    async def request_login_link(self, body: LoginLinkRequest, request: web.Request) -> web.StreamResponse:
        """Mail a link that spares this browser the proof of work.

        For half an hour, attempts of this browser to log in to the account need no `challenge`: its secret is sent as
        `linkSecret`, with the cookie of this response. It replaces no password and no second factor. The response is
        the same whether there is such an account or not. 409 without a mail server (`SLUICE_CONTROL_SMTP_URL`).
        """
        self.mailer.require_server()
        limits = request.app[RATE_LIMITS]
        account = hashlib.sha256(normalize_email(body.email).encode("utf-8", "surrogatepass")).hexdigest()
        for holder in (f"address {limits.address_key(request)}", f"account {account}"):
            await limits.take_secondary(request, LimitClass.LOGIN_MAIL, holder)
        browser = link_cookie.read_or_create(request)
        expires_at = datetime.now(UTC) + LINK_LIFETIME
        self._start_mail(body.email, browser)
        response = json_response(RequestedLoginLink(format_time(expires_at)), status=202)
        link_cookie.keep(response, browser)
        return response

    def _start_mail(self, email: str, browser: str) -> None:
        """Beside the response, whose time must not tell whether there is an account."""
        if len(self._mails) >= MAX_WAITING:
            log.warning("login link not sent", error="too_many_waiting", waiting=len(self._mails))
            return
        task = asyncio.create_task(self._mail(email, browser))
        self._mails.add(task)
        task.add_done_callback(self._mails.discard)

    async def _mail(self, email: str, browser: str) -> None:
        try:
            async with self.context.database.read() as connection:
                accounts = await user_store.list_accounts(connection, email)
            if any(user.disabled_at is None and user.password_hash is not None for user in accounts):
                secret = self.challenges.new_link_secret(email, browser)
                await self._send(accounts[0].email, secret)
        except ApiError as error:  # no response waits for it, and the mailer has counted it
            log.warning("login link not sent", error=error.code.value)

    async def _send(self, address: str, secret: str) -> None:
        link = self.mailer.pages.login_link(secret)
        how = ["open this link in the same browser:", "", f"    {link}"]
        if link is None:
            how = ["send this with the e-mail address and the password, as `linkSecret`:", "", f"    {secret}"]
        lines = [
            f"Someone is logging in to {self.mailer.base_url} with this e-mail address.",
            "Many wrong passwords were entered for it from other places.",
            f"If this is you, {how[0]}",
            *how[1:],
            "",
            "It is valid for 30 minutes, only in the browser that asked for it. You need your password and your",
            "second factor as usual. If this is not you, ignore this mail. The link alone is not enough to log in.",
        ]
        mail_id = hashlib.sha256(secret.encode()).hexdigest()[:32]
        await self.mailer.send("login_link", address, "Log in to Sluice", lines, datetime.now(UTC), mail_id)
