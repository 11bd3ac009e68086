"""The two exceptions from the limit on passwords that are tried for an account from new addresses: a proof of work, or
a link that `POST /auth/login/link` mails to the account.

Both are signed texts that are not stored. A challenge is valid for one account and one client address, once within five
minutes. The secret in a link is valid for one account and the browser that asked for it (which has a cookie), for half
an hour. Neither replaces the password or the second factor. Addresses are hashed with the same key.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Final

import msgspec
import structlog
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from chassis.errors import ApiError, BadRequest, RateLimited
from chassis.http.access import anonymous
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner
from chassis.http.declaration import route
from chassis.http.route import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, json_response
from chassis.limits.limiter import LimitClass
from control.http.field_types import Timestamp
from control.identity.bodies import AUTH, Email
from control.identity.mail import AccountMailer
from control.identity.users import user_store
from control.routing.arguments import Handlers
from proto.errors import ErrorCode
from proto.identity import normalize_email

CHALLENGE_LIFETIME: Final = timedelta(minutes=5)
LINK_LIFETIME: Final = timedelta(minutes=30)
BITS: Final = 20  # a million hashes on average: a second or two in a browser
MAX_PROOF_LENGTH: Final = 64
_NONCE_BYTES: Final = 24  # the challenge then has 64 characters, one block of SHA-256
LINK_COOKIE: Final = "__Secure-sluice-login-link"
_LINK_PATH: Final = "/auth/login"
_BROWSER_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits in base64url
MAX_WAITING: Final = 16  # mails of this process that wait; further mails are dropped

log = structlog.get_logger(__name__)


class Challenge(msgspec.Struct, frozen=True):
    """A proof-of-work challenge."""

    challenge: Annotated[str, Meta(max_length=MAX_CURSOR_LENGTH)]
    bits: int


class ChallengeErrorBody(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why a login was refused. `details` is set only if a proof of work helps."""

    code: ErrorCode
    message: str
    request_id: str
    details: Challenge | UnsetType = UNSET


class ChallengeError(msgspec.Struct, frozen=True):
    """The error of a refused login."""

    error: ChallengeErrorBody


def challenge_required(challenge: str, retry_after: int) -> RateLimited:
    """429: too many passwords were tried for this account from new addresses. `details`: the challenge to solve."""
    return RateLimited(
        "Too many failed logins to this account from new addresses. Repeat the request with `challenge` and a "
        "`proof`. The SHA-256 hash of `challenge` + `proof` (UTF-8) must begin with `bits` zero bits.",
        retry_after,
        challenge={"challenge": challenge, "bits": BITS},
    )


@dataclass(frozen=True, slots=True)
class LoginChallenges:
    """Signs and verifies challenges and link secrets without storing them. `email` may have any spelling. `address` is
    the client address as rate limits count it.
    """

    signer: CursorSigner

    def new_challenge(self, email: str, address: str) -> str:
        """A challenge for an attempt to log in."""
        payload = (secrets.token_bytes(_NONCE_BYTES), _expiry(CHALLENGE_LIFETIME))
        return self.signer.sign(payload, _binding("challenge", email, address))

    def is_solved(self, challenge: str, proof: str, email: str, address: str) -> bool:
        """Whether Sluice made the challenge for this account and address, it is not too old, and the proof solves it.
        Does not check whether it was used before.
        """
        try:
            _, expiry = self.signer.open(challenge, _binding("challenge", email, address), tuple[bytes, int])
        except BadRequest:
            return False
        digest = hashlib.sha256((challenge + proof).encode("utf-8", "surrogatepass")).digest()
        return datetime.now(UTC).timestamp() < expiry and int.from_bytes(digest) >> (256 - BITS) == 0

    def new_link_secret(self, email: str, browser: str) -> str:
        """The secret of a link for the browser with the secret `browser`."""
        return self.signer.sign((_expiry(LINK_LIFETIME),), _binding("link", email, browser))

    def is_link_secret(self, link_secret: str, email: str, browser: str) -> bool:
        """Whether the secret was mailed to the address for this browser, and is not too old."""
        try:
            (expiry,) = self.signer.open(link_secret, _binding("link", email, browser), tuple[int])
        except BadRequest:
            return False
        return datetime.now(UTC).timestamp() < expiry

    def hash_address(self, principal_id: str, address: str) -> str:
        """The keyed hash that is stored for an address. Without the key, addresses cannot be guessed."""
        return self.signer.sign((), b"\0".join((b"login address", principal_id.encode(), address.encode())))


