"""Ends a login of a user that a provider has identified: the account, the membership, and a session or a one-time code.

All of this is one transaction with the use of the login (and of the assertion), so a process that is killed leaves
either nothing, or a member with a code that can be spent. With `format=redirect` the session does not exist before the
code is spent (specification 5, rule 6).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED
from chassis.errors import ApiError, BadRequest, NotFound
from chassis.http.route import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.identity.bodies import Email
from control.identity.login.api import record_start
from control.identity.login.credentials import SessionIssuer, Tokens
from control.identity.sso import accounts, connection_store, options
from control.identity.sso.connection_store import ConnectionOfOrganization, StoredConnection
from control.identity.sso.login import browser, login_store, return_path
from control.identity.sso.mapping import Profile
from control.identity.sso.refusal import LoginRefused
from control.identity.sso.tables import MfaTrust, Protocol
from control.identity.users import session_store
from control.routing.resource import shown_as
from proto.identity import PrincipalKind, Role

log = structlog.get_logger(__name__)

UNSOLICITED: Final = frozenset({"state_missing", "state_unknown", "browser_mismatch"})  # any client can cause these


class LoginUser(msgspec.Struct, frozen=True):
    """The user who has logged in."""

    id: str
    email: Email
    name: str


class CompletedLogin(msgspec.Struct, frozen=True, rename="camel"):
    """A session of a login through an identity provider. `provisioned`: this login made the membership."""

    user: LoginUser
    org_id: str
    role: Role
    provisioned: bool
    relay_state: str | None
    tokens: Tokens


COMPLETED: Final = (
    ResponseSpec("The session, with `format=json`.", json_content(CompletedLogin)),
    ResponseSpec(
        "Redirect to the dashboard, with a one-time code in the fragment.",
        status=303,
        headers={"Location": "`/sso/complete#code=...`"},
    ),
)


@dataclass(frozen=True, slots=True)
class Vouched:
    """The provider's statement about the user of a login. `assertion_id`, `assertion_expires_at`: for SAML only."""

    subject: str
    profile: Profile
    mfa: bool
    session_expires_at: datetime | None = None
    assertion_id: str | None = None
    assertion_expires_at: datetime | None = None


class SsoMetrics:
    """Logins by protocol and result."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._logins = Counter(
            "sluice_sso_logins_total",
            "Single sign-ons by protocol and outcome: succeeded, refused, failed.",
            ("protocol", "outcome"),
            registry=registry,
        )
        for protocol in Protocol:
            for result in ("succeeded", "refused", "failed"):
                self._logins.labels(protocol.value, result)

    def count(self, protocol: Protocol, result: str) -> None:
        """Count a login."""
        self._logins.labels(protocol.value, result).inc()


@dataclass(frozen=True, slots=True)
class Completion:
    """Ends logins. `public_url`: the address at which browsers reach the dashboard."""

    context: HandlerContext
    issuer: SessionIssuer
    metrics: SsoMetrics
    public_url: str

    async def find_connection(
        self, request: web.Request, org_slug: str, protocol: Protocol
    ) -> ConnectionOfOrganization:
        """The organization's enabled connection. Raises NotFound, and RateLimited for an address whose logins fail."""
        await request.app[RATE_LIMITS].check_address(request, LimitClass.FAILED_SSO)
        async with self.context.database.read() as connection:
            found = await connection_store.find_by_slug(connection, org_slug, protocol)
        if found is None or not found.connection.enabled:
            raise NotFound
        return found

    @asynccontextmanager
    async def refusing(self, request: web.Request, sso: ConnectionOfOrganization) -> AsyncIterator[None]:
        """Context of steps that may refuse a login. Raises the error of `refuse`, and counts other errors as failed
        logins.
        """
        try:
            yield
        except LoginRefused as refusal:
            raise await self.refuse(request, sso, refusal) from refusal
        except Exception:
            self.metrics.count(sso.connection.protocol, "failed")
            raise

    async def complete(
        self,
        request: web.Request,
        sso: ConnectionOfOrganization,
        login: login_store.StoredLogin,
        state: str,
        vouched: Vouched,
        ending: browser.Format,
    ) -> web.StreamResponse:
        """The response to a login whose user the provider has identified. A SAML login is used here. An OpenID login
        was used before its code was exchanged. Raises LoginRefused, DatabaseUnavailable.
        """
        await self.issuer.ensure_key_published()
        async with self.context.database.write() as connection:
            response, admission = await self._complete(connection, request, sso, login, state, vouched, ending)
        if admission.provisioned or admission.before is not None:
            self.context.guards.invalidate_bearers(sso.connection.org_id)
        self.metrics.count(sso.connection.protocol, "succeeded")
        browser.clear_binding(response, sso.connection.protocol, state)
        return response

    async def refuse(self, request: web.Request, sso: ConnectionOfOrganization, refusal: LoginRefused) -> ApiError:
        """The error of a refused login. Only the audit log gets the reason."""
        self.metrics.count(sso.connection.protocol, "refused")
        data = {"protocol": sso.connection.protocol.value, "reason": refusal.reason, "detail": refusal.detail}
        # Requests that any client can send are counted separately from answers of a provider to a begun login.
        bucket = f"{sso.connection.org_id} {'unsolicited' if refusal.reason in UNSOLICITED else 'solicited'}"
        if not await request.app[RATE_LIMITS].admits(LimitClass.SSO_REFUSAL, bucket):
            # Without the detail: it may have an e-mail address, which only the organization may see.
            log.info(
                "refused single sign-on not recorded: too many", org_id=sso.connection.org_id, reason=refusal.reason
            )
        else:
            async with self.context.database.write() as connection:
                actor = Actor(sso.connection.org_id)
                await record(connection, actor, "sso.refuse", sso.connection.id, data, request_id(request))
        await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_SSO)
        return BadRequest(browser.REFUSED)

    async def _complete(
        self,
        connection: AsyncConnection,
        request: web.Request,
        sso: ConnectionOfOrganization,
        login: login_store.StoredLogin,
        state: str,
        vouched: Vouched,
        ending: browser.Format,
    ) -> tuple[web.Response, accounts.Admission]:
        now, stored = datetime.now(UTC), sso.connection
        current = await require_unchanged(connection, stored)
        await _use(connection, sso, state, vouched, now)
        account = await accounts.find_account(
            connection, sso, vouched.subject, vouched.profile, login.link_principal_id
        )
        admission = await accounts.admit(connection, current, account.user, vouched.profile.groups)
        identity_id = await accounts.link(connection, current, vouched.subject, vouched.profile, account, now)
        tested = await connection_store.mark_tested(connection, stored.id, now)
        methods = await _methods(connection, stored.org_id, vouched)
        await _record(connection, request, sso, account, identity_id, vouched, admission, methods, tested=tested)
        wanted = return_path.resolve_stored(login.relay_state)
        if ending == "json":
            session = await session_store.start(
                connection, stored.org_id, account.user.id, methods, now, expires_at=vouched.session_expires_at
            )
            await record_start(connection, request, session.session, connectionId=stored.id)
            body = CompletedLogin(
                user=shown_as(LoginUser, account.user),
                org_id=stored.org_id,
                role=admission.role,
                provisioned=admission.provisioned,
                relay_state=wanted,
                tokens=self.issuer.issue(session, account.user).tokens,
            )
            return json_response(body, headers=browser.NO_STORE), admission
        code = browser.new_secret()
        ticket = login_store.StoredCode(
            connection_id=stored.id,
            identity_id=identity_id,
            org_id=stored.org_id,
            principal_id=account.user.id,
            methods=methods,
            provisioned=admission.provisioned,
            next=wanted,
            session_expires_at=vouched.session_expires_at,
        )
        await login_store.issue_code(connection, code, ticket, now)
        return browser.redirect(f"{self.public_url}/sso/complete#code={code}"), admission


