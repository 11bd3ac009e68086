"""Ends a login that a provider has vouched for: the account, the membership, and either a session or a one-time code.

All of it is one transaction with the use of the login (and of the assertion), so a process that is killed leaves either
nothing or a member with a code that can be spent. With `format=redirect` the session does not exist before the code is
spent (specification 5, rule 6).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED
from chassis.errors import ApiError, BadRequest
from chassis.http.web import RATE_LIMITS, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.identity.login.credentials import SessionIssuer
from control.identity.sso import (
    accounts,
    browser,
    connection_repository,
    login_repository,
    return_path,
    settings_repository,
)
from control.identity.sso.accounts import AppliedRole, FoundAccount
from control.identity.sso.browser import NO_STORE, REFUSED, Format
from control.identity.sso.connection_repository import ConnectionOfOrganization, StoredConnection
from control.identity.sso.identity_repository import StoredIdentity
from control.identity.sso.login_repository import StoredCode, StoredLogin
from control.identity.sso.mapping import Profile
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.schemas import CompletedLogin, LoginUser
from control.identity.sso.settings_repository import MFA
from control.identity.sso.tables import MfaTrust, Protocol
from control.identity.users import session_store
from control.identity.users.session_store import IssuedSession
from proto.identity import PrincipalKind

log = structlog.get_logger(__name__)


UNSOLICITED: Final = frozenset({"state_missing", "state_unknown", "browser_mismatch"})  # of requests of anybody


@dataclass(frozen=True, slots=True)
class Vouched:
    """What a provider has said of the user of a login. `assertion_id` with `assertion_expires_at`: of SAML."""

    subject: str
    profile: Profile
    mfa: bool
    session_expires_at: datetime | None = None
    assertion_id: str | None = None
    assertion_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    account: FoundAccount
    applied: AppliedRole
    session: IssuedSession | None
    code: str | None


class SsoMetrics:
    """Logins by protocol and outcome."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._logins = Counter(
            "sluice_sso_logins_total",
            "Single sign-ons by protocol and outcome: succeeded, refused, failed.",
            ("protocol", "outcome"),
            registry=registry,
        )
        for protocol in Protocol:
            for outcome in ("succeeded", "refused", "failed"):
                self._logins.labels(protocol.value, outcome)

    def count(self, protocol: Protocol, outcome: str) -> None:
        """Count a login."""
        self._logins.labels(protocol.value, outcome).inc()


@dataclass(frozen=True, slots=True)
class Completion:
    """Ends logins. `public_url`: where browsers reach the dashboard."""

    context: HandlerContext
    issuer: SessionIssuer
    metrics: SsoMetrics
    public_url: str

    async def complete(
        self,
        request: web.Request,
        found: ConnectionOfOrganization,
        login: StoredLogin,
        state: str,
        vouched: Vouched,
        ending: Format,
    ) -> web.StreamResponse:
        """The response to a login that the provider has vouched for. A SAML login is used here, that of an OpenID
        provider was before its code was exchanged. Raises LoginRefused, DatabaseUnavailable.
        """
        await self.issuer.ensure_key_published()
        async with self.context.database.write() as connection:
            outcome = await self._complete(connection, request, found, login, state, vouched, ending)
        if outcome.applied.provisioned or outcome.applied.before is not None:
            self.context.guards.invalidate_bearers(found.connection.org_id)
        self.metrics.count(found.connection.protocol, "succeeded")
        response = self._response(outcome, found, login)
        browser.clear_binding(response, found.connection.protocol, state)
        return response

    async def refuse(self, request: web.Request, found: ConnectionOfOrganization, refusal: LoginRefused) -> ApiError:
        """The error of a refused login: the reason is for the audit log alone."""
        self.metrics.count(found.connection.protocol, "refused")
        data = {"protocol": found.connection.protocol.value, "reason": refusal.reason, "detail": refusal.detail}
        # What anybody can send counts apart from what a provider has sent to a browser that has begun a login.
        bucket = f"{found.connection.org_id} {'unsolicited' if refusal.reason in UNSOLICITED else 'solicited'}"
        if not await request.app[RATE_LIMITS].admits(LimitClass.SSO_REFUSAL, bucket):
            # Without the detail: it may have an address, which is for the organization alone.
            log.info(
                "refused single sign-on not recorded: too many", org_id=found.connection.org_id, reason=refusal.reason
            )
        else:
            async with self.context.database.write() as connection:
                actor = Actor(found.connection.org_id)
                await record(connection, actor, "sso.refuse", found.connection.id, data, request_id(request))
        await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_SSO)
        return BadRequest(REFUSED)

    async def _complete(
        self,
        connection: AsyncConnection,
        request: web.Request,
        found: ConnectionOfOrganization,
        login: StoredLogin,
        state: str,
        vouched: Vouched,
        ending: Format,
    ) -> _Outcome:
        now, stored = datetime.now(UTC), found.connection
        current = await require_unchanged(connection, stored)
        await _use(connection, found, state, vouched, now)
        account = await accounts.find_account(
            connection, found, vouched.subject, vouched.profile, login.link_principal_id
        )
        applied = await accounts.apply_role(connection, current, account.user, vouched.profile.groups)
        identity = await accounts.link(connection, current, vouched.subject, vouched.profile, account, now)
        tested = await connection_repository.mark_tested(connection, stored.id, now)
        methods = await self._methods(connection, stored.org_id, vouched)
        await _record(connection, request, found, account, identity, applied, methods, tested=tested)
        if ending == "json":
            session = await session_store.start(
                connection, stored.org_id, account.user.id, methods, now, expires_at=vouched.session_expires_at
            )
            await record_session(connection, request, session, stored.id)
            return _Outcome(account, applied, session, None)
        code = browser.new_secret()
        ticket = StoredCode(
            connection_id=stored.id,
            identity_id=identity.id,
            org_id=stored.org_id,
            principal_id=account.user.id,
            methods=methods,
            provisioned=applied.provisioned,
            next=return_path.resolve_stored(login.relay_state),
            session_expires_at=vouched.session_expires_at,
        )
        await login_repository.issue_code(connection, code, ticket, now)
        return _Outcome(account, applied, None, code)

    async def _methods(self, connection: AsyncConnection, org_id: str, vouched: Vouched) -> tuple[str, ...]:
        """The authentication methods of the session: what the provider's word is worth, the organization says."""
        trust = (await settings_repository.load(connection, org_id)).mfa_trust
        trusted = trust is MfaTrust.ALWAYS or (trust is MfaTrust.ASSERTED and vouched.mfa)
        return (FEDERATED, MFA) if trusted else (FEDERATED,)

    def _response(self, outcome: _Outcome, found: ConnectionOfOrganization, login: StoredLogin) -> web.Response:
        if outcome.session is None:
            return browser.redirect(f"{self.public_url}/sso/complete#code={outcome.code}")
        user = outcome.account.user
        body = CompletedLogin(
            user=LoginUser(user.id, user.email, user.name),
            org_id=found.connection.org_id,
            role=outcome.applied.role,
            provisioned=outcome.applied.provisioned,
            relay_state=return_path.resolve_stored(login.relay_state),
            tokens=self.issuer.issue(outcome.session, user).tokens,
        )
        return json_response(body, headers=NO_STORE)