def _expiry(lifetime: timedelta) -> int:
    """Seconds since 1970. They take five bytes of MessagePack until 2106."""
    return int((datetime.now(UTC) + lifetime).timestamp())


def _binding(purpose: str, email: str, holder: str) -> bytes:
    account = hashlib.sha256(normalize_email(email).encode("utf-8", "surrogatepass")).digest()
    return b"login " + purpose.encode() + b"\0" + account + holder.encode("utf-8", "surrogatepass")


def read_browser_secret(request: web.Request) -> str:
    """The secret of the browser, empty if it has none."""
    value = request.cookies.get(LINK_COOKIE, "")
    return value if _BROWSER_SECRET.fullmatch(value) else ""


class LoginLinkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The e-mail address of the account."""

    email: Email


class RequestedLoginLink(msgspec.Struct, frozen=True, rename="camel"):
    """When the link expires."""

    expires_at: Timestamp


SENT: Final = ResponseSpec("A mail is sent, if there is such an account.", json_content(RequestedLoginLink), 202)


@dataclass(frozen=True, slots=True)
class LoginLink(Handlers):
    """The handler of `POST /auth/login/link`, and its dependencies."""

    TAG: ClassVar = AUTH
    challenges: LoginChallenges
    mailer: AccountMailer
    _mails: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """At shutdown, cancels mails that are still being sent."""
        yield
        for task in list(self._mails):
            task.cancel()
        await asyncio.gather(*self._mails, return_exceptions=True)

    @route(
        "POST", "/auth/login/link", anonymous(), errors=(409,), example={"email": "ada@example.org"}, responses=(SENT,)
    )
    async def request_login_link(self, body: LoginLinkRequest, request: web.Request) -> web.StreamResponse:
        """Mail a link that spares this browser the proof of work.

        For half an hour, attempts of this browser to log in to the account need no `challenge`. They send the secret of
        the link as `linkSecret`, with the cookie of this response. The link replaces neither the password nor the
        second factor. The response is the same whether there is such an account or not. 409 without a mail server
        (`SLUICE_CONTROL_SMTP_URL`).
        """
        self.mailer.require_server()
        limits = request.app[RATE_LIMITS]
        account = hashlib.sha256(normalize_email(body.email).encode("utf-8", "surrogatepass")).hexdigest()
        for holder in (f"address {limits.address_key(request)}", f"account {account}"):
            await limits.take_secondary(request, LimitClass.LOGIN_MAIL, holder)
        browser = read_browser_secret(request) or secrets.token_urlsafe(32)  # an earlier link of the browser stays good
        self._start_mail(body.email, browser)
        response = json_response(RequestedLoginLink(format_time(datetime.now(UTC) + LINK_LIFETIME)), status=202)
        response.set_cookie(
            LINK_COOKIE,
            browser,
            max_age=int(LINK_LIFETIME.total_seconds()),
            path=_LINK_PATH,
            secure=True,
            httponly=True,
            samesite="Strict",
        )
        return response

    def _start_mail(self, email: str, browser: str) -> None:
        """Send the mail in a task, so that the time of the response does not reveal whether there is an account."""
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
                await self._send(accounts[0].email, self.challenges.new_link_secret(email, browser))
        except ApiError as error:  # no response waits for the mail, and the mailer has counted it
            log.warning("login link not sent", error=error.code.value)

    async def _send(self, address: str, secret: str) -> None:
        link = self.mailer.pages.login_link(secret)
        how = ["open this link in the browser in which you tried to log in:", "", f"    {link}"]
        if link is None:
            how = ["log in again with the e-mail address, the password and this `linkSecret`:", "", f"    {secret}"]
        lines = [
            f"A login to {self.mailer.base_url} with this e-mail address was attempted.",
            "Many wrong passwords were entered for this e-mail address from other places.",
            f"If this was you, {how[0]}",
            *how[1:],
            "",
            "The link is valid for 30 minutes, only in the browser that asked for it. You need your password and your",
            "second factor as usual. If this was not you, ignore this mail. The link alone is not enough to log in.",
        ]
        subject, mail_id = "Log in to Sluice", hashlib.sha256(secret.encode()).hexdigest()[:32]
        await self.mailer.send("login_link", address, subject, lines, datetime.now(UTC), mail_id)
