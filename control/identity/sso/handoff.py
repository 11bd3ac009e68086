"""`POST /sso/handoff`: a one-time code becomes a session (specification 4.7; 5, rule 6)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from aiohttp import web
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.membership_status import any_disabled, load_membership_statuses
from chassis.errors import BadRequest
from chassis.http.access import anonymous
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, Route, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.identity.login import credentials
from control.identity.login.credentials import SessionIssuer, user_body
from control.identity.sso import browser, connection_repository, identity_repository, login_repository, return_path
from control.identity.sso.browser import NO_STORE, REFUSED
from control.identity.sso.completion import record_session
from control.identity.sso.connections import TAG
from control.identity.sso.login_repository import StoredCode
from control.identity.sso.schemas import Handoff, HandoffCode
from control.identity.users import session_store, user_store
from control.identity.users.session_store import IssuedSession
from control.identity.users.user_store import User
from proto.identity import Role

log = structlog.get_logger(__name__)

HANDOFF: Final = Operation(
    "handOffLogin",
    TAG,
    (ResponseSpec("The session.", json_content(Handoff)),),
    body=Body(json_content(HandoffCode), example={"code": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"}),
    only_error_statuses=browser.ERROR_STATUSES_OF_CODES,
)


@dataclass(frozen=True, slots=True)
class _Spent:
    """A code that was spent: the session, its user, and the user's role now."""

    code: StoredCode
    session: IssuedSession
    user: User
    role: Role


@dataclass(frozen=True, slots=True)
class _Refused:
    """A code that is known and was not accepted; `reason`: for the audit log."""

    code: StoredCode
    reason: str


@dataclass(frozen=True, slots=True)
class Handoffs:
    """The handler of handoffs, and its dependencies."""

    context: HandlerContext
    issuer: SessionIssuer

    def routes(self) -> list[Route]:
        """The route of this resource; it is anonymous."""
        handler = browser.only_specified_statuses(self.spend)
        return [Route("POST", "/sso/handoff", handler, anonymous(), operation=HANDOFF)]

    async def spend(self, request: web.Request) -> web.StreamResponse:
        """Spend the one-time code of a login.

        It is valid for 60 seconds, once. Membership and connection are checked again. The same 400 for a code that is
        unknown, was spent, has expired, or whose user may not log in any more.
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
            raise BadRequest(REFUSED)
        tokens = self.issuer.issue(spent.session, spent.user).tokens
        material = Handoff(
            org_id=spent.code.org_id,
            role=spent.role,
            provisioned=spent.code.provisioned,
            tokens=replace(tokens, refresh_token="") if body.cookie else tokens,
            user=user_body(spent.user),
            next=return_path.resolve_stored(spent.code.next),
        )
        response = json_response(material, headers=NO_STORE)
        if body.cookie:
            credentials.keep_refresh_token(response, tokens.refresh_token)
        return response

    async def _spend(self, connection: AsyncConnection, request: web.Request, secret: str) -> _Spent | _Refused | None:
        """None if the code is not known. The use is committed, whatever comes of it."""
        now = datetime.now(UTC)
        code = await login_repository.find_code(connection, secret)
        if code is None:
            return None
        if not await login_repository.spend_code(connection, secret, now):
            return _Refused(code, "code_used_or_expired")
        role = await _current_role(connection, code)
        if role is None:
            return _Refused(code, "access_removed")
        user = await user_store.get_user(connection, code.principal_id)
        session = await session_store.start(
            connection, code.org_id, user.id, code.methods, now, expires_at=code.session_expires_at
        )
        await record_session(connection, request, session, code.connection_id)
        return _Spent(code, session, user, role)

    async def _record_refusal(self, request: web.Request, refused: _Refused) -> None:
        """Record that a code was not accepted, as often as refused logins: a second use may be that of a thief."""
        code = refused.code
        if not await request.app[RATE_LIMITS].admits(LimitClass.SSO_REFUSAL, code.org_id):
            log.info("refused one-time code not recorded: too many", org_id=code.org_id, reason=refused.reason)
            return
        data = {"reason": refused.reason, "principalId": code.principal_id}
        async with self.context.database.write() as connection:
            await record(
                connection, Actor(code.org_id), "sso.handoff_refuse", code.connection_id, data, request_id(request)
            )


async def _current_role(connection: AsyncConnection, code: StoredCode) -> Role | None:
    """The role of the code's user; None unless the user is still linked, and a member, and the connection enabled."""
    stored = await connection_repository.find_by_id(connection, code.connection_id)
    identity = await identity_repository.find_by_id(connection, code.identity_id)
    if stored is None or not stored.enabled or identity is None or identity.principal_id != code.principal_id:
        return None
    found = await load_membership_statuses(connection, code.org_id, [code.principal_id])
    return None if any_disabled(found) else found[code.principal_id].role