async def require_unchanged(connection: AsyncConnection, stored: StoredConnection) -> StoredConnection:
    """The connection as of this transaction. Earlier steps may have waited for the provider, and the connection may
    have changed meanwhile. Raises LoginRefused unless it is still to the same provider.
    """
    current = await connection_store.find_by_id(connection, stored.id)
    if current is None or not current.enabled or current.is_other_provider(stored):
        raise LoginRefused("connection_changed", "The connection was changed during the login.")
    return current


async def _use(
    connection: AsyncConnection, sso: ConnectionOfOrganization, state: str, vouched: Vouched, now: datetime
) -> None:
    """Use the login and the assertion of SAML, once each. Raises LoginRefused."""
    if vouched.assertion_id is None or vouched.assertion_expires_at is None:
        return
    stored = sso.connection
    if not await login_store.use_login(connection, stored.id, state, now):
        raise LoginRefused("login_used", "The login was already completed, or has expired.")
    if not await login_store.use_assertion(
        connection, stored.id, stored.org_id, vouched.assertion_id, vouched.assertion_expires_at
    ):
        raise LoginRefused("assertion_replayed", "The assertion was accepted before.")


async def _methods(connection: AsyncConnection, org_id: str, vouched: Vouched) -> tuple[str, ...]:
    """The authentication methods of the session. The organization decides how far it trusts the provider."""
    trust = (await options.load_options(connection, org_id)).mfa_trust
    trusted = trust is MfaTrust.ALWAYS or (trust is MfaTrust.ASSERTED and vouched.mfa)
    return (FEDERATED, options.MFA) if trusted else (FEDERATED,)


async def _record(
    connection: AsyncConnection,
    request: web.Request,
    sso: ConnectionOfOrganization,
    account: accounts.FoundAccount,
    identity_id: str,
    vouched: Vouched,
    admission: accounts.Admission,
    methods: tuple[str, ...],
    *,
    tested: bool,
) -> None:
    """Record an event for each effect of the login."""
    stored, user = sso.connection, account.user
    actor = Actor(stored.org_id, user.id, PrincipalKind.USER)
    details = {"protocol": stored.protocol.value, "connectionId": stored.id}
    events: list[tuple[str, dict[str, object]]] = []
    if account.identity is None and not account.created:
        events.append(("sso.link", {"identityId": identity_id, "email": vouched.profile.email}))
    if admission.provisioned:
        events.append(("member.provision", {"role": admission.role.value, "accountCreated": account.created}))
    if admission.before is not None:
        events.append(("member.update", {"role": admission.role.value, "before": admission.before.value}))
    kept = {} if admission.kept is None else {"mappedRole": admission.kept.value}
    events.append(
        ("sso.login", {"role": admission.role.value, "methods": list(methods), "firstOfConnection": tested, **kept})
    )
    for action, data in events:
        await record(connection, actor, action, user.id, details | data, request_id(request))
