"""Builds all routes of single sign-on, and a background task. The task deletes expired logins and codes, and watches
the expiry of the providers' certificates.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from chassis.db.database import Database, format_time
from chassis.errors import Forbidden
from chassis.http.access import BearerAuth, authorization_context
from chassis.http.declaration import Argument, declared_routes
from chassis.http.route import Parameter, Tag
from chassis.http.validation import Issues, check_length
from chassis.http.web import CleanupContext, Route
from chassis.runtime.periodic import PeriodicTask
from control.http.context import HandlerContext
from control.identity.login.credentials import SessionIssuer
from control.identity.sso import connection_store
from control.identity.sso.connections import Connections, UpdateRoles, read_protocol
from control.identity.sso.domains import Domains, TxtResolver
from control.identity.sso.identities import Identities
from control.identity.sso.login import login_store
from control.identity.sso.login.browser import SsoUrls, only_specified_statuses
from control.identity.sso.login.completion import Completion, SsoMetrics
from control.identity.sso.login.handoff import Handoffs
from control.identity.sso.login.responses import ProviderResponses
from control.identity.sso.login.start import Start
from control.identity.sso.oidc.provider import Providers
from control.identity.sso.options import ConnectionOptions
from control.identity.sso.tables import Protocol
from control.outbound.egress import Egress
from control.routing.arguments import control_arguments
from control.secrets.secret_box import SecretBox
from proto.identity import MAX_SLUG_LENGTH, PrincipalKind, Scope

INTERVAL_S: Final = 60.0
WARN_BEFORE: Final = timedelta(days=30)
WARN_INTERVAL: Final = timedelta(days=1)

log = structlog.get_logger(__name__)


class SsoHousekeeping:
    """The background task, one per process."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry | None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._now = now
        self._warned: dict[str, datetime] = {}  # time of the last warning, by id of the connection
        self._expiring = Gauge(
            "sluice_sso_certificates_expiring",
            "Enabled SAML connections with a certificate that expires within 30 days, or has expired.",
            registry=registry,
        )
        self._periodic_task = PeriodicTask(
            self.run_once, INTERVAL_S, log, "housekeeping of single sign-on failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self._periodic_task.start()
        yield
        await self._periodic_task.close()

    async def run_once(self) -> None:
        """Run the task once. Raises DatabaseUnavailable."""
        now = self._now()
        async with self._database.read() as connection:
            expiring = await connection_store.list_expiring(connection, now + WARN_BEFORE)
            expired = await login_store.has_expired(connection, now)
        self._expiring.set(len(expiring))
        self._warned = {one: at for one, at in self._warned.items() if one in {each.id for each in expiring}}
        for each in expiring:
            if now - self._warned.get(each.id, datetime.min.replace(tzinfo=UTC)) >= WARN_INTERVAL:
                self._warned[each.id] = now
                log.warning(
                    "a certificate of an identity provider expires; logins still work, because only its key is checked",
                    org_id=each.org_id,
                    connection_id=each.id,
                    expires_at=format_time(each.certificate_expires_at),
                )
        if expired:
            async with self._database.write() as connection:
                await login_store.delete_expired(connection, now)


TAG: Final = Tag("sso", "Single sign-on through the organization's identity provider: SAML 2.0, OpenID Connect.")
PROTOCOL: Final = Parameter("protocol", "path", Protocol, "SAML or OIDC.")


def build_sso_routes(
    context: HandlerContext,
    secret_box: SecretBox,
    issuer: SessionIssuer,
    egress: Egress,
    resolver: TxtResolver,
    public_url: str,
    unfinished_per_minute: int,
    registry: CollectorRegistry | None,
    update_roles: UpdateRoles,
) -> tuple[list[Route], list[CleanupContext]]:
    """The routes and background tasks. `egress` reaches providers, whose addresses tenants name. It starts before the
    first request and ends after the last. `update_roles` is called after a change of the mapping.
    """
    urls, providers = SsoUrls(public_url), Providers(egress)
    completion = Completion(context, issuer, SsoMetrics(registry), public_url)
    resources = (
        Connections(context, secret_box, update_roles),
        ConnectionOptions(context),
        Domains(context, resolver),
        Identities(context),
        Start(context, urls, providers, completion, unfinished_per_minute),
        ProviderResponses(context, secret_box, egress, urls, providers, completion),
        Handoffs(context, issuer),
    )
    # All routes have the same tag, and the same meaning of `{protocol}`.
    arguments = control_arguments(context, {Protocol: Argument(read_protocol, (PROTOCOL,))})
    routes = [each for resource in resources for each in declared_routes(resource, TAG, arguments)]
    housekeeping = SsoHousekeeping(context.database, registry)
    return [_with_checks(route) for route in routes], [egress.running, housekeeping.running]


def _with_checks(route: Route) -> Route:
    if route.operation is not None and route.operation.only_error_statuses is not None:
        return replace(route, handler=only_specified_statuses(route.handler))
    if isinstance(route.access, BearerAuth):
        route = replace(route, access=replace(route.access, path_check=_check_org_slug))
    return only_for_users(route)


def only_for_users(route: Route) -> Route:
    """Make a route that changes something refuse, before any other check, callers other than users who act for
    themselves. The configuration of a provider or a directory decides who every user is.
    """
    if not isinstance(route.access, BearerAuth) or Scope.SSO_WRITE not in route.access.scopes:
        return route

    async def checked(request: web.Request) -> web.StreamResponse:
        caller = authorization_context(request)
        if caller.kind is not PrincipalKind.USER or caller.on_behalf_of is not None:
            raise Forbidden(
                "Only users can configure single sign-on. Agents, services, and tokens that act on behalf of another "
                "principal cannot."
            )
        return await route.handler(request)

    return replace(route, handler=checked)


def _check_org_slug(request: web.Request) -> None:
    """Raises BadRequest for an organization slug that is too long, because the paths of single sign-on specify its
    length.
    """
    issues = Issues()
    if not check_length("path.orgSlug", request.match_info["orgSlug"], 1, MAX_SLUG_LENGTH, issues):
        issues.raise_if_any("The path is not valid.")
