"""The end of a login with a redirect. `GET /sso/complete` shows a page, and `POST /sso/handoff` exchanges its one-time
code for a session.

A dashboard behind the same address may serve its own page. This page spends the code and shows who is signed in. The
code is in the fragment, which no server and no log sees. The page runs one script of its own, and connects only to this
origin.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Annotated, Final

import msgspec
import structlog
from aiohttp import web
from msgspec import Meta
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import any_disabled, load_membership_statuses
from chassis.errors import BadRequest
from chassis.http.access import anonymous
from chassis.http.declaration import route
from chassis.http.route import Body, ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.identity.bodies import InCookie
from control.identity.login import credentials
from control.identity.login.api import record_start
from control.identity.login.credentials import SessionIssuer, SessionUser, Tokens, user_body
from control.identity.sso import connection_store, identities
from control.identity.sso.login import browser, login_store, return_path
from control.identity.users import session_store, user_store
from control.routing.arguments import Handlers
from proto.identity import Role

_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)

log = structlog.get_logger(__name__)


class HandoffCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The code of a login that ended with a redirect."""

    code: Annotated[str, Meta(min_length=1, max_length=512)]
    cookie: InCookie = False


class Handoff(msgspec.Struct, frozen=True, rename="camel"):
    """The session of a login, and the address that the user wanted. `provisioned`: the login made the membership."""

    org_id: str
    role: Role
    provisioned: bool
    tokens: Tokens
    user: SessionUser
    next: str | None


@dataclass(frozen=True, slots=True)
class _Spent:
    """A code that was spent: the session, its user, and the user's present role."""

    code: login_store.StoredCode
    session: session_store.IssuedSession
    user: user_store.User
    role: Role


@dataclass(frozen=True, slots=True)
class _Refused:
    """A known code that was not accepted. `reason`: for the audit log."""

    code: login_store.StoredCode
    reason: str


@dataclass(frozen=True, slots=True)
class Handoffs(Handlers):
    """Handlers of the page and of handoffs, and their dependencies."""

    issuer: SessionIssuer

    @route("GET", "/sso/complete", anonymous(), responses=(ResponseSpec("The page.", {"text/html": None}),))
    async def show_sso_completion(self) -> web.StreamResponse:
        """Show the page on which a login ends.

        The page spends the one-time code in the fragment of its address.
        """
        html, policy = _page()
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            **browser.NO_STORE,
        }
        return web.Response(body=html.encode(), headers=headers)

    @route(
        "POST",
        "/sso/handoff",
        anonymous(),
        body=Body(json_content(HandoffCode), example={"code": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"}),
        responses=(ResponseSpec("The session.", json_content(Handoff)),),
        only_errors=browser.ERROR_STATUSES_OF_CODES,
    )
    async def hand_off_login(self, request: web.Request) -> web.StreamResponse:
        """Spend the one-time code of a login.

        The code is valid once within 60 seconds. Membership and connection are checked again. The response is the same
        400 for an unknown, spent or expired code, and for a user who may no longer log in.
        """
        limits = request.app[RATE_LIMITS]
        await limits.check_address(request, LimitClass.FAILED_SSO)
        body = await self.context.read_body(request, HandoffCode)
        if body.cookie:
            credentials.require_same_origin(request)
        await self.issuer.ensure_key_published()
        spent: _Spent | _Refused | None = None
        if browser.is_secret(body.code):
            async with self.context.database.write() as connection:
                spent = await self._spend(connection, request, body.code)
        if not isinstance(spent, _Spent):
            if spent is not None:
                await self._record_refusal(request, spent)
            await limits.record_address_failure(request, LimitClass.FAILED_SSO)
            raise BadRequest(browser.REFUSED)
        tokens = self.issuer.issue(spent.session, spent.user).tokens
        material = Handoff(
            org_id=spent.code.org_id,
            role=spent.role,
            provisioned=spent.code.provisioned,
            tokens=replace(tokens, refresh_token="") if body.cookie else tokens,
            user=user_body(spent.user),
            next=return_path.resolve_stored(spent.code.next),
        )
        response = json_response(material, headers=browser.NO_STORE)
        if body.cookie:
            credentials.keep_refresh_token(response, tokens.refresh_token)
        return response

    async def _spend(self, connection: AsyncConnection, request: web.Request, secret: str) -> _Spent | _Refused | None:
        """Spend the code. None if it is not known. The use is committed even if the code is then refused."""
        now = datetime.now(UTC)
        code = await login_store.find_code(connection, secret)
        if code is None:
            return None
        if not await login_store.spend_code(connection, secret, now):
            return _Refused(code, "code_used_or_expired")
        role = await _current_role(connection, code)
        if role is None:
            return _Refused(code, "access_removed")
        user = await user_store.get_user(connection, code.principal_id)
        session = await session_store.start(
            connection, code.org_id, user.id, code.methods, now, expires_at=code.session_expires_at
        )
        await record_start(connection, request, session.session, connectionId=code.connection_id)
        return _Spent(code, session, user, role)

    async def _record_refusal(self, request: web.Request, refused: _Refused) -> None:
        """Record a refused code, with the rate limit of refused logins. A second use may come from a thief."""
        code = refused.code
        if not await request.app[RATE_LIMITS].admits(LimitClass.SSO_REFUSAL, code.org_id):
            message = "refused one-time code is not recorded in the audit log, because too many logins were refused"
            log.info(message, org_id=code.org_id, reason=refused.reason)
            return
        data = {"reason": refused.reason, "principalId": code.principal_id}
        async with self.context.database.write() as connection:
            await record(
                connection, Actor(code.org_id), "sso.handoff_refuse", code.connection_id, data, request_id(request)
            )


async def _current_role(connection: AsyncConnection, code: login_store.StoredCode) -> Role | None:
    """The role of the code's user. None unless the user is still linked and a member, and the connection enabled."""
    stored = await connection_store.find_by_id(connection, code.connection_id)
    identity = await identities.find_identity_by_id(connection, code.identity_id)
    if stored is None or not stored.enabled or identity is None or identity.principal_id != code.principal_id:
        return None
    found = await load_membership_statuses(connection, code.org_id, [code.principal_id])
    return None if any_disabled(found) else found[code.principal_id].role


@cache
def _page() -> tuple[str, str]:
    """The page, and the content policy that permits only its own script and style."""
    html = resources.files(__package__).joinpath("complete.html").read_text(encoding="utf-8")
    hashes = {kind: _hash(text) for kind, text in _INLINE.findall(html)}
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
