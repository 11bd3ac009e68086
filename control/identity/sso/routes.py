"""Builds all routes of single sign-on and the background tasks that they need."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from chassis.http.access import BearerAuth
from chassis.http.web import CleanupContext, Route
from control.http.context import HandlerContext
from control.identity.login.credentials import SessionIssuer
from control.identity.sso.acs import AssertionConsumer
from control.identity.sso.browser import check_org_slug
from control.identity.sso.callback import Callback
from control.identity.sso.complete_page import CompletionPage
from control.identity.sso.completion import Completion, SsoMetrics
from control.identity.sso.connections import ApplyRoles, Connections
from control.identity.sso.dns import TxtResolver
from control.identity.sso.domains import Domains
from control.identity.sso.dry_run import ConnectionDryRuns
from control.identity.sso.handoff import Handoffs
from control.identity.sso.housekeeping import SsoHousekeeping
from control.identity.sso.identities import Identities
from control.identity.sso.links import Links
from control.identity.sso.login_slots import LoginSlots
from control.identity.sso.oidc.provider import Providers
from control.identity.sso.settings import SettingsHandlers
from control.identity.sso.start import Start
from control.identity.sso.urls import SsoUrls
from control.outbound.egress import Egress
from control.secrets.secret_box import SecretBox


def build_sso_routes(
    context: HandlerContext,
    secret_box: SecretBox,
    issuer: SessionIssuer,
    egress: Egress,
    resolver: TxtResolver,
    public_url: str,
    unfinished_per_minute: int,
    registry: CollectorRegistry | None,
    apply_roles: ApplyRoles,
) -> tuple[list[Route], list[CleanupContext]]:
    """`egress` reaches providers, whose addresses tenants name; it starts before the requests and ends after them.
    `apply_roles` follows a change of the mapping.
    """
    urls, providers = SsoUrls(public_url), Providers(egress)
    completion = Completion(context, issuer, SsoMetrics(registry), public_url)
    routes = [
        *Connections(context, secret_box, apply_roles).routes(),
        *ConnectionDryRuns(context).routes(),
        *SettingsHandlers(context).routes(),
        *Domains(context, resolver).routes(),
        *Identities(context).routes(),
        *Links(context, urls).routes(),
        *Start(context, urls, providers, completion, unfinished_per_minute).routes(),
        *AssertionConsumer(context, secret_box, urls, completion).routes(),
        *Callback(context, secret_box, egress, urls, providers, completion, LoginSlots()).routes(),
        *Handoffs(context, issuer).routes(),
        *CompletionPage().routes(),
    ]
    housekeeping = SsoHousekeeping(context.database, registry)
    return [_with_path_check(route) for route in routes], [egress.running, housekeeping.running]


def _with_path_check(route: Route) -> Route:
    if not isinstance(route.access, BearerAuth):
        return route
    return replace(route, access=replace(route.access, path_check=check_org_slug))