async def require_unchanged(connection: AsyncConnection, stored: StoredConnection) -> StoredConnection:
    """The connection as of this transaction: what went before may have waited for the provider. Raises LoginRefused
    unless it leads to the same one.
    """
    current = await connection_repository.find_by_id(connection, stored.id)
    if current is None or not current.enabled or current.is_other_provider(stored):
        raise LoginRefused("connection_changed", "The connection was changed during the login.")
    return current


async def record_session(
    connection: AsyncConnection, request: web.Request, issued: IssuedSession, connection_id: str
) -> None:
    """Record that a session has begun, as a login with a password does."""
    session = issued.session
    actor = Actor(session.org_id, session.principal_id, PrincipalKind.USER, token_id=session.id)
    data = {"methods": list(session.methods), "connectionId": connection_id}
    await record(connection, actor, "session.start", session.id, data, request_id(request))


async def _use(
    connection: AsyncConnection, found: ConnectionOfOrganization, state: str, vouched: Vouched, now: datetime
) -> None:
    """Use the login and the assertion of SAML, once. Raises LoginRefused."""
    if vouched.assertion_id is None or vouched.assertion_expires_at is None:
        return
    stored = found.connection
    if not await login_repository.use_login(connection, stored.id, state, now):
        raise LoginRefused("login_used", "The login was completed already, or has expired.")
    if not await login_repository.use_assertion(
        connection, stored.id, stored.org_id, vouched.assertion_id, vouched.assertion_expires_at
    ):
        raise LoginRefused("assertion_replayed", "The assertion was accepted before.")


async def _record(
    connection: AsyncConnection,
    request: web.Request,
    found: ConnectionOfOrganization,
    account: FoundAccount,
    identity: StoredIdentity,
    applied: AppliedRole,
    methods: tuple[str, ...],
    *,
    tested: bool,
) -> None:
    """Record what the login did, each of it as an event."""
    stored, user = found.connection, account.user
    actor = Actor(stored.org_id, user.id, PrincipalKind.USER)
    details = {"protocol": stored.protocol.value, "connectionId": stored.id}
    events: list[tuple[str, dict[str, object]]] = []
    if account.identity is None and not account.created:
        events.append(("sso.link", {"identityId": identity.id, "email": identity.email}))
    if applied.provisioned:
        events.append(("member.provision", {"role": applied.role.value, "accountCreated": account.created}))
    if applied.before is not None:
        events.append(("member.update", {"role": applied.role.value, "before": applied.before.value}))
    kept = {} if applied.kept is None else {"mappedRole": applied.kept.value}
    events.append(
        ("sso.login", {"role": applied.role.value, "methods": list(methods), "firstOfConnection": tested, **kept})
    )
    for action, data in events:
        await record(connection, actor, action, user.id, details | data, request_id(request))
